"""Reading the parameters of hierarchy builders out of a policy: each check names its key."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from privpipe.errors import UsageError, did_you_mean
from privpipe.hierarchies.literals import canonical_literal, exact_number, scalar_text

__all__ = [
    "check_type_of_column",
    "choice",
    "declared_values",
    "known_keys",
    "listed",
    "number",
    "texts",
    "whole_number",
]


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


def whole_number(given: object, key: str, *, least: int) -> int:
    """An integer that is at least `least`."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise UsageError(f"{key}: must be an integer >= {least}, got {given!r}")
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
    if not isinstance(given, str) or given not in known:
        raise UsageError(f"{key}: must be {' | '.join(known)}, got {given!r}{did_you_mean(str(given), known)}")
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
            raise UsageError(f"{key}: entry {place} is no {kind}, the type of the column")
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
