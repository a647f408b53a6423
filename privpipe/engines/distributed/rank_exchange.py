"""Values given away by rank, in ranges of consecutive ranks: who meets where, and what each record of a range receives.

Bins that hold about as many records each are cut at a sample of a column's keys, with exact counts. An engine brings
the keys of a range (value and id) together with those in its reach, and gives each of its records what
`RangeKeys.received` states. Where values move further than a range is long, the keys of a range meet alone,
`RangeKeys.sent` are the values for other ranges, and `RangeKeys.given` takes those that came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RankExchange, RowBlock, unsigned_zeros
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.requests import Selection
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.base.contract import Engine
from privpipe.errors import DataError, UnsupportedError
from privpipe.kernels.grouping.sorting import positions_by_value, sortable_words

__all__ = [
    "KeyBins",
    "Permutations",
    "RangeKeys",
    "RankRanges",
    "RankedColumn",
    "another_table",
    "bin_counts",
    "bins_of",
    "decimal_limbs",
    "is_countable",
    "ranked_column",
    "sent_schema",
    "tie_words",
    "value_words",
]


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


def bins_of(engine: Primitives, table: Any, column: str, stream: Stream, records: int, number: int) -> KeyBins:
    """So many bins with about as many of the column's `records` values each, cut at some of the least ids."""
    # Ids are keyed hashes: the least of them are as good as random, whatever the values.
    share = min(SAMPLED / max(records, 1), 1.0)
    sampled = engine.derive(Selection(table, (column,), share))
    found = engine.reduce_rows(sampled, [column], _Keys(column, stream), Facts())
    words, ties = found if found is not None else (np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    return KeyBins.cutting(words, ties, number)


@dataclass(frozen=True, repr=False)
class _Keys:
    """Words and tie words of the records that have a value."""

    column: str
    stream: Stream

    def measure(self, block: RowBlock, facts: Facts) -> tuple[Words, Words]:
        words, known = value_words(block.column(self.column))
        return words[known], tie_words(self.stream, block.record_ids[known])

    def merge(self, left: tuple[Words, Words], right: tuple[Words, Words]) -> tuple[Words, Words]:
        return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])


def bin_counts(engine: Primitives, table: Any, column: str, stream: Stream, bins: KeyBins) -> Ints:
    """How many records with a value each bin holds."""
    counted = engine.reduce_rows(table, [column], _Counts(column, stream, bins), Facts())
    return np.zeros(len(bins), np.int64) if counted is None else counted


@dataclass(frozen=True, repr=False)
class _Counts:
    """Records of each bin."""

    column: str
    stream: Stream
    bins: KeyBins

    def measure(self, block: RowBlock, facts: Facts) -> Ints:
        words, known = value_words(block.column(self.column))
        placed = self.bins.of(words, lambda at: tie_words(self.stream, block.record_ids[at]))
        return np.bincount(placed[known], minlength=len(self.bins))

    def merge(self, left: Ints, right: Ints) -> Ints:
        return left + right


ROWS_PER_RANGE = 500_000
LEAST_ROWS, FEW_RANGES = 125_000, 8
"""Small tables go to so many ranges, to keep several cores busy, while each is worth a task."""
BINS_PER_RANGE, LEAST_BINS = 16, 1024


@dataclass(frozen=True, repr=False)
class RankRanges:
    """Ranges of consecutive ranks, each of whole bins.

    Parameters
    ----------
    bins : KeyBins
    starts : ndarray of int64, shape (n_bins + 1,)
        Rank of the first record of each bin, and the number of ranks.
    first : ndarray of int64, shape (n_ranges + 1,)
        First bin of each range, and the number of bins.
    reached : ndarray of int64, shape (n_ranges, 2)
        The bins that hold all ranks which a range's ranks may receive from: the first, and the one after the last.
    """

    bins: KeyBins
    starts: Ints
    first: Ints
    reached: Ints

    @classmethod
    def of(cls, bins: KeyBins, counts: Ints, exchange: RankExchange, number: int) -> RankRanges:
        """At most so many ranges of about one size."""
        starts = np.concatenate([[0], np.cumsum(counts)])
        targets = starts[-1] * np.arange(1, number) // number
        cuts = np.searchsorted(starts, targets)
        cuts = np.unique(cuts[(cuts > 0) & (cuts < len(bins))])
        first = np.concatenate([[0], cuts, [len(bins)]])
        low, high = starts[first[:-1]], starts[first[1:]]
        segment, reach = exchange.segment, exchange.reach
        least = np.maximum(low - reach, low // segment * segment)
        most = np.minimum(np.minimum(high + reach, -(-high // segment) * segment), starts[-1])
        reached = np.column_stack([np.searchsorted(starts, least, "right") - 1, np.searchsorted(starts, most)])
        # An empty range, of a column without values, reaches nothing.
        reached[:, 0] = np.minimum(reached[:, 0], first[:-1])
        reached[:, 1] = np.maximum(reached[:, 1], first[1:])
        return cls(bins, starts, first, reached)

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def borders(self) -> Ints:
        """First rank of each range, and the number of ranks; shape (n_ranges + 1,)."""
        return self.starts[self.first]


@dataclass(frozen=True, repr=False)
class RankedColumn:
    """A column cut into ranges.

    Parameters
    ----------
    column : str
    stream : Stream
        Whose order is that of equal values.
    ranges : RankRanges
    is_near : bool
        Whether ranges meet with what is in their reach; else each meets alone, and values are sent on.
    """

    column: str
    stream: Stream
    ranges: RankRanges
    is_near: bool

    def bins(self, cells: pa.Array, ids: Ints) -> tuple[Ints, Bools]:
        """The bin of each record, and which have a value: without one, the bin is any."""
        words, known = value_words(cells)
        return self.ranges.bins.of(words, lambda at: tie_words(self.stream, ids[at])), known

    def keys(self, part: int, pieces: Sequence[pa.RecordBatch], own: int | None = None) -> RangeKeys:
        """The keys that met for a range.

        Parameters
        ----------
        part : int
        pieces : sequence of pyarrow.RecordBatch
            At least one; each the value and the two words of the id.
        own : int, optional
            How many of them must be the range's, where that is known.

        Raises
        ------
        DataError
            They are not as many as were counted.
        """
        ranges = self.ranges
        low, high = ranges.borders[[part, part + 1]].tolist()
        first, last = ranges.starts[ranges.reached[part]].tolist()
        keys = joined(pieces)
        if len(keys) != last - first or own not in (None, high - low):
            raise another_table(self.column)
        ids = np.column_stack([keys.column(at).to_numpy() for at in (1, 2)])
        return RangeKeys(self.column, low, high, first, keys.column(0), in_order(keys.column(0), ids, self.stream))


def ranked_column(
    engine: Engine,
    table: Any,
    column: str,
    stream: Stream,
    exchange: RankExchange,
    most: int,
) -> RankedColumn:
    """A column with as many values as `exchange` has ranks, cut into ranges.

    A range has about `most` records at most, and `ROWS_PER_RANGE`.

    Raises
    ------
    DataError
        The column has another number of values.
    UnsupportedError
        Its values are neither numbers nor dates.
    """
    kind = table.schema.field(column).type
    if not is_countable(kind):
        raise UnsupportedError(
            f"{engine.name} engine: column {column!r} holds {kind}, and numbers, dates and timestamps are exchanged by "
            "rank; use the embedded engine, or leave this column out"
        )
    records, most = exchange.records, min(most, ROWS_PER_RANGE)
    is_near = exchange.reach <= most
    if not is_near:
        exchange = replace(exchange, segment=max(records, 1), reach=0)
    number = max(-(-records // most), min(-(-records // LEAST_ROWS), FEW_RANGES))
    if number <= 1:
        none = np.zeros(0, np.uint64)
        ranges = RankRanges.of(KeyBins(none, none), np.array([records]), exchange, 1)
        return RankedColumn(column, stream, ranges, is_near)
    bins = bins_of(engine, table, column, stream, records, max(BINS_PER_RANGE * number, LEAST_BINS))
    counts = bin_counts(engine, table, column, stream, bins)
    if int(counts.sum()) != records:
        raise another_table(column)
    return RankedColumn(column, stream, RankRanges.of(bins, counts, exchange, number), is_near)


@dataclass(frozen=True, repr=False)
class RangeKeys:
    """The values that met for a range, and their order.

    Parameters
    ----------
    column : str
    low, high : int
        The ranks low .. high - 1 are the range's.
    first : int
        Rank of the least value that met.
    cells : pyarrow.Array, shape (n,)
        Values as they came.
    order : ndarray of int64, shape (n,)
        Their positions by rank.
    """

    column: str
    low: int
    high: int
    first: int
    cells: pa.Array
    order: Ints
    ranks: Ints = field(init=False)

    def __post_init__(self) -> None:
        ranks = np.empty(len(self.order), np.int64)
        ranks[self.order] = np.arange(self.first, self.first + len(self.order))
        object.__setattr__(self, "ranks", ranks)

    @property
    def own(self) -> Bools:
        """Which of the values are of the range's records, shape (n,)."""
        return (self.ranks >= self.low) & (self.ranks < self.high)

    def received(self, pi: Ints) -> pa.Array:
        """What each of the range's records receives, in the order in which these came.

        Parameters
        ----------
        pi : ndarray, shape (high - low,)
            Of the ranks low .. high - 1, all in reach.
        """
        given = pi[self.ranks[self.own] - self.low].astype(np.int64) - self.first
        return unsigned_zeros(self.cells.take(pa.array(self.order[given])))

    def sent(self, receivers: Ints, borders: Ints) -> tuple[pa.RecordBatch, Ints]:
        """The values with the rank that receives each, by range, and where those of each range begin and end.

        Parameters
        ----------
        receivers : ndarray, shape (high - low,)
            Ranks that receive the values of the ranks low .. high - 1.
        borders : ndarray of int64, shape (n_ranges + 1,)
        """
        by_rank = np.argsort(receivers)
        ranks = receivers[by_rank].astype(np.int64)
        values = self.cells.take(pa.array(self.order[by_rank]))
        return pa.record_batch([pa.array(ranks), values], schema=sent_schema(values.type)), np.searchsorted(
            ranks, borders
        )

    def given(self, pieces: Sequence[pa.RecordBatch]) -> pa.Array:
        """As `received`, of the values that were sent to the range.

        Raises
        ------
        DataError
            They are not one for each of its ranks.
        """
        sent = joined(pieces) if pieces else pa.RecordBatch.from_pylist([], sent_schema(self.cells.type))
        ranks = sent.column(0).to_numpy()
        by_rank = np.argsort(ranks)
        if not np.array_equal(ranks[by_rank], np.arange(self.low, self.high)):
            raise another_table(self.column)
        return unsigned_zeros(sent.column(1).take(pa.array(by_rank[self.ranks - self.low])))


def sent_schema(kind: pa.DataType) -> pa.Schema:
    """Of values on their way: the rank of the receiver and the value."""
    return pa.schema([("rank", pa.int64()), ("value", kind)])


def in_order(cells: pa.Array, ids: Ints, stream: Stream) -> Ints:
    """Positions of the records, all with a value, by (value, keyed order, id)."""
    if pt.is_decimal(cells.type):
        low, high = decimal_limbs(cells)
        return np.lexsort((ids[:, 1], ids[:, 0], stream.order(ids), low.view(np.uint64), high))

    def settled(positions: Ints) -> Ints:
        return positions[np.lexsort((ids[positions, 1], ids[positions, 0]))]

    with ThreadPoolExecutor(1) as pool:
        positions, _ = positions_by_value(value_words(cells)[0], lambda: tie_words(stream, ids), settled, pool)
    return positions.astype(np.int64)


@dataclass(frozen=True, repr=False)
class Permutations:
    """An exchange in chunks of whole segments, each long enough to be worth a task.

    Parameters
    ----------
    exchange : RankExchange
    is_near : bool
        Whether ranks are given their donors (see `RangeKeys.received`), or their receivers (see `RangeKeys.sent`).
    """

    exchange: RankExchange
    is_near: bool

    @property
    def length(self) -> int:
        """Ranks of a chunk; the last one may be shorter."""
        return max(-(-LEAST_ROWS // self.exchange.segment), 1) * self.exchange.segment

    def chunk(self, number: int) -> NDArray[Any]:
        """Of the ranks of a chunk, its donors or receivers."""
        exchange = self.exchange
        start = number * self.length
        stop = min(start + self.length, exchange.records)
        found: NDArray[Any] = np.empty(stop - start, np.int32 if exchange.records < 2**31 else np.int64)
        for segment in range(start // exchange.segment, -(-stop // exchange.segment)):
            at = segment * exchange.segment
            pi = exchange.of_segment(segment)
            if self.is_near:
                found[at - start : at - start + len(pi)] = pi
            else:
                found[pi - start] = np.arange(at, at + len(pi))
        return found

    def slices(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """The chunks that make up the ranks low .. high - 1, and of each the first place and the one after the last.

        Examples
        --------
        >>> import numpy as np
        >>> halves = RankExchange(500_000, 250_000, 9, lambda start, stop: np.arange(start, stop))
        >>> Permutations(halves, True).slices(100_000, 300_000)
        [(0, 100000, 250000), (1, 0, 50000)]
        """
        length = self.length
        numbers = range(low // length, -(-high // length))
        return [(at, max(low - at * length, 0), min(high - at * length, length)) for at in numbers]


def another_table(column: str) -> DataError:
    """What is wrong where a column has not the values that were planned for."""
    return DataError(f"the plan was made for another table: column {column!r} has a different number of values")
