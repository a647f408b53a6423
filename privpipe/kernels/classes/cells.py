"""Class tables from the cells that an engine hands over, sorted by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.compiled import SMALL, njit

__all__ = [
    "boundaries",
    "marginal_cells",
    "merged_cells",
    "row_cells",
    "sum_by_class",
]

SCANNED = 8  # codes looked at for every row or cell of a class, rather than sort those it has


@njit(small=SMALL, cache=True, nogil=True)
def sum_by_class(offsets: Any, counts: Any) -> Any:
    """Sum of the cells of each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    counts : ndarray of int64 or float64, shape (n_cells,)

    Returns
    -------
    ndarray of the counts' type, shape (n_classes,)
        Added up in the order of the cells.

    Examples
    --------
    >>> sum_by_class(np.array([0, 2, 3]), np.array([4, 1, 2])).tolist()
    [5, 2]
    """
    sums = np.zeros(len(offsets) - 1, counts.dtype)
    for c in range(len(sums)):
        for i in range(offsets[c], offsets[c + 1]):
            sums[c] += counts[i]
    return sums


@njit(small=SMALL, cache=True, nogil=True)
def _sort_codes(codes: Any, start: int, stop: int) -> None:
    if stop - start > 24:
        codes[start:stop] = np.sort(codes[start:stop])
        return
    for i in range(start + 1, stop):
        code, j = codes[i], i - 1
        while j >= start and codes[j] > code:
            codes[j + 1] = codes[j]
            j -= 1
        codes[j + 1] = code


@njit(small=SMALL, cache=True, nogil=True)
def _sort_pairs(codes: Any, counts: Any, start: int, stop: int) -> None:
    """Shell's sort: classes are small as a rule, and numpy's sorts take seconds to compile."""
    gap = stop - start if stop - start > 24 else 2
    while gap > 1:
        gap = max(1, 4 * gap // 9)
        for i in range(start + gap, stop):
            code, count, j = codes[i], counts[i], i - gap
            while j >= start and codes[j] > code:
                codes[j + gap], counts[j + gap] = codes[j], counts[j]
                j -= gap
            codes[j + gap], counts[j + gap] = code, count


@njit(small=SMALL, cache=True, nogil=True)
def marginal_cells(offsets: Any, codes: Any, counts: Any) -> tuple[Any, Any, Any]:
    """Cells of one column from joint cells: codes ascending in each class, counts of equal codes added up.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    codes, counts : ndarray of int64, shape (n_cells,)
        In any order within a class; not changed.

    Returns
    -------
    (offsets, codes, counts)
        Of the marginal cells.

    Examples
    --------
    >>> found = marginal_cells(np.array([0, 3, 4]), np.array([2, 1, 2, 0]), np.array([1, 5, 3, 4]))
    >>> [part.tolist() for part in found]
    [[0, 2, 3], [1, 2, 0], [5, 4, 4]]
    """
    sorted_codes, sorted_counts = codes.copy(), counts.copy()
    starts = np.empty_like(offsets)
    starts[0] = 0
    filled = 0
    for c in range(len(offsets) - 1):
        start, stop = offsets[c], offsets[c + 1]
        _sort_pairs(sorted_codes, sorted_counts, start, stop)
        for i in range(start, stop):
            if i > start and sorted_codes[i] == sorted_codes[filled - 1]:
                sorted_counts[filled - 1] += sorted_counts[i]
            else:
                sorted_codes[filled] = sorted_codes[i]
                sorted_counts[filled] = sorted_counts[i]
                filled += 1
        starts[c + 1] = filled
    return starts, sorted_codes[:filled].copy(), sorted_counts[:filled].copy()


@njit(cache=True, nogil=True)
def row_cells(offsets: Any, codes: Any, values: int) -> tuple[Any, Any, Any]:
    """Cells of classes from the code of each of their rows.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        The rows of class c are ``offsets[c]:offsets[c + 1]``.
    codes : ndarray of int32, shape (n_rows,)
    values : int
        Codes are below this.

    Returns
    -------
    (offsets, codes, counts)
        Of the cells, all int32; codes ascending within each class.

    Examples
    --------
    >>> found = row_cells(np.array([0, 3, 4]), np.array([2, 0, 2, 1], np.int32), 3)
    >>> [part.tolist() for part in found]
    [[0, 2, 3], [0, 2, 1], [1, 2, 1]]
    """
    classes = len(offsets) - 1
    room = min(len(codes), classes * values)
    found, sums = np.empty(room, np.int32), np.empty(room, np.int32)
    ends = np.zeros(classes + 1, np.int32)
    seen = np.zeros(values, np.int64)
    filled = 0
    for c in range(classes):
        first = filled
        if values <= SCANNED * (offsets[c + 1] - offsets[c]):
            for i in range(offsets[c], offsets[c + 1]):
                seen[codes[i]] += 1
            filled = _emit_scanned(seen, found, sums, first)
        else:
            for i in range(offsets[c], offsets[c + 1]):
                if seen[codes[i]] == 0:
                    found[filled] = codes[i]
                    filled += 1
                seen[codes[i]] += 1
            _emit_sorted(seen, found, sums, first, filled)
        ends[c + 1] = filled
    return ends, found[:filled].copy(), sums[:filled].copy()


@njit(cache=True, nogil=True)
def merged_cells(offsets: Any, order: Any, starts: Any, codes: Any, counts: Any, values: int) -> tuple[Any, Any, Any]:
    """Cells of classes, each of which is made of some lists of cells; counts of equal codes are added up.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        The lists of class c are ``order[offsets[c]:offsets[c + 1]]``.
    order : ndarray of int64, shape (n_lists,)
    starts : ndarray of int64, shape (n_lists + 1,)
        The cells of list i are ``starts[i]:starts[i + 1]``.
    codes, counts : ndarray of int32, shape (n_cells,)
        In any order within a list.
    values : int
        Codes are below this.

    Returns
    -------
    (offsets, codes, counts)
        Of the classes, all int64; codes ascending within each.

    Examples
    --------
    >>> codes, counts = np.array([2, 0, 1, 2], np.int32), np.array([1, 5, 3, 4], np.int32)
    >>> found = merged_cells(np.array([0, 2, 3]), np.array([0, 2, 1]), np.array([0, 2, 3, 4]), codes, counts, 3)
    >>> [part.tolist() for part in found]
    [[0, 2, 3], [0, 2, 1], [5, 5, 3]]
    """
    classes = len(offsets) - 1
    room = min(len(codes), classes * values)
    found, sums = np.empty(room, np.int64), np.empty(room, np.int64)
    ends = np.zeros(classes + 1, np.int64)
    seen = np.zeros(values, np.int64)
    filled = 0
    for c in range(classes):
        first, cells = filled, 0
        for at in range(offsets[c], offsets[c + 1]):
            cells += starts[order[at] + 1] - starts[order[at]]
        scanned = values <= SCANNED * cells
        for at in range(offsets[c], offsets[c + 1]):
            for i in range(starts[order[at]], starts[order[at] + 1]):
                if not scanned and seen[codes[i]] == 0:
                    found[filled] = codes[i]
                    filled += 1
                seen[codes[i]] += counts[i]
        if scanned:
            filled = _emit_scanned(seen, found, sums, first)
        else:
            _emit_sorted(seen, found, sums, first, filled)
        ends[c + 1] = filled
    return ends, found[:filled].copy(), sums[:filled].copy()


@njit(cache=True, nogil=True)
def _emit_scanned(seen: Any, found: Any, sums: Any, filled: int) -> int:
    """Write the codes that have a count, by a look at every code, which beats sorting a class that holds most."""
    for code in range(len(seen)):
        if seen[code]:
            found[filled], sums[filled] = code, seen[code]
            seen[code] = 0
            filled += 1
    return filled


@njit(cache=True, nogil=True)
def _emit_sorted(seen: Any, found: Any, sums: Any, first: int, filled: int) -> None:
    """Sort the codes found, and write their counts."""
    if filled > first + 1:
        _sort_codes(found, first, filled)
    for i in range(first, filled):
        sums[i] = seen[found[i]]
        seen[found[i]] = 0


def boundaries(changes: Bools) -> Ints:
    """Class offsets of rows sorted by key, from whether each row's key differs from the row before.

    Parameters
    ----------
    changes : ndarray of bool, shape (n,)
        The first is taken as True.

    Examples
    --------
    >>> boundaries(np.array([True, False, True])).tolist()
    [0, 2, 3]
    """
    if not len(changes):
        return np.zeros(1, np.int64)
    starts = np.flatnonzero(changes[1:]) + 1
    return np.concatenate([[0], starts, [len(changes)]]).astype(np.int64)
