"""Ambiguity: how many combinations of raw values each released record may stand for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.quality.aggregate import total
from privpipe.kernels.quality.by_column import Floats
from privpipe.kernels.quality.model import Forced
from privpipe.kernels.quality.whole import SLACK, WholeModel

__all__ = ["AmbiguityModel"]


class AmbiguityModel(WholeModel):
    """Sum over records of prod_j share_j D_j, the whole domain for a suppressed one.

    Source: Goldberger, Tassa, Transactions on Data Privacy 3(2), 2010.
    """

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
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

    def _evenly(self, nodes: NDArray[np.int16], gone: NDArray[np.bool_]) -> Floats:
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
