"""A column in the order of its values: its tails, its values by rank, and what partners by rank receive."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Histogram, RowBlock
from privpipe.transforms.numeric import written

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SortedValues", "Swapped", "tails"]


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
    """A column in ascending order, run by run: value number i stands at ranks offsets[i] .. offsets[i + 1] - 1."""

    values: pa.Array = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, histogram: Histogram) -> Self:
        """The sorted column that a histogram stands for, nulls left out."""
        known = len(histogram) - (1 if histogram.nulls else 0)
        offsets = np.concatenate([[0], np.cumsum(histogram.counts[:known])]).astype(np.int64)
        return cls(histogram.values.slice(0, known), offsets)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def at(self, ranks: NDArray[np.int64]) -> pa.Array:
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

    def __call__(self, rows: RowBlock, ranks: NDArray[np.int64]) -> RowBlock:
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
