"""Check one vector of levels: which records fail, and what suppressing them costs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, SizeModel
from privpipe.search.encoded import EncodedTable, grouped
from privpipe.search.loss import LossModel
from privpipe.transforms.base import StageContext
from privpipe.transforms.generalize import own_loss
from privpipe.transforms.suppression import judged_sets, shortest_prefix

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
    classes : int
        Classes kept, over the first guarantee's quasi-identifiers.
    uninformative : int
        Kept records whose every generalized column is at the root.
    rows : ndarray of bool, shape (t,)
        Distinct combinations that are suppressed.
    """

    levels: tuple[int, ...]
    suppressed: int
    must_go: int
    classes: int
    uninformative: int
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
        level_of = dict(zip(table.columns, levels, strict=True))
        keyed = {
            keys: grouped([table.labels(key, level_of.get(key, 0)) for key in keys], len(table.counts))[0]
            for keys in self.sets
        }
        failing, must_go = self._class_failures(keyed)
        unmet = False
        for keys, (_, models) in self.sets.items():
            for model in models:
                more = self._prefix(keyed[keys], failing, model, level_of)
                unmet |= more is None
                failing = failing if more is None else more
        kept = ~failing
        first = next(iter(keyed.values()), np.zeros(len(table.counts), dtype=np.int64))
        gone = int(table.counts[failing].sum()) + table.unknown
        return CheckedNode(
            levels=levels,
            suppressed=-1 if unmet or not kept.any() else gone,
            must_go=must_go + table.unknown,
            classes=len(np.unique(first[kept])),
            uninformative=self._uninformative(level_of, kept),
            rows=failing,
        )

    def _class_failures(self, keyed: dict[tuple[str, ...], NDArray[np.int64]]) -> tuple[NDArray[np.bool_], int]:
        """Rows of failing classes, and how many records of them fail at every finer node as well."""
        failing = np.zeros(len(self.table.counts), dtype=np.bool_)
        hereditary = failing.copy()
        first = True
        while True:
            before = failing.copy()
            for keys, (models, _) in self.sets.items():
                if not models:
                    continue
                alive = ~before
                block, classes = self._block(keyed[keys], alive, models)
                good = np.ones(len(block), dtype=np.bool_)
                for model in models:
                    passing = model.passing(block, self.context.base)
                    good &= passing
                    if first and model.hereditary:
                        hereditary[alive] |= ~passing[classes]
                failing[alive] |= ~good[classes]
            first = False
            if len(self.sets) == 1 or (failing == before).all() or failing.all():
                return failing, int(self.table.counts[hereditary].sum())

    def _block(
        self, classes: NDArray[np.int64], alive: NDArray[np.bool_], models: list[ClassModel]
    ) -> tuple[ClassBlock, NDArray[np.int64]]:
        counts = self.table.counts[alive]
        present, dense = np.unique(classes[alive], return_inverse=True)
        sizes = np.bincount(dense, weights=counts, minlength=len(present)).astype(np.int64)
        columns = dict.fromkeys(column for model in models for column in model.sensitive_columns())
        cells = {
            column: cells_of(dense, len(present), self.table.sensitive[column][alive], counts) for column in columns
        }
        return ClassBlock(sizes, cells), dense

    def _prefix(
        self,
        classes: NDArray[np.int64],
        failing: NDArray[np.bool_],
        model: SizeModel,
        level_of: dict[str, int],
    ) -> NDArray[np.bool_] | None:
        """Rows that fail once a sample-based model has had the smallest classes removed."""
        alive = ~failing
        if not alive.any():
            return failing
        present, start, dense = np.unique(classes[alive], return_index=True, return_inverse=True)
        sizes = np.bincount(dense, weights=self.table.counts[alive], minlength=len(present)).astype(np.int64)
        representative = np.flatnonzero(alive)[start]
        each, weights = self.loss.row_shares(representative, level_of)
        order = np.lexsort((np.arange(len(present)), own_loss(each, weights, self.loss.spec.aggregate), sizes))
        prefix = shortest_prefix(sizes[order], model, self.context.base)
        if prefix is None:
            return None
        dropped = np.zeros(len(present), dtype=np.bool_)
        dropped[order[:prefix]] = True
        more = failing.copy()
        more[alive] = dropped[dense]
        return more

    def _uninformative(self, level_of: dict[str, int], kept: NDArray[np.bool_]) -> int:
        heights = {column: h.height for column, h in zip(self.table.columns, self.table.hierarchies, strict=True)}
        at_root = all(level_of[column] == heights[column] > 0 for column in self.table.columns)
        return int(self.table.counts[kept].sum()) if at_root and not self.table.fixed else 0


def cells_of(classes: NDArray[np.int64], count: int, codes: NDArray[np.int64], counts: NDArray[np.int64]) -> Cells:
    """Cells of one sensitive column from rows with their class, code and count.

    Examples
    --------
    >>> cells = cells_of(np.array([0, 0, 1]), 2, np.array([5, 5, 7]), np.array([1, 2, 3]))
    >>> cells.offsets.tolist(), cells.codes.tolist(), cells.counts.tolist()
    ([0, 1, 2], [5, 7], [3, 3])
    """
    span = int(codes.max(initial=0)) + 1
    pairs, dense = np.unique(classes * span + codes, return_inverse=True)
    totals = np.bincount(dense, weights=counts, minlength=len(pairs)).astype(np.int64)
    offsets = np.searchsorted(pairs, np.arange(count + 1, dtype=np.int64) * span).astype(np.int64)
    return Cells(offsets, pairs % span, totals)
