"""Canonical text of an Arrow column: the one form in which engines and hierarchies compare values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.hierarchies.literals import COLUMN_TYPES, canonical_literal, plain_decimal

__all__ = ["canonical_text", "checked_type"]

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
        Timestamps with a time zone are taken to UTC; those without one are taken as they are.
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
