"""Lowest common ancestors, the loss of their labels, and the neighbours and unions with the least loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.compiled import njit

__all__ = [
    "FORBIDDEN",
    "NEVER",
    "UNIT",
    "Extents",
    "Labels",
    "LevelTables",
    "climbed",
    "labels_of",
    "level_tables",
    "nearest",
    "union_increases",
]


UNIT = 1 << 22
"""Integer that represents a loss of 1, so that no decision depends on rounding."""
FORBIDDEN = 1 << 30
"""Loss of a forbidden label."""
LARGEST = 1 << 20
"""Most entries of a column's table; a larger tree is climbed instead."""


class Labels(NamedTuple):
    """The trees of all columns, in the form that compiled code takes.

    A node is a place in `table`. Where its column has a table of all pairs, the lowest node above it and a leaf is
    stored at that place plus the leaf's number. Otherwise the nodes of a column's leaves are stored level after level.

    Parameters
    ----------
    table : ndarray of int32, flat
    lost : ndarray of int32, flat
        Loss of a record under the label of each node of `table`, in units; `forbidden` where the label is not allowed.
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
    """From the label of each leaf of each column, level by level, and the loss of a record with that leaf there.

    The last level of each column has one label.

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
    """Nodes level after level: the first leaf below a label represents it."""
    width, rows = len(levels[0]), []
    for at, level in enumerate(levels):
        first = np.full(sizes[at], width)
        np.minimum.at(first, level, np.arange(width))
        rows.append(first[level] + at * width)
    return np.concatenate(rows), rows[0], np.concatenate(lost)


def _pairs(levels: Sequence[Ints], lost: Sequence[Ints], sizes: list[int]) -> tuple[Ints, Ints, Ints]:
    """One row per node: the node itself for leaves below it, otherwise the entry of its parent's row."""
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


def nearest(labels: Labels, leaves: NDArray[np.int32], pools: Ints, many: int) -> NDArray[np.int32]:
    """Neighbours of each combination, nearest first, ties by their places; -1 after the last.

    Parameters
    ----------
    leaves : ndarray of int32, shape (t, m)
    pools : ndarray of int64, shape (p + 1,)
        Where each pool begins: the neighbours of a combination are in its pool.

    Examples
    --------
    >>> from privpipe.kernels.cluster_labels import labels_of
    >>> levels = [[np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([0, 0, 0])]]
    >>> own = labels_of(levels, [[np.full(3, level) for level in range(3)]])
    >>> nearest(own, np.array([[0], [1], [2]], np.int32), np.array([0, 3]), 2).tolist()
    [[1, 2], [0, 2], [0, 1]]
    """
    found = np.full((len(leaves), many), -1, dtype=np.int32)
    if many:
        _nearest(labels, leaves, labels.nodes(leaves), pools, found)
    return found


@njit(nogil=True, cache=True)
def _nearest(labels, leaves, nodes, pools, found):  # type: ignore[no-untyped-def]
    table, lost, _, _, firsts, widths, _ = labels
    many, width = found.shape[1], leaves.shape[1]
    least = np.empty(many, np.int64)
    for pool in range(len(pools) - 1):
        start, stop = pools[pool], pools[pool + 1]
        sums = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            sums[:] = 0
            for j in range(width):
                node = nodes[i, j]
                for other in range(start, stop):
                    if widths[j] == 0:
                        sums[other - start] += lost[node + leaves[other, j]]
                    else:
                        sums[other - start] += lost[climbed(table, firsts[j], widths[j], node, leaves[other, j])]
            count = 0
            for other in range(start, stop):
                own = sums[other - start]
                if other == i or (count == many and own >= least[count - 1]):
                    continue
                count = min(count + 1, many)
                place = count - 1
                while place > 0 and least[place - 1] > own:
                    least[place], found[i, place] = least[place - 1], found[i, place - 1]
                    place -= 1
                least[place], found[i, place] = own, other


NEVER = int(np.iinfo(np.int64).max)
"""The increase of a union that no allowed label covers."""


class LevelTables(NamedTuple):
    """Labels and losses of all columns at the allowed levels, in the form that compiled code takes.

    Parameters
    ----------
    codes : ndarray of int32, flat
        Column after column, level after level: the label of each leaf, in leaf order.
    lost : ndarray of int64, flat
        Loss of a record with that leaf at that level, in units.
    starts, widths, heights : ndarray of int64, shape (m,)
        Where each column begins, its leaves and its levels.
    """

    codes: NDArray[np.int32]
    lost: Ints
    starts: Ints
    widths: Ints
    heights: Ints


class Extents(NamedTuple):
    """Properties of classes that a union needs; a class without records no longer exists.

    Parameters
    ----------
    low, high : ndarray of int64, shape (g, m)
        First and last leaf among the members, in leaf order.
    records, costs : ndarray of int64, shape (g,)
        Records, and their total loss under their current labels.
    kinds : ndarray of int64, shape (g,)
        Only classes of one kind may be united: those with equal values in the fixed columns.
    """

    low: Ints
    high: Ints
    records: Ints
    costs: Ints
    kinds: Ints


def level_tables(levels: Sequence[Sequence[Ints]], lost: Sequence[Sequence[Ints]]) -> LevelTables:
    """From the label of each leaf of each column, level by level, and the loss of a record with that leaf there."""
    widths = np.array([len(own[0]) for own in levels], dtype=np.int64)
    heights = np.array([len(own) for own in levels], dtype=np.int64)
    ends = np.cumsum(widths * heights)
    flat = [np.concatenate([np.zeros(0), *(level for own in each for level in own)]) for each in (levels, lost)]
    return LevelTables(flat[0].astype(np.int32), flat[1].astype(np.int64), ends - widths * heights, widths, heights)


def union_increases(tables: LevelTables, classes: Extents, own: int) -> tuple[Ints, NDArray[np.int16]]:
    """Additional loss of the union of one class with each other one, compared with the two classes.

    Parameters
    ----------
    own : int
        Place of this class.

    Returns
    -------
    (ndarray of int64, shape (g,), ndarray of int16, shape (g, m))
        Increases, in units, `NEVER` for the class itself, classes that no longer exist or are of another kind, and
        unions that no label covers; a union may lose less than its parts. Then the level of each union in each column,
        counted from the lowest allowed one.

    Examples
    --------
    >>> tables = level_tables([[np.array([0, 1, 2]), np.array([0, 0, 1])]], [[np.zeros(3), np.array([5, 5, 9])]])
    >>> leaves = np.array([[0], [1], [2]])
    >>> three = Extents(leaves, leaves, np.array([1, 3, 1]), np.zeros(3, np.int64), np.zeros(3, np.int64))
    >>> found, levels = union_increases(tables, three, 0)
    >>> (found == NEVER).tolist(), int(found[1]), levels[1].tolist()
    ([True, False, True], 20, [1])
    """
    many, width = classes.low.shape
    found, levels = np.full(many, NEVER), np.zeros((many, width), dtype=np.int16)
    _increases(tables, classes, own, found, levels)
    return found, levels


@njit(nogil=True, cache=True)
def _increases(tables, classes, own, found, levels):  # type: ignore[no-untyped-def]
    codes, lost, starts, widths, heights = tables
    low, high, records, costs, kinds = classes
    for other in range(len(records)):
        if other == own or records[other] == 0 or kinds[other] != kinds[own]:
            continue
        spent, allowed = np.int64(0), True
        for j in range(low.shape[1]):
            first, last = min(low[own, j], low[other, j]), max(high[own, j], high[other, j])
            level, row = 0, starts[j]
            while level < heights[j] and codes[row + first] != codes[row + last]:
                level += 1
                row += widths[j]
            if level == heights[j]:
                allowed = False
                break
            levels[other, j] = level
            spent += lost[row + first]
        if allowed:
            found[other] = spent * (records[own] + records[other]) - costs[own] - costs[other]
