"""Options of every hierarchy and parameters of its builder, read from a policy: each check names its key."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, TypedDict

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.errors import UsageError, did_you_mean
from privpipe.hierarchies.canonical import canonical_literal, exact_number, scalar_text

__all__ = [
    "ROOT",
    "Builder",
    "Choices",
    "OptionArgs",
    "Options",
    "check_type_of_column",
    "choice",
    "declared_values",
    "hints_of",
    "known_keys",
    "listed",
    "number",
    "read_fields",
    "texts",
    "whole_number",
    "whose",
]


ROOT: Final = "*"
UNKNOWN_RULES: Final = ("refuse", "root", "suppress")
ROOT_RULES: Final = ("required", "optional")


class Choices(NamedTuple):
    """The words that an option may be."""

    words: tuple[str, ...]


class OptionArgs(TypedDict, total=False):
    """The keyword arguments that `Hierarchy.read_csv`, `from_rows` and `from_tree` share; see `Options`."""

    column: str
    unknown: str
    root: str
    add_root: bool
    min_level: int
    max_level: int | None
    level_names: tuple[str, ...]
    null_label: str | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of one hierarchy.

    Parameters
    ----------
    column : str
        Named in errors and reports.

    Examples
    --------
    >>> Options(column="age", min_level=1).unknown
    'refuse'
    """

    column: str = ""
    unknown: Annotated[
        str,
        Choices(UNKNOWN_RULES),
        Doc(
            "what a value outside becomes: an error (refuse), the root at every level (root), or a record that is "
            "suppressed before all others (suppress)"
        ),
    ] = "refuse"
    root: Annotated[
        str, Choices(ROOT_RULES), Doc("optional: several labels at the last level; a search may then find no solution")
    ] = "required"
    add_root: Annotated[bool, Doc("append a level of *; it counts in the height, hence in Precision")] = False
    min_level: Annotated[int, Ge(0), Doc("the lowest level that a search may use")] = 0
    max_level: Annotated[int | None, Ge(0), Doc("the highest level that a search may use; left out: all")] = None
    level_names: Annotated[tuple[str, ...], Doc("one a level, for reports; left out: the builder's")] = ()
    null_label: Annotated[
        str | None,
        Doc("label of missing values between the raw level and the root; left out: they stay missing there"),
    ] = None

    def __post_init__(self) -> None:
        for name, rules in (("unknown", UNKNOWN_RULES), ("root", ROOT_RULES)):
            given = getattr(self, name)
            if given not in rules:
                wanted = " | ".join(rules)
                raise UsageError(f"{name}: must be {wanted}, got {given!r}{did_you_mean(str(given), rules)}")
        if not isinstance(self.add_root, bool):
            raise UsageError(f"add_root: must be true or false, got {self.add_root!r}")
        for name in ("min_level", "max_level"):
            given = getattr(self, name)
            whole = isinstance(given, int) and not isinstance(given, bool) and given >= 0
            if not whole and not (given is None and name == "max_level"):
                raise UsageError(f"{name}: must be an integer >= 0, got {given!r}")
        if self.max_level is not None and self.max_level < self.min_level:
            raise UsageError(f"max_level: {self.max_level} is below min_level {self.min_level}")
        if self.null_label is not None and not (isinstance(self.null_label, str) and self.null_label):
            raise UsageError("null_label: must be a text, and not an empty one")
        object.__setattr__(self, "level_names", self._names(self.level_names))

    @staticmethod
    def _names(names: object) -> tuple[str, ...]:
        if not isinstance(names, list | tuple) or any(not isinstance(name, str) for name in names):
            raise UsageError("level_names: must be a list of texts, one a level")
        if len(set(names)) != len(names):
            raise UsageError("level_names: two levels have the same name")
        return tuple(names)


def whose(column: str, source: str) -> str:
    """The start of an error message: which hierarchy it is about.

    Examples
    --------
    >>> whose("age", "age.csv"), whose("", "rows")
    ("hierarchy of column 'age' (age.csv)", 'hierarchy (rows)')
    """
    return f"hierarchy of column {column!r} ({source})" if column else f"hierarchy ({source})"


def known_keys(given: object, builder: type, example: str) -> Mapping[str, Any]:
    """The parameters, when they are a mapping whose keys are fields of the builder.

    Raises
    ------
    UsageError
        Naming every unknown key with the nearest known one.
    """
    names = [field.name for field in dataclasses.fields(builder)]
    if not isinstance(given, Mapping):
        raise UsageError(f"must be a mapping like {example}")
    unknown = [str(key) for key in given if key not in names]
    if unknown:
        listing = ", ".join(f"unknown key {key!r}{did_you_mean(key, names)}" for key in unknown)
        raise UsageError(f"{listing} (known: {', '.join(names)})")
    return given


class Builder:
    """A builder whose parameters are a mapping of its fields, by their names."""

    example: ClassVar[str]

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under the builder's name."""
        return cls(**known_keys(given, cls, cls.example))

    def __post_init__(self) -> None:
        read_fields(self)


def number(given: object, key: str) -> Decimal:
    """A finite number, exactly as written.

    Examples
    --------
    >>> number(0.1, "start")
    Decimal('0.1')
    """
    wanted = UsageError(f"{key}: must be a finite number, got {given!r}")
    if isinstance(given, bool) or not isinstance(given, int | float | str | Decimal):
        raise wanted
    try:
        exact = exact_number(repr(given) if isinstance(given, float) else str(given))
    except ValueError:
        raise wanted from None
    if not exact.is_finite():
        raise wanted
    return exact


def whole_number(given: object, key: str, *, least: int, most: int | None = None) -> int:
    """An integer from `least` to `most`."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least or (most is not None and given > most):
        wanted = f">= {least}" if most is None else f"from {least} to {most}"
        raise UsageError(f"{key}: must be an integer {wanted}, got {given!r}")
    return given


def listed(given: object, key: str) -> Sequence[Any]:
    """A list with at least one entry."""
    if not isinstance(given, list | tuple) or not given:
        raise UsageError(f"{key}: must be a list with at least one entry")
    return given


def texts(given: object, key: str) -> tuple[str, ...]:
    """A list of scalars, as text."""
    entries = listed(given, key)
    try:
        return tuple(scalar_text(entry) for entry in entries)
    except ValueError:
        raise UsageError(f"{key}: its entries must be texts, numbers, booleans or dates") from None


def choice(given: object, key: str, known: Sequence[str]) -> str:
    """One of the known words."""
    return str(_one_of(given, key, known))


def _one_of(given: object, key: str, known: Sequence[Any]) -> Any:
    if not any(type(given) is type(word) and given == word for word in known):
        words = [str(word) for word in known]
        near = did_you_mean(given, words) if isinstance(given, str) else ""
        raise UsageError(f"{key}: must be {' | '.join(words)}, got {given!r}{near}")
    return given


def declared_values(given: Sequence[str], key: str, kind: str | None) -> list[str]:
    """Declared raw values as canonical text of the column's type.

    Raises
    ------
    UsageError
        When one is not of the type, or one occurs twice; the policy shows which by its place in the list.
    """
    places: dict[str, int] = {}
    for place, literal in enumerate(given, start=1):
        try:
            text = canonical_literal(literal, kind)
        except ValueError:
            text = None
        if text is None:
            raise UsageError(f"{key}: entry {place} is not of type {kind}, that of the column")
        if places.setdefault(text, place) != place:
            raise UsageError(f"{key}: entries {places[text]} and {place} are the same value")
    return list(places)


def check_type_of_column(kind: str | None, allowed: Sequence[str], builder: str, column: str) -> None:
    """Raise when a builder cannot serve a column of this type; None is taken on trust.

    Raises
    ------
    UsageError
        Names the types that it serves.
    """
    if kind is not None and kind not in allowed:
        raise UsageError(
            f"{builder}: column {column!r} has type {kind}; this builder needs {' or '.join(allowed)} "
            "(declare `type:` for the column, or take another builder)"
        )


def read_fields(builder: Any) -> None:
    """Check the fields of a builder against their annotations, and convert them to exact numbers and tuples.

    Served are numbers (`Decimal`), integers from `Ge` to `Le`, texts, words (`Literal`), lists of these (`tuple`), and
    unions of them with each other and with None.

    Raises
    ------
    UsageError
        Names the field.
    """
    owner: Any = type(builder)
    for field in dataclasses.fields(builder):
        given = getattr(builder, field.name)
        if not (type(given) is type(field.default) and given == field.default):
            hint = hints_of(owner)[field.name]
            object.__setattr__(builder, field.name, _read(hint, given, field.name))


@functools.cache
def hints_of(builder: Any) -> Mapping[str, Any]:
    """The annotations of a builder's fields, with their metadata."""
    return typing.get_type_hints(builder, include_extras=True)


def _read(hint: Any, given: object, key: str, said: tuple[Any, ...] = ()) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _read(arguments[0], given, key, (*said, *hint.__metadata__))
    if origin in (types.UnionType, typing.Union):
        return _read_either(arguments, given, key, said)
    if origin is Literal:
        return _one_of(given, key, arguments)
    if origin is tuple:
        return _read_list(arguments, given, key, said)
    if hint is int:
        bounds = {type(bound): bound for bound in said}
        most = bounds[Le].le if Le in bounds else None
        return whole_number(given, key, least=bounds[Ge].ge, most=most)
    if hint is Decimal:
        return number(given, key)
    if not isinstance(given, hint):
        raise UsageError(f"{key}: must be {'a text' if hint is str else 'true or false'}, got {given!r}")
    return given


def _read_either(branches: Sequence[Any], given: object, key: str, said: tuple[Any, ...]) -> Any:
    if given is None and types.NoneType in branches:
        return None
    kinds = [branch for branch in branches if branch is not types.NoneType]
    words = [branch for branch in kinds if typing.get_origin(branch) is Literal]
    lists = [branch for branch in kinds if typing.get_origin(branch) is tuple]
    for branch in (*words, *lists):
        if (branch in words) == isinstance(given, str) and (branch in lists) == isinstance(given, list | tuple):
            return _read(branch, given, key, said)
    return _read(next((kind for kind in kinds if kind not in (*words, *lists)), kinds[0]), given, key, said)


def _read_list(arguments: Sequence[Any], given: object, key: str, said: tuple[Any, ...]) -> tuple[Any, ...]:
    entries = listed(given, key)
    if arguments[-1] is Ellipsis:
        return tuple(_read(arguments[0], entry, key, said) for entry in entries)
    if len(entries) != len(arguments):
        raise UsageError(f"{key}: must be a list of {len(arguments)}")
    return tuple(_read(part, entry, key, said) for part, entry in zip(arguments, entries, strict=True))
