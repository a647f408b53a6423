"""Check one vector of levels: which records fail, and how many go with them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.tuple_classes import class_numbers
from privpipe.search.encoded import EncodedTable
from privpipe.search.quality import LossModel
from privpipe.transforms.base import StageContext
from privpipe.transforms.class_failures import Classes, failing_rows, judged_sets

__all__ = ["CheckedNode", "NodeCheck"]


@dataclass(frozen=True)
class CheckedNode:
    """A node's outcome.

    Parameters
    ----------
    levels : tuple of int
    suppressed : int
        Records that must go (those with an unknown value included); -1: no amount suffices.
    must_go : int
        Records that must go at every specialization too.
    rows : ndarray of bool, shape (t,)
        Distinct combinations that are suppressed.
    """

    levels: tuple[int, ...]
    suppressed: int
    must_go: int
    rows: NDArray[np.bool_] = field(repr=False)


class NodeCheck:
    """Checks nodes of one table under the guarantees of one policy."""

    def __init__(self, table: EncodedTable, context: StageContext, loss: LossModel) -> None:
        self.table = table
        self.context = context
        self.loss = loss
        self.sets = judged_sets(context)

    def __call__(self, levels: tuple[int, ...]) -> CheckedNode:
        """Judge a node: class-based models in rounds over their key sets, then sample-based ones."""
        table = self.table
        classes = {keys: Classes(*self._numbers(keys, levels)) for keys in self.sets.keys}

        def ties(keys: tuple[str, ...], at: NDArray[np.int64]) -> list[NDArray[np.float64] | NDArray[np.int64]]:
            own: list[NDArray[np.float64] | NDArray[np.int64]] = list(self.loss.own(keys, levels, at).T)
            return [*own, *(table.key_ranks(key, levels, at) for key in keys), at]

        found = failing_rows(self.sets, table.rows, classes, self.context.base, ties)
        gone = int(table.rows.counts[found.rows].sum()) + table.unknown
        hopeless = not found.met or bool(found.rows.all())
        return CheckedNode(levels, -1 if hopeless else gone, found.hereditary + table.unknown, found.rows)

    def kept_classes(self, node: CheckedNode) -> int:
        """Classes that are kept, over the first guarantee's quasi-identifiers, else the generalized columns."""
        keys = next(iter(self.sets.keys), self.table.columns)
        numbers, _ = self._numbers(keys, node.levels)
        return len(np.unique(numbers[~node.rows]))

    def uninformative(self, node: CheckedNode) -> int:
        """Kept records whose every quasi-identifier is at the root of its hierarchy."""
        hierarchies = zip(node.levels, self.table.hierarchies, strict=True)
        if self.table.fixed or any(level < hierarchy.height or not level for level, hierarchy in hierarchies):
            return 0
        return int(self.table.rows.counts[~node.rows].sum())

    def _numbers(self, keys: tuple[str, ...], levels: tuple[int, ...]) -> tuple[NDArray[np.int64], int]:
        return class_numbers(self.table.codes, [self.table.lookup(key, levels) for key in keys])
