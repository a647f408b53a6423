"""Global ranks: ranges of (value, keyed order) with exact starts, each sorted alone, and bins with exact counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.base.histograms import group_key
from privpipe.engines.distributed.orders import range_targets, sorted_by
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.row_functions import RunNumbers
from privpipe.engines.spark.spark_table import Layout, SparkTable, count_records
from privpipe.engines.spark.versions import arrow_table
from privpipe.engines.spark.workers import fold, map_batches
from privpipe.kernels.grouping.parallel_order import sortable_words

__all__ = [
    "KeyBins",
    "bin_counts",
    "bins_of",
    "decimal_limbs",
    "is_countable",
    "map_ranked",
    "placed",
    "spread_keys",
    "tie_words",
    "value_words",
]


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
Words = NDArray[np.uint64]
SAMPLED = 1 << 16
MOST_BINS = 1 << 14
SIGN = np.uint64(1 << 63)
TIE_BITS = np.uint64(15)
"""Of a tie word, given up to the number of the value among the cuts."""
ENDS = (np.uint64(0), np.uint64(2**64 - 1))
"""Words of the least and the largest value; a decimal beyond 64 bits has one of these too."""


def is_countable(kind: pa.DataType) -> bool:
    """Whether values of this type have words in their order."""
    return bool(
        pt.is_floating(kind) or pt.is_integer(kind) or pt.is_decimal(kind) or pt.is_date(kind) or pt.is_timestamp(kind)
    )


def value_words(cells: pa.Array) -> tuple[Words, Bools]:
    """Words that are ordered like the values, and where there is a value (NaN is none).

    Examples
    --------
    >>> words, known = value_words(pa.array([2.5, None, -1.0]))
    >>> bool(words[2] < words[0]), known.tolist()
    (True, [True, False, True])
    """
    if pt.is_floating(cells.type):
        values = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
        known = ~np.isnan(values)
        return sortable_words(np.where(known, values, 0.0)), known
    known = cells.is_valid().to_numpy(zero_copy_only=False)
    if pt.is_decimal(cells.type):
        low, high = decimal_limbs(cells)
        held = np.where(high >= 0, np.int64(2**63 - 1), np.int64(-(2**63)))
        return sortable_words(np.where(high == low >> 63, low, held)), known
    if pt.is_date(cells.type):
        cells = cells.cast(pa.date32()).cast(pa.int32())
    return sortable_words(cells.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)), known


def decimal_limbs(cells: pa.Array) -> tuple[Ints, Ints]:
    """The lower 64 bits of decimals, to be read without sign, and the upper ones."""
    filled = pc.fill_null(cells.cast(pa.decimal128(38, cells.type.scale)), 0)
    limbs = np.frombuffer(filled.buffers()[1], dtype="<i8").reshape(-1, 2)[filled.offset :][: len(filled)]
    return np.ascontiguousarray(limbs[:, 0]), np.ascontiguousarray(limbs[:, 1])


def tie_words(stream: Stream, ids: Ints) -> Words:
    """The keyed order of records, to be compared without sign."""
    return stream.order(ids).view(np.uint64) ^ SIGN


@dataclass(frozen=True, repr=False)
class KeyBins:
    """Consecutive bins of values, or of (value, keyed order) where single values are too frequent for a bin.

    Parameters
    ----------
    words, ties : ndarray of uint64, shape (n_cuts,)
        The cuts, ascending and different; a bin begins at each of them, the first below all. All of a tie but its
        last bits counts, and none of it at the words of the least and the largest value.
    by_value : bool
        Whether equal values are in one bin, so that ties need not be known.
    """

    words: Words
    ties: Words
    by_value: bool = False
    _runs: Words = field(init=False)

    def __post_init__(self) -> None:
        runs = np.zeros(len(self.words), np.uint64)
        np.cumsum(self.words[1:] != self.words[:-1], out=runs[1:])
        object.__setattr__(self, "_runs", runs)

    @classmethod
    def cutting(cls, words: Words, ties: Words, number: int) -> KeyBins:
        """So many bins, `MOST_BINS` at most, with about as many of these keys each."""
        number = min(number, MOST_BINS)
        by_value = bool(np.unique(words, return_counts=True)[1].max(initial=0) * number <= max(len(words), number))
        ties = np.zeros_like(ties) if by_value else _distinct_ties(words, ties)
        order = np.lexsort((ties, words))
        chosen = order[np.unique(len(order) * np.arange(1, number) // number)] if len(order) else order
        words, ties = words[chosen], ties[chosen]
        fresh = np.ones(len(words), np.bool_)
        fresh[1:] = (words[1:] != words[:-1]) | (ties[1:] != ties[:-1])
        return cls(words[fresh], ties[fresh], by_value)

    def __len__(self) -> int:
        return len(self.words) + 1

    def of(self, words: Words, ties: Callable[[Ints], Words]) -> Ints:
        """The bin of each key, shape (n,); `ties` gives the tie words of the records at some positions.

        Examples
        --------
        >>> bins = KeyBins(np.array([5, 5, 8], np.uint64), np.array([0, 1 << 15, 0], np.uint64))
        >>> given = np.array([0, 2 << 15, 1, 9], np.uint64)
        >>> bins.of(np.array([4, 5, 5, 8], np.uint64), lambda at: given[at]).tolist()
        [0, 2, 1, 3]
        """
        found = np.searchsorted(self.words, words, side="right")
        if self.by_value or not len(self.words):
            return found
        last = np.maximum(found - 1, 0)
        at = np.flatnonzero(self.words[last] == words)
        if len(at):
            runs = self._runs[last[at]]
            keys = _composed(runs, _distinct_ties(words[at], ties(at)))
            found[at] = np.searchsorted(_composed(self._runs, self.ties), keys, side="right")
        return found


def _distinct_ties(words: Words, ties: Words) -> Words:
    ties = ties >> TIE_BITS << TIE_BITS
    return np.where((words == ENDS[0]) | (words == ENDS[1]), np.uint64(0), ties)


def _composed(runs: Words, ties: Words) -> Words:
    return (runs << (np.uint64(64) - TIE_BITS)) | (ties >> TIE_BITS)


def bins_of(table: SparkTable, column: str, stream: Stream, records: int, number: int) -> KeyBins:
    """So many bins with about as many of the column's `records` values each, cut at some of the least ids."""
    from pyspark.sql import functions as sf

    chosen = table.select([column])
    frame = chosen.frame
    if records > SAMPLED:
        # Ids are keyed hashes: as large a share of them lies below this, whatever the values.
        frame = frame.where(sf.col(ID_COLUMNS[0]) < sf.lit(SAMPLED * 2**64 // records - 2**63))
    with reported("sample a column"):
        found = arrow_table(frame).combine_chunks().to_batches()
    words, ties = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    for batch in found[:1]:
        rows = chosen.layout.block(batch)
        words, known = value_words(rows.column(column))
        words, ties = words[known], tie_words(stream, rows.record_ids[known])
    return KeyBins.cutting(words, ties, number)


def bin_counts(table: SparkTable, column: str, stream: Stream, bins: KeyBins) -> Ints:
    """How many records with a value each bin holds."""
    chosen = table.select([column])
    layout = chosen.layout.without_ids() if bins.by_value else chosen.layout

    def count(batches: Batches) -> Iterator[Ints]:
        for batch in batches:
            if batch.num_rows:
                rows = layout.block(batch)
                words, known = value_words(rows.column(column))
                yield np.bincount(placed(rows, words, known, bins, stream)[known], minlength=len(bins))

    counted = fold(chosen.frame.select(*layout.arrow.names), count, np.add, "count the bins of a column")
    return np.zeros(len(bins), np.int64) if counted is None else counted


def placed(rows: RowBlock, words: Words, known: Bools, bins: KeyBins, stream: Stream) -> Any:
    """The bin of each record; of those without a value, any."""
    return bins.of(words, lambda at: tie_words(stream, rows.record_ids[at]))


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
