"""One text a value: what a literal means under a column's declared type.

Two spellings of one value must meet in one dictionary entry, whichever engine or file they came from: integer
7 is ``7`` and never ``07``, a number that is integral equals the integer, decimals have no exponent and no
trailing zero, minus zero is zero, dates and timestamps are ISO 8601 (timestamps in UTC, without a suffix),
booleans are ``true`` and ``false``, text is left exactly as it is.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

__all__ = [
    "COLUMN_TYPES",
    "NUMERIC",
    "canonical_literal",
    "exact_number",
    "is_ordered_by_text",
    "plain_decimal",
    "scalar_text",
]

COLUMN_TYPES: Final = ("text", "integer", "number", "decimal", "date", "timestamp", "boolean")
NUMERIC: Final = frozenset({"integer", "number", "decimal"})

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INFINITE = {"inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf"}
_MINUS_INFINITE = {"-inf": "-inf", "-infinity": "-inf"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?: ?(Z|[+-]\d{2}(?::?\d{2})?))?)?",
    re.ASCII,
)
_BOOLEAN = {"true": "true", "t": "true", "1": "true", "false": "false", "f": "false", "0": "false"}


def plain_decimal(number: Decimal) -> str:
    """A finite decimal without exponent, trailing zeros or minus zero.

    Examples
    --------
    >>> plain_decimal(Decimal("1E+3")), plain_decimal(Decimal("-0.00")), plain_decimal(Decimal("7.50"))
    ('1000', '0', '7.5')
    """
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def canonical_literal(text: str, kind: str | None) -> str | None:
    """The canonical text of one literal.

    Parameters
    ----------
    text : str
        As written in a file or produced by an engine. Outer blanks are ignored except in ``text``.
    kind : str or None
        One of `COLUMN_TYPES`; None is read as ``text``.

    Returns
    -------
    str or None
        None for a missing value: NaN, or an empty literal of any type but ``text``.

    Raises
    ------
    ValueError
        When the literal is no value of that type. The message never holds the literal.

    Examples
    --------
    >>> canonical_literal("007", "integer"), canonical_literal("7.50", "decimal")
    ('7', '7.5')
    >>> canonical_literal(" x ", "text"), canonical_literal("TRUE", "boolean")
    (' x ', 'true')
    >>> canonical_literal("nan", "number") is None
    True
    >>> canonical_literal("2024-05-01 10:00:00.500+02:00", "timestamp")
    '2024-05-01T08:00:00.5'
    """
    if kind is None or kind == "text":
        return text
    text = text.strip()
    if not text:
        return None
    if kind in NUMERIC:
        return _numeric(text, kind)
    if kind == "boolean":
        if (known := _BOOLEAN.get(text.casefold())) is not None:
            return known
        raise ValueError("not a boolean")
    return _date(text) if kind == "date" else _timestamp(text)


def exact_number(text: str) -> Decimal:
    """The exact value of a canonical number; infinite for ``inf`` and ``-inf``.

    Raises
    ------
    ValueError
        When the text is no number.

    Examples
    --------
    >>> exact_number("0.1") * 3 == exact_number("0.3")
    True
    """
    folded = text.strip().casefold()
    if folded in _INFINITE or folded in _MINUS_INFINITE or _NUMBER.fullmatch(folded):
        return Decimal(folded)
    raise ValueError("not a number")


def scalar_text(scalar: object) -> str:
    """A scalar of a YAML or JSON document as text.

    Raises
    ------
    ValueError
        For anything but a text, number, boolean or date.

    Examples
    --------
    >>> scalar_text(7), scalar_text(True)
    ('7', 'true')
    """
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if isinstance(scalar, str | int | float | Decimal):
        return str(scalar)
    if isinstance(scalar, date):
        return scalar.isoformat()
    raise ValueError("not a text, number, boolean or date")


def is_ordered_by_text(kind: str | None) -> bool:
    """Whether canonical texts of this type sort as the values do.

    Examples
    --------
    >>> is_ordered_by_text("date"), is_ordered_by_text("integer")
    (True, False)
    """
    return kind not in NUMERIC


def _numeric(text: str, kind: str) -> str | None:
    folded = text.casefold()
    if folded in {"nan", "+nan", "-nan"}:
        return None
    if folded in _INFINITE or folded in _MINUS_INFINITE:
        if kind == "number":
            return _INFINITE.get(folded) or _MINUS_INFINITE[folded]
        raise ValueError(f"not a finite {kind}")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"not a {kind}")
    if kind == "number" and not _INTEGER.fullmatch(text):
        as_float = float(text)  # a column of doubles holds the nearest double, not the literal
        if as_float in {float("inf"), float("-inf")}:
            return "inf" if as_float > 0 else "-inf"
        text = repr(as_float)
    number = Decimal(text)
    if kind == "integer" and number != number.to_integral_value():
        raise ValueError("not an integer")
    return plain_decimal(number)


def _date(text: str) -> str:
    whole = _timestamp(text)
    if not whole.endswith("T00:00:00"):
        raise ValueError("a date with a time of day")
    return whole[:10]


def _timestamp(text: str) -> str:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 date or timestamp")
    day, minute, second, fraction, zone = match.groups()
    date.fromisoformat(day)
    moment = datetime.fromisoformat(f"{day}T{minute or '00:00'}:{second or '00'}{_offset(zone)}")
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            raise ValueError("a timestamp outside the years 1 to 9999") from None
    digits = (fraction or "").rstrip("0")
    return moment.isoformat(timespec="seconds") + (f".{digits}" if digits else "")


def _offset(zone: str | None) -> str:
    if zone is None or zone == "Z":
        return "+00:00" if zone else ""
    digits = zone[1:].replace(":", "")
    return f"{zone[0]}{digits[:2]}:{digits[2:] or '00'}"
