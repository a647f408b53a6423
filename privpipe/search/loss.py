"""Iyengar's loss of a node: exact, and a lower bound that needs no grouping."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.search.encoded import EncodedTable
from privpipe.transforms.generalize import LossSpec

__all__ = ["LossModel"]


class LossModel:
    """Loss of vectors of levels over one table.

    A kept record costs g x share of each label, a suppressed one share + s (1 - share), with
    g = min(1, 2 - 2 lambda) and s = min(1, 2 lambda); per column the sum is brought to [0, 1] by
    u = max(0, (S - g N / D) / (N - g N / D)), D the number of rows of the hierarchy.

    Source: Iyengar, KDD 2002.
    """

    def __init__(self, table: EncodedTable, spec: LossSpec) -> None:
        self.table = table
        self.spec = spec
        self.g = min(1.0, 2.0 - 2.0 * spec.gs_factor)
        self.s = min(1.0, 2.0 * spec.gs_factor)
        self.weights = self._weights()
        self._shares = [
            [hierarchy.shares(level) for level in range(hierarchy.height + 1)] for hierarchy in table.hierarchies
        ]
        self._marginals = [
            np.bincount(table.codes[:, at], weights=table.counts, minlength=len(hierarchy.values))
            for at, hierarchy in enumerate(table.hierarchies)
        ]

    def exact(self, levels: tuple[int, ...], suppressed: NDArray[np.bool_]) -> tuple[float | list[float], list[float]]:
        """Loss of a node with these rows suppressed, and each column's u."""
        columns = []
        for at, level in enumerate(levels):
            gone = np.bincount(
                self.table.codes[suppressed, at],
                weights=self.table.counts[suppressed],
                minlength=len(self._marginals[at]),
            )
            share = self._shares[at][level]
            kept = self.g * np.dot(self._marginals[at] - gone, share)
            # A record with an unknown value has no label: its share is the whole domain.
            lost = np.dot(gone, share + self.s * (1.0 - share)) + self.table.unknown
            columns.append(self._normalised(at, float(kept + lost)))
        return self.aggregate(np.array([columns]))[0], columns

    def bounds(self, nodes: NDArray[np.int8]) -> NDArray[np.float64]:
        """A lower bound of each node's loss (its first entry under `rank`), shape (M,).

        Suppression costs a record at least as much as keeping it, so the sum over all records kept is a bound.
        """
        columns = np.empty(nodes.shape, dtype=np.float64)
        for at, shares in enumerate(self._shares):
            per_level = np.array(
                [
                    self._normalised(
                        at, float(self.g * np.dot(self._marginals[at], share)) + self.g * self.table.unknown
                    )
                    for share in shares
                ]
            )
            columns[:, at] = per_level[nodes[:, at]]
        found = self.aggregate(columns)
        return np.array([value[0] if isinstance(value, list) else value for value in found])

    def aggregate(self, columns: NDArray[np.float64]) -> list[float] | list[list[float]]:
        """One loss a row of per-column losses."""
        scaled = columns * self.weights
        if self.spec.aggregate == "rank":
            return [sorted(row, reverse=True) for row in scaled.tolist()]
        if self.spec.aggregate == "geometric_mean":
            found = np.prod(1.0 + scaled, axis=1) ** (1.0 / columns.shape[1]) - 1.0
        elif self.spec.aggregate == "arithmetic_mean":
            found = scaled.sum(axis=1) / columns.shape[1]
        else:
            found = scaled.sum(axis=1) if self.spec.aggregate == "sum" else scaled.max(axis=1)
        return [float(value) for value in found]

    def row_shares(self, rows: NDArray[np.int64], level_of: dict[str, int]) -> tuple[NDArray[np.float64], list[float]]:
        """Own loss of rows by column (their labels' shares), and the columns' weights."""
        each = np.empty((len(rows), len(self.table.columns)))
        for at, column in enumerate(self.table.columns):
            each[:, at] = self._shares[at][level_of[column]][self.table.codes[rows, at]]
        return each, [self.spec.weights.get(column, 1.0) for column in self.table.columns]

    def _normalised(self, at: int, total: float) -> float:
        least = self.g * self.table.records / self.table.hierarchies[at].domain_size
        span = self.table.records - least
        return 0.0 if span == 0 else max(0.0, (total - least) / span)

    def _weights(self) -> NDArray[np.float64]:
        weights = np.array([self.spec.weights.get(column, 1.0) for column in self.table.columns])
        top = weights.max(initial=0.0)
        return np.ones(len(weights)) if top == 0 else weights / top
