"""Rank swapping by parts: columns in the order of their values, swapped segment by segment or stratum by stratum."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Histogram, Primitives, RowBlock, unsigned_zeros
from privpipe.blocks.arrays import Ints, Words
from privpipe.tolerance import floor_share
from privpipe.transforms.numeric_columns import written

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws, Stream
    from privpipe.transforms.strata import Strata

__all__ = [
    "SegmentPermutation",
    "SortedValues",
    "Swapped",
    "SwappedStrata",
    "Swapping",
    "WholePermutation",
    "is_beyond_driver",
    "local_order",
    "tails",
]


def tails(histogram: Histogram, bottom: int, top: int) -> tuple[int, int]:
    """Records in the lower and upper tail once ties at the borders have joined.

    Examples
    --------
    >>> import pyarrow as pa
    >>> tails(Histogram(pa.array([1, 2, 9]), np.array([1, 2, 1])), 2, 1)
    (3, 1)
    """
    counts = histogram.counts[: len(histogram.counts) - (1 if histogram.nulls else 0)]
    below = np.cumsum(counts)
    above = np.cumsum(counts[::-1])
    low = int(below[np.searchsorted(below, bottom)]) if bottom else 0
    high = int(above[np.searchsorted(above, top)]) if top else 0
    return low, min(high, int(counts.sum()) - low)


@dataclass(frozen=True)
class SortedValues:
    """A column in ascending order, run by run: value number i has ranks offsets[i] .. offsets[i + 1] - 1."""

    values: pa.Array = field(repr=False)
    offsets: Ints = field(repr=False)

    @classmethod
    def of(cls, histogram: Histogram) -> Self:
        """The sorted column of a histogram, without nulls."""
        known = len(histogram) - (1 if histogram.nulls else 0)
        offsets = np.concatenate([[0], np.cumsum(histogram.counts[:known])]).astype(np.int64)
        return cls(histogram.values.slice(0, known), offsets)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def at(self, ranks: Ints) -> pa.Array:
        """The values at these ranks; null where a rank is negative."""
        import pyarrow as pa

        runs = np.searchsorted(self.offsets, ranks, side="right") - 1
        return self.values.take(pa.array(np.maximum(runs, 0), mask=ranks < 0))

    def mean(self, start: int, stop: int) -> float:
        """Mean of the values at ranks start .. stop - 1, rounded once; dates in days, timestamps in microseconds."""
        import pyarrow as pa

        taken = np.clip(np.minimum(self.offsets[1:], stop) - np.maximum(self.offsets[:-1], start), 0, None)
        places = np.flatnonzero(taken)
        values = self.values.take(pa.array(places))
        if pa.types.is_date(values.type):
            values = values.cast(pa.int32())
        elif pa.types.is_timestamp(values.type):
            values = values.cast(pa.int64())
        weights = taken[places].tolist()
        total = sum((Fraction(v) * w for v, w in zip(values.to_pylist(), weights, strict=True)), Fraction(0))
        return float(total / (stop - start))


@dataclass(frozen=True)
class Swapped:
    """A function of one block with the ranks of `column`: the values of its records' partners."""

    column: str
    permutation: NDArray[Any] = field(repr=False)
    values: SortedValues = field(repr=False)
    bottom: int
    top: int
    target: Any

    def __call__(self, rows: RowBlock, ranks: Ints) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        first_top = len(self.values) - self.top
        inner = (ranks >= self.bottom) & (ranks < first_top)
        partner = ranks.copy()
        partner[inner] = self.permutation[ranks[inner] - self.bottom] + self.bottom
        found = self.values.at(partner).cast(self.target, safe=False)
        for tail, start, stop in (
            ((ranks >= 0) & (ranks < self.bottom), 0, self.bottom),
            (ranks >= first_top, first_top, len(self.values)),
        ):
            if tail.any():
                mean = written(np.array([self.values.mean(start, stop)]), self.target, column=self.column)[0]
                found = pc.if_else(pa.array(tail), mean, found)
        return rows.replace(self.column, found)


MOST_VALUES = 1_000_000
"""Distinct values that the driver takes a histogram of; records, where ranks are forwarded."""
ONE_IN = 256


def is_beyond_driver(engine: Primitives, table: Any, column: str, records: int) -> bool:
    """Whether a column is swapped without a histogram, or a permutation of all ranks, in the driver.

    On engines that forward ranks every long column is. On others, which pay for it, one with more distinct values than
    a driver should hold; estimated from a keyless sample, in which a value is by its hash: equal values are in it
    together, wherever they are.
    """
    if records <= MOST_VALUES or engine.forwards_ranks:
        return records > MOST_VALUES
    sampled = engine.reduce_rows(table, [column], _SampledValues(column), Facts())
    return sampled is not None and len(sampled) * ONE_IN > MOST_VALUES


@dataclass(frozen=True)
class _SampledValues:
    """Hashes of the distinct values that one in `ONE_IN` hashes fall to."""

    column: str

    def measure(self, block: RowBlock, facts: Facts) -> Words:
        from privpipe.kernels.columns.cell_words import scaled_numbers

        values, _, _ = scaled_numbers(block.column(self.column), self.column)
        # Steele, Lea, Flood, OOPSLA 2014: a mixer, for no secret depends on the sample.
        words = np.ascontiguousarray(values).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words ^= words >> np.uint64(31)
        return np.unique(words[words < np.uint64(2**64 // ONE_IN)])

    def merge(self, left: Words, right: Words) -> Words:
        return np.union1d(left, right)


@dataclass(frozen=True)
class SegmentPermutation:
    """Which rank of a segment gives its value to which."""

    stream: Stream = field(repr=False)
    window: int
    partner: Any

    def __call__(self, start: int, stop: int) -> Ints:
        from privpipe.kernels.rank_swapping import swap_segment

        return swap_segment(start, stop, self.window, self.stream, partner=self.partner)


class Swapping(Protocol):
    """What a stage states about the swap: its columns, the shares of its tails, its window, pi between the tails."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def bottom(self) -> float: ...

    @property
    def top(self) -> float: ...

    def window(self, n: int) -> int: ...

    def permutation(self, inner: int, window: int, stream: Stream) -> NDArray[Any]: ...


@dataclass(frozen=True)
class WholePermutation:
    """Which rank gives its value to which, over all ranks between the tails at once."""

    stage: Swapping
    records: int
    window: int
    stream: Stream = field(repr=False)

    def __call__(self, start: int, stop: int) -> Ints:
        pi = self.stage.permutation(self.records, self.window, self.stream)
        return np.asarray(pi[start:stop], np.int64)


def local_order(column: pa.Array, name: str, stream: Stream, ids: Ints) -> Ints:
    """Positions of the records with a value by (value, keyed order, id): the global order, where all rows are here."""
    from privpipe.kernels.columns.cell_words import scaled_numbers

    values, gaps, _ = scaled_numbers(column, name)
    known = ~np.isnan(values) if gaps is None else ~gaps & ~np.isnan(values)
    places = np.flatnonzero(known)
    keys = (ids[places, 1], ids[places, 0], stream.order(ids[places]), values[places] + 0)
    return np.asarray(places[np.lexsort(keys)], np.int64)


@dataclass(frozen=True)
class SwappedStrata:
    """A function of all records of one stratum: each column swapped within it."""

    stage: Swapping
    strata: Strata
    draws: Draws = field(repr=False)
    released: Any

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        if key < 0:
            return rows.take(np.empty(0, np.int64))
        for column in self.stage.columns:
            # A stream a stratum, named by its hashes: strata of one size are not swapped alike.
            keys = [k for k, number in zip(self.strata.keys, self.strata.numbers, strict=True) if number == key]
            stream = self.draws.of(column).child("/".join(map(str, keys)))
            rows = self._swapped(rows, column, stream)
        return rows

    def _swapped(self, rows: RowBlock, column: str, stream: Stream) -> RowBlock:
        array = rows.column(column)
        order = local_order(array, column, stream, rows.record_ids)
        n = len(order)
        ranks = np.full(len(rows), -1, np.int64)
        ranks[order] = np.arange(n)
        held = unsigned_zeros(array.take(order)).dictionary_encode()
        counts = np.bincount(held.indices.to_numpy(zero_copy_only=False), minlength=len(held.dictionary))
        histogram = Histogram(held.dictionary, counts.astype(np.int64))
        low, high = tails(histogram, floor_share(self.stage.bottom, n), floor_share(self.stage.top, n))
        pi = self.stage.permutation(n - low - high, self.stage.window(n), stream)
        target = self.released.field(column).type
        return Swapped(column, pi, SortedValues.of(histogram), low, high, target)(rows, ranks)
