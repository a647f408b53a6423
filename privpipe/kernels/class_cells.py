"""Class tables from counted cells that lie sorted by class: boundaries, sizes, marginal cells."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

__all__ = ["boundaries", "marginal_cells", "sum_by_class", "unpack_cells"]


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
def unpack_cells(offsets: Any, packed: Any, bits: int) -> tuple[Any, Any, Any]:
    """Codes and counts of cells that were packed as ``count << bits | code``, ascending by code in each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``, in any order.
    packed : ndarray of int64, shape (n_cells,)
    bits : int
        Low bits that hold the code.

    Returns
    -------
    (sizes, codes, counts)
        int64, shapes (n_classes,), (n_cells,), (n_cells,).

    Examples
    --------
    >>> sizes, codes, counts = unpack_cells(np.array([0, 2]), np.array([(7 << 4) | 3, (5 << 4) | 1]), 4)
    >>> sizes.tolist(), codes.tolist(), counts.tolist()
    ([12], [1, 3], [5, 7])
    """
    low = (np.int64(1) << bits) - 1
    sizes = np.zeros(len(offsets) - 1, np.int64)
    codes = np.empty(len(packed), np.int64)
    counts = np.empty(len(packed), np.int64)
    for c in range(len(sizes)):
        start, stop = offsets[c], offsets[c + 1]
        for i in range(start, stop):
            codes[i] = packed[i] & low
            counts[i] = packed[i] >> bits
            sizes[c] += counts[i]
        _sort_pairs(codes, counts, start, stop)
    return sizes, codes, counts


@nb.njit(cache=True, nogil=True)
def _sort_pairs(codes: Any, counts: Any, start: int, stop: int) -> None:
    if stop - start > 24:  # classes are small as a rule; a large one is worth two allocations
        order = np.argsort(codes[start:stop], kind="mergesort")
        codes[start:stop] = codes[start:stop][order]
        counts[start:stop] = counts[start:stop][order]
        return
    for i in range(start + 1, stop):
        code, count, j = codes[i], counts[i], i - 1
        while j >= start and codes[j] > code:
            codes[j + 1], counts[j + 1] = codes[j], counts[j]
            j -= 1
        codes[j + 1], counts[j + 1] = code, count


@nb.njit(cache=True, nogil=True)
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


def boundaries(changes: NDArray[np.bool_]) -> NDArray[np.int64]:
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
