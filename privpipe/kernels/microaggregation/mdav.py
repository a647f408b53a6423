"""MDAV: groups of k records each, grown from the records farthest from the middle.

Source: Domingo-Ferrer, Torra, Ordinal, continuous and heterogeneous k-anonymity through microaggregation, Data
Mining and Knowledge Discovery 11, 2005 (generic form).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.grouping.sorting import sort_integers
from privpipe.kernels.microaggregation.mdav_of_ties import distinct_points, mdav_of_ties
from privpipe.kernels.microaggregation.nearest import PART, farthest_part, nearest_parts, parts_of

__all__ = ["mdav_groups"]

RECOMPUTED_EVERY = 1000
TIED = 2
"""Records a point, on average, from which distances to the distinct points cost less."""


def mdav_groups(points: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Partition records into groups of k, the last of k to 2k - 1.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised columns, finite, n >= k. Ties of distance go to the earlier row, and sums run in the order of
        the rows: rows in keyed order (`Stream.arrange`) make the groups a function of the records.
    k : int
        At least 1.

    Returns
    -------
    ndarray of int64, shape (n,)
        Group number of each record, 0 .. groups - 1. Takes O(n^2 s / k) time, O(n s) memory.

    Examples
    --------
    >>> mdav_groups(np.array([[0.0], [9.0], [0.1], [9.1], [0.2], [9.2], [0.3]]), 3).tolist()
    [1, 0, 1, 0, 1, 0, 1]
    """
    array = read_only(points, np.float64)
    if k < 1 or array.ndim != 2 or len(array) < k:
        raise UsageError(f"microaggregation needs k >= 1 and at least k records, got k = {k} and {array.shape}")
    codes, firsts = distinct_points(array, max(len(array) // TIED, 1))
    if len(firsts):
        return np.asarray(mdav_of_ties(array, codes, firsts, k, RECOMPUTED_EVERY))
    return np.asarray(_mdav(np.array(array.T, order="C"), k))


@njit(nogil=True, cache=True)
def _centre(columns: NDArray[np.float64], count: int, sums: NDArray[np.float64]) -> None:
    for j in range(len(columns)):
        sums[j] = 0.0
        for i in range(count):
            sums[j] += columns[j, i]


@njit(nogil=True, cache=True)
def _remove(
    columns: NDArray[np.float64],
    names: NDArray[np.int64],
    places: NDArray[np.int64],
    count: int,
    gone: NDArray[np.int64],
    sums: NDArray[np.float64],
    labels: NDArray[np.int64],
    label: int,
) -> int:
    """Label the rows at these places and swap them behind the live ones; returns how many live on."""
    sort_integers(gone, len(gone))
    for at in range(len(gone) - 1, -1, -1):  # from the end, so that no row still to go is moved
        place = gone[at]
        labels[names[place]] = label
        count -= 1
        for j in range(len(columns)):
            sums[j] -= columns[j, place]
            columns[j, place], columns[j, count] = columns[j, count], columns[j, place]
        names[place], names[count] = names[count], names[place]
        places[names[place]] = place
        places[names[count]] = count
    return count


@njit(nogil=True, cache=True)
def _mdav(columns: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    s, n = columns.shape
    labels = np.zeros(n, np.int64)
    names = np.arange(n)  # the record at each place
    places = np.arange(n)  # the place of each record
    distances = np.empty(n, np.float64)
    heap = np.empty(k, np.int64)
    sums = np.empty(s, np.float64)
    ends = np.empty((2, n // PART + 1), np.float64)
    _centre(columns, n, sums)
    count, label, since = n, 0, 0
    while count >= 2 * k:
        if since >= RECOMPUTED_EVERY:  # drift would change which record is farthest
            _centre(columns, count, sums)
            since = 0
        parts_of(columns, count, sums / count, distances, ends)
        first = farthest_part(distances, names, places, count, ends)
        parts_of(columns, count, columns[:, first].copy(), distances, ends)
        second = names[farthest_part(distances, names, places, count, ends)]
        heap[nearest_parts(distances, names, count, k - 1, first, heap, ends)] = first
        pairs = count >= 3 * k
        count = _remove(columns, names, places, count, heap, sums, labels, label)
        label += 1
        since += 1
        if pairs and places[second] < count:  # it may have gone with the first
            start = places[second]
            parts_of(columns, count, columns[:, start].copy(), distances, ends)
            heap[nearest_parts(distances, names, count, k - 1, start, heap, ends)] = start
            count = _remove(columns, names, places, count, heap, sums, labels, label)
            label += 1
            since += 1
    for place in range(count):
        labels[names[place]] = label
    return labels
