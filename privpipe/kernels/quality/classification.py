"""How often a class's majority does not predict the response of its records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.quality_spec import LossSpec
from privpipe.errors import UsageError
from privpipe.kernels.quality.by_column import Floats
from privpipe.kernels.quality.table import CodedTable
from privpipe.kernels.quality.whole import SLACK, WholeModel

__all__ = ["ClassificationModel"]


class ClassificationModel(WholeModel):
    """Share of records that are suppressed or not of their class's majority; one of several equal majorities counts.

    Source: Iyengar, KDD 2002 (classification metric).
    """

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        super().__init__(table, spec, budget, least_class)
        response = str(spec.response)
        if response in table.rows.sensitive:
            self._codes = np.asarray(table.rows.sensitive[response], dtype=np.int64)
        elif response in table.places:
            self._codes = table.codes[:, table.places[response]].astype(np.int64)
        else:
            raise UsageError(f"loss.response: the column {response!r} is not counted here")
        self._order = np.argsort(self._codes, kind="stable")
        finest = [hierarchy.min_level for hierarchy in table.hierarchies]
        self._finest = self.figure(finest, np.zeros(len(table.codes), dtype=np.bool_)) * SLACK

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        from privpipe.kernels.lattice.tuple_classes import class_cells

        numbers, sizes = self.class_sizes(levels, gone)
        counts = np.where(gone, 0, self.table.rows.counts)
        offsets, _, cells = class_cells(numbers, len(sizes), self._order, self._codes, counts)
        starts = offsets[:-1][np.diff(offsets) > 0]
        majorities = int(np.maximum.reduceat(cells, starts).sum()) if len(starts) else 0
        return (self.table.records - majorities) / self.table.records

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """That of the finest node with nothing suppressed: where classes merge, majorities never gain."""
        return np.full(len(nodes), self._finest)

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """The figure with nothing suppressed."""
        return self.figure(levels, np.zeros(len(self.table.codes), dtype=np.bool_)) * SLACK
