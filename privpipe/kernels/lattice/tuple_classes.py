"""Classes of distinct combinations under one vector of levels: their numbers, sizes and cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["class_cells", "class_numbers", "class_totals"]

Ints = NDArray[np.int64]
SPACE = 1 << 62
DENSE = 4


def class_numbers(codes: NDArray[np.int32], lookups: Sequence[tuple[int, Ints, int]]) -> tuple[Ints, int]:
    """The class of each combination: rows with equal labels in every column share one.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, m)
        Leaf codes.
    lookups : sequence of (int, ndarray of int64, int)
        Columns that form the classes: their place in `codes`, the label's code of each leaf code, and how many
        labels there are. None: one class.

    Returns
    -------
    (ndarray of int64, shape (t,), int)
        Numbers 0 .. classes - 1 in the order in which classes first occur, and their count.

    Examples
    --------
    >>> codes = np.array([[0, 2], [1, 0], [1, 2], [0, 1]], dtype=np.int32)
    >>> numbers, count = class_numbers(codes, [(0, np.array([0, 1]), 2), (1, np.array([0, 0, 1]), 2)])
    >>> numbers.tolist(), count
    ([0, 1, 2, 3], 4)
    >>> class_numbers(codes, [(1, np.array([0, 0, 1]), 2)])[0].tolist()
    [0, 1, 0, 1]
    """
    matrix = read_only(codes, np.int32)
    numbers, count = np.zeros(len(matrix), np.int64), min(1, len(matrix))
    left = list(lookups)
    while left:
        taken, space = 0, max(count, 1)
        while taken < len(left) and space <= SPACE // max(left[taken][2], 1):
            space *= max(left[taken][2], 1)
            taken += 1
        if not taken:
            raise OverflowError("a column has more labels than 62 bits tell apart")
        chosen, left = left[:taken], left[taken:]
        places, tables, starts = _joined(chosen)
        numbers, count = _number(matrix, places, tables, starts, numbers, space // max(count, 1), space)
    return np.asarray(numbers), int(count)


def class_totals(numbers: Ints, classes: int, counts: Ints) -> Ints:
    """Records of each class: the sum of its combinations' counts.

    Examples
    --------
    >>> class_totals(np.array([0, 1, 0]), 2, np.array([5, 1, 2])).tolist()
    [7, 1]
    """
    return np.asarray(_totals(read_only(numbers, np.int64), classes, read_only(counts, np.int64)))


def class_cells(
    numbers: Ints, classes: int, order: NDArray[np.intp], codes: Ints, counts: Ints
) -> tuple[Ints, Ints, Ints]:
    """Cells of one sensitive column: offsets by class, codes ascending within a class, counts.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Class of each combination.
    classes : int
    order : ndarray of int64, shape (t,)
        Places of the combinations, ascending by code.
    codes, counts : ndarray of int64, shape (t,)
        Code of the sensitive value, and records; 0 records make no cell.

    Examples
    --------
    >>> cells = class_cells(np.array([0, 0, 1]), 2, np.array([0, 1, 2]), np.array([5, 5, 7]), np.array([1, 2, 3]))
    >>> [part.tolist() for part in cells]
    [[0, 1, 2], [5, 7], [3, 3]]
    """
    ints = (read_only(array, np.int64) for array in (order, codes, counts))
    found: tuple[Ints, Ints, Ints] = _cells(read_only(numbers, np.int64), classes, *ints)
    return found


def _joined(lookups: Sequence[tuple[int, Ints, int]]) -> tuple[Ints, Ints, Ints]:
    """Places, and one table of the labels' contributions to a mixed-radix key."""
    radix, parts, starts = 1, [], [0]
    for _, table, labels in lookups:
        parts.append(np.asarray(table, dtype=np.int64) * radix)
        starts.append(starts[-1] + len(table))
        radix *= max(labels, 1)
    places = np.array([place for place, _, _ in lookups], dtype=np.int64)
    return read_only(places, np.int64), read_only(np.concatenate(parts), np.int64), read_only(starts, np.int64)


def _number(
    codes: NDArray[np.int32], places: Ints, tables: Ints, starts: Ints, numbers: Ints, radix: int, space: int
) -> tuple[Ints, int]:
    keys = _keys(codes, places, tables, starts, numbers, radix)
    if space <= DENSE * len(keys) + 1024:
        return _dense(keys, space)  # type: ignore[no-any-return]
    return _hashed(keys)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _keys(codes: NDArray[np.int32], places: Ints, tables: Ints, starts: Ints, numbers: Ints, radix: int) -> Ints:
    keys = numbers * radix
    for i in range(len(keys)):
        key = keys[i]
        for c in range(len(places)):
            key += tables[starts[c] + codes[i, places[c]]]
        keys[i] = key
    return keys


@njit(nogil=True, cache=True)
def _dense(keys: Ints, space: int) -> tuple[Ints, int]:
    """Renumber the keys in place by a table of all that may occur."""
    seen = np.full(space, -1, np.int64)
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        if seen[key] < 0:
            seen[key] = count
            count += 1
        keys[i] = seen[key]
    return keys, count


@njit(nogil=True, cache=True)
def _hashed(keys: Ints) -> tuple[Ints, int]:
    """Renumber the keys in place by open addressing; numbers follow the rows, never the table."""
    bits = 4
    while (1 << bits) < 2 * len(keys):
        bits += 1
    mask = (1 << bits) - 1
    slots = np.full(1 << bits, -1, np.int64)
    known = np.empty(len(keys), np.int64)
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        slot = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))
        while slots[slot] >= 0 and known[slots[slot]] != key:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = count
            known[count] = key
            count += 1
        keys[i] = slots[slot]
    return keys, count


@njit(nogil=True, cache=True)
def _totals(numbers: Ints, classes: int, counts: Ints) -> Ints:
    totals = np.zeros(classes, np.int64)
    for i in range(len(numbers)):
        totals[numbers[i]] += counts[i]
    return totals


@njit(nogil=True, cache=True)
def _cells(numbers: Ints, classes: int, order: Ints, codes: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    ends = np.zeros(classes + 1, np.int64)
    for i in range(len(numbers)):
        ends[numbers[i] + 1] += 1
    for c in range(classes):
        ends[c + 1] += ends[c]
    first = ends[:-1].copy()
    filled = first.copy()
    cell_codes, cell_counts = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
    for i in order:  # ascending by code, so that each class is filled in that order
        if counts[i] == 0:
            continue
        c = numbers[i]
        at = filled[c]
        if at > first[c] and cell_codes[at - 1] == codes[i]:
            cell_counts[at - 1] += counts[i]
        else:
            cell_codes[at], cell_counts[at] = codes[i], counts[i]
            filled[c] += 1
    offsets = np.zeros(classes + 1, np.int64)
    for c in range(classes):
        for at in range(first[c], filled[c]):
            to = offsets[c] + at - first[c]
            cell_codes[to], cell_counts[to] = cell_codes[at], cell_counts[at]
        offsets[c + 1] = offsets[c] + filled[c] - first[c]
    return offsets, cell_codes[: offsets[classes]].copy(), cell_counts[: offsets[classes]].copy()
