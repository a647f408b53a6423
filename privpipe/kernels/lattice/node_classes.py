"""Classes of distinct combinations under one vector of levels: by a few look-ups of packed columns, or by codes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import read_only
from privpipe.compiled import SMALL, njit
from privpipe.kernels.columns.codes import FUSED, padded

__all__ = ["class_cells", "class_numbers", "class_totals", "compacted", "numbered"]


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Codes = NDArray[np.uint16] | NDArray[np.int32]
Numbered = tuple[Ints, Longs, Ints]
DENSE = 4
SPARSE = 16
SPARE = 4096
SMALLEST = 12
SPREAD = np.uint64(0x9E3779B97F4A7C15)


def numbered(codes: Sequence[Codes], labels: Sequence[Longs], radices: Sequence[int], counts: Longs) -> Numbered:
    """The class of each combination, the records of each class, and the first combination of it.

    Where a table of all keys would be sparse, runs of combinations that share the first group's code are combined
    by their label: only keys of the other groups need a table, small enough for the processor's cache.

    Parameters
    ----------
    codes : sequence of ndarray of uint16 or int32, shape (t,)
        Packed code of each combination in each group of columns, at least one group.
    labels : sequence of ndarray of int64
        For each group, the label of each packed code.
    radices : sequence of int
        For each group, how many labels there are; their product is below 2^62.
    counts : ndarray of int64, shape (t,)

    Returns
    -------
    (ndarray of int32, shape (t,), ndarray of int64, shape (classes,), ndarray of int32, shape (classes,))
        Numbers from 0, in no meaningful order.

    Examples
    --------
    >>> codes = [np.array([0, 1, 1, 0], dtype=np.uint16), np.array([0, 0, 1, 0], dtype=np.uint16)]
    >>> found = numbered(codes, [np.array([0, 0]), np.array([0, 1])], [1, 2], np.array([5, 1, 2, 1]))
    >>> [part.tolist() for part in found]
    [[0, 0, 1, 0], [7, 2], [0, 2]]
    """
    space, tables, step = math.prod(radices), [], 1
    # Rows are sorted by the first columns: their labels lead the key, so that neighbours have close keys.
    for found, radix in zip(reversed(labels), reversed(radices), strict=True):
        tables.append(read_only(found * step if step > 1 else found, np.int64))
        step *= radix
    tables.reverse()
    held = read_only(counts, np.int64)
    rows = padded(codes)
    parts = tables + [read_only(np.zeros(1), np.int64)] * (FUSED - len(tables))
    dense = space <= DENSE * len(counts) + SPARE
    rest = space // max(radices[0], 1)
    if len(rows) == FUSED and dense:
        return _numbered_dense(*rows, *parts, held, space)  # type: ignore[no-any-return]
    if len(rows) == FUSED and rest <= SPARSE * len(counts):
        first = read_only(labels[0], np.int64)
        return _numbered_runs(*rows, first, *parts[1:], held, (radices[0], rest))  # type: ignore[no-any-return]
    keys = _keys(*rows[:FUSED], *parts[:FUSED])
    for row, part in zip(rows[FUSED:], parts[FUSED:], strict=True):
        _add_keys(keys, row, part)
    whole = read_only(keys, np.int64)
    return _keyed_dense(whole, held, space) if dense else _keyed(whole, held)  # type: ignore[no-any-return]


def compacted(keys: Longs, space: int) -> tuple[Ints, int]:
    """Keys below `space` renumbered without gaps, in their order, and how many there are.

    Examples
    --------
    >>> [part if isinstance(part, int) else part.tolist() for part in compacted(np.array([4, 1, 4]), 6)]
    [[1, 0, 1], 2]
    """
    numbers, count = _compacted(read_only(keys, np.int64), space)
    return numbers, int(count)


@njit(small=SMALL, nogil=True, cache=True)
def _numbered_dense(
    c0: Codes, c1: Codes, c2: Codes, t0: Longs, t1: Longs, t2: Longs, counts: Longs, space: int
) -> Numbered:
    t = len(counts)
    seen = np.full(space, -1, np.int32)
    numbers = np.empty(t, np.int32)
    sizes = np.zeros(min(t, space), np.int64)
    first = np.empty(min(t, space), np.int32)
    count = 0
    for i in range(t):
        key = t0[c0[i]] + t1[c1[i]] + t2[c2[i]]  # unrolled: a loop over the groups takes four times as long
        number = seen[key]
        if number < 0:
            number = count
            first[count] = i
            seen[key] = count
            count += 1
        numbers[i] = number
        sizes[number] += counts[i]
    return numbers, sizes[:count].copy(), first[:count].copy()


@njit(small=SMALL, nogil=True, cache=True)
def _numbered_runs(
    c0: Codes, c1: Codes, c2: Codes, own: Longs, t1: Longs, t2: Longs, counts: Longs, spaces: tuple[int, int]
) -> Numbered:
    labels, rest = spaces  # of the first group, and of the others
    t = len(counts)
    ends = np.zeros(labels + 1, np.int64)
    runs = 0
    for i in range(t):
        if i == 0 or c0[i] != c0[i - 1]:
            ends[own[c0[i]] + 1] += 1
            runs += 1
    for label in range(labels):
        ends[label + 1] += ends[label]
    starts, stops = np.empty(runs, np.int64), np.empty(runs, np.int64)
    place = np.int64(0)
    for i in range(t):  # runs by label, in their order within a label
        if i == 0 or c0[i] != c0[i - 1]:
            if i > 0:
                stops[place] = i
            place = ends[own[c0[i]]]
            ends[own[c0[i]]] += 1
            starts[place] = i
    if t > 0:
        stops[place] = t
    seen = np.full(rest, -1, np.int32)
    numbers = np.empty(t, np.int32)
    first = np.empty(t + 1, np.int32)
    sizes = np.zeros(t, np.int64)
    count = 0
    begun = 0
    for r in range(runs):
        if r == 0 or own[c0[starts[r]]] != own[c0[starts[r - 1]]]:
            begun = count  # numbers below this are of other labels
        for i in range(starts[r], stops[r]):
            key = t1[c1[i]] + t2[c2[i]]
            number = seen[key]
            fresh = number < begun  # no branch: the outcome is as good as random
            number = np.int32(count) if fresh else number
            seen[key] = number
            first[count] = i
            count += fresh
            numbers[i] = number
            sizes[number] += counts[i]
    return numbers, sizes[:count].copy(), first[:count].copy()


@njit(nogil=True, cache=True)
def _spread(size: int, shift: np.uint64, known: Longs, count: int) -> Ints:
    """Enlarge the table of keys: small tables stay in the processor's cache, and most nodes have few classes."""
    slots = np.full(size, -1, np.int32)
    for number in range(count):
        slot = np.int64((np.uint64(known[number]) * SPREAD) >> shift)
        while slots[slot] >= 0:
            slot = (slot + 1) & np.int64(size - 1)
        slots[slot] = number
    return slots


@njit(small=SMALL, nogil=True, cache=True)
def _keys(c0: Codes, c1: Codes, c2: Codes, t0: Longs, t1: Longs, t2: Longs) -> Longs:
    keys = np.empty(len(c0), np.int64)
    for i in range(len(c0)):
        keys[i] = t0[c0[i]] + t1[c1[i]] + t2[c2[i]]
    return keys


@njit(small=SMALL, nogil=True, cache=True)
def _add_keys(keys: Longs, codes: Codes, table: Longs) -> None:
    for i in range(len(keys)):
        keys[i] += table[codes[i]]


@njit(small=SMALL, nogil=True, cache=True)
def _keyed_dense(keys: Longs, counts: Longs, space: int) -> Numbered:
    seen = np.full(space, -1, np.int32)
    numbers = np.empty(len(keys), np.int32)
    sizes = np.zeros(min(len(keys), space), np.int64)
    first = np.empty(min(len(keys), space), np.int32)
    count = 0
    for i in range(len(keys)):
        number = seen[keys[i]]
        if number < 0:
            number = count
            first[count] = i
            seen[keys[i]] = count
            count += 1
        numbers[i] = number
        sizes[number] += counts[i]
    return numbers, sizes[:count].copy(), first[:count].copy()


def _keyed_plain(keys: Longs, counts: Longs) -> Numbered:
    _, firsts, found = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(firsts)  # numbers in the order in which classes occur
    numbers = np.argsort(order)[found].astype(np.int32)
    sizes = np.zeros(len(firsts), np.int64)
    np.add.at(sizes, numbers, counts)
    return numbers, sizes, firsts[order].astype(np.int32)


@njit(small=SMALL, plain=_keyed_plain, nogil=True, cache=True)
def _keyed(keys: Longs, counts: Longs) -> Numbered:
    t = len(keys)
    slots = np.full(1 << SMALLEST, -1, np.int32)
    mask, shift = np.int64(len(slots) - 1), np.uint64(64 - SMALLEST)
    known = np.empty(t, np.int64)
    numbers = np.empty(t, np.int32)
    sizes = np.zeros(t, np.int64)
    first = np.empty(t, np.int32)
    count = 0
    for i in range(t):
        key = keys[i]
        slot = np.int64((np.uint64(key) * SPREAD) >> shift)
        number = slots[slot]
        while number >= 0 and known[number] != key:
            slot = (slot + 1) & mask
            number = slots[slot]
        if number < 0:
            number = count
            first[count] = i
            slots[slot] = count
            known[count] = key
            count += 1
            if 2 * count > mask:
                shift -= np.uint64(2)
                slots = _spread(4 * len(slots), shift, known, count)
                mask = np.int64(len(slots) - 1)
        numbers[i] = number
        sizes[number] += counts[i]
    return numbers, sizes[:count].copy(), first[:count].copy()


@njit(small=SMALL, nogil=True, cache=True)
def _compacted(keys: Longs, space: int) -> tuple[Ints, int]:
    rank = np.full(space, -1, np.int32)
    for key in keys:
        rank[key] = 0
    count = 0
    for key in range(space):
        if rank[key] == 0:
            rank[key] = count
            count += 1
    numbers = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        numbers[i] = rank[keys[i]]
    return numbers, count


SPACE = 1 << 62


def class_numbers(codes: NDArray[np.int32], lookups: Sequence[tuple[int, Longs, int]]) -> tuple[Longs, int]:
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
            raise OverflowError("a column has more labels than 62 bits distinguish")
        chosen, left = left[:taken], left[taken:]
        places, tables, starts = _joined(chosen)
        numbers, count = _number(matrix, places, tables, starts, numbers, space // max(count, 1), space)
    return np.asarray(numbers), int(count)


def class_totals(numbers: Longs, classes: int, counts: Longs) -> Longs:
    """Records of each class: the sum of its combinations' counts.

    Examples
    --------
    >>> class_totals(np.array([0, 1, 0]), 2, np.array([5, 1, 2])).tolist()
    [7, 1]
    """
    return np.asarray(_totals(read_only(numbers, np.int64), classes, read_only(counts, np.int64)))


def class_cells(
    numbers: Longs, classes: int, order: NDArray[np.intp], codes: Longs, counts: Longs
) -> tuple[Longs, Longs, Longs]:
    """Cells of one sensitive column: offsets by class, codes in ascending order within a class, and counts.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Class of each combination.
    classes : int
    order : ndarray of int64, shape (t,)
        Places of the combinations, ascending by code.
    codes, counts : ndarray of int64, shape (t,)
        Code of the sensitive value, and records; combinations of 0 records have no cell.

    Examples
    --------
    >>> cells = class_cells(np.array([0, 0, 1]), 2, np.array([0, 1, 2]), np.array([5, 5, 7]), np.array([1, 2, 3]))
    >>> [part.tolist() for part in cells]
    [[0, 1, 2], [5, 7], [3, 3]]
    """
    ints = (read_only(array, np.int64) for array in (order, codes, counts))
    found: tuple[Longs, Longs, Longs] = _cells(read_only(numbers, np.int64), classes, *ints)
    return found


def _joined(lookups: Sequence[tuple[int, Longs, int]]) -> tuple[Longs, Longs, Longs]:
    """Places, and one table of the labels' contributions to a mixed-radix key."""
    radix, parts, starts = 1, [], [0]
    for _, table, labels in lookups:
        parts.append(np.asarray(table, dtype=np.int64) * radix)
        starts.append(starts[-1] + len(table))
        radix *= max(labels, 1)
    places = np.array([place for place, _, _ in lookups], dtype=np.int64)
    return read_only(places, np.int64), read_only(np.concatenate(parts), np.int64), read_only(starts, np.int64)


def _number(
    codes: NDArray[np.int32], places: Longs, tables: Longs, starts: Longs, numbers: Longs, radix: int, space: int
) -> tuple[Longs, int]:
    keys = _tuple_keys(codes, places, tables, starts, numbers, radix)
    if space <= DENSE * len(keys) + 1024:
        return _dense(keys, space)  # type: ignore[no-any-return]
    return _hashed(keys)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _tuple_keys(
    codes: NDArray[np.int32], places: Longs, tables: Longs, starts: Longs, numbers: Longs, radix: int
) -> Longs:
    keys = numbers * radix
    for i in range(len(keys)):
        key = keys[i]
        for c in range(len(places)):
            key += tables[starts[c] + codes[i, places[c]]]
        keys[i] = key
    return keys


@njit(nogil=True, cache=True)
def _dense(keys: Longs, space: int) -> tuple[Longs, int]:
    """Renumber the keys in place by a table of all possible keys."""
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
def _hashed(keys: Longs) -> tuple[Longs, int]:
    """Renumber the keys in place by open addressing; numbers follow the order of rows, not that of the table."""
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
def _totals(numbers: Longs, classes: int, counts: Longs) -> Longs:
    totals = np.zeros(classes, np.int64)
    for i in range(len(numbers)):
        totals[numbers[i]] += counts[i]
    return totals


@njit(nogil=True, cache=True)
def _cells(numbers: Longs, classes: int, order: Longs, codes: Longs, counts: Longs) -> tuple[Longs, Longs, Longs]:
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
