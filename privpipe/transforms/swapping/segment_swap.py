"""Rank swapping by parts: segment by segment for near-unique columns, stratum by stratum with `by`.

No pair of partners lies across the border of a segment, so a segment is swapped where its records are, and no copy of
the column goes to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Histogram, Primitives, RowBlock, unsigned_zeros
from privpipe.tolerance import floor_share
from privpipe.transforms.swapping.sorted_values import SortedValues, Swapped, tails

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws, Stream
    from privpipe.transforms.strata import Strata

__all__ = ["SegmentPermutation", "SwappedStrata", "Swapping", "WholePermutation", "is_near_unique", "local_order"]

MOST_VALUES = 1_000_000
"""Distinct values that the driver takes a histogram of."""
ONE_IN = 256


def is_near_unique(engine: Primitives, table: Any, column: str, records: int) -> bool:
    """Whether a column has more distinct values than a driver should hold; estimated from a keyless sample of values.

    A value is in the sample by its hash, so that equal values are in it together, wherever they lie.
    """
    if records <= MOST_VALUES:
        return False
    sampled = engine.reduce_rows(table, [column], _SampledValues(column), Facts())
    return sampled is not None and len(sampled) * ONE_IN > MOST_VALUES


@dataclass(frozen=True)
class _SampledValues:
    """Hashes of the distinct values that one in `ONE_IN` hashes fall to."""

    column: str

    def measure(self, block: RowBlock, facts: Facts) -> NDArray[np.uint64]:
        from privpipe.kernels.columns.scaled_numbers import scaled_numbers

        values, _, _ = scaled_numbers(block.column(self.column), self.column)
        # Steele, Lea, Flood, OOPSLA 2014: a mixer, for no secret depends on the sample.
        words = np.ascontiguousarray(values).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words ^= words >> np.uint64(31)
        return np.unique(words[words < np.uint64(2**64 // ONE_IN)])

    def merge(self, left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return np.union1d(left, right)


@dataclass(frozen=True)
class SegmentPermutation:
    """Which rank of a segment gives its value to which."""

    stream: Stream = field(repr=False)
    window: int
    partner: Any

    def __call__(self, start: int, stop: int) -> NDArray[np.int64]:
        from privpipe.kernels.swapping.window import swap_segment

        return swap_segment(start, stop, self.window, self.stream, partner=self.partner)


class Swapping(Protocol):
    """What a stage says of the swap: its columns, the shares of its tails, its window, and pi between the tails."""

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

    def __call__(self, start: int, stop: int) -> NDArray[np.int64]:
        pi = self.stage.permutation(self.records, self.window, self.stream)
        return np.asarray(pi[start:stop], np.int64)


def local_order(column: pa.Array, name: str, stream: Stream, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of the records with a value by (value, keyed order, id): the global order, where all rows are here."""
    from privpipe.kernels.columns.scaled_numbers import scaled_numbers

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
