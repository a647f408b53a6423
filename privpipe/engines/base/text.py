"""Text to values: the one conversion of CSV and JSON fields, whichever engine read them.

What converts is what `privpipe.hierarchies.literals.canonical_literal` accepts, so a value of the data and a
literal of a hierarchy file meet. Outer blanks count in text alone; a blank field of any other type is null.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from privpipe.engines.base.logical import arrow_type
from privpipe.hierarchies.literals import NUMERIC

__all__ = ["decimal_scale", "from_text"]

_PATTERN: Final = {
    "integer": r"^[+-]?[0-9]+$",
    "number": r"^(?i:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,4})?|[+-]?(?:inf|infinity))$",
    "decimal": r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?$",
    "boolean": r"^(?i:true|false|t|f|1|0)$",
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]00:00(?::00(?:\.0{1,9})?)?)?$",
    "timestamp": (
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
        r"(?: ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?$"
    ),
}
_ZONE: Final = r" ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"


def from_text(array: pa.Array, kind: str, *, scale: int = 0) -> tuple[pa.Array, int]:
    """Convert text to a declared type.

    Parameters
    ----------
    array : pyarrow.Array of string
    kind : str
        One of the declared types.
    scale : int
        Of decimals: digits after the point, at least `decimal_scale` of the whole column.

    Returns
    -------
    (pyarrow.Array, int)
        Of `arrow_type(kind)`, null where the cell does not convert; and how many did not. A timestamp with an
        offset becomes UTC. The text NaN is null in numeric columns.

    Examples
    --------
    >>> values, bad = from_text(pa.array(["7", " -7 ", "7.0", "", None]), "integer")
    >>> values.to_pylist(), bad
    ([7, -7, None, None, None], 1)
    >>> from_text(pa.array(["2024-05-01T10:00:00+02:00"]), "timestamp")[0].to_pylist()
    [datetime.datetime(2024, 5, 1, 8, 0)]
    """
    if kind == "text":
        return array, 0
    trimmed = pc.utf8_trim_whitespace(array)
    missing = pc.equal(trimmed, "")
    if kind in NUMERIC:
        missing = pc.or_(missing, pc.match_substring_regex(trimmed, "^[+-]?(?i:nan)$"))
    trimmed = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)
    fits = pc.fill_null(pc.match_substring_regex(trimmed, _PATTERN[kind]), True)
    kept = pc.if_else(fits, trimmed, pa.scalar(None, pa.string()))
    converted = _cast_what_casts(kept, kind, scale)
    bad = converted.null_count - trimmed.null_count
    return converted, bad


def decimal_scale(array: pa.Array) -> int:
    """Digits after the point that the decimals of a text column need; 0 for none.

    Examples
    --------
    >>> decimal_scale(pa.array(["1.50", "2", "1e-3", "x", None]))
    3
    """
    trimmed = pc.utf8_trim_whitespace(array.drop_null())
    fitting = trimmed.filter(pc.match_substring_regex(trimmed, _PATTERN["decimal"]))
    with_exponent = pc.match_substring_regex(fitting, "[eE]")
    fractions = pc.replace_substring_regex(fitting.filter(pc.invert(with_exponent)), r"^[^.]*\.?", "")
    plain = pc.max(pc.utf8_length(fractions)).as_py() or 0
    exponents = [_digits_after_point(text) for text in fitting.filter(with_exponent).to_pylist()]
    return max(int(plain), *exponents, 0)


def _digits_after_point(text: str) -> int:
    try:
        exponent = Decimal(text).as_tuple().exponent
    except InvalidOperation:  # an exponent beyond what a decimal may have; the conversion will refuse the cell
        return 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _cast_what_casts(array: pa.Array, kind: str, scale: int) -> pa.Array:
    try:
        return _cast(array, kind, scale)
    except pa.ArrowInvalid:
        pass  # a cell of the right shape has no such value (30 February, 2^63); find which
    distinct = array.dictionary_encode()
    values = [_cast_one(distinct.dictionary.slice(at, 1), kind, scale) for at in range(len(distinct.dictionary))]
    return pa.concat_arrays(values).take(distinct.indices)


def _cast_one(cell: pa.Array, kind: str, scale: int) -> pa.Array:
    try:
        return _cast(cell, kind, scale)
    except pa.ArrowInvalid:
        return pa.nulls(1, arrow_type(kind, scale=scale))


def _cast(array: pa.Array, kind: str, scale: int) -> pa.Array:
    if kind == "boolean":
        true = pc.is_in(pc.utf8_lower(array), value_set=pa.array(["true", "t", "1"]))
        return pc.if_else(pc.is_null(array), pa.scalar(None, pa.bool_()), true)
    if kind in {"integer", "number"}:
        return pc.replace_substring_regex(array, r"^\+", "").cast(arrow_type(kind))
    if kind == "decimal":
        return array.cast(arrow_type("decimal", scale=scale))
    if kind == "date":
        return pc.utf8_slice_codeunits(array, 0, 10).cast(pa.date32())
    return _timestamps(array)


def _timestamps(array: pa.Array) -> pa.Array:
    # Microseconds are all a logical timestamp holds; a finer fraction converts when it adds nothing.
    array = pc.replace_substring_regex(array, r"(\.[0-9]{6})0{1,3}", r"\1")
    zoned = pc.match_substring_regex(array, r"[0-9]{2}:[0-9]{2}.*" + _ZONE)
    none = pa.scalar(None, pa.string())
    naive = pc.if_else(zoned, none, array).cast(pa.timestamp("us"))
    if not pc.any(zoned).as_py():
        return naive
    close = pc.replace_substring_regex(pc.if_else(zoned, array, none), r" (Z|[+-][0-9:]+)$", r"\1")
    instants = close.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return pc.coalesce(naive, instants)
