"""The type of a column that the files (or partitions) of a source hold in several: the same in every order of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.engines.base.carried_cells import is_carried
from privpipe.engines.base.logical import DECIMAL_DIGITS, kind_of, logical_type, type_name
from privpipe.engines.base.text_lists import is_text_list
from privpipe.engines.base.typing import normalised
from privpipe.errors import DataError

__all__ = ["holds_values", "widened", "widest_type"]

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
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
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
