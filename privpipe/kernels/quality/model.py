"""The interface of a quality model and its two bases: a figure per column, and a figure of whole classes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.quality_spec import Aggregate, LossSpec
from privpipe.kernels.quality.table import CodedTable

__all__ = [
    "SLACK",
    "ColumnModel",
    "Floats",
    "Forced",
    "ForcedColumn",
    "Model",
    "QualityModel",
    "WholeModel",
    "aggregated",
    "aggregated_levels",
    "normalised",
    "own_loss",
    "total",
]


@dataclass(frozen=True)
class Forced:
    """What a checked node implies for all its specializations.

    Parameters
    ----------
    levels : tuple of int
        Levels of the checked node.
    gone : ndarray of bool, shape (t,)
        Combinations of hereditarily failing classes: suppressed at every specialization.
    partial : sequence of (ndarray of int, float)
        For each class that fails by a convex model: combinations of it that show all its labels at these levels, and
        the least number of its records that are suppressed at every specialization. Disjoint from `gone` and from one
        another.
    """

    levels: tuple[int, ...]
    gone: Bools = field(repr=False)
    partial: Sequence[tuple[Ints, float]] = field(default=(), repr=False)


class QualityModel(Protocol):
    """Loss of vectors of levels over one table: a tuple of `width` figures, compared entry by entry.

    Attributes
    ----------
    width : int
        One figure; under the aggregate `rank` one per column.
    closed_form : bool
        Whether `exact` with nothing suppressed equals `bounds` at every node.
    """

    width: int
    closed_form: bool

    def exact(self, levels: Sequence[int], gone: Bools) -> tuple[tuple[float, ...], list[float]]:
        """Loss of a node with these combinations suppressed, and each column's figure."""
        ...

    def bounds(self, nodes: NDArray[np.int16]) -> NDArray[np.float64]:
        """A lower bound of the loss of each node, whatever is suppressed there, shape (M, width)."""
        ...

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> NDArray[np.float64]:
        """A lower bound for specializations of a checked node, at least that of `bounds`, shape (M', width)."""
        ...

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """A lower bound of the first figure for every generalization of a node; None where there is none."""
        ...

    def own(self, keys: Sequence[str], levels: Sequence[int], rows: Ints) -> NDArray[np.float64]:
        """Own loss of some combinations' classes over some keys, shape (n, r): that of a kept record of the class."""
        ...


SAME_DIGITS = 12


def total(figures: NDArray[np.float64]) -> float:
    """Their sum, added one by one in their order: a library's order may differ between machines."""
    return float(np.cumsum(figures)[-1]) if len(figures) else 0.0


def normalised(share: NDArray[np.float64], domain_size: float, loss: LossSpec) -> NDArray[np.float64]:
    """u of a kept record with a label of this share: 0 for a single value of the domain, 1 for all of it."""
    least = loss.g / domain_size
    if least == 1:
        return np.zeros(len(share))
    return np.maximum(0.0, (loss.g * share - least) / (1.0 - least))


def own_loss(each: NDArray[np.float64], columns: Sequence[str], loss: LossSpec) -> NDArray[np.float64]:
    """Aggregate of per-column losses, shape (n, m) to (n, 1); under `rank` to (n, m), the largest first.

    Rounded to twelve digits: rounding errors of a sum must not decide the order of classes. A quality model without an
    aggregate takes the geometric mean.

    Parameters
    ----------
    columns : sequence of str
        Their names, for the weights, which are scaled so that the largest among them is 1.

    Examples
    --------
    >>> own_loss(np.array([[0.0, 1.0]]), ["age", "zip"], LossSpec()).round(4).tolist()
    [[0.4142]]
    >>> own_loss(np.array([[0.5, 1.0]]), ["age", "zip"], LossSpec(aggregate="rank", weights={"age": 4})).tolist()
    [[0.5, 0.25]]
    """
    return np.round(aggregated(each * loss.weights_of(columns), loss.aggregate or "geometric_mean"), SAME_DIGITS)


def aggregated(scaled: NDArray[np.float64], aggregate: Aggregate) -> NDArray[np.float64]:
    """Aggregate of weighted per-column losses, shape (n, m) to (n, 1), under `rank` to (n, m).

    Added and multiplied column by column, so that a row's figure does not depend on its neighbours.
    """
    if aggregate == "rank":
        return -np.sort(-scaled, axis=1)
    n, m = scaled.shape
    total = np.ones(n) if aggregate == "geometric_mean" else np.zeros(n)
    for column in scaled.T:
        if aggregate == "geometric_mean":
            total *= 1.0 + column
        else:
            total = np.maximum(total, column) if aggregate == "max" else total + column
    if aggregate == "geometric_mean":
        total = total ** (1.0 / max(m, 1)) - 1.0
    elif aggregate == "arithmetic_mean":
        total /= max(m, 1)
    return total[:, None]


def aggregated_levels(
    nodes: NDArray[np.int16], figures: NDArray[np.float64], aggregate: Aggregate
) -> NDArray[np.float64]:
    """`aggregated` of vectors of levels whose weighted losses are given by column and level, to the last bit.

    Parameters
    ----------
    nodes : ndarray of int16, shape (n, m)
    figures : ndarray of float64, shape (m, levels)

    Examples
    --------
    >>> nodes, figures = np.array([[0, 1], [1, 1]], dtype=np.int16), np.array([[0.0, 0.5], [0.25, 1.0]])
    >>> aggregated_levels(nodes, figures, "sum").ravel().tolist()
    [1.0, 1.5]
    """
    from privpipe.kernels.lattice.vectors import products

    n, m = nodes.shape
    if aggregate == "geometric_mean":
        total = products(nodes, figures)
        found: NDArray[np.float64] = total ** (1.0 / max(m, 1)) - 1.0
        return found[:, None]
    columns = np.empty((n, m), dtype=np.float64)
    for at, each in enumerate(figures):
        columns[:, at] = each[nodes[:, at]]
    return aggregated(columns, aggregate)


Floats = NDArray[np.float64]


class Model:
    """Base class of all quality models.

    Parameters
    ----------
    table : CodedTable
    spec : LossSpec
    budget : int, optional
        Records that may be suppressed, those with an unknown value included; default: all.
    least_class : int
        Least number of records of a kept class over all columns.
    """

    width = 1
    closed_form = False

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        self.table = table
        self.spec = spec
        self.budget = table.records if budget is None else max(budget, table.unknown)
        self._last: tuple[Bools, Floats, int] | None = None
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

    def own(self, keys: Sequence[str], levels: Sequence[int], rows: Ints) -> Floats:
        """Own loss of some combinations' classes over some keys, shape (n, r): Iyengar's loss of a kept record."""
        columns = [column for column in self.table.columns if column in keys]
        each = np.empty((len(rows), len(columns)))
        for to, column in enumerate(columns):
            at = self.table.places[column]
            unit = normalised(self.shares[at][levels[at]], self.table.hierarchies[at].domain_size, self.spec)
            each[:, to] = unit[self.table.codes[rows, at]]
        return own_loss(each, columns, self.spec)

    def records_of(self, rows: Bools) -> int:
        """Suppressed records: those of some combinations, and those with an unknown value."""
        return int(self.table.rows.counts[rows].sum()) + self.table.unknown

    def marginal(self, at: int, rows: slice | NDArray[np.intp]) -> Floats:
        """Records of each leaf of a column among some combinations."""
        leaves = len(self.table.hierarchies[at].values)
        weights = self.table.rows.counts[rows].astype(np.float64)
        return np.bincount(self.table.codes[rows, at], weights=weights, minlength=leaves).astype(np.float64)

    def lost(self, gone: Bools) -> tuple[list[Floats], int]:
        """Records of each leaf of each column among some combinations, and of all suppressed."""
        totals, suppressed = self.lost_leaves(gone)
        return self._by_column(totals), suppressed

    def lost_leaves(self, gone: Bools) -> tuple[Floats, int]:
        """As `lost`, with the leaves of all columns concatenated; one pass per mask."""
        if self._last is None or self._last[0] is not gone:
            totals = self._totals(gone)
            first = totals[: len(self.table.hierarchies[0].values)] if self.table.columns else None
            suppressed = self.records_of(gone) if first is None else int(first.sum()) + self.table.unknown
            self._last = gone, totals, suppressed
        return self._last[1], self._last[2]

    def _totals(self, gone: Bools | None) -> Floats:
        leaves = sum(len(hierarchy.values) for hierarchy in self.table.hierarchies)
        # Fixed columns come last.
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
    """Suppression below a checked node, as it affects one column.

    Parameters
    ----------
    lost : ndarray of float64, shape (leaves,)
        Records of each leaf that are certainly suppressed.
    records : float
        Total of records that are certainly suppressed, including those with an unknown value.
    shares : ndarray of float64, shape (c,)
        For each class that is suppressed in part: the largest share of its labels at the checked node.
    parts : ndarray of float64, shape (c,)
        Records of each of these classes that are certainly suppressed.
    """

    lost: Floats = field(repr=False)
    records: float
    shares: Floats = field(repr=False)
    parts: Floats = field(repr=False)


class ColumnModel(Model):
    """One figure per column, aggregated under the columns' weights.

    Subclasses define `figure` (exact), `least` (a lower bound, at best the figure with nothing suppressed) and, where a
    checked node allows a sharper bound for its specializations, `least_below`.
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
        """Compute what every figure needs."""

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        """u of one column at a level, from the suppressed records of each leaf and their total."""
        raise TypeError(f"{type(self).__name__} gives no figure")

    def least(self, at: int, level: int) -> float:
        """A lower bound of u, whatever is suppressed."""
        raise TypeError(f"{type(self).__name__} gives no bound")

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        """A lower bound of u at a level not above the checked node's."""
        return float(self._least[at][level])

    def exact(self, levels: Sequence[int], gone: Bools) -> tuple[tuple[float, ...], list[float]]:
        """Loss of a node with these combinations suppressed, and each column's u."""
        lost, suppressed = self.lost(gone)
        columns = [self.figure(at, level, lost[at], suppressed) for at, level in enumerate(levels)]
        return tuple(aggregated(np.array([columns]) * self.weights, self.aggregate)[0].tolist()), columns

    def bounds(self, nodes: NDArray[np.int16]) -> Floats:
        """A lower bound of each node's loss, shape (M, 1), under `rank` (M, m), from the columns' own bounds."""
        return self._of(nodes, self._least)

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """`bounds`, sharpened by the records that are certainly suppressed below it."""
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


SLACK = 1.0 - 1e-12
"""Factor for a bound that is summed in another order, so that rounding never lifts it above the figure."""


class WholeModel(Model):
    """One figure of a node's classes over all columns, including the fixed ones.

    Subclasses define `figure` (exact) and `least` (a lower bound of each node); where sharper bounds exist,
    `least_below` and `upward_bound`. A fixed column counts as a hierarchy of its distinct values without a level above.
    """

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        """Loss of a node with these combinations suppressed."""
        raise TypeError(f"{type(self).__name__} gives no figure")

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """A lower bound of each node's loss, shape (M,)."""
        raise TypeError(f"{type(self).__name__} gives no bound")

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """A lower bound of specializations of a checked node, shape (M',)."""
        return self.least(nodes)

    def exact(self, levels: Sequence[int], gone: Bools) -> tuple[tuple[float, ...], list[float]]:
        """Loss of a node with these combinations suppressed; no column has its own figure."""
        return (self.figure(levels, gone),), []

    def bounds(self, nodes: NDArray[np.int16]) -> Floats:
        """A lower bound of each node's loss, shape (M, 1)."""
        return self.least(nodes)[:, None]

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """`bounds`, sharpened by the records that are certainly suppressed below it."""
        return np.maximum(self.least(nodes), self.least_below(nodes, forced))[:, None]

    def class_sizes(self, levels: Sequence[int], gone: Bools | None = None) -> tuple[Ints, Ints]:
        """Class of each combination over all columns, and the records kept in each class."""
        from privpipe.kernels.lattice.node_classes import class_numbers, class_totals

        at = [*levels, *(0 for _ in self.table.fixed)]
        table = self.table
        numbers, count = class_numbers(table.codes, [table.lookups[place][level] for place, level in enumerate(at)])
        counts = table.rows.counts if gone is None else np.where(gone, 0, table.rows.counts)
        return numbers, class_totals(numbers, count, counts)

    def surely_gone(self, forced: Forced) -> float:
        """Records suppressed at every specialization, including those with an unknown value."""
        gone = float(self.records_of(forced.gone)) + sum(max(0.0, records) for _, records in forced.partial)
        return min(gone, float(self.table.records))

    @cached_property
    def domains(self) -> Floats:
        """Size of each column's domain, including those of the fixed columns."""
        sizes = [max(hierarchy.domain_size, 1.0) for hierarchy in self.table.hierarchies]
        fixed = range(len(self.table.columns), self.table.codes.shape[1])
        return np.array([*sizes, *(float(max(len(np.unique(self.table.codes[:, at])), 1)) for at in fixed)])

    @cached_property
    def _labels_seen(self) -> list[Floats]:
        return [
            np.array(
                [len(np.unique(codes[self.table.codes[:, place]])) for place, codes, _ in levels], dtype=np.float64
            )
            for levels in self.table.lookups
        ]

    @cached_property
    def _tuples(self) -> int:
        return len(self.class_sizes([0] * len(self.table.columns))[1])

    def most_classes(self, nodes: NDArray[np.int16]) -> Floats:
        """Most classes that a node can have, shape (M,): limited by labels that occur, and by combinations."""
        m = len(self.table.columns)
        labels = np.full(len(nodes), np.prod([seen[0] for seen in self._labels_seen[m:]]))
        for at, seen in enumerate(self._labels_seen[:m]):
            labels *= seen[nodes[:, at]]
        return np.asarray(np.minimum(labels, float(max(self._tuples, 1))))

    def logs(self, base: NDArray[np.float64] | None = None) -> list[list[Floats]]:
        """ln(share_j D_j) of each leaf, by column and level; a share of 0 is raised to 1e-300."""
        return [
            [np.log(np.maximum(share, 1e-300) * self.domains[at]) for share in levels]
            for at, levels in enumerate(self.shares)
        ]
