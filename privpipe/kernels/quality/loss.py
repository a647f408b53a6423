"""Quality models of levels by column (loss, precision, height, own tables), and of classes by their sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints, read_only
from privpipe.blocks.quality_spec import LossSpec, penalties_of
from privpipe.errors import UsageError
from privpipe.kernels.lattice.vectors import LeafCosts
from privpipe.kernels.quality.model import SLACK, ColumnModel, Floats, Forced, ForcedColumn, WholeModel, total
from privpipe.kernels.quality.table import CodedTable

__all__ = [
    "AecsModel",
    "AmbiguityModel",
    "ClassificationModel",
    "DiscernibilityModel",
    "HeightModel",
    "LossModel",
    "MonotonicDiscernibilityModel",
    "MonotonicPrecisionModel",
    "PrecisionModel",
    "StaticModel",
]


class LossModel(ColumnModel):
    """Share of its domain that a label represents.

    A kept record costs g x share of each label, a suppressed one share + s (1 - share), with
    g = min(1, 2 - 2 lambda) and s = min(1, 2 lambda); per column the sum is scaled to [0, 1] by
    u = max(0, (S - g N / D) / (N - g N / D)), D the size of the hierarchy's domain. A record with an unknown value has
    no label: its share is the whole domain.

    Source: Iyengar, KDD 2002.
    """

    forced_rises = True
    """A sharper bound never falls with a level: the shares of kept and of suppressed records only grow."""

    def exact(self, levels: Sequence[int], gone: Bools) -> tuple[tuple[float, ...], list[float]]:
        """As for every column model, but all columns at once: this runs at every valid node."""
        units = self._costs.units(self.lost_leaves(gone)[0], np.array(levels, dtype=np.int64))
        nowhere = np.zeros((1, len(units)), dtype=np.int16)
        found = self._aggregated(nowhere, (units * self.weights)[:, None])
        return tuple(found[0].tolist()), units.tolist()

    def least(self, at: int, level: int) -> float:
        """With every known value kept: a valid bound, since suppressing a record costs at least as much."""
        levels = np.zeros(len(self.table.columns), dtype=np.int64)
        levels[at] = level
        return float(self._costs.units(np.zeros(len(self._costs.records)), levels)[at])

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """Certain suppression has a known cost; where part of a class is suppressed, shares only shrink below."""
        parts = [(rows, records) for rows, records in forced.partial if records > 0 and len(rows)]
        rows = np.concatenate([rows for rows, _ in parts]) if parts else np.zeros(0, dtype=np.int64)
        ends = np.cumsum([len(rows) for rows, _ in parts], dtype=np.int64)
        sure = np.array([records for _, records in parts], dtype=np.float64)
        g, s = self.spec.g, self.spec.s
        figures = self._costs.raised(
            self._least_levels,
            self.lost_leaves(forced.gone)[0],
            np.array(forced.levels, dtype=np.int64),
            (self.table.codes, rows.astype(np.int64), ends, sure),
            # One of g and s is 1, so the extra cost of a suppressed record over a kept one falls with its share.
            s,
            1.0 - s - g,
        )
        return self._aggregated(nodes, figures * self.weights[:, None])

    @cached_property
    def _least_levels(self) -> Floats:
        """`_least` as one table by column and level."""
        table = np.zeros((len(self._least), max((len(own) for own in self._least), default=0)))
        for at, own in enumerate(self._least):
            table[at, : len(own)] = own
        return table

    @cached_property
    def _costs(self) -> LeafCosts:
        """Costs of every leaf at every level of every column."""
        g, s = self.spec.g, self.spec.s
        leaves: list[Ints] = []
        shares: list[Floats] = []
        first, offset = [], 0
        for marginal, levels in zip(self.marginals, self.shares, strict=True):
            first.append(len(shares))
            for share in levels:
                leaves.append(np.arange(offset, offset + len(share)))
                shares.append(share)
            offset += len(marginal)
        ends = np.cumsum([len(part) for part in shares])
        spans = np.stack([ends - [len(part) for part in shares], ends], axis=1)
        share = np.concatenate(shares)
        return LeafCosts(
            records=read_only(np.concatenate(self.marginals), np.float64),
            shares=read_only(share, np.float64),
            kept=read_only(g * share, np.float64),
            gone=read_only(share + s * (1.0 - share), np.float64),
            leaves=read_only(np.concatenate(leaves), np.int64),
            spans=read_only(spans, np.int64),
            first=read_only(first, np.int64),
            scales=read_only([self._scale(at) for at in range(len(self.table.columns))], np.float64),
            unknown=float(self.table.unknown),
        )

    def _scale(self, at: int) -> tuple[float, float]:
        """The least cost a column can have, and how far the greatest cost is above it."""
        least = self.spec.g * self.table.records / self.table.hierarchies[at].domain_size
        return least, self.table.records - least


class PrecisionModel(ColumnModel):
    """Height of a label in its hierarchy: u = ((N - O) g v / h + O s) / N; v / h is 0 for a hierarchy without levels.

    Source: Sweeney, IJUFKS 10(5), 2002.
    """

    def prepare(self) -> None:
        # Linear in the number of suppressed records: least where none is suppressed, unless suppression is cheaper.
        self.closed_form = self.spec.s >= self.spec.g or self.budget <= self.table.unknown

    def figure(self, at: int, level: int, lost: Floats, suppressed: float) -> float:
        n = self.table.records
        return ((n - suppressed) * (self.spec.g * self._ratio(at, level)) + suppressed * self.spec.s) / n

    def least(self, at: int, level: int) -> float:
        return self._between(at, level, self.table.unknown)

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        return self._between(at, level, min(forced.records, float(self.table.records)))

    def _between(self, at: int, level: int, least: float) -> float:
        """The lesser of the figures with `least` records suppressed, and with as many as are allowed."""
        none = np.zeros(0)
        if self.closed_form:
            return self.figure(at, level, none, least)
        most = max(least, float(min(self.budget, self.table.records)))
        return min(self.figure(at, level, none, least), self.figure(at, level, none, most))

    def _ratio(self, at: int, level: int) -> float:
        height = self.table.hierarchies[at].height
        return level / height if height else 0.0


class MonotonicPrecisionModel(PrecisionModel):
    """u = v / h, whatever is suppressed."""

    def prepare(self) -> None:
        self.closed_form = True

    def figure(self, at: int, level: int, lost: Floats, suppressed: float) -> float:
        return self._ratio(at, level)


class HeightModel(ColumnModel):
    """u = v: how many steps a column went up. Source: Samarati, IEEE TKDE 13(6), 2001 (absolute distance)."""

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        return self.least(at, level)

    def least(self, at: int, level: int) -> float:
        return float(level)


class StaticModel(HeightModel):
    """u = penalty of the column's level, by the user's table."""

    def prepare(self) -> None:
        columns = self.table.columns
        self._penalties = [
            penalties_of(self.spec, column, hierarchy.height, columns)
            for column, hierarchy in zip(columns, self.table.hierarchies, strict=True)
        ]

    def least(self, at: int, level: int) -> float:
        return float(self._penalties[at][level])


class DiscernibilityModel(WholeModel):
    """DM = sum over kept classes n_c^2 + N O. Source: Bayardo, Agrawal, ICDE 2005."""

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        kept = self.class_sizes(levels, gone)[1].astype(np.float64)
        return total(kept * kept) + float(self.table.records) * float(self.records_of(gone))

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        return self._at_least(nodes, float(self.table.unknown))

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        return self._at_least(nodes, self.surely_gone(forced))

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """DM* of the node: classes only merge, and a suppressed record counts N."""
        return self._squares(levels)

    def _at_least(self, nodes: NDArray[np.int16], gone: float) -> Floats:
        """A suppressed record counts N; the others at least as if spread evenly over as many classes as there can be.

        Any further suppressed record also counts N, so at least as much as in the square of its class.
        """
        n, left = float(self.table.records), float(self.table.records) - gone
        evenly = left * left / self.most_classes(nodes)
        return np.asarray(n * gone + np.maximum(evenly, self.least_class * left)) * SLACK

    def _squares(self, levels: Sequence[int]) -> float:
        sizes = self.class_sizes(levels)[1].astype(np.float64)
        return total(sizes * sizes) + float(self.table.unknown) ** 2


class MonotonicDiscernibilityModel(DiscernibilityModel):
    """DM* = sum over all classes n_c^2, including suppressed ones; unknown values are one class.

    Source: El Emam et al., JAMIA 16(5), 2009.
    """

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        return self._squares(levels)

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """By Cauchy and Schwarz."""
        left = float(self.table.records - self.table.unknown)
        return (left * left / self.most_classes(nodes) + float(self.table.unknown) ** 2) * SLACK

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        return self.least(nodes)


class AecsModel(WholeModel):
    """N / (s K + g [O > 0]), K the kept classes; infinite where the divisor is 0. These factors are not a mistake.

    Source: LeFevre, DeWitt, Ramakrishnan, ICDE 2006 (average class size).
    """

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        kept = int((self.class_sizes(levels, gone)[1] > 0).sum())
        return self._of(float(kept), self.records_of(gone) > 0)

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        classes = np.minimum(self.most_classes(nodes), float(self.table.records // self.least_class))
        return np.array([self._of(most, self.budget > 0) for most in classes.tolist()]) * SLACK

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """With every class of the node kept: a generalization has at most as many."""
        return self._of(float(len(self.class_sizes(levels)[1])), self.budget > 0) * SLACK

    def _of(self, classes: float, suppresses: bool) -> float:
        weighted = self.spec.s * classes + (self.spec.g if suppresses else 0.0)
        return self.table.records / weighted if weighted > 0 else math.inf


class AmbiguityModel(WholeModel):
    """Sum over records of prod_j share_j D_j, the whole domain for a suppressed one.

    Source: Goldberger, Tassa, Transactions on Data Privacy 3(2), 2010.
    """

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        area = np.ones(len(self.table.codes))
        for at, level in enumerate(levels):
            area *= (self.shares[at][level] * self.domains[at])[self.table.codes[:, at]]
        area[gone] = self._whole
        return total(self.table.rows.counts * area) + self.table.unknown * self._whole

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        return self._evenly(nodes, np.zeros(len(self.table.codes), dtype=np.bool_))

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        return self._evenly(nodes, forced.gone)

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """The figure with nothing suppressed: labels only grow, and a suppressed record covers the whole domain."""
        return self.figure(levels, np.zeros(len(self.table.codes), dtype=np.bool_)) * SLACK

    @property
    def _whole(self) -> float:
        return float(np.prod(self.domains))

    def _evenly(self, nodes: NDArray[np.int16], gone: Bools) -> Floats:
        """A mean is at least the geometric mean of the kept records, which can be computed without classes."""
        lost = self.records_of(gone)
        left = self.table.records - lost
        if not left:
            return np.full(len(nodes), lost * self._whole * SLACK)
        rows, mean = np.flatnonzero(~gone), np.zeros(len(nodes))
        for at, levels in enumerate(self.logs()):
            weights = self.marginal(at, rows)
            mean += np.array([total(weights * log) / left for log in levels])[nodes[:, at]]
        # Logarithms of large products lose a few digits more than sums do.
        return np.asarray(left * np.exp(np.minimum(mean, math.log(self._whole))) + lost * self._whole) * (1.0 - 1e-10)


class ClassificationModel(WholeModel):
    """Share of records that are suppressed or not in their class's majority; one of several equal majorities counts.

    Source: Iyengar, KDD 2002 (classification metric).
    """

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        super().__init__(table, spec, budget, least_class)
        response = str(spec.response)
        if response in table.rows.sensitive:
            self._codes = np.asarray(table.rows.sensitive[response], dtype=np.int64)
        elif response in table.places:
            self._codes = table.codes[:, table.places[response]].astype(np.int64)
        else:
            raise UsageError(f"loss.response: the column {response!r} is not counted here")
        self._order = np.argsort(self._codes, kind="stable")
        finest = [hierarchy.min_level for hierarchy in table.hierarchies]
        self._finest = self.figure(finest, np.zeros(len(table.codes), dtype=np.bool_)) * SLACK

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        from privpipe.kernels.lattice.node_classes import class_cells

        numbers, sizes = self.class_sizes(levels, gone)
        counts = np.where(gone, 0, self.table.rows.counts)
        offsets, _, cells = class_cells(numbers, len(sizes), self._order, self._codes, counts)
        starts = offsets[:-1][np.diff(offsets) > 0]
        majorities = int(np.maximum.reduceat(cells, starts).sum()) if len(starts) else 0
        return (self.table.records - majorities) / self.table.records

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """The figure of the finest node with nothing suppressed: majorities never grow where classes merge."""
        return np.full(len(nodes), self._finest)

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """The figure with nothing suppressed."""
        return self.figure(levels, np.zeros(len(self.table.codes), dtype=np.bool_)) * SLACK
