"""Global ranks: ranges of (value, keyed order) with exact starts, each sorted alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.base.class_blocks import group_key
from privpipe.engines.distributed.orders import range_targets, sorted_by
from privpipe.engines.spark.row_functions import RunNumbers
from privpipe.engines.spark.spark_table import Layout, SparkTable, count_records
from privpipe.engines.spark.workers import fold, map_batches

__all__ = ["map_ranked", "spread_keys"]


U = np.uint32


@cache
def spread_keys(partitions: int) -> tuple[int, ...]:
    """One integer for each of so many partitions, in their order.

    A hash of 0, 1, 2, ... leaves some partitions empty and puts several keys into others. Nothing but the balance
    rests on it.

    Examples
    --------
    >>> spread_keys(3)
    (3, 0, 1)
    """
    found = np.full(partitions, -1, np.int64)
    start = 0
    while (found < 0).any():
        keys = np.arange(start, start + 32 * partitions)
        places = _hashed(keys).astype(np.int64) % partitions
        at, first = np.unique(places, return_index=True)
        fresh = found[at] < 0
        found[at[fresh]] = keys[first[fresh]]
        start += len(keys)
    return tuple(found.tolist())


def _hashed(keys: Ints) -> NDArray[np.int32]:
    """Murmur3 of 64-bit integers in 0 .. 2^32 - 1 with the seed of Spark's hash partitioning."""
    with np.errstate(over="ignore"):
        hashed = _mixed(np.full(len(keys), 42, U), _scrambled(keys.astype(U)))
        hashed = _mixed(hashed, np.zeros(len(keys), U)) ^ U(8)
        hashed = (hashed ^ (hashed >> U(16))) * U(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> U(13))) * U(0xC2B2AE35)
        return (hashed ^ (hashed >> U(16))).view(np.int32)


def _scrambled(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    words = words * U(0xCC9E2D51)
    return ((words << U(15)) | (words >> U(17))) * U(0x1B873593)


def _mixed(hashed: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashed = hashed ^ words
    return ((hashed << U(13)) | (hashed >> U(19))) * U(5) + U(0xE6546B64)


Batches = Iterator[pa.RecordBatch]
PART, ORDER = "__privpipe_part", "__privpipe_order"
SAMPLE = 1 << 14
ROWS_PER_RANGE = 500_000


def map_ranked(
    table: SparkTable,
    column: str,
    stream: Stream,
    function: Callable[[RowBlock, Ints], RowBlock],
    schema: pa.Schema,
) -> SparkTable:
    """See `Engine.map_ranked`."""
    chosen = replace(table.select([column]), remembered=table.remembered)
    ranges = _ranges(chosen, column, stream)
    source, out = table.layout, Layout(schema, table.has_record_ids)
    placed = source.with_extra(PART, ORDER)

    def add_range(batches: Batches) -> Batches:
        for batch in batches:
            rows = source.block(batch)
            order = stream.order(rows.record_ids)
            yield placed.batch(rows, **{PART: ranges.of(rows.column(column), order), ORDER: order})

    def run(batches: Batches) -> Batches:
        runs = RunNumbers()
        for batch in batches:
            if batch.num_rows:
                parts = placed.hidden_column(batch, PART)
                ranks = ranges.starts[parts] + runs.number(parts[:, None])
                rows = placed.block(batch)
                yield out.batch(function(rows, np.where(parts < ranges.number, ranks, -1)))

    value = table.counted(column)
    ranged = map_batches(table.frame, add_range, placed).repartition(PART)
    ordered = ranged.sortWithinPartitions(PART, value, ORDER, *ID_COLUMNS)
    return SparkTable(map_batches(ordered, run, out), out, at_most=table.bound)


@dataclass(frozen=True, repr=False)
class Ranges:
    """Ranges of (value, keyed order); the second half of the numbers is for records without a value.

    Parameters
    ----------
    cuts : pyarrow.RecordBatch
        Columns value and order, ascending; range r holds what is at least cut r - 1 and less than cut r.
    starts : ndarray of int64, shape (2 * number,)
        Rank of the first record of each range.
    """

    cuts: pa.RecordBatch
    starts: Ints = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def number(self) -> int:
        """Number of ranges."""
        return len(self.cuts) + 1

    def of(self, values: pa.Array, order: Ints) -> Ints:
        """The range of each record, shape (n,)."""
        keys, known = _keys(values, order)
        found = self.number + order % self.number  # records without a value are spread
        found[known] = range_targets(keys, self.cuts) if len(self.cuts) else 0
        return found


def _keys(values: pa.Array, order: Ints) -> tuple[pa.RecordBatch, Bools]:
    """The keys of records that have a value, and which these are."""
    values = group_key(values)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.record_batch([values.filter(pa.array(known)), pa.array(order[known])], names=["value", "order"]), known


def _ranges(table: SparkTable, column: str, stream: Stream) -> Ranges:
    empty = pa.RecordBatch.from_pylist(
        [], pa.schema([("value", table.schema.field(column).type), ("order", pa.int64())])
    )
    if count_records(table) <= ROWS_PER_RANGE:
        return Ranges(empty)
    layout = table.layout

    def keys(batches: Batches) -> Iterator[tuple[pa.Array, Ints, Ints]]:
        for batch in batches:
            rows = layout.block(batch)
            yield rows.column(column), stream.order(rows.record_ids), rows.record_ids[:, 0]

    def sample(batches: Batches) -> Iterator[_Sample]:
        for values, order, ids in keys(batches):
            yield _Sample.of(values, order, ids)

    found = fold(table.frame, sample, _Sample.merge, f"sample column {column!r}")
    number = -(-found.records // ROWS_PER_RANGE) if found else 1
    if found is None or number <= 1:
        return Ranges(empty)
    cut = Ranges(found.cuts(number))

    def count(batches: Batches) -> Iterator[Ints]:
        for values, order, _ids in keys(batches):
            yield np.bincount(cut.of(values, order), minlength=2 * cut.number)

    sizes = fold(table.frame, count, np.add, f"count ranges of column {column!r}")
    starts = np.zeros(2 * cut.number, np.int64)
    if sizes is not None:
        starts[1 : cut.number] = np.cumsum(sizes[: cut.number - 1])
    return Ranges(cut.cuts, starts)


@dataclass(frozen=True, repr=False)
class _Sample:
    """The records with the least id words, which are as good as random, and the number of records with a value."""

    keys: pa.RecordBatch
    ids: Ints
    records: int

    @classmethod
    def of(cls, values: pa.Array, order: Ints, ids: Ints) -> _Sample:
        keys, known = _keys(values, order)
        return cls._least(keys, ids[known], len(keys))

    @classmethod
    def _least(cls, keys: pa.RecordBatch, ids: Ints, records: int) -> _Sample:
        if len(ids) > SAMPLE:
            least = np.argpartition(ids, SAMPLE - 1)[:SAMPLE]
            keys, ids = keys.take(pa.array(least)), ids[least]
        return cls(keys, ids, records)

    def merge(self, other: _Sample) -> _Sample:
        ids = np.concatenate([self.ids, other.ids])
        return self._least(joined([self.keys, other.keys]), ids, self.records + other.records)

    def cuts(self, number: int) -> pa.RecordBatch:
        """At most ``number - 1`` cuts at even distances."""
        places = np.unique(len(self.keys) * np.arange(1, number) // number)
        return self.keys.take(pa.array(sorted_by(self.keys, ["value", "order"])[places]))
