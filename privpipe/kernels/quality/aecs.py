"""Average size of a class; suppressed records are penalised."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.quality.by_column import Floats
from privpipe.kernels.quality.whole import SLACK, WholeModel

__all__ = ["AecsModel"]


class AecsModel(WholeModel):
    """N / (s K + g [O > 0]), K the kept classes; infinite where that is nothing. The factors really stand so.

    Source: LeFevre, DeWitt, Ramakrishnan, ICDE 2006 (average class size).
    """

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
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
