"""Rows in the order of columns: as words, as positions, and as ranges between cuts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks.arrays import Ints
from privpipe.engines.base.batches import joined
from privpipe.engines.base.class_blocks import group_key
from privpipe.engines.distributed.codes import MOST_WORDS, encode_ranks, packed
from privpipe.kernels.grouping.word_groups import ranges_of

__all__ = ["keyed_order", "order_words", "range_targets", "sorted_by", "value_order_of"]


def order_words(columns: Sequence[pa.Array]) -> Ints:
    """One word per column whose order is the order of the values: of their type, text by code points, null last.

    Words of one call compare with each other only.

    Returns
    -------
    ndarray of int64, shape (n, number of columns)

    Examples
    --------
    >>> order_words([pa.array([2.5, -1.0, None])])[:, 0].argsort().tolist()
    [1, 0, 2]
    """
    return np.column_stack([_order_words(group_key(column)) for column in columns])


def _order_words(column: pa.Array) -> Ints:
    if column.null_count == 0 and pt.is_int64(column.type):
        return column.to_numpy(zero_copy_only=False)
    if column.null_count == 0 and pt.is_float64(column.type):
        bits = column.to_numpy(zero_copy_only=False).view(np.int64)
        # A negative float's magnitude bits grow downwards.
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return encode_ranks(column).codes


def value_order_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Positions that put rows, of whose values many repeat, in the order of their columns, nulls last.

    Examples
    --------
    >>> value_order_of([pa.array([2, None, 1]), pa.array(["a", "b", "c"])]).to_pylist()
    [2, 0, 1]
    """
    ranked = [encode_ranks(column) for column in columns]
    if math.prod(len(column.values) for column in ranked) < MOST_WORDS:
        return pa.array(np.argsort(packed(ranked, len(columns[0]) if columns else 0), kind="stable"))
    return pa.array(np.lexsort([column.codes for column in reversed(ranked)]))


def sorted_by(batch: pa.RecordBatch, columns: Sequence[str]) -> Ints:
    """Positions of the rows in the order of some columns, nulls last."""
    words = order_words([batch.column(name) for name in columns])
    return np.lexsort(words.T[::-1])


def keyed_order(order: Ints, ids: Ints) -> pa.Array:
    """Positions of rows by their order words, equal ones by their ids, shape (n, 2)."""
    places = np.argsort(order)
    if (np.diff(order[places]) == 0).any():
        places = np.lexsort((ids[:, 1], ids[:, 0], order))
    return pa.array(places)


def range_targets(keys: pa.RecordBatch, cuts: pa.RecordBatch) -> Ints:
    """The range of each key."""
    both = joined([cuts, keys])
    words = order_words([both.column(name) for name in keys.schema.names])
    return ranges_of(words[cuts.num_rows :], words[: cuts.num_rows])
