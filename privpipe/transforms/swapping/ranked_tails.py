"""Tails of a near-unique column: their exact sizes, borders and means without a histogram of the column.

A sample brackets each border, one pass counts what lies below the bracket and collects what lies in it. The tails then
stand aside while the other values are exchanged by rank, and receive their mean afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.transforms.numeric import written

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.kernels.sums.exact import ExactSums

__all__ = ["TAIL", "Averaged", "SampledColumn", "TailBorders", "TailsRemoved", "tail_borders", "tail_means"]

TAIL = "__privpipe_tail"
BOTTOM, TOP = 1, 2
SAMPLED = 1 << 15
DEVIATIONS = 6.0

Border = float | int | None


@dataclass(frozen=True, repr=False)
class TailBorders:
    """The tails of a column.

    Parameters
    ----------
    bottom, top : int
        Records of each, ties at the borders among them.
    below, above : number, optional
        The largest value of the lower tail and the least of the upper one, in units of the column; None without.
    """

    bottom: int
    top: int
    below: Border = field(default=None, repr=False)
    above: Border = field(default=None, repr=False)

    def of(self, array: pa.Array, column: str) -> NDArray[np.int64]:
        """The tail of each record, 0 for none."""
        values, known, _ = _known(array, column)
        found = np.zeros(len(values), np.int64)
        if self.above is not None:
            found[known & (values >= self.above)] = TOP
        # The lower tail takes a value that is in both, as it is cut first.
        if self.below is not None:
            found[known & (values <= self.below)] = BOTTOM
        return found


def tail_borders(engine: Primitives, table: Any, column: str, records: int, bottom: int, top: int) -> TailBorders:
    """The tails that so many of the smallest and of the largest values make, of a column with `records` values."""
    sample = engine.reduce_rows(table, [column], SampledColumn(column), Facts())
    values = np.sort(sample[1]) if sample is not None else np.zeros(0)
    ranks = [rank for rank, wanted in ((bottom - 1, bottom), (records - top, top)) if wanted]
    found = dict(zip(ranks, _at_ranks(engine, table, column, records, ranks, values), strict=True))
    low, below = 0, None
    if bottom:
        below, less, equal = found[bottom - 1]
        low = less + equal
    high, above = 0, None
    if top:
        above, less, _ = found[records - top]
        high = records - less
    return TailBorders(low, min(high, records - low), below, above)


def _at_ranks(
    engine: Primitives, table: Any, column: str, records: int, ranks: list[int], sample: NDArray[Any]
) -> list[tuple[Any, int, int]]:
    """The value at each rank, how many values are less, and how many equal it."""
    brackets = tuple(_bracket(rank, records, sample) for rank in ranks)
    counted = engine.reduce_rows(table, [column], _Counts(column, brackets), Facts())
    found = [_in_bracket(rank, *each) for rank, each in zip(ranks, counted or [], strict=True)]
    # A bracket misses its rank once in a thousand million; then everything is counted.
    return [each or _at_ranks(engine, table, column, records, [rank], sample[:0])[0]
            for rank, each in zip(ranks, found, strict=True)]  # fmt: skip


def _bracket(rank: int, records: int, sample: NDArray[Any]) -> tuple[Any, Any]:
    """Two values that a rank lies between, None for no limit."""
    size, share = len(sample), rank / max(records, 1)
    width = DEVIATIONS * math.sqrt(size * share * (1 - share)) + 2
    first, last = math.floor(size * share - width), math.ceil(size * share + width)
    return (sample[first] if first >= 0 else None), (sample[last] if last < size else None)


def _in_bracket(rank: int, less: int, values: NDArray[Any], counts: NDArray[np.int64]) -> tuple[Any, int, int] | None:
    ends = less + np.cumsum(counts)
    if rank < less or not len(ends) or rank >= ends[-1]:
        return None
    at = int(np.searchsorted(ends, rank, side="right"))
    return values[at].item(), int(ends[at] - counts[at]), int(counts[at])


def _known(array: pa.Array, column: str) -> tuple[NDArray[Any], NDArray[np.bool_], int]:
    from privpipe.kernels.columns.scaled_numbers import scaled_numbers

    values, gaps, scale = scaled_numbers(array, column)
    known = ~np.isnan(values)
    return values + 0, known if gaps is None else known & ~gaps, scale


@dataclass(frozen=True)
class SampledColumn:
    """The values of the records with the least ids, which are as good as random, and those ids.

    Parameters
    ----------
    column : str
    """

    column: str

    def measure(self, block: RowBlock, facts: Facts) -> tuple[NDArray[np.int64], NDArray[Any]]:
        values, known, _ = _known(block.column(self.column), self.column)
        return _least(block.record_ids[known, 0], values[known])

    def merge(self, left: Any, right: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
        return _least(np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]]))


def _least(ids: NDArray[np.int64], values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    if len(ids) <= SAMPLED:
        return ids, values
    kept = np.argpartition(ids, SAMPLED)[:SAMPLED]
    return ids[kept], values[kept]


@dataclass(frozen=True)
class _Counts:
    """For each bracket: how many values are below it, and the values in it with their counts."""

    column: str
    brackets: tuple[tuple[Any, Any], ...] = field(repr=False)

    def measure(self, block: RowBlock, facts: Facts) -> list[tuple[int, NDArray[Any], NDArray[np.int64]]]:
        values, known, _ = _known(block.column(self.column), self.column)
        values = values[known]
        found = []
        for low, high in self.brackets:
            inside = np.ones(len(values), np.bool_) if low is None else values >= low
            less = len(values) - int(inside.sum())
            if high is not None:
                inside &= values <= high
            distinct, counts = np.unique(values[inside], return_counts=True)
            found.append((less, distinct, counts.astype(np.int64)))
        return found

    def merge(self, left: list[Any], right: list[Any]) -> list[tuple[int, NDArray[Any], NDArray[np.int64]]]:
        return [self._both(a, b) for a, b in zip(left, right, strict=True)]

    def _both(self, left: Any, right: Any) -> tuple[int, NDArray[Any], NDArray[np.int64]]:
        values, places = np.unique(np.concatenate([left[1], right[1]]), return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, places, np.concatenate([left[2], right[2]]))
        return left[0] + right[0], values, counts


def tail_means(engine: Primitives, table: Any, column: str, borders: TailBorders) -> dict[int, float]:
    """The mean of each tail, rounded once; dates in days, timestamps in microseconds."""
    sums = engine.reduce_rows(table, [column], _TailSums(column, borders), Facts()) or {}
    return {tail: each.mean() for tail, each in sums.items() if each.count}


@dataclass(frozen=True)
class _TailSums:
    column: str
    borders: TailBorders = field(repr=False)

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, ExactSums]:
        from privpipe.kernels.sums.exact import measure_sums

        array = block.column(self.column)
        values, _, scale = _known(array, self.column)
        tails = self.borders.of(array, self.column)
        return {tail: measure_sums([values[tails == tail]], [None], [scale]) for tail in (BOTTOM, TOP)}

    def merge(self, left: dict[int, ExactSums], right: dict[int, ExactSums]) -> dict[int, ExactSums]:
        return {tail: left[tail].merge(right[tail]) for tail in left}


@dataclass(frozen=True)
class TailsRemoved:
    """Rows with the column `TAIL`, and nothing in place of the values of the tails."""

    column: str
    borders: TailBorders = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = rows.column(self.column)
        tails = self.borders.of(array, self.column)
        rows = rows.replace(self.column, pc.if_else(pa.array(tails > 0), pa.scalar(None, array.type), array))
        return RowBlock(rows.batch.append_column(TAIL, pa.array(tails)), rows.record_ids)


@dataclass(frozen=True)
class Averaged:
    """Rows of `TailsRemoved` with the mean of its tail for each record of one, in the released type."""

    column: str
    means: dict[int, float] = field(repr=False)
    target: Any

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        tails = rows.column(TAIL).to_numpy(zero_copy_only=False)
        found = rows.column(self.column).cast(self.target, safe=False)
        for tail, mean in self.means.items():
            figure = written(np.array([mean]), self.target, column=self.column)[0]
            found = pc.if_else(pa.array(tails == tail), figure, found)
        return rows.drop([TAIL]).replace(self.column, found)
