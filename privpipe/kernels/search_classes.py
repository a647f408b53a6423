"""Classes of packed combinations under one vector of levels: a few look-ups a combination."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privpipe.kernels.arrays import read_only

__all__ = ["cells_of", "compacted", "first_rows", "leaf_totals", "numbered"]

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Codes = NDArray[np.uint16] | NDArray[np.int32]
FUSED = 3
DENSE = 4
SPARE = 4096
SMALLEST = 12
SPREAD = np.uint64(0x9E3779B97F4A7C15)


def numbered(codes: Sequence[Codes], tables: Sequence[Longs], space: int, counts: Longs) -> tuple[Ints, Longs]:
    """The class of each combination and the records of each class.

    Parameters
    ----------
    codes : sequence of ndarray of uint16 or int32, shape (t,)
        Packed code of each combination in each group of columns, at least one group.
    tables : sequence of ndarray of int64
        Of each group, what a packed code adds to the key of a class.
    space : int
        Keys are below it.
    counts : ndarray of int64, shape (t,)

    Returns
    -------
    (ndarray of int32, shape (t,), ndarray of int64, shape (classes,))
        Numbers in the order in which classes first occur.

    Examples
    --------
    >>> codes = [np.array([0, 1, 1, 0], dtype=np.uint16), np.array([0, 0, 1, 0], dtype=np.uint16)]
    >>> numbers, sizes = numbered(codes, [np.array([0, 0]), np.array([0, 1])], 2, np.array([5, 1, 2, 1]))
    >>> numbers.tolist(), sizes.tolist()
    ([0, 0, 1, 0], [7, 2])
    """
    rows, parts = list(codes), list(tables)
    held = read_only(counts, np.int64)
    while len(rows) < FUSED:  # a group of one code adds nothing
        rows.append(np.zeros(len(counts), dtype=rows[0].dtype))
        parts.append(np.zeros(1, dtype=np.int64))
    first = [read_only(row, row.dtype) for row in rows[:FUSED]] + [read_only(part, np.int64) for part in parts[:FUSED]]
    dense = space <= DENSE * len(counts) + SPARE
    if len(rows) == FUSED:
        return _numbered_dense(*first, held, space) if dense else _numbered_hashed(*first, held)  # type: ignore[no-any-return]
    keys = _keys(*first)
    for row, part in zip(rows[FUSED:], parts[FUSED:], strict=True):
        _add_keys(keys, read_only(row, row.dtype), read_only(part, np.int64))
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


def cells_of(
    numbers: Ints, places: Ints, kept: int, codes: Ints, counts: Longs, values: int
) -> tuple[Longs, Longs, Longs]:
    """Cells of a sensitive column in some of the classes: offsets, codes ascending within a class, counts.

    Parameters
    ----------
    numbers : ndarray of int32, shape (t,)
        Class of each combination.
    places : ndarray of int32, shape (classes,)
        Place of each class among those kept; -1: left out.
    kept, values : int
        Classes kept, and values of the column; a table of their product is held.
    codes : ndarray of int32, shape (t,)

    Examples
    --------
    >>> numbers, codes = np.array([0, 1, 0], dtype=np.int32), np.array([2, 0, 1], dtype=np.int32)
    >>> places = np.array([0, -1], dtype=np.int32)
    >>> [part.tolist() for part in cells_of(numbers, places, 1, codes, np.array([4, 5, 6]), 3)]
    [[0, 2], [1, 2], [6, 4]]
    """
    found: tuple[Longs, Longs, Longs] = _cells_of(
        read_only(numbers, np.int32),
        read_only(places, np.int32),
        kept,
        read_only(codes, np.int32),
        read_only(counts, np.int64),
        values,
    )
    return found


def first_rows(numbers: Ints, classes: int) -> Longs:
    """The first combination of each class, numbers being given in the order in which classes first occur.

    Examples
    --------
    >>> first_rows(np.array([0, 0, 1, 0, 2], dtype=np.int32), 3).tolist()
    [0, 2, 4]
    """
    found: Longs = _first_rows(read_only(numbers, np.int32), classes)
    return found


def leaf_totals(codes: Ints, starts: Longs, counts: Longs, chosen: NDArray[np.bool_], size: int) -> Longs:
    """Records of the chosen combinations by leaf, the leaves of all columns after one another.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, at least m)
    starts : ndarray of int64, shape (m,)
        Where each column's leaves begin.
    chosen : ndarray of bool, shape (t,)
    size : int
        Leaves of all columns.

    Examples
    --------
    >>> codes = np.array([[0, 1], [1, 0], [1, 0]], dtype=np.int32)
    >>> leaf_totals(codes, np.array([0, 2]), np.array([5, 1, 2]), np.array([True, True, False]), 4).tolist()
    [5, 1, 1, 5]
    """
    found: Longs = _leaf_totals(
        read_only(codes, np.int32),
        read_only(starts, np.int64),
        read_only(counts, np.int64),
        read_only(chosen, np.bool_),
        size,
    )
    return found


@njit(nogil=True, cache=True)
def _numbered_dense(
    c0: Codes, c1: Codes, c2: Codes, t0: Longs, t1: Longs, t2: Longs, counts: Longs, space: int
) -> tuple[Ints, Longs]:
    t = len(counts)
    seen = np.full(space, -1, np.int32)
    numbers = np.empty(t, np.int32)
    sizes = np.zeros(min(t, space), np.int64)
    count = 0
    for i in range(t):
        key = t0[c0[i]] + t1[c1[i]] + t2[c2[i]]  # unrolled: a loop over the groups takes four times as long
        number = seen[key]
        if number < 0:
            number = count
            seen[key] = count
            count += 1
        numbers[i] = number
        sizes[number] += counts[i]
    return numbers, sizes[:count].copy()


@njit(nogil=True, cache=True)
def _spread(size: int, shift: np.uint64, known: Longs, count: int) -> Ints:
    """A larger table of the keys so far: small ones stay in the processor's cache, and most nodes have few classes."""
    slots = np.full(size, -1, np.int32)
    for number in range(count):
        slot = np.int64((np.uint64(known[number]) * SPREAD) >> shift)
        while slots[slot] >= 0:
            slot = (slot + 1) & np.int64(size - 1)
        slots[slot] = number
    return slots


@njit(nogil=True, cache=True)
def _numbered_hashed(
    c0: Codes, c1: Codes, c2: Codes, t0: Longs, t1: Longs, t2: Longs, counts: Longs
) -> tuple[Ints, Longs]:
    t = len(counts)
    slots = np.full(1 << SMALLEST, -1, np.int32)
    mask, shift = np.int64(len(slots) - 1), np.uint64(64 - SMALLEST)
    known = np.empty(t, np.int64)
    numbers = np.empty(t, np.int32)
    sizes = np.zeros(t, np.int64)
    count = 0
    for i in range(t):
        key = t0[c0[i]] + t1[c1[i]] + t2[c2[i]]
        slot = np.int64((np.uint64(key) * SPREAD) >> shift)
        number = slots[slot]
        while number >= 0 and known[number] != key:
            slot = (slot + 1) & mask
            number = slots[slot]
        if number < 0:
            number = count
            slots[slot] = count
            known[count] = key
            count += 1
            if 2 * count > mask:
                shift -= np.uint64(2)
                slots = _spread(4 * len(slots), shift, known, count)
                mask = np.int64(len(slots) - 1)
        numbers[i] = number
        sizes[number] += counts[i]
    return numbers, sizes[:count].copy()


@njit(nogil=True, cache=True)
def _keys(c0: Codes, c1: Codes, c2: Codes, t0: Longs, t1: Longs, t2: Longs) -> Longs:
    keys = np.empty(len(c0), np.int64)
    for i in range(len(c0)):
        keys[i] = t0[c0[i]] + t1[c1[i]] + t2[c2[i]]
    return keys


@njit(nogil=True, cache=True)
def _add_keys(keys: Longs, codes: Codes, table: Longs) -> None:
    for i in range(len(keys)):
        keys[i] += table[codes[i]]


@njit(nogil=True, cache=True)
def _keyed_dense(keys: Longs, counts: Longs, space: int) -> tuple[Ints, Longs]:
    seen = np.full(space, -1, np.int32)
    numbers = np.empty(len(keys), np.int32)
    sizes = np.zeros(min(len(keys), space), np.int64)
    count = 0
    for i in range(len(keys)):
        number = seen[keys[i]]
        if number < 0:
            number = count
            seen[keys[i]] = count
            count += 1
        numbers[i] = number
        sizes[number] += counts[i]
    return numbers, sizes[:count].copy()


@njit(nogil=True, cache=True)
def _keyed(keys: Longs, counts: Longs) -> tuple[Ints, Longs]:
    t = len(keys)
    slots = np.full(1 << SMALLEST, -1, np.int32)
    mask, shift = np.int64(len(slots) - 1), np.uint64(64 - SMALLEST)
    known = np.empty(t, np.int64)
    numbers = np.empty(t, np.int32)
    sizes = np.zeros(t, np.int64)
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
            slots[slot] = count
            known[count] = key
            count += 1
            if 2 * count > mask:
                shift -= np.uint64(2)
                slots = _spread(4 * len(slots), shift, known, count)
                mask = np.int64(len(slots) - 1)
        numbers[i] = number
        sizes[number] += counts[i]
    return numbers, sizes[:count].copy()


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _cells_of(
    numbers: Ints, places: Ints, kept: int, codes: Ints, counts: Longs, values: int
) -> tuple[Longs, Longs, Longs]:
    held = np.zeros(kept * values, np.int64)
    for i in range(len(numbers)):
        place = places[numbers[i]]
        if place >= 0:
            held[np.int64(place) * values + codes[i]] += counts[i]
    cells = 0
    for figure in held:
        if figure > 0:
            cells += 1
    offsets = np.zeros(kept + 1, np.int64)
    cell_codes, cell_counts = np.empty(cells, np.int64), np.empty(cells, np.int64)
    at = 0
    for c in range(kept):
        for code in range(values):
            figure = held[c * values + code]
            if figure > 0:
                cell_codes[at], cell_counts[at] = code, figure
                at += 1
        offsets[c + 1] = at
    return offsets, cell_codes, cell_counts


@njit(nogil=True, cache=True)
def _leaf_totals(codes: Ints, starts: Longs, counts: Longs, chosen: NDArray[np.bool_], size: int) -> Longs:
    totals = np.zeros(size, np.int64)
    for i in range(len(counts)):
        if chosen[i]:
            for j in range(len(starts)):
                totals[starts[j] + codes[i, j]] += counts[i]
    return totals


@njit(nogil=True, cache=True)
def _first_rows(numbers: Ints, classes: int) -> Longs:
    rows = np.zeros(classes, np.int64)
    seen = 0
    for i in range(len(numbers)):
        if numbers[i] == seen:
            rows[seen] = i
            seen += 1
    return rows
