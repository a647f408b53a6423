"""The records that a cut leaves on either side, the side of each row, and the leaf of each row of a finished tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints, read_only
from privpipe.compiled import njit
from privpipe.kernels.mondrian.cuts import goes_first

__all__ = [
    "folded",
    "leaf_cells",
    "leaf_numbers",
    "leaves_below",
    "side_beside",
    "side_cells",
    "side_cells_of_persons",
    "side_numbers",
    "side_persons",
    "side_sizes",
]


def side_sizes(codes: NDArray[Any], counts: Ints, keys: Ints, segments: Ints, cuts: Ints) -> Ints:
    """Records on each side of a cut of each segment, shape (2 s,): first, other, first, other, ...

    Parameters
    ----------
    segments : ndarray of int64, shape (s, 2)
    cuts : ndarray of int64, shape (s, 3)
        Column, code, tie.
    """
    return np.asarray(_side_sizes(codes, counts, keys, segments, cuts))


def side_beside(codes: NDArray[Any], segments: Ints, cuts: Ints) -> Ints:
    """As `side_sizes`, of the population together with the table: the last code of its rows is how many they represent.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 7], [1, 5], [2, 1]], dtype=np.int32)
    >>> side_beside(codes, np.array([[0, 4]]), np.array([[0, 0, 0]])).tolist()
    [7, 6]
    """
    return np.asarray(_side_beside(codes, segments, cuts))


def side_cells(
    codes: NDArray[Any],
    counts: Ints,
    keys: Ints,
    segments: Ints,
    cuts: Ints,
    place: int,
    values: int,
) -> tuple[Ints, Ints, Ints]:
    """Cells of the sensitive column at `place` of `codes`, on each side of a cut of each segment.

    Returns
    -------
    (offsets, codes, counts) : ndarrays of int64
        Codes ascending within a side.
    """
    found: tuple[Ints, Ints, Ints] = _side_cells(codes, counts, keys, segments, cuts, place, values)
    return found


def side_persons(codes: NDArray[Any], keys: Ints, segments: Ints, cuts: Ints, persons: int) -> Ints:
    """Different persons on each side of a cut of each segment, as `side_sizes`: one may be on both.

    Parameters
    ----------
    codes : ndarray, shape (t, c + 2)
        The last columns: number of a row's person, below `persons`, and how many persons it represents.
    """
    return np.asarray(_side_persons(codes, keys, segments, cuts, persons))


def side_cells_of_persons(
    codes: NDArray[Any],
    keys: Ints,
    segments: Ints,
    cuts: Ints,
    place: int,
    values: int,
    persons: int,
) -> tuple[Ints, Ints, Ints]:
    """As `side_cells`, in different persons: a person with two records of a value on one side counts once there."""
    found: tuple[Ints, Ints, Ints] = _side_cells_of_persons(codes, keys, segments, cuts, place, values, persons)
    return found


def leaf_numbers(codes: NDArray[Any], keys: Ints, columns: Ints, cuts: Ints, ties: Ints) -> Ints:
    """Leaf of each row of a tree in preorder, shape (n,), leaves numbered in preorder.

    Examples
    --------
    >>> codes = np.array([[0], [1], [2], [3]], dtype=np.int32)
    >>> columns, cuts = np.array([0, 0, -1, -1, -1]), np.array([2, 0, 0, 0, 0])
    >>> leaf_numbers(codes, np.empty(0, np.int64), columns, cuts, cuts).tolist()
    [0, 1, 1, 2]
    """
    return np.asarray(_leaf_numbers(read_only(codes, np.int32), keys, columns, cuts, ties))


def leaves_below(columns: Ints) -> Ints:
    """Leaves at or below each node of a tree in preorder, shape (nodes,).

    Examples
    --------
    >>> leaves_below(np.array([0, 0, -1, -1, -1])).tolist()
    [3, 2, 1, 1, 1]
    """
    return np.asarray(_leaves_below(columns))


@njit(nogil=True, cache=True)
def _leaves_below(columns):  # type: ignore[no-untyped-def]
    found = np.ones(len(columns), np.int64)
    for node in range(len(columns) - 1, -1, -1):
        if columns[node] >= 0:
            found[node] = found[node + 1] + found[node + 2 * found[node + 1]]
    return found


@njit(nogil=True, cache=True)
def _side_sizes(codes, counts, keys, segments, cuts):  # type: ignore[no-untyped-def]
    relaxed = len(keys) > 0
    sizes = np.zeros(2 * len(segments), np.int64)
    for s in range(len(segments)):
        column, cut, tie = cuts[s]
        for i in range(segments[s, 0], segments[s, 1]):
            first = goes_first(codes[i, column], cut, relaxed, keys, i, tie)
            sizes[2 * s + (0 if first else 1)] += counts[i]
    return sizes


@njit(nogil=True, cache=True)
def _side_beside(codes, segments, cuts):  # type: ignore[no-untyped-def]
    place = codes.shape[1] - 1
    sizes = np.zeros(2 * len(segments), np.int64)
    for s in range(len(segments)):
        column, cut = cuts[s, 0], cuts[s, 1]
        for i in range(segments[s, 0], segments[s, 1]):
            sizes[2 * s + (0 if codes[i, column] <= cut else 1)] += np.int64(codes[i, place])
    return sizes


@njit(nogil=True, cache=True)
def _side_cells(codes, counts, keys, segments, cuts, place, values):  # type: ignore[no-untyped-def]
    relaxed = len(keys) > 0
    rows = np.int64(0)
    for s in range(len(segments)):
        rows += segments[s, 1] - segments[s, 0]
    offsets = np.zeros(2 * len(segments) + 1, np.int64)
    cell_codes, cell_counts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    totals = np.zeros(values, np.int64)
    end = 0
    for s in range(len(segments)):
        column, cut, tie = cuts[s]
        for side in range(2):
            begin = end
            for i in range(segments[s, 0], segments[s, 1]):
                if counts[i] == 0 or goes_first(codes[i, column], cut, relaxed, keys, i, tie) != (side == 0):
                    continue
                value = np.int64(codes[i, place])
                if totals[value] == 0:
                    cell_codes[end] = value
                    end += 1
                totals[value] += counts[i]
            cell_codes[begin:end] = np.sort(cell_codes[begin:end])
            for at in range(begin, end):
                cell_counts[at] = totals[cell_codes[at]]
                totals[cell_codes[at]] = 0
            offsets[2 * s + side + 1] = end
    return offsets, cell_codes[:end].copy(), cell_counts[:end].copy()


@njit(nogil=True, cache=True)
def _side_persons(codes, keys, segments, cuts, persons):  # type: ignore[no-untyped-def]
    relaxed, place = len(keys) > 0, codes.shape[1] - 2
    sizes = np.zeros(2 * len(segments), np.int64)
    last = np.full((2, persons), np.int64(-1))
    for s in range(len(segments)):
        column, cut, tie = cuts[s]
        for i in range(segments[s, 0], segments[s, 1]):
            side = 0 if goes_first(codes[i, column], cut, relaxed, keys, i, tie) else 1
            person = np.int64(codes[i, place])
            if last[side, person] != s:
                last[side, person] = s
                sizes[2 * s + side] += codes[i, place + 1]
    return sizes


@njit(nogil=True, cache=True)
def _side_cells_of_persons(codes, keys, segments, cuts, place, values, persons):  # type: ignore[no-untyped-def]
    relaxed, owner = len(keys) > 0, codes.shape[1] - 2
    rows, longest = np.int64(0), np.int64(0)
    for s in range(len(segments)):
        rows += segments[s, 1] - segments[s, 0]
        longest = max(longest, segments[s, 1] - segments[s, 0])
    offsets = np.zeros(2 * len(segments) + 1, np.int64)
    cell_codes, cell_counts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    inside, chain = np.empty(longest, np.int64), np.empty(longest, np.int64)
    heads = np.full(values, np.int64(-1))
    last = np.full(persons, np.int64(-1))
    end = 0
    for s in range(len(segments)):
        column, cut, tie = cuts[s]
        for side in range(2):
            begin, n = end, 0
            for i in range(segments[s, 0], segments[s, 1]):
                if goes_first(codes[i, column], cut, relaxed, keys, i, tie) != (side == 0):
                    continue
                value = np.int64(codes[i, place])
                if heads[value] < 0:
                    cell_codes[end] = value
                    end += 1
                inside[n], chain[n], heads[value] = i, heads[value], n
                n += 1
            cell_codes[begin:end] = np.sort(cell_codes[begin:end])
            for at in range(begin, end):
                value, total = cell_codes[at], np.int64(0)
                each = heads[value]
                while each >= 0:
                    i = inside[each]
                    person = np.int64(codes[i, owner])
                    if last[person] != at:  # the number of a cell is unique
                        last[person] = at
                        total += codes[i, owner + 1]
                    each = chain[each]
                cell_counts[at], heads[value] = total, -1
            offsets[2 * s + side + 1] = end
    return offsets, cell_codes[:end].copy(), cell_counts[:end].copy()


@njit(nogil=True, cache=True)
def _leaf_numbers(codes, keys, columns, cuts, ties):  # type: ignore[no-untyped-def]
    relaxed = len(keys) > 0
    rights, leaves = np.zeros(len(columns), np.int64), np.zeros(len(columns), np.int64)
    waiting = [np.int64(-1)]
    found = 0
    for node in range(len(columns)):
        leaves[node] = found
        if columns[node] >= 0:
            waiting.append(np.int64(node))
        else:
            found += 1
            parent = waiting.pop()
            if parent >= 0:
                rights[parent] = node + 1
    numbers = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        node = 0
        while columns[node] >= 0:
            first = goes_first(codes[i, columns[node]], cuts[node], relaxed, keys, i, ties[node])
            node = node + 1 if first else rights[node]
        numbers[i] = leaves[node]
    return numbers


def leaf_cells(columns: Ints, cuts: Ints, ties: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Depth of each leaf of a tree in preorder, and the ends of its cell in each column.

    Parameters
    ----------
    columns, cuts, ties : ndarray of int64, shape (nodes,)
    sizes : ndarray of int64, shape (c,)
        Codes of each of the first c columns.

    Returns
    -------
    (ndarray of int64, shape (leaves,), ndarray of int64, shape (leaves, c), the same)

    Examples
    --------
    >>> ties = np.full(3, np.iinfo(np.int64).max)
    >>> [part.tolist() for part in leaf_cells(np.array([0, -1, -1]), np.array([1, 0, 0]), ties, np.array([4]))]
    [[1, 1], [[0], [2]], [[1], [3]]]
    """
    found: tuple[Ints, Ints, Ints] = _leaf_cells(columns, cuts, ties, sizes)
    return found


def folded(columns: Ints, leaves: Ints) -> tuple[Ints, Ints]:
    """Fold the parents of some leaves of a tree in preorder into leaves.

    Returns
    -------
    (ndarray of int64, shape (nodes,), ndarray of int64, shape (leaves,))
        What becomes of each node: 0 removed, 1 unchanged, 2 now a leaf; and the new number of each old leaf.

    Examples
    --------
    >>> [part.tolist() for part in folded(np.array([0, 0, -1, -1, -1]), np.array([1]))]
    [[1, 2, 0, 0, 1], [0, 0, 1]]
    """
    found: tuple[Ints, Ints] = _folded(columns, leaves)
    return found


@njit(nogil=True, cache=True)
def _leaf_cells(columns: Ints, cuts: Ints, ties: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    leaves = np.int64(0)
    for node in range(len(columns)):
        leaves += columns[node] < 0
    depths = np.zeros(leaves, np.int64)
    first, last = np.zeros((leaves, len(sizes)), np.int64), np.empty((leaves, len(sizes)), np.int64)
    # The bounds of the right half of each cut that is still open.
    open_depths = np.empty(len(columns) + 1, np.int64)
    open_first = np.zeros((64, len(sizes)), np.int64)
    open_last = np.zeros((64, len(sizes)), np.int64)
    low, high = np.zeros(len(sizes), np.int64), sizes - 1
    depth, waiting, leaf = 0, 0, 0
    for node in range(len(columns)):
        column = columns[node]
        if column >= 0:
            if waiting == len(open_first):
                wider_first = np.zeros((2 * waiting, len(sizes)), np.int64)
                wider_last = np.zeros((2 * waiting, len(sizes)), np.int64)
                wider_first[:waiting], wider_last[:waiting] = open_first, open_last
                open_first, open_last = wider_first, wider_last
            open_first[waiting], open_last[waiting] = low, high
            depth += 1
            open_depths[waiting] = depth
            if column < len(sizes):
                # A cut through a value leaves it on both sides.
                whole = ties[node] == np.iinfo(np.int64).max
                open_first[waiting, column] = cuts[node] + 1 if whole else cuts[node]
                high[column] = cuts[node]
            waiting += 1
            continue
        depths[leaf], first[leaf], last[leaf] = depth, low, high
        leaf += 1
        if waiting:
            waiting -= 1
            low, high = open_first[waiting].copy(), open_last[waiting].copy()
            depth = open_depths[waiting]
    return depths, first, last


@njit(nogil=True, cache=True)
def _folded(columns: Ints, leaves: Ints) -> tuple[Ints, Ints]:
    nodes = len(columns)
    parents = np.full(nodes, -1, np.int64)
    waiting = np.empty(nodes + 1, np.int64)
    many, found, last = 0, 0, -1
    leaf_nodes = np.empty(nodes, np.int64)
    for node in range(nodes):
        parents[node] = last
        if columns[node] >= 0:
            waiting[many] = node
            many += 1
            last = node
        else:
            leaf_nodes[found] = node
            found += 1
            if many:
                many -= 1
                last = waiting[many]
    kept = np.ones(nodes, np.int64)
    for leaf in leaves:
        parent = parents[leaf_nodes[leaf]]
        if parent >= 0:
            kept[parent] = 2
    for node in range(nodes):  # a parent comes before its children
        if parents[node] >= 0 and kept[parents[node]] != 1:
            kept[node] = 0
    numbers = np.empty(found, np.int64)
    number = -1
    for node in range(nodes):
        if kept[node] == 2 or (kept[node] == 1 and columns[node] < 0):
            number += 1
        if columns[node] < 0:
            numbers[np.searchsorted(leaf_nodes[:found], node)] = number
    return kept, numbers


def side_numbers(codes: NDArray[Any], keys: Ints, segments: Ints, cuts: Ints) -> tuple[Ints, Ints]:
    """The rows of all segments, one segment after the other, and the side of each, numbered as in `side_sizes`.

    Examples
    --------
    >>> codes, none = np.array([[0], [1], [2]], dtype=np.int32), np.empty(0, np.int64)
    >>> [part.tolist() for part in side_numbers(codes, none, np.array([[1, 3]]), np.array([[0, 1, 0]]))]
    [[1, 2], [0, 1]]
    """
    found: tuple[Ints, Ints] = _side_numbers(codes, keys, segments, cuts)
    return found


@njit(nogil=True, cache=True)
def _side_numbers(codes, keys, segments, cuts):  # type: ignore[no-untyped-def]
    relaxed = len(keys) > 0
    many = np.int64(0)
    for s in range(len(segments)):
        many += segments[s, 1] - segments[s, 0]
    rows, sides = np.empty(many, np.int64), np.empty(many, np.int64)
    at = 0
    for s in range(len(segments)):
        column, cut, tie = cuts[s]
        for i in range(segments[s, 0], segments[s, 1]):
            first = goes_first(codes[i, column], cut, relaxed, keys, i, tie)
            rows[at], sides[at] = i, 2 * s + (0 if first else 1)
            at += 1
    return rows, sides
