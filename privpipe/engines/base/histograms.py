"""Histograms from counted values: normalised, merged, and put in the one order that makes codes; exact moments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.blocks import Histogram
from privpipe.blocks.arrays import Ints
from privpipe.engines.base.batches import whole_array
from privpipe.errors import DataError
from privpipe.kernels.columns.cell_words import scaled_numbers
from privpipe.kernels.exact_sums import ExactMoments

__all__ = [
    "ExactMoments",
    "codes_of",
    "dictionary_values",
    "find_codes",
    "group_key",
    "histogram_of",
    "merged_histogram",
    "not_covered",
    "plain_key",
    "scaled_numbers",
    "value_order",
]


def group_key(array: pa.Array) -> pa.Array:
    """Values as they are compared when counted: NaN is null and minus zero is zero.

    Examples
    --------
    >>> group_key(pa.array([-0.0, float("nan"), 1.5])).to_pylist()
    [0.0, None, 1.5]
    """
    if not pt.is_floating(array.type):
        return array
    none = pa.scalar(None, array.type)
    array = pc.if_else(pc.fill_null(pc.is_nan(array), True), none, array)
    return pc.add(array, pa.scalar(0.0, array.type))  # IEEE 754: -0.0 + 0.0 is 0.0


def plain_key(column: pa.Array) -> pa.Array:
    """As `group_key`; a dictionary is its values."""
    return group_key(column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column)


def value_order(values: pa.Array) -> pa.Array:
    """Positions that put values in the order of their type (text by code points), null last.

    Examples
    --------
    >>> value_order(pa.array(["b", None, "A", "a"])).to_pylist()
    [2, 3, 0, 1]
    """
    if pt.is_boolean(values.type):
        values = values.cast(pa.int8())
    return pc.array_sort_indices(values, null_placement="at_end")


def histogram_of(values: pa.Array | pa.ChunkedArray, counts: pa.Array | pa.ChunkedArray | None = None) -> Histogram:
    """The histogram of a column's values, or of values with their counts.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray
        In logical type; values may repeat.
    counts : array of int64, optional
        Records that each entry of `values` stands for; 1 where left out.

    Examples
    --------
    >>> found = histogram_of(pa.array(["b", None, "a", "b"]), pa.array([1, 2, 3, 4]))
    >>> found.values.to_pylist(), found.counts.tolist()
    (['a', 'b', None], [3, 5, 2])
    """
    values = group_key(whole_array(values))
    weights = np.ones(len(values), np.int64) if counts is None else whole_array(counts).cast(pa.int64()).to_numpy()
    encoded = values.dictionary_encode(null_encoding="encode")
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    sums = np.zeros(len(encoded.dictionary), np.int64)
    np.add.at(sums, indices, weights)
    order = value_order(encoded.dictionary)
    # A mask keeps no value of weight 0: a histogram holds what occurs.
    ordered = sums[order.to_numpy()]
    found = pa.array(ordered > 0)
    return Histogram(encoded.dictionary.take(order).filter(found), ordered[ordered > 0])


def merged_histogram(parts: Sequence[Histogram], kind: pa.DataType) -> Histogram:
    """One histogram of several parts of a table; `kind` is the column's type, for no parts at all."""
    values = pa.chunked_array([part.values for part in parts], type=kind)
    counts = pa.chunked_array([pa.array(part.counts) for part in parts], type=pa.int64())
    return histogram_of(values, counts)


def codes_of(values: pa.Array, dictionary: Histogram, column: str) -> Ints:
    """Positions of values in a dictionary, int64 of shape (n,).

    Raises
    ------
    DataError
        The dictionary lacks a value.

    Examples
    --------
    >>> codes_of(pa.array(["b", None]), histogram_of(pa.array(["a", "b", None])), "ill").tolist()
    [1, 2]
    """
    found = find_codes(values, dictionary)
    missing = found < 0
    if missing.any():
        raise not_covered(column, int(missing.sum()))
    return found


def find_codes(values: pa.Array, dictionary: Histogram) -> Ints:
    """As `codes_of`, -1 for a value the dictionary lacks."""
    known = group_key(dictionary.values)
    if values.type != known.type:
        try:
            values = values.cast(known.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return np.full(len(values), -1, np.int64)
    positions = pc.index_in(group_key(values), value_set=known)
    return np.asarray(pc.fill_null(positions, -1).cast(pa.int64()).to_numpy(zero_copy_only=False))


def dictionary_values(dictionary: Histogram, kind: pa.DataType, column: str) -> pa.Array:
    """A dictionary's values in the column's own type, for engines that look codes up by a join.

    Raises
    ------
    DataError
        A value that the type cannot hold; a value twice, which would count records twice.
    """
    try:
        values = group_key(dictionary.values.cast(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"the base distribution of column {column!r} holds {dictionary.values.type}, the column {kind}; "
            "declare the same type for both"
        ) from None
    if len(values.unique()) < len(values):
        raise DataError(f"the base distribution of column {column!r} repeats a value")
    return values


def not_covered(column: str, values: int) -> DataError:
    """What every engine reports when the data holds values that a base distribution gives no share."""
    return DataError(
        f"base does not cover the released values: column {column!r} holds {values:,} distinct "
        f"value{'s' if values != 1 else ''} that the base distribution lacks"
    )
