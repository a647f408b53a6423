"""Quality models with a figure a column: their aggregate, exactly and as a bound."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.quality_spec import LossSpec
from privpipe.kernels.quality.aggregate import aggregated, aggregated_levels, normalised, own_loss
from privpipe.kernels.quality.model import Forced
from privpipe.kernels.quality.table import CodedTable

__all__ = ["ColumnModel", "Floats", "ForcedColumn", "Model"]

Floats = NDArray[np.float64]


class Model:
    """What all quality models share.

    Parameters
    ----------
    table : CodedTable
    spec : LossSpec
    budget : int, optional
        Records that may be suppressed, those with an unknown value included; default: all.
    least_class : int
        Records of the smallest class, over all columns, that is ever kept.
    """

    width = 1
    closed_form = False

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        self.table = table
        self.spec = spec
        self.budget = table.records if budget is None else max(budget, table.unknown)
        self._last: tuple[NDArray[np.bool_], Floats, int] | None = None
        self.least_class = least_class
        self.shares = [
            [hierarchy.shares(level) for level in range(hierarchy.height + 1)] for hierarchy in table.hierarchies
        ]

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """As `bounds`."""
        return self.bounds(nodes)

    def bounds(self, nodes: NDArray[np.int16]) -> Floats:
        """A lower bound of each node's loss."""
        raise TypeError(f"{type(self).__name__} gives no bounds")

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """None: suppression may cost more than the root."""
        return None

    def own(self, keys: Sequence[str], levels: Sequence[int], rows: NDArray[np.int64]) -> Floats:
        """Own loss of some combinations' classes over some keys, shape (n, r): Iyengar's of a kept record of it."""
        columns = [column for column in self.table.columns if column in keys]
        each = np.empty((len(rows), len(columns)))
        for to, column in enumerate(columns):
            at = self.table.places[column]
            unit = normalised(self.shares[at][levels[at]], self.table.hierarchies[at].domain_size, self.spec)
            each[:, to] = unit[self.table.codes[rows, at]]
        return own_loss(each, columns, self.spec)

    def records_of(self, rows: NDArray[np.bool_]) -> int:
        """Suppressed records: those of some combinations, and those with an unknown value."""
        return int(self.table.rows.counts[rows].sum()) + self.table.unknown

    def marginal(self, at: int, rows: slice | NDArray[np.intp]) -> Floats:
        """Records of each leaf of a column among some combinations."""
        leaves = len(self.table.hierarchies[at].values)
        weights = self.table.rows.counts[rows].astype(np.float64)
        return np.bincount(self.table.codes[rows, at], weights=weights, minlength=leaves).astype(np.float64)

    def lost(self, gone: NDArray[np.bool_]) -> tuple[list[Floats], int]:
        """Records of each leaf of each column among some combinations, and of all suppressed."""
        totals, suppressed = self.lost_leaves(gone)
        return self._by_column(totals), suppressed

    def lost_leaves(self, gone: NDArray[np.bool_]) -> tuple[Floats, int]:
        """As `lost`, the leaves of all columns after one another; one pass a mask."""
        if self._last is None or self._last[0] is not gone:
            totals = self._totals(gone)
            first = totals[: len(self.table.hierarchies[0].values)] if self.table.columns else None
            suppressed = self.records_of(gone) if first is None else int(first.sum()) + self.table.unknown
            self._last = gone, totals, suppressed
        return self._last[1], self._last[2]

    def _totals(self, gone: NDArray[np.bool_] | None) -> Floats:
        leaves = sum(len(hierarchy.values) for hierarchy in self.table.hierarchies)
        # Columns that stay as they are come last.
        return self.table.packed.totals(self.table.rows.counts, gone)[:leaves].astype(np.float64)

    def _by_column(self, totals: Floats) -> list[Floats]:
        ends = np.cumsum([0, *(len(hierarchy.values) for hierarchy in self.table.hierarchies)]).tolist()
        return [totals[start:end] for start, end in itertools.pairwise(ends)]

    @cached_property
    def marginals(self) -> list[Floats]:
        """Records of each leaf of each column."""
        return self._by_column(self._totals(None))


@dataclass(frozen=True)
class ForcedColumn:
    """What is suppressed below a checked node, seen from one column.

    Parameters
    ----------
    lost : ndarray of float64, shape (leaves,)
        Records of each leaf that surely go.
    records : float
        Records that surely go in all, those with an unknown value included.
    shares : ndarray of float64, shape (c,)
        Of each class that goes in part: the largest share of its labels at the checked node.
    parts : ndarray of float64, shape (c,)
        Records of each of these that surely go.
    """

    lost: Floats = field(repr=False)
    records: float
    shares: Floats = field(repr=False)
    parts: Floats = field(repr=False)


class ColumnModel(Model):
    """A figure a column, aggregated under the columns' weights.

    Subclasses give `figure` (exact), `least` (a lower bound, at best the figure with nothing suppressed) and, where
    more can be said below a checked node, `least_below`.
    """

    closed_form = True

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        super().__init__(table, spec, budget, least_class)
        self.aggregate = spec.aggregate or "sum"
        self.width = len(table.columns) if self.aggregate == "rank" else 1
        self.weights = spec.weights_of(table.columns)
        self.prepare()
        self._least = [
            np.array([self.least(at, level) for level in range(hierarchy.height + 1)])
            for at, hierarchy in enumerate(table.hierarchies)
        ]

    def prepare(self) -> None:
        """Work out what every figure needs."""

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        """u of one column at a level, from the suppressed records of each leaf and their number in all."""
        raise TypeError(f"{type(self).__name__} gives no figure")

    def least(self, at: int, level: int) -> float:
        """A lower bound of u, whatever is suppressed."""
        raise TypeError(f"{type(self).__name__} gives no bound")

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        """A lower bound of u at a level not above the checked node's."""
        return float(self._least[at][level])

    def exact(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> tuple[tuple[float, ...], list[float]]:
        """Loss of a node with these combinations suppressed, and each column's u."""
        lost, suppressed = self.lost(gone)
        columns = [self.figure(at, level, lost[at], suppressed) for at, level in enumerate(levels)]
        return tuple(aggregated(np.array([columns]) * self.weights, self.aggregate)[0].tolist()), columns

    def bounds(self, nodes: NDArray[np.int16]) -> Floats:
        """A lower bound of each node's loss, shape (M, 1), under `rank` (M, m), from the columns' own bounds."""
        return self._of(nodes, self._least)

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """`bounds`, sharpened by what surely goes below a checked node."""
        parts = [(rows, records) for rows, records in forced.partial if records > 0 and len(rows)]
        rows = np.concatenate([rows for rows, _ in parts]) if parts else np.zeros(0, dtype=np.int64)
        starts = np.cumsum([0, *(len(rows) for rows, _ in parts)])[:-1]
        sure = np.array([records for _, records in parts], dtype=np.float64)
        lost, suppressed = self.lost(forced.gone)
        total = float(suppressed) + float(sure.sum())
        seen = []
        for at, top in enumerate(forced.levels):
            labels = self.shares[at][top][self.table.codes[rows, at]]
            shares = np.maximum.reduceat(labels, starts) if parts else np.zeros(0)
            seen.append(ForcedColumn(lost[at], total, shares, sure))
        return self._of(nodes, self.sharper(forced.levels, seen))

    def sharper(self, levels: Sequence[int], seen: Sequence[ForcedColumn]) -> list[Floats]:
        """Lower bounds of each column's u by level, for specializations of a checked node."""
        least = []
        for at, top in enumerate(levels):
            sharper = self._least[at].copy()
            for level in range(top + 1):
                sharper[level] = max(sharper[level], self.least_below(at, level, seen[at]))
            least.append(sharper)
        return least

    def _of(self, nodes: NDArray[np.int16], least: Sequence[Floats]) -> Floats:
        figures = np.zeros((len(least), max((len(each) for each in least), default=0)))
        for at, each in enumerate(least):
            figures[at, : len(each)] = each * self.weights[at]
        return self._aggregated(nodes, figures)

    def _aggregated(self, nodes: NDArray[np.int16], figures: Floats) -> Floats:
        """Aggregate of each node's weighted figures, given by column and level."""
        return aggregated_levels(nodes, figures, self.aggregate)
