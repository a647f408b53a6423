"""Quality models of classes: discernibility, average class size, ambiguity and classification error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools
from privpipe.blocks.quality_spec import LossSpec
from privpipe.errors import UsageError
from privpipe.kernels.quality.model import SLACK, Floats, Forced, WholeModel, total
from privpipe.kernels.quality.table import CodedTable

__all__ = ["AecsModel", "AmbiguityModel", "ClassificationModel", "DiscernibilityModel", "MonotonicDiscernibilityModel"]


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
        """DM* of the node: classes only merge, and a suppressed record counts as many as all."""
        return self._squares(levels)

    def _at_least(self, nodes: NDArray[np.int16], gone: float) -> Floats:
        """A suppressed record counts N; the others at least as if spread evenly over as many classes as there can be.

        Whatever else is suppressed counts N a record too, so no less than its class's square.
        """
        n, left = float(self.table.records), float(self.table.records) - gone
        evenly = left * left / self.most_classes(nodes)
        return np.asarray(n * gone + np.maximum(evenly, self.least_class * left)) * SLACK

    def _squares(self, levels: Sequence[int]) -> float:
        sizes = self.class_sizes(levels)[1].astype(np.float64)
        return total(sizes * sizes) + float(self.table.unknown) ** 2


class MonotonicDiscernibilityModel(DiscernibilityModel):
    """DM* = sum over all classes n_c^2, suppressed ones alike; unknown values are one class.

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
    """N / (s K + g [O > 0]), K the kept classes; infinite where that is nothing. The factors really stand so.

    Source: LeFevre, DeWitt, Ramakrishnan, ICDE 2006 (average class size).
    """

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        kept = int((self.class_sizes(levels, gone)[1] > 0).sum())
        return self._of(float(kept), self.records_of(gone) > 0)

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        classes = np.minimum(self.most_classes(nodes), float(self.table.records // self.least_class))
        return np.array([self._of(most, self.budget > 0) for most in classes.tolist()]) * SLACK

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """With every class of the node kept: a generalization has no more."""
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
        """The figure with nothing suppressed: labels only grow, and a suppressed record stands for most."""
        return self.figure(levels, np.zeros(len(self.table.codes), dtype=np.bool_)) * SLACK

    @property
    def _whole(self) -> float:
        return float(np.prod(self.domains))

    def _evenly(self, nodes: NDArray[np.int16], gone: Bools) -> Floats:
        """As if all that are left were alike: a mean is no less than the geometric mean, and that needs no classes."""
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
    """Share of records that are suppressed or not of their class's majority; one of several equal majorities counts.

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
        """That of the finest node with nothing suppressed: where classes merge, majorities never gain."""
        return np.full(len(nodes), self._finest)

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """The figure with nothing suppressed."""
        return self.figure(levels, np.zeros(len(self.table.codes), dtype=np.bool_)) * SLACK
