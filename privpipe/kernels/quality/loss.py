"""Iyengar's loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.quality.aggregate import aggregated, total
from privpipe.kernels.quality.by_column import ColumnModel, Floats, ForcedColumn
from privpipe.kernels.search_costs import level_costs

__all__ = ["LossModel"]


@dataclass(frozen=True)
class _Flat:
    """Every leaf at every level of every column in one row; see `level_costs`.

    `first` is the number of each column's first level among `spans`.
    """

    records: Floats
    kept: Floats
    gone: Floats
    leaves: NDArray[np.int64]
    spans: NDArray[np.int64]
    first: list[int]

    def costs(self, lost: Sequence[Floats], spans: NDArray[np.int64]) -> Floats:
        """Cost of each chosen level with so many records of each column's leaves suppressed."""
        return level_costs(self.records, self.kept, self.gone, np.concatenate(lost), self.leaves, spans)


class LossModel(ColumnModel):
    """Share of its domain that a label stands for.

    A kept record costs g x share of each label, a suppressed one share + s (1 - share), with
    g = min(1, 2 - 2 lambda) and s = min(1, 2 lambda); per column the sum is brought to [0, 1] by
    u = max(0, (S - g N / D) / (N - g N / D)), D the size of the hierarchy's domain. A record with an unknown value has
    no label: its share is the whole domain.

    Source: Iyengar, KDD 2002.
    """

    forced_rises = True
    """A sharper bound never falls with a level: shares only grow, of those kept and of those suppressed."""

    def exact(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> tuple[tuple[float, ...], list[float]]:
        """As of every model a column, all columns at once: this is asked at every node that is valid."""
        flat = self._flat
        chosen = flat.spans[[flat.first[at] + level for at, level in enumerate(levels)]]
        costs = flat.costs(self.lost(gone)[0], chosen)
        columns = [self._unit(at, cost + self.table.unknown) for at, cost in enumerate(costs.tolist())]
        return tuple(aggregated(np.array([columns]) * self.weights, self.aggregate)[0].tolist()), columns

    def least(self, at: int, level: int) -> float:
        """With every known value kept: sound, for suppression costs a record at least as much."""
        flat = self._flat
        nothing = [np.zeros(len(marginal)) for marginal in self.marginals]
        span = flat.spans[[flat.first[at] + level]]
        return self._unit(at, float(flat.costs(nothing, span)[0]) + self.table.unknown)

    def sharper(self, levels: Sequence[int], seen: Sequence[ForcedColumn]) -> list[Floats]:
        """What surely goes costs what it costs; of a class that goes in part, shares only shrink below the node."""
        flat = self._flat
        costs = flat.costs([column.lost for column in seen], flat.spans)
        least = []
        for at, (top, column) in enumerate(zip(levels, seen, strict=True)):
            own = self._least[at].copy()
            more = self._parts(column) if len(column.parts) else 0.0
            first = flat.first[at]
            whole, span = self._scale(at)
            if span:
                cost = costs[first : first + top + 1] + more + self.table.unknown
                np.maximum(own[: top + 1], (cost - whole) / span, out=own[: top + 1])
            least.append(own)
        return least

    @cached_property
    def _flat(self) -> _Flat:
        """Costs of every leaf at every level of every column."""
        g, s = self.spec.g, self.spec.s
        leaves: list[NDArray[np.int64]] = []
        kept: list[Floats] = []
        gone: list[Floats] = []
        first, offset = [], 0
        for marginal, levels in zip(self.marginals, self.shares, strict=True):
            first.append(len(kept))
            for share in levels:
                leaves.append(np.arange(offset, offset + len(share)))
                kept.append(g * share)
                gone.append(share + s * (1.0 - share))
            offset += len(marginal)
        ends = np.cumsum([len(part) for part in kept])
        spans = np.stack([ends - [len(part) for part in kept], ends], axis=1).astype(np.int64)
        joined = [np.concatenate(part) for part in (self.marginals, kept, gone)]
        return _Flat(joined[0], joined[1], joined[2], np.concatenate(leaves), spans, first)

    def _parts(self, forced: ForcedColumn) -> float:
        g, s = self.spec.g, self.spec.s
        # One of g and s is 1, so a suppressed record costs more than a kept one by what falls with its share.
        return total(forced.parts * np.maximum(0.0, s + forced.shares * (1.0 - s - g)))

    def _unit(self, at: int, cost: float) -> float:
        least, span = self._scale(at)
        return 0.0 if span == 0 else max(0.0, (cost - least) / span)

    def _scale(self, at: int) -> tuple[float, float]:
        """The least cost a column can have, and how far the greatest lies above it."""
        least = self.spec.g * self.table.records / self.table.hierarchies[at].domain_size
        return least, self.table.records - least
