"""What the publisher loses against releasing everything unchanged, with an attacker who attacks where it pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.quality_spec import LossSpec
from privpipe.errors import UnsupportedError
from privpipe.kernels.quality.by_column import Floats
from privpipe.kernels.quality.entropy_based import EntropyBasedModel
from privpipe.kernels.quality.model import Forced
from privpipe.kernels.quality.table import CodedTable
from privpipe.tolerance import below

__all__ = ["PublisherPayoutModel"]


class PublisherPayoutModel(EntropyBasedModel):
    """sum over kept classes g n_c (B - pay_c) + s O B, pay_c = B (1 - IL_c) - [gain p_c - cost > 0] loss p_c.

    p_c = 1 / n_c for a prosecutor; for a journalist 1 / records of the class in the population, which the table must
    know (`population_counts`: of each combination, at given levels).

    Source: Wan et al., PLoS ONE 10(3), 2015.
    """

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        super().__init__(table, spec, budget, least_class)
        self.closed_form = False
        self._benefit, self._loss = spec.publisher_benefit or 0.0, spec.publisher_loss or 0.0
        self._gain, self._cost = spec.adversary_gain or 0.0, spec.adversary_cost or 0.0
        self._crowds: Callable[[Sequence[int]], NDArray[np.int64]] | None = None
        if spec.attacker == "journalist":
            self._crowds = getattr(table, "population_counts", None)
            if self._crowds is None:
                raise UnsupportedError(
                    "loss.attacker: a journalist looks in a population, and none is counted here; use prosecutor"
                )

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        lost = self._benefit * self.lost_by_kept(levels, gone) + self._attacks(levels, gone)
        return self.spec.g * lost + self.spec.s * self._benefit * self.records_of(gone)

    def payout(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        """sum over kept classes n_c pay_c."""
        kept = self.table.records - self.records_of(gone)
        return self._benefit * (kept - self.lost_by_kept(levels, gone)) - self._attacks(levels, gone)

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """With no attack."""
        return super().least(nodes) * self._benefit

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        return super().least_below(nodes, forced) * self._benefit

    def _attacks(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        """What attacks on kept classes cost."""
        numbers, sizes = self.class_sizes(levels, gone)
        crowd = sizes.astype(np.float64)
        if self._crowds is not None:
            crowd[numbers] = self._crowds(levels)
        kept = sizes > 0
        sizes, crowd = sizes[kept], np.maximum(crowd[kept], 1.0)
        attacked = below(self._cost, self._gain / crowd)
        return float(np.cumsum(np.append(0.0, np.where(attacked, self._loss * sizes / crowd, 0.0)))[-1])
