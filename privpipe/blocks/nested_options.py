"""What Python hands over as a policy would: options that are dataclasses of their own, and whole numbers for floats."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from privpipe.blocks.parameters import hint_of
from privpipe.errors import UsageError, did_you_mean

__all__ = ["read_floats", "read_options"]

EXACT = 2**53
"""The greatest whole number up to which every one is a float; a greater one stays as it was given."""


def read_options(entry: Any) -> None:
    """Put the options that a caller gave as mappings in their place as what the fields say.

    Raises
    ------
    UsageError
        A key that the option does not have, or one that is missing.
    """
    owner: Any = type(entry)
    for name, kind in _kinds(owner).items():
        given = getattr(entry, name)
        if isinstance(given, Mapping):
            object.__setattr__(entry, name, _read(kind, given, f"{owner.__name__}: {name}"))
    for name, kind in _kinds_of_values(owner).items():
        given, place = getattr(entry, name), f"{owner.__name__}: {name}"
        if not isinstance(given, Mapping):
            raise UsageError(f"{place} must be a mapping of names to {kind.__name__}, not {type(given).__name__}")
        read = {key: _read(kind, each, f"{place}.{key}") for key, each in given.items() if isinstance(each, Mapping)}
        strange = [key for key, each in given.items() if key not in read and not isinstance(each, kind)]
        if strange:
            raise UsageError(f"{place}.{strange[0]} must be a mapping or a {kind.__name__}")
        if read:
            object.__setattr__(entry, name, {**given, **read})


def read_floats(entry: Any) -> None:
    """Put a whole number as the float that a policy would read: draws are bound to how parameters are spelled."""
    owner: Any = type(entry)
    for name in _floats(owner):
        given = getattr(entry, name)
        if isinstance(given, int) and not isinstance(given, bool) and abs(given) <= EXACT:
            object.__setattr__(entry, name, float(given))


def _read(kind: Any, given: Mapping[str, Any], place: str) -> Any:
    known = {field.name: field for field in dataclasses.fields(kind)}
    for key in given:
        if key not in known:
            raise UsageError(f"{place}: unknown key {key!r}{did_you_mean(key, known)}; known: {', '.join(known)}")
    missing = [key for key, field in known.items() if key not in given and _is_required(field)]
    if missing:
        raise UsageError(f"{place}: {', '.join(map(repr, missing))} must be given")
    return kind(**{key: _frozen(value) for key, value in given.items()})


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@functools.cache
def _kinds(owner: Any) -> Mapping[str, Any]:
    """The fields that hold one dataclass or nothing, with that class; of others the entry reads mappings itself."""
    found = {}
    for field in dataclasses.fields(owner):
        kinds = [each for each in _branches(hint_of(owner, field.name)) if each not in (None, types.NoneType)]
        if len(kinds) == 1 and isinstance(kinds[0], type) and dataclasses.is_dataclass(kinds[0]):
            found[field.name] = kinds[0]
    return found


@functools.cache
def _kinds_of_values(owner: Any) -> Mapping[str, Any]:
    """The fields that hold a mapping of names to one dataclass, with that class."""
    found = {}
    for field in dataclasses.fields(owner):
        for each in _branches(hint_of(owner, field.name)):
            if typing.get_origin(each) is dict and dataclasses.is_dataclass(kind := typing.get_args(each)[1]):
                found[field.name] = kind
    return found


@functools.cache
def _floats(owner: Any) -> tuple[str, ...]:
    """The fields that hold a float and no integer."""
    kinds = {field.name: list(_branches(hint_of(owner, field.name))) for field in dataclasses.fields(owner)}
    return tuple(name for name, found in kinds.items() if float in found and int not in found)


def _branches(hint: Any) -> Iterator[Any]:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        yield from _branches(typing.get_args(hint)[0])
    elif origin in (types.UnionType, typing.Union):
        for each in typing.get_args(hint):
            yield from _branches(each)
    else:
        yield hint
