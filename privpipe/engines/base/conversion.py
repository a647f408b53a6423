"""Conversion of columns: text to values, types of a source to declared types, and the widest type over files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import combinations
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.engines.base.batches import whole_array
from privpipe.engines.base.logical_types import (
    CARRIED,
    DECIMAL_DIGITS,
    arrow_type,
    carried_text,
    check_declared,
    check_names,
    inexact_error,
    is_carried,
    is_text_list,
    kind_of,
    logical_type,
    type_name,
)
from privpipe.errors import DataError
from privpipe.hierarchies import canonical_text
from privpipe.hierarchies.canonical import NUMERIC

__all__ = [
    "Typing",
    "conversion_error",
    "decimal_scale",
    "from_text",
    "holds_values",
    "normalised",
    "typing_of",
    "widened",
    "widest_type",
]


_PATTERN: Final = {
    # As pandas writes whole numbers of a column with gaps.
    "integer": r"^[+-]?[0-9]+(?:\.0*)?$",
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
        offset becomes UTC. The text NaN is null in numeric columns. Integers may have zeros after the point.

    Examples
    --------
    >>> values, bad = from_text(pa.array(["7", " -7 ", "7.0", "7.5", "", None]), "integer")
    >>> values.to_pylist(), bad
    ([7, -7, 7, None, None, None], 1)
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
    if kind == "integer":
        array = pc.replace_substring_regex(array, r"\.0*$", "")
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


def conversion_error(column: str, kind: str, count: int) -> DataError:
    """The message of every engine about cells that are not values of their declared type."""
    return DataError(
        f"column {column!r} is declared {kind}, and {count:,} cell{'s are' if count != 1 else ' is'} not; "
        "correct the data, declare another type, or list the text that means a missing value under `null_values`"
    )


def normalised(array: pa.Array | pa.ChunkedArray, column: str, *, carried: bool = False) -> pa.Array:
    """A column in its logical type: dictionaries decoded, integers 64 bits, timestamps in microseconds, NaN null.

    Raises
    ------
    DataError
        The type has no logical one; an integer beyond 64 bits with sign; a timestamp finer than a microsecond.

    Examples
    --------
    >>> normalised(pa.array(["a", None]).dictionary_encode(), "zip").type
    DataType(string)
    >>> normalised(pa.array([1.5, float("nan")], pa.float32()), "x").to_pylist()
    [1.5, None]
    """
    target = logical_type(array.type, column, carried=carried)
    array = whole_array(array)
    if pt.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if is_carried(array.type):
        return carried_text(array)
    try:
        array = array if array.type == target else array.cast(target)
    except pa.ArrowInvalid:
        raise inexact_error(column, array.type) from None
    if pt.is_floating(target):
        nan = pc.is_nan(array)
        array = pc.if_else(nan, pa.scalar(None, target), array) if pc.any(nan).as_py() else array
    return array


@dataclass(frozen=True)
class Typing:
    """How the columns of a source become the logical columns of a table.

    Parameters
    ----------
    schema : pyarrow.Schema
        Logical schema of the visible columns.
    """

    schema: pa.Schema
    kinds: Mapping[str, str] = field(default_factory=dict)

    def apply(self, batch: pa.RecordBatch | pa.Table) -> tuple[pa.RecordBatch, dict[str, int]]:
        """The batch in logical types, and how many cells of each column did not convert (these are null)."""
        columns, bad = [], {}
        for wanted in self.schema:
            array, failed = self.column(batch.column(wanted.name), wanted.name)
            columns.append(array)
            if failed:
                bad[wanted.name] = failed
        return pa.record_batch(columns, schema=self.schema), bad

    def convert(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """The batch in logical types.

        Raises
        ------
        DataError
            Cells that do not convert.
        """
        converted, bad = self.apply(batch)
        self.refuse(bad)
        return converted

    def refuse(self, bad: Mapping[str, int]) -> None:
        """Raise for the first column with cells that did not convert, counts of all batches added up."""
        for column, count in bad.items():
            if count:
                raise conversion_error(column, kind_of(self.schema.field(column).type), count)

    def column(self, array: pa.Array | pa.ChunkedArray, name: str) -> tuple[pa.Array, int]:
        """One column of a batch, and how many of its cells did not convert."""
        array = normalised(array, name, carried=self.kinds.get(name) == CARRIED)
        target = self.schema.field(name).type
        return (array, 0) if array.type == target else _converted(array, target, name)


def typing_of(source: pa.Schema, types: Mapping[str, str], scales: Mapping[str, int] | None = None) -> Typing:
    """The typing of a source under declared types; columns without one keep their logical type.

    Parameters
    ----------
    scales : mapping of column to int
        Digits after the point of text columns declared decimal (`decimal_scale` over all their cells).

    Raises
    ------
    DataError
        Bad names, a declared column that is missing, a type that cannot become the declared one.

    Examples
    --------
    >>> typing_of(pa.schema({"age": pa.string()}), {"age": "integer"}).schema.field("age").type
    DataType(int64)
    """
    check_names(source.names)
    check_declared(source.names, types)
    fields = []
    for known in source:
        kind = types.get(known.name)
        found = logical_type(known.type, known.name, carried=kind == CARRIED)
        if kind in (None, CARRIED, kind_of(found)):
            fields.append(pa.field(known.name, found))
            continue
        _refuse_senseless(known.name, kind_of(found), kind)
        scale = (scales or {}).get(known.name, 0)
        fields.append(pa.field(known.name, arrow_type(kind, scale=scale)))
    return Typing(pa.schema(fields), dict(types))


_MAY_BECOME = {
    "integer": {"number", "decimal", "text"},
    "number": {"integer", "text"},
    "decimal": {"number", "integer", "text"},
    "date": {"timestamp", "text"},
    "timestamp": {"date", "text"},
    "boolean": {"text"},
    "binary": set[str](),
}


def _refuse_senseless(column: str, found: str, wanted: str) -> None:
    if found != "text" and wanted not in _MAY_BECOME[found]:
        remedy = f"declare {found}" if found != "binary" else "leave `type:` out, or make it text before"
        raise DataError(f"column {column!r} is declared {wanted}, but the source holds it as {found}; {remedy}")


def _converted(array: pa.Array, target: pa.DataType, column: str) -> tuple[pa.Array, int]:
    if pt.is_string(array.type):
        kind = kind_of(target)
        return from_text(array, kind, scale=target.scale if kind == "decimal" else 0)
    if pt.is_string(target):
        return canonical_text(array, None, column=column), 0
    try:
        # Arrow's cast of a timestamp to a date cuts the time of day off without a word.
        if not pt.is_date(target):
            return array.cast(target), 0
    except pa.ArrowInvalid:
        pass
    kept = _castable(array, target)
    return array.filter(kept).cast(target).take(_positions(kept)), int(pc.sum(pc.invert(kept)).as_py() or 0)


def _castable(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Which cells the cast keeps exact: those that survive the way there and back."""
    if pt.is_integer(target) and pt.is_floating(array.type):
        inside = pc.and_(pc.greater_equal(array, -(2.0**63)), pc.less(array, 2.0**63))
        return pc.fill_null(pc.and_(inside, pc.equal(pc.trunc(array), array)), True)
    there = array.cast(target, safe=False)
    return pc.fill_null(pc.equal(there.cast(array.type, safe=False), array), True)


def _positions(kept: pa.Array) -> pa.Array:
    """Position of each kept cell among the kept ones, null for the others."""
    ranks = pc.subtract(pc.cumulative_sum(kept.cast(pa.int64())), 1)
    return pc.if_else(kept, ranks, pa.scalar(None, pa.int64()))


WIDER: Final[Mapping[frozenset[str], str]] = {
    frozenset(("integer", "number")): "number",
    frozenset(("integer", "decimal")): "decimal",
    frozenset(("date", "timestamp")): "timestamp",
}
"""Kinds of two types, and the kind that may hold the values of both."""


def widest_type(column: str, places: Mapping[pa.DataType, str]) -> pa.DataType:
    """The type that holds what all files have in a column: their own where they have one, else a logical one.

    Integers of several widths become 64 bits, floats 64 bits, decimals the larger scale, timestamps microseconds (those
    with a time zone instants in UTC). Whole numbers join floats and decimals, dates join timestamps without a zone.

    Parameters
    ----------
    column : str
    places : mapping of type to str
        The types of the files in which the column has a value, each with the name of one such file; none: text.

    Raises
    ------
    DataError
        No type holds the values of both exactly (file, column, both types).

    Examples
    --------
    >>> widest_type("pay", {pa.float32(): "a.parquet", pa.float64(): "b.parquet"})
    DataType(double)
    >>> widest_type("pay", {pa.bool_(): "a.parquet", pa.int8(): "b.parquet"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    privpipe.errors.DataError: b.parquet: column 'pay' is int8, and bool in a.parquet; no type holds both exactly: ...
    """
    if len(places) < 2:
        return next(iter(places), pa.string())
    nested = next((found for found in places if is_carried(found) and not is_text_list(found)), None)
    if nested is not None:
        other = next(found for found in places if found != nested)
        raise DataError(
            f"{places[nested]}: column {column!r} is {type_name(nested)}, and {type_name(other)} in {places[other]}; "
            "write them in one"
        )
    logical = {}
    for found, place in places.items():
        try:
            logical[found] = logical_type(found, column)
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
    for left, right in combinations(places, 2):
        if not _may_join(left, right, column):
            raise DataError(
                f"{places[right]}: column {column!r} is {type_name(right)}, and {type_name(left)} in {places[left]}; "
                "no type holds both exactly: write them in one"
            )
    if all(map(is_text_list, places)):
        return pa.list_(pa.string())
    kinds = {kind_of(found): found for found in logical.values()}
    if "decimal" in kinds:
        return pa.decimal128(DECIMAL_DIGITS, max(found.scale for found in logical.values() if pt.is_decimal(found)))
    return next((kinds[wide] for pair, wide in WIDER.items() if pair <= kinds.keys()), next(iter(kinds.values())))


def _may_join(left: pa.DataType, right: pa.DataType, column: str) -> bool:
    """Whether one type may hold the values of both; whether it does is seen value by value."""
    ours, theirs = logical_type(left, column), logical_type(right, column)
    kinds = frozenset((kind_of(ours), kind_of(theirs)))
    alike = is_text_list(left) == is_text_list(right) and _zoned(ours) == _zoned(theirs)
    return alike and (len(kinds) == 1 or kinds in WIDER)


def _zoned(found: pa.DataType) -> bool:
    return pt.is_timestamp(found) and found.tz is not None


def holds_values(array: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column holds anything but null and NaN, which is null.

    Examples
    --------
    >>> holds_values(pa.array([None, float("nan")])), holds_values(pa.array([None, 1]))
    (False, True)
    """
    if array.null_count == len(array):
        return False
    return not pt.is_floating(array.type) or not pc.all(pc.is_nan(array), min_count=0).as_py()


def widened(array: pa.Array | pa.ChunkedArray, wanted: pa.DataType, column: str, place: str) -> pa.Array:
    """A column of a file in the type that `widest_type` gave, every value kept.

    Raises
    ------
    DataError
        Values that the type cannot hold exactly (file, column, both types).

    Examples
    --------
    >>> widened(pa.array([0.1], pa.float32()), pa.float64(), "pay", "a.parquet").to_pylist()
    [0.10000000149011612]
    """
    array = whole_array(array)
    if array.type == wanted:
        return array
    if not holds_values(array):
        return pa.nulls(len(array), wanted)
    try:
        exact = _exactly(array, wanted, column) if _may_join(array.type, wanted, column) else None
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    except pa.ArrowInvalid:
        exact = None
    if exact is None:
        raise DataError(
            f"{place}: column {column!r}: values of {type_name(array.type)} that {wanted}, its type in the whole "
            "source, cannot hold exactly; write it in one type"
        )
    return exact


def _exactly(array: pa.Array, wanted: pa.DataType, column: str) -> pa.Array | None:
    if is_text_list(wanted):
        return array.cast(wanted)
    logical = normalised(array, column)
    if logical.type == wanted:
        return logical
    if pt.is_integer(logical.type) and pt.is_decimal(wanted):
        return logical.cast(pa.decimal128(DECIMAL_DIGITS, 0)).cast(wanted)  # Arrow refuses the direct way by the types
    if pt.is_integer(logical.type) and pt.is_floating(wanted):
        there = logical.cast(wanted, safe=False)
        # 2^63 has no way back.
        back = pc.if_else(pc.less(there, 2.0**63), there, pa.scalar(None, wanted)).cast(pa.int64(), safe=False)
        return there if logical.equals(back) else None
    there = logical.cast(wanted)
    return there if there.cast(logical.type, safe=False).equals(logical) else None
