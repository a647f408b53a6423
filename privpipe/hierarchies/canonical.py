"""Canonical text of a value: the one form in which policies, files, engines and hierarchies compare values."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean

__all__ = [
    "COLUMN_TYPES",
    "NUMERIC",
    "canonical_literal",
    "canonical_text",
    "checked_type",
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
        When the literal is not a value of that type. The message never holds the literal.

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
        When the text is not a number.

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


# Families of Arrow types whose own text is already canonical under a declared type.
_DIRECT = {
    "integer": {"integer"},
    "number": {"integer", "float", "decimal"},
    "decimal": {"integer", "decimal"},
    "date": {"date"},
    "timestamp": {"timestamp"},
    "boolean": {"boolean"},
}


def checked_type(kind: str | None) -> str | None:
    """`kind` itself when it is one of the column types, or None.

    Raises
    ------
    UsageError
        For any other name, with the nearest one.

    Examples
    --------
    >>> checked_type("date")
    'date'
    """
    if kind is None or kind in COLUMN_TYPES:
        return kind
    raise UsageError(f"unknown column type {kind!r}{did_you_mean(str(kind), COLUMN_TYPES)}")


def canonical_text(values: Any, type: str | None, *, column: str = "") -> Any:
    """Each value as canonical text under the column's declared type; nulls and NaN are null.

    Parameters
    ----------
    values : pyarrow.Array or pyarrow.ChunkedArray
        Any text, integer, float, decimal, date, timestamp, time or boolean type, dictionary-encoded or not.
        Timestamps with a time zone are taken to UTC; those without one are used unchanged.
    type : str or None
        ``text | integer | number | decimal | date | timestamp | boolean``; None or ``text``: the text of the
        array's own type. Under another type, text is parsed; an empty text is null there.
    column : str
        Named in errors.

    Returns
    -------
    pyarrow.Array or pyarrow.ChunkedArray of string
        Same length and chunks. Integral floats are written as integers (``7.0`` is ``7``), -0.0 as ``0``, no
        exponents, decimals without trailing zeros, float32 by its own shortest digits. Text is unchanged.

    Raises
    ------
    DataError
        When values are not of the declared type; counted, never shown.
    UnsupportedError
        For binary, nested and other Arrow types.

    Examples
    --------
    >>> import pyarrow as pa
    >>> canonical_text(pa.array([7.0, -0.0, 1e22, float("nan")]), "number").to_pylist()
    ['7', '0', '10000000000000000000000', None]
    >>> canonical_text(pa.array(["07", None]), "integer").to_pylist()
    ['7', None]
    """
    import pyarrow as pa

    kind = checked_type(type)
    if isinstance(values, pa.ChunkedArray):
        chunks = [canonical_text(chunk, kind, column=column) for chunk in values.chunks]
        return pa.chunked_array(chunks, type=pa.string())
    if pa.types.is_dictionary(values.type):
        words = canonical_text(values.dictionary, kind, column=column)
        return words.take(values.indices)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.string())
    family = _family(values.type)
    if family == "text" and kind in {None, "text"}:
        return values.cast(pa.string())
    if family == "text":
        return _parsed(values.cast(pa.string()), str(kind), column)
    if kind not in {None, "text"} and family not in _DIRECT[str(kind)]:
        return _parsed(_natural(values, family), str(kind), column)
    return _natural(values, family)


def _family(arrow_type: Any) -> str:
    import pyarrow as pa

    tests = {
        "text": lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
        "integer": pa.types.is_integer,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "timestamp": pa.types.is_timestamp,
        "time": pa.types.is_time,
        "boolean": pa.types.is_boolean,
    }
    for family, test in tests.items():
        if test(arrow_type):
            return family
    raise UnsupportedError(f"a column of Arrow type {arrow_type} has no canonical text; cast it or leave it out")


def _natural(values: Any, family: str) -> Any:
    """The canonical text of an array by its own type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if family in {"float", "decimal"}:
        return _numbers(values, family)
    if family == "timestamp":
        text = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
        text = pc.replace_substring_regex(text, pattern=r"(\.\d*?)0+$", replacement=r"\1")
        text = pc.replace_substring_regex(text, pattern=r"\.$", replacement="")
        return pc.replace_substring(text, pattern=" ", replacement="T", max_replacements=1)
    return values.cast(pa.string())


def _numbers(values: Any, family: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if family == "float":
        if pa.types.is_float16(values.type):
            values = values.cast(pa.float32())
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    text = values.cast(pa.string())
    if family == "decimal":
        text = pc.replace_substring_regex(text, pattern=r"^(-?\d+\.\d*?)0+$", replacement=r"\1")
        text = pc.replace_substring_regex(text, pattern=r"\.$", replacement="")
    # Arrow writes very large and very small numbers with an exponent, and keeps the sign of zero.
    odd = pc.or_(pc.match_substring_regex(text, pattern="[eE]"), pc.equal(text, "-0"))
    if not pc.any(odd).as_py():
        return text
    plain = [plain_decimal(Decimal(word)) for word in text.filter(odd).to_pylist()]
    return pc.replace_with_mask(text, pc.fill_null(odd, False), pa.array(plain, pa.string()))


def _parsed(text: Any, kind: str, column: str) -> Any:
    """Parse each distinct text once; count what is not of the type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = text.dictionary_encode()
    words: list[str | None] = []
    wrong: list[int] = []
    for position, word in enumerate(encoded.dictionary.to_pylist()):
        try:
            words.append(canonical_literal(word, kind))
        except ValueError:
            words.append(None)
            wrong.append(position)
    if wrong:
        hits = pc.sum(pc.is_in(encoded.indices, value_set=pa.array(wrong, encoded.indices.type))).as_py()
        where = f"column {column!r}: " if column else ""
        raise DataError(
            f"{where}{hits:,} values ({len(wrong):,} distinct) are not of the declared type {kind}; "
            "correct them or declare another `type:` for the column"
        )
    return pa.array(words, pa.string()).take(encoded.indices)
