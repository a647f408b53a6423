"""Entropy-based information loss, and what the publisher gives up for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.quality_spec import LossSpec
from privpipe.kernels.quality.aggregate import total
from privpipe.kernels.quality.by_column import Floats
from privpipe.kernels.quality.model import Forced
from privpipe.kernels.quality.table import CodedTable
from privpipe.kernels.quality.whole import SLACK, WholeModel

__all__ = ["EntropyBasedModel"]


class EntropyBasedModel(WholeModel):
    """sum over kept records g IL + s O, IL = clip(1 + log prod_j share_j / log prod_j D_j, 0, 1); 0 where every D is 1.

    Source: Wan et al., PLoS ONE 10(3), 2015.
    """

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        super().__init__(table, spec, budget, least_class)
        whole = float(np.log(self.domains).sum())
        self._parts = [[log / whole if whole > 0 else log * 0.0 for log in levels] for levels in self.logs()]
        # A label of fewer values than one, or of more than there are, has nothing to add up.
        self._clips = any((log < -1e-12).any() for levels in self._parts for log in levels) or any(
            (share > 1.0 + 1e-12).any() for levels in self.shares for share in levels
        )
        self._sums = [
            np.array([total(self.marginals[at] * part) for part in levels]) for at, levels in enumerate(self._parts)
        ]
        # With nothing but what is kept the figure is a sum over columns; else suppression may be the cheaper way.
        self._kept = spec.g if self.budget <= table.unknown else min(spec.g, spec.s)
        self.closed_form = not self._clips and self._kept == spec.g

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        return self._weighted_sum(self.spec.g, self.lost_by_kept(levels, gone), self.records_of(gone))

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        return self._bound(nodes, self._sums, self.table.unknown)

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """What surely goes costs s a record, which is no less than its part of the sum over columns."""
        gone = np.flatnonzero(forced.gone)
        left = []
        for at, levels in enumerate(self._parts):
            kept = self.marginals[at] - self.marginal(at, gone)
            left.append(np.array([total(kept * part) for part in levels]))
        return self._bound(nodes, left, self.records_of(forced.gone)) * SLACK

    def lost_by_kept(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        """Sum of IL over kept records."""
        if self._clips:
            return total(np.where(gone, 0, self.table.rows.counts) * self.lost_by_each(levels))
        rows, found = np.flatnonzero(gone), 0.0
        for at, level in enumerate(levels):
            found += total((self.marginals[at] - self.marginal(at, rows)) * self._parts[at][level])
        return found

    def lost_by_each(self, levels: Sequence[int]) -> Floats:
        """IL of each combination."""
        each = np.zeros(len(self.table.codes))
        for at, level in enumerate(levels):
            each += self._parts[at][level][self.table.codes[:, at]]
        return np.clip(each, 0.0, 1.0)

    def _bound(self, nodes: NDArray[np.int16], sums: Sequence[Floats], suppressed: int) -> Floats:
        kept = np.zeros(len(nodes))
        if not self._clips:
            for at, figures in enumerate(sums):
                kept = kept + figures[nodes[:, at]]
        bound = np.asarray(self._weighted_sum(self._kept, kept, suppressed), dtype=np.float64)
        return bound if self.closed_form else bound * SLACK

    def _weighted_sum(self, factor: float, kept: Floats | float, suppressed: int) -> float:
        weighted: float = factor * kept + self.spec.s * suppressed  # type: ignore[assignment]
        return weighted
