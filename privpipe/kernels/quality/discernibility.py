"""Discernibility: how many records each record cannot be distinguished from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.quality.aggregate import total
from privpipe.kernels.quality.by_column import Floats
from privpipe.kernels.quality.model import Forced
from privpipe.kernels.quality.whole import SLACK, WholeModel

__all__ = ["DiscernibilityModel", "MonotonicDiscernibilityModel"]


class DiscernibilityModel(WholeModel):
    """DM = sum over kept classes n_c^2 + N O. Source: Bayardo, Agrawal, ICDE 2005."""

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
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

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        return self._squares(levels)

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """By Cauchy and Schwarz."""
        left = float(self.table.records - self.table.unknown)
        return (left * left / self.most_classes(nodes) + float(self.table.unknown) ** 2) * SLACK

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        return self.least(nodes)
