"""Quality models of whole classes: one figure, no column's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.quality.by_column import Floats, Model
from privpipe.kernels.quality.model import Forced

__all__ = ["SLACK", "WholeModel"]

SLACK = 1.0 - 1e-12
"""What a bound that another sum gives is taken times, so that rounding never lifts it over the figure."""

Ints = NDArray[np.int64]


class WholeModel(Model):
    """One figure of a node's classes over all columns, the fixed ones too.

    Subclasses give `figure` (exact) and `least` (a lower bound of each node); where more can be said, `least_below`
    and `upward_bound`. A fixed column counts as a hierarchy of its distinct values without a level above.
    """

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        """Loss of a node with these combinations suppressed."""
        raise TypeError(f"{type(self).__name__} gives no figure")

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """A lower bound of each node's loss, shape (M,)."""
        raise TypeError(f"{type(self).__name__} gives no bound")

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """A lower bound of specializations of a checked node, shape (M',)."""
        return self.least(nodes)

    def exact(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> tuple[tuple[float, ...], list[float]]:
        """Loss of a node with these combinations suppressed; no column has a figure of its own."""
        return (self.figure(levels, gone),), []

    def bounds(self, nodes: NDArray[np.int16]) -> Floats:
        """A lower bound of each node's loss, shape (M, 1)."""
        return self.least(nodes)[:, None]

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """`bounds`, sharpened by what surely goes below a checked node."""
        return np.maximum(self.least(nodes), self.least_below(nodes, forced))[:, None]

    def class_sizes(self, levels: Sequence[int], gone: NDArray[np.bool_] | None = None) -> tuple[Ints, Ints]:
        """Class of each combination over all columns, and records that each keeps."""
        from privpipe.kernels.lattice.tuple_classes import class_numbers, class_totals

        at = [*levels, *(0 for _ in self.table.fixed)]
        table = self.table
        numbers, count = class_numbers(table.codes, [table.lookups[place][level] for place, level in enumerate(at)])
        counts = table.rows.counts if gone is None else np.where(gone, 0, table.rows.counts)
        return numbers, class_totals(numbers, count, counts)

    def surely_gone(self, forced: Forced) -> float:
        """Records that go at every specialization, those with an unknown value included."""
        gone = float(self.records_of(forced.gone)) + sum(max(0.0, records) for _, records in forced.partial)
        return min(gone, float(self.table.records))

    @cached_property
    def domains(self) -> Floats:
        """Size of each column's domain, those of the fixed columns included."""
        sizes = [max(hierarchy.domain_size, 1.0) for hierarchy in self.table.hierarchies]
        fixed = range(len(self.table.columns), self.table.codes.shape[1])
        return np.array([*sizes, *(float(max(len(np.unique(self.table.codes[:, at])), 1)) for at in fixed)])

    @cached_property
    def _labels_seen(self) -> list[Floats]:
        return [
            np.array(
                [len(np.unique(codes[self.table.codes[:, place]])) for place, codes, _ in levels], dtype=np.float64
            )
            for levels in self.table.lookups
        ]

    @cached_property
    def _tuples(self) -> int:
        return len(self.class_sizes([0] * len(self.table.columns))[1])

    def most_classes(self, nodes: NDArray[np.int16]) -> Floats:
        """How many classes a node can have at the most, shape (M,): labels that occur, and combinations."""
        m = len(self.table.columns)
        labels = np.full(len(nodes), np.prod([seen[0] for seen in self._labels_seen[m:]]))
        for at, seen in enumerate(self._labels_seen[:m]):
            labels *= seen[nodes[:, at]]
        return np.asarray(np.minimum(labels, float(max(self._tuples, 1))))

    def logs(self, base: NDArray[np.float64] | None = None) -> list[list[Floats]]:
        """ln(share_j D_j) of each leaf, by column and level; what no label stands for is next to nothing."""
        return [
            [np.log(np.maximum(share, 1e-300) * self.domains[at]) for share in levels]
            for at, levels in enumerate(self.shares)
        ]
