"""Iyengar's loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.quality.aggregate import total
from privpipe.kernels.quality.by_column import ColumnModel, Floats, ForcedColumn

__all__ = ["LossModel"]

SLACK = 1.0 - 1e-13


@dataclass(frozen=True)
class _Flat:
    """Every leaf at every level of every column in one row.

    `leaves` are places among all columns' leaves, `kept` what its records cost, `more` what one of them costs more
    when suppressed; `starts` where each level begins, `first` the number of each column's first level, `scales` what
    brings a cost to u: (cost - second) x first.
    """

    leaves: NDArray[np.int64]
    kept: Floats
    more: Floats
    starts: NDArray[np.int64]
    first: list[int]
    scales: list[tuple[float, float]]


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
        return self._unit(at, surely + self._parts(forced) + self.table.unknown)

    def sharper(self, levels: Sequence[int], seen: Sequence[ForcedColumn]) -> list[Floats]:
        """As `least_below` says, all levels of all columns at once: this is asked at nearly every node."""
        flat = self._flat
        lost = np.concatenate([column.lost for column in seen])[flat.leaves]
        cost = np.add.reduceat(flat.kept + lost * flat.more, flat.starts)
        least = []
        for at, (top, column) in enumerate(zip(levels, seen, strict=True)):
            own = self._least[at].copy()
            more = self._parts(column) if len(column.parts) else 0.0
            first = flat.first[at]
            # Another order of addition must not lift a bound above the figure.
            surely = (cost[first : first + top + 1] + more) * SLACK + self.table.unknown
            scale, least_cost = flat.scales[at]
            own[: top + 1] = np.maximum(own[: top + 1], (surely - least_cost) * scale)
            least.append(own)
        return least

    @cached_property
    def _flat(self) -> _Flat:
        """Costs of every leaf at every level of every column."""
        g, s = self.spec.g, self.spec.s
        kept: list[Floats] = []
        more: list[Floats] = []
        starts: list[int] = []
        leaves, first, offset = [], [], 0
        for marginal, levels in zip(self.marginals, self.shares, strict=True):
            first.append(len(starts))
            for share in levels:
                starts.append(sum(len(each) for each in kept))
                leaves.append(np.arange(offset, offset + len(share)))
                kept.append(g * marginal * share)
                more.append(share + s * (1.0 - share) - g * share)
            offset += len(marginal)
        sizes = [hierarchy.domain_size for hierarchy in self.table.hierarchies]
        costs = [g * self.table.records / size for size in sizes]
        scales = [0.0 if self.table.records == cost else 1.0 / (self.table.records - cost) for cost in costs]
        places, joint = np.concatenate(leaves), (np.concatenate(kept), np.concatenate(more))
        return _Flat(places, *joint, np.array(starts), first, list(zip(scales, costs, strict=True)))

    def _parts(self, forced: ForcedColumn) -> float:
        g, s = self.spec.g, self.spec.s
        # One of g and s is 1, so a suppressed record costs more than a kept one by what falls with its share.
        return total(forced.parts * np.maximum(0.0, s + forced.shares * (1.0 - s - g)))

    def _unit(self, at: int, cost: float) -> float:
        least = self.spec.g * self.table.records / self.table.hierarchies[at].domain_size
        span = self.table.records - least
        return 0.0 if span == 0 else max(0.0, (cost - least) / span)
