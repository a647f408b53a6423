"""Group disclosure: margin cells nearly all of whose members are in one child cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.errors import UsageError, did_you_mean
from privpipe.tables.aggregates import CellFigures, exact, pattern_mask, rational
from privpipe.tables.audit_problem import Levels

__all__ = ["GroupDisclosure"]


@dataclass(frozen=True, kw_only=True)
class GroupDisclosure:
    """No child cell holds all members of its margin but `known`; observed = number of pairs that do.

    Source: Hundepool et al., Handbook on Statistical Disclosure Control, 2nd ed., 5.2; Lupp, Langsrud 2021.

    Parameters
    ----------
    known : int
        k members who know themselves: a margin cell of more than k contributors, of which at most k are outside one
        child, shows them that all others are inside.
    columns : sequence of str
        Dimensions that are attributes; margins are totals or inner labels of these.
    share : number, optional
        A child with at least this share of its margin is disclosive too.
    allowed : sequence of mapping of column to label
        What is not a secret.

    Examples
    --------
    >>> GroupDisclosure(columns=["hours"]).known
    0
    """

    columns: Sequence[str]
    known: int = 0
    share: Any = None
    allowed: Sequence[Mapping[str, str]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) or not self.columns:
            raise UsageError(
                "group_disclosure: give the attributes, columns: [...], or give a dimension the role sensitive"
            )
        if isinstance(self.known, bool) or not isinstance(self.known, int) or self.known < 0:
            raise UsageError(f"group_disclosure: known must be an integer of at least 0, got {self.known!r}")
        if self.share is not None and not 0 < rational(self.share, "group_disclosure: share") <= 1:
            raise UsageError(f"group_disclosure: share must be above 0 and at most 1, got {self.share!r}")

    def pairs(self, figures: CellFigures, published: NDArray[np.bool_] | None = None) -> tuple[Ints, Ints]:
        """Disclosive (child, margin) cells, both published; sorted.

        Raises
        ------
        UsageError
            A column that is not a dimension of the table.
        """
        child, margin = self._families(figures)
        counts = figures.contributors
        outside = counts[margin] - counts[child]
        found = outside <= self.known
        if self.share is not None:
            share = rational(self.share, "group_disclosure: share")
            found |= np.asarray(
                exact(counts[child], share.denominator) >= exact(counts[margin], share.numerator), dtype=np.bool_
            )
        found &= counts[margin] > self.known
        if published is not None:
            found &= published[child] & published[margin]
        found &= ~pattern_mask(figures.cells, self.allowed, "group_disclosure: allowed")[child]
        order = np.lexsort((margin[found], child[found]))
        return child[found][order], margin[found][order]

    def unsafe(self, figures: CellFigures) -> NDArray[np.bool_]:
        """Children of disclosive pairs: what is suppressed where the margin is to stay."""
        found = np.zeros(len(figures), dtype=np.bool_)
        found[self.pairs(figures)[0]] = True
        return found

    def observed(self, figures: CellFigures, published: NDArray[np.bool_]) -> int:
        """Number of disclosive pairs among published cells."""
        return len(self.pairs(figures, published)[0])

    def levels(self, figures: CellFigures) -> Levels:
        """What the children need: a table with at least known + 1 members of the margin outside is possible.

        Zeros among the siblings must be free to move.
        """
        child, margin = self.pairs(figures)
        counts = figures.contributors
        below = counts[child] - (counts[margin] - self.known - 1)
        if self.share is not None:
            # The most that is still below the share.
            share = rational(self.share, "group_disclosure: share")
            most = -((-exact(counts[margin], share.numerator)) // share.denominator) - 1
            below = np.maximum(below, (counts[child] - most).astype(np.int64))
        variables = np.unique(child)
        lower = np.zeros(len(variables), dtype=np.int64)
        np.maximum.at(lower, np.searchsorted(variables, child), np.maximum(below, 0))
        nothing = np.zeros(len(variables), dtype=np.int64)
        return Levels(variables, np.minimum(lower, counts[variables]), nothing, nothing.copy())

    def _families(self, figures: CellFigures) -> tuple[Ints, Ints]:
        """All (child, margin) cells of the table along the attributes."""
        cells = figures.cells
        names = [dimension.name for dimension in cells.dimensions]
        order = np.argsort(cells.keys)
        keys = cells.keys[order]
        children, margins = [], []
        for column in self.columns:
            if column not in names:
                raise UsageError(
                    f"group_disclosure: {column!r} is not a dimension of the table{did_you_mean(column, names)}"
                )
            place = names.index(column)
            step = int(np.prod(cells.shape[place + 1 :], dtype=np.int64))
            code = cells.codes[:, place]
            parent = np.asarray(cells.dimensions[place].parent, dtype=np.int64)[code]
            child = np.flatnonzero(parent >= 0)
            wanted = cells.keys[child] + (parent[child] - code[child]) * step
            at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            there = keys[at] == wanted
            children.append(child[there])
            margins.append(order[at[there]])
        return np.concatenate(children), np.concatenate(margins)
