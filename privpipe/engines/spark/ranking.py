"""Global ranks: ranges of (value, keyed order) with exact starts, each sorted alone.

Where the distinct values fit the driver, their counts choose the ranges and give the starts, and no record is looked at
before it moves. Else, or where one value holds more rows than a task should, a sample chooses the ranges, splitting
ties by keyed order, and a count makes them exact. The answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.draws import Stream
from privpipe.engines.base.histograms import group_key
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.layout import Layout
from privpipe.engines.spark.learning import count_records, histograms_of
from privpipe.engines.spark.runs import RunNumbers
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.workers import fold, map_batches

__all__ = ["map_ranked"]

Batches = Iterator[pa.RecordBatch]
Ints = NDArray[np.int64]
PART, ORDER = "__privpipe_part", "__privpipe_order"
SAMPLE = 1 << 14
ROWS_PER_RANGE = 500_000
MOST_VALUES = 1_000_000
"""Distinct values that go to the driver with their counts."""


def map_ranked(
    table: SparkTable,
    column: str,
    stream: Stream,
    function: Callable[[RowBlock, Ints], RowBlock],
    schema: pa.Schema,
) -> SparkTable:
    """See `Engine.map_ranked`."""
    ranges = _ranges_of_values(table, column) or _ranges(table.select([column]), column, stream)
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
    cuts : pyarrow.Table
        Columns value and order, ascending; range r holds what is at least cut r - 1 and less than cut r.
    starts : ndarray of int64, shape (2 * number,)
        Rank of the first record of each range.
    """

    cuts: pa.Table
    starts: Ints = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def number(self) -> int:
        """Number of ranges."""
        return len(self.cuts) + 1

    def of(self, values: pa.Array, order: Ints) -> Ints:
        """The range of each record, shape (n,)."""
        values = _sortable(group_key(values))
        known = values.is_valid().to_numpy(zero_copy_only=False)
        found = self.number + order % self.number  # records without a value are spread
        found[known] = self._among(values.filter(pa.array(known)), order[known])
        return found

    def _among(self, values: pa.Array, order: Ints) -> Ints:
        if not len(self.cuts):
            return np.zeros(len(values), np.int64)
        keys = pa.table({"value": values, "order": order, "row": np.ones(len(values), np.int8)})
        cuts = self.cuts.append_column("row", pa.array(np.zeros(len(self.cuts), np.int8)))
        both = pa.concat_tables([cuts, keys])
        positions = pc.sort_indices(both, [(name, "ascending") for name in both.column_names]).to_numpy()
        is_cut = positions < len(self.cuts)
        found = np.empty(len(both), np.int64)
        found[positions] = np.cumsum(is_cut)
        return found[len(self.cuts) :]


def _ranges_of_values(table: SparkTable, column: str) -> Ranges | None:
    """Ranges that begin at whole values, by exact counts; None for too many values, or too many rows of one."""
    from pyspark.sql import functions as sf

    kind = _sortable_type(table.schema.field(column).type)
    if count_records(table) <= ROWS_PER_RANGE:
        return Ranges(pa.table({"value": pa.array([], kind), "order": _no_order()}))
    with reported("estimate the number of distinct values"):
        row = table.frame.agg(sf.approx_count_distinct(table.counted(column))).first()
    if row is None or row[0] > MOST_VALUES:
        return None
    histogram = histograms_of(table, [column])[column]
    counts = histogram.counts[: len(histogram) - (1 if histogram.nulls else 0)]
    if counts.max(initial=0) > ROWS_PER_RANGE:
        return None
    ends = np.cumsum(counts)
    number = max(-(-int(counts.sum()) // ROWS_PER_RANGE), 1)
    places = np.unique(np.searchsorted(ends, counts.sum() * np.arange(1, number) // number, side="right"))
    places = places[(places > 0) & (places < len(counts))]
    # Below every keyed order of its value: a range holds all ties of a value, or none.
    lowest = pa.array(np.full(len(places), np.iinfo(np.int64).min))
    values = _sortable(group_key(histogram.values)).take(pa.array(places))
    starts = np.zeros(2 * (len(places) + 1), np.int64)
    starts[1 : len(places) + 1] = ends[places - 1]
    return Ranges(pa.table({"value": values, "order": lowest}), starts)


def _ranges(table: SparkTable, column: str, stream: Stream) -> Ranges:
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
        empty = pa.table({"value": pa.array([], _sortable_type(table.schema.field(column).type)), "order": _no_order()})
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

    keys: pa.Table
    records: int

    @classmethod
    def of(cls, values: pa.Array, order: Ints, ids: Ints) -> _Sample:
        values = _sortable(group_key(values))
        keys = pa.table({"value": values, "order": order, "id": ids}).filter(values.is_valid())
        return cls(_least(keys), len(keys))

    def merge(self, other: _Sample) -> _Sample:
        return _Sample(_least(pa.concat_tables([self.keys, other.keys])), self.records + other.records)

    def cuts(self, number: int) -> pa.Table:
        """At most ``number - 1`` cuts at even distances."""
        keys = self.keys.select(["value", "order"]).sort_by([("value", "ascending"), ("order", "ascending")])
        places = np.unique(len(keys) * np.arange(1, number) // number)
        return keys.take(pa.array(places))


def _least(keys: pa.Table) -> pa.Table:
    if len(keys) <= SAMPLE:
        return keys
    return keys.take(pc.select_k_unstable(keys, SAMPLE, [("id", "ascending")]))


def _sortable(values: pa.Array) -> pa.Array:
    return values.cast(_sortable_type(values.type))


def _sortable_type(kind: pa.DataType) -> Any:
    return pa.int8() if pt.is_boolean(kind) else kind


def _no_order() -> pa.Array:
    return pa.array([], pa.int64())
