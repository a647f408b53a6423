"""Lowest common ancestors, and what their labels lose, by one look-up each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit

__all__ = ["FORBIDDEN", "UNIT", "Labels", "climbed", "labels_of"]

Ints = NDArray[np.int64]
UNIT = 1 << 22
"""A loss of 1 as a whole number: no rounding decides."""
FORBIDDEN = 1 << 30
"""What a label loses that may not be given."""
LARGEST = 1 << 20
"""Entries of a column's table; a larger tree is climbed instead."""


class Labels(NamedTuple):
    """The trees of all columns, as compiled code takes them.

    A node is a place in `table`. Where its column has a table of all pairs, the lowest node above it and a leaf stands
    that many places further. Elsewhere the nodes of a column's leaves stand level after level.

    Parameters
    ----------
    table : ndarray of int32, flat
    lost : ndarray of int32, flat
        What a record loses under the label of each node of `table`, in units; `forbidden` where it may not be given.
    bottoms : ndarray of int32, shape (m,)
        Where the nodes of each column's leaves at its lowest level begin in `leaves`.
    leaves : ndarray of int32, flat
    firsts, widths : ndarray of int32, shape (m,)
        Where a column that is climbed begins, and how many leaves it has; 0 where there is a table of all pairs.
    forbidden : int
    """

    table: NDArray[np.int32]
    lost: NDArray[np.int32]
    bottoms: NDArray[np.int32]
    leaves: NDArray[np.int32]
    firsts: NDArray[np.int32]
    widths: NDArray[np.int32]
    forbidden: int

    def nodes(self, leaves: NDArray[np.int32]) -> NDArray[np.int32]:
        """Node of each leaf at the lowest level of its column, shape (t, m)."""
        return np.asarray(self.leaves[self.bottoms + leaves])


def labels_of(
    levels: Sequence[Sequence[Ints]],
    lost: Sequence[Sequence[Ints]],
    forbidden: int = FORBIDDEN,
    *,
    largest: int = LARGEST,
) -> Labels:
    """From the label of each leaf of each column, level by level, and what a record with that leaf loses there.

    The last level of each column holds one label.

    Examples
    --------
    >>> own = labels_of([[np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([0, 0, 0])]], [[np.arange(3)] * 3])
    >>> first = own.nodes(np.array([[0]], np.int32))[0, 0]
    >>> bool(own.table[first + 1] == own.table[first + 2]), bool(own.table[first + 1] == first)
    (False, False)
    """
    tables, costs, bottoms, leaves, firsts, widths, at, begin = [], [], [], [], [], [], 0, 0
    for own, cost in zip(levels, lost, strict=True):
        width = len(own[0])
        sizes = [int(level.max(initial=-1)) + 1 for level in own]
        climbs = sum(sizes) * width > largest
        table, lows, found = (_levels if climbs else _pairs)(own, cost, sizes)
        tables.append(table + at)
        costs.append(found)
        bottoms.append(begin)
        leaves.append(lows + at)
        firsts.append(at)
        widths.append(width if climbs else 0)
        at += len(table)
        begin += width
    flat = [np.concatenate([*each, np.zeros(0)]).astype(np.int32) for each in (tables, costs, leaves)]
    ends = [np.array(each, dtype=np.int32) for each in (bottoms, firsts, widths)]
    return Labels(flat[0], flat[1], ends[0], flat[2], ends[1], ends[2], forbidden)


def _levels(levels: Sequence[Ints], lost: Sequence[Ints], sizes: list[int]) -> tuple[Ints, Ints, Ints]:
    """Nodes level after level: the first leaf below a label stands for it."""
    width, rows = len(levels[0]), []
    for at, level in enumerate(levels):
        first = np.full(sizes[at], width)
        np.minimum.at(first, level, np.arange(width))
        rows.append(first[level] + at * width)
    return np.concatenate(rows), rows[0], np.concatenate(lost)


def _pairs(levels: Sequence[Ints], lost: Sequence[Ints], sizes: list[int]) -> tuple[Ints, Ints, Ints]:
    """A row a node: the node itself where a leaf lies below, else what its parent's row says."""
    width = len(levels[0])
    starts = np.concatenate([[0], np.cumsum(sizes)]) * width
    above = np.full((1, width), starts[-2])
    costs = np.broadcast_to(lost[-1], (1, width))
    rows, found = [above], [costs]
    for at in range(len(levels) - 2, -1, -1):
        first = np.zeros(sizes[at], dtype=np.int64)
        first[levels[at][::-1]] = np.arange(width)[::-1]
        parents = levels[at + 1][first]
        below = levels[at] == np.arange(sizes[at])[:, None]
        above = np.where(below, starts[at] + np.arange(sizes[at])[:, None] * width, above[parents])
        costs = np.where(below, lost[at], costs[parents])
        rows.append(above)
        found.append(costs)
    table = np.concatenate([row.ravel() for row in reversed(rows)])
    return table, starts[0] + levels[0] * width, np.concatenate([row.ravel() for row in reversed(found)])


@njit(nogil=True, cache=True)
def climbed(table, first, width, node, leaf):  # type: ignore[no-untyped-def]
    """The lowest node above a node and a leaf of a column without a table of all pairs."""
    row = first + (node - first) // width * width
    while table[row + leaf] != node:
        node = table[node + width]
        row += width
    return node
