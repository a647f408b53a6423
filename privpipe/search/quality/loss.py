"""Iyengar's loss of a node: exact, and a lower bound that needs no grouping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.search.encoded import EncodedTable
from privpipe.search.quality.model import Forced
from privpipe.transforms.loss import LossSpec, aggregated, normalised, own_loss

__all__ = ["LossModel"]


class LossModel:
    """Loss of vectors of levels over one table.

    A kept record costs g x share of each label, a suppressed one share + s (1 - share), with
    g = min(1, 2 - 2 lambda) and s = min(1, 2 lambda); per column the sum is brought to [0, 1] by
    u = max(0, (S - g N / D) / (N - g N / D)), D the size of the hierarchy's domain.

    A loss is a tuple of one figure, under `rank` of one a column, largest first, compared entry by entry.

    Source: Iyengar, KDD 2002.
    """

    closed_form = True

    def __init__(self, table: EncodedTable, spec: LossSpec) -> None:
        self.table = table
        self.spec = spec
        self.width = len(table.columns) if spec.aggregate == "rank" else 1
        self.weights = spec.weights_of(table.columns)
        self._shares = [
            [hierarchy.shares(level) for level in range(hierarchy.height + 1)] for hierarchy in table.hierarchies
        ]
        self._marginals = [self._marginal(at, slice(None)) for at in range(len(table.columns))]
        self._least = [
            np.array([self._column(at, level, self._marginals[at], None) for level in range(len(shares))])
            for at, shares in enumerate(self._shares)
        ]

    def exact(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> tuple[tuple[float, ...], list[float]]:
        """Loss of a node with these combinations suppressed, and each column's u."""
        rows = np.flatnonzero(gone)
        columns = []
        for at, level in enumerate(levels):
            lost = self._marginal(at, rows)
            columns.append(self._column(at, level, self._marginals[at] - lost, lost))
        return tuple(aggregated(np.array([columns]) * self.weights, self.spec.aggregate)[0].tolist()), columns

    def bounds(self, nodes: NDArray[np.int8]) -> NDArray[np.float64]:
        """A lower bound of each node's loss, shape (M, 1), under `rank` (M, m): the loss if all records were kept.

        Sound, for suppression costs a record at least as much as keeping it.
        """
        columns = np.empty(nodes.shape, dtype=np.float64)
        for at, least in enumerate(self._least):
            columns[:, at] = least[nodes[:, at]] * self.weights[at]
        return aggregated(columns, self.spec.aggregate)

    def forced_bounds(self, nodes: NDArray[np.int8], forced: Forced) -> NDArray[np.float64]:
        """As `bounds`."""
        return self.bounds(nodes)

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """None: suppression may cost more than the root."""
        return None

    def own(self, keys: Sequence[str], levels: Sequence[int], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Own loss of some combinations' classes over some keys, shape (n, r): that of a kept record of it."""
        columns = [column for column in self.table.columns if column in keys]
        each = np.empty((len(rows), len(columns)))
        for to, column in enumerate(columns):
            at = self.table.places[column]
            unit = normalised(self._shares[at][levels[at]], self.table.hierarchies[at].domain_size, self.spec)
            each[:, to] = unit[self.table.codes[rows, at]]
        return own_loss(each, columns, self.spec)

    def _marginal(self, at: int, rows: slice | NDArray[np.intp]) -> NDArray[np.float64]:
        """Records of each leaf of a column among some combinations."""
        leaves = len(self.table.hierarchies[at].values)
        weights = self.table.rows.counts[rows].astype(np.float64)
        return np.bincount(self.table.codes[rows, at], weights=weights, minlength=leaves).astype(np.float64)

    def _column(self, at: int, level: int, kept: NDArray[np.float64], lost: NDArray[np.float64] | None) -> float:
        """u of one column at a level, from the records of each leaf that are kept and lost; None: no record is."""
        share = self._shares[at][level]
        # Added one by one, in the order of the leaves: a library's dot product may add otherwise elsewhere.
        total = float(np.cumsum(self.spec.g * kept * share)[-1])
        # A record with an unknown value has no label: its share is the whole domain.
        unknown = self.table.unknown
        if lost is None:
            total += self.spec.g * unknown
        else:
            total += float(np.cumsum(lost * (share + self.spec.s * (1.0 - share)))[-1]) + unknown
        least = self.spec.g * self.table.records / self.table.hierarchies[at].domain_size
        span = self.table.records - least
        return 0.0 if span == 0 else max(0.0, (total - least) / span)
