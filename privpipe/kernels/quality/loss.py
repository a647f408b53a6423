"""Iyengar's loss."""

from __future__ import annotations

import numpy as np

from privpipe.kernels.quality.aggregate import total
from privpipe.kernels.quality.by_column import ColumnModel, Floats, ForcedColumn

__all__ = ["LossModel"]


class LossModel(ColumnModel):
    """Share of its domain that a label stands for.

    A kept record costs g x share of each label, a suppressed one share + s (1 - share), with
    g = min(1, 2 - 2 lambda) and s = min(1, 2 lambda); per column the sum is brought to [0, 1] by
    u = max(0, (S - g N / D) / (N - g N / D)), D the size of the hierarchy's domain. A record with an unknown value has
    no label: its share is the whole domain.

    Source: Iyengar, KDD 2002.
    """

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        share, g, s = self.shares[at][level], self.spec.g, self.spec.s
        kept = total(g * (self.marginals[at] - lost) * share)
        return self._unit(at, kept + total(lost * (share + s * (1.0 - share))) + self.table.unknown)

    def least(self, at: int, level: int) -> float:
        """With every known value kept: sound, for suppression costs a record at least as much."""
        return self._unit(at, total(self.spec.g * self.marginals[at] * self.shares[at][level]) + self.table.unknown)

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        """What surely goes costs what it costs; of a class that goes in part, shares only shrink below the node."""
        share, g, s = self.shares[at][level], self.spec.g, self.spec.s
        surely = total(g * (self.marginals[at] - forced.lost) * share) + total(
            forced.lost * (share + s * (1.0 - share))
        )
        # One of g and s is 1, so a suppressed record costs more than a kept one by what falls with its share.
        more = total(forced.parts * np.maximum(0.0, s + forced.shares * (1.0 - s - g)))
        return self._unit(at, surely + more + self.table.unknown)

    def _unit(self, at: int, cost: float) -> float:
        least = self.spec.g * self.table.records / self.table.hierarchies[at].domain_size
        span = self.table.records - least
        return 0.0 if span == 0 else max(0.0, (cost - least) / span)
