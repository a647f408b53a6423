"""V-MDAV: groups that start with k records and take in more while one lies nearer to them than to all others.

Source: Solanas, Martinez-Balleste, V-MDAV: a multivariate microaggregation with variable group size, COMPSTAT 2006.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.errors import UsageError
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.microaggregation.nearest import farthest, nearest, squared_distances

__all__ = ["v_mdav_groups"]


def v_mdav_groups(points: NDArray[np.float64], k: int, gamma: float = 0.2) -> NDArray[np.int64]:
    """Partition records into groups of k .. 2k - 1, but for the last few, who join the nearest group.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised, finite, n >= k. Ties go to the earlier row.
    k : int
        At least 1.
    gamma : float
        A record joins while its distance to the group is below `gamma` times that to its nearest other record
        outside; 0: all groups have k.

    Returns
    -------
    ndarray of int64, shape (n,)
        Group number of each record.

    Examples
    --------
    >>> points = np.array([[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2]])
    >>> v_mdav_groups(points, 3, gamma=1.1).tolist()
    [1, 1, 1, 1, 0, 0, 0]
    """
    array = read_only(points, np.float64)
    if k < 1 or array.ndim != 2 or len(array) < k or not gamma >= 0:
        raise UsageError(f"V-MDAV needs k >= 1, at least k records and gamma >= 0, got k = {k} and {array.shape}")
    return np.asarray(_v_mdav(np.array(array.T, order="C"), k, float(gamma)))


@njit(nogil=True, cache=True)
def _take(
    place: int,
    label: int,
    count: int,
    columns: NDArray[np.float64],
    names: NDArray[np.int64],
    far: NDArray[np.float64],
    inside: NDArray[np.float64],
    labels: NDArray[np.int64],
) -> int:
    """Label the record at a place and put the last live one there; returns how many live on."""
    labels[names[place]] = label
    count -= 1
    for j in range(len(columns)):
        columns[j, place], columns[j, count] = columns[j, count], columns[j, place]
    names[place], names[count] = names[count], names[place]
    far[place] = far[count]
    inside[place] = inside[count]
    return count


@njit(nogil=True, cache=True)
def _closest(distances: NDArray[np.float64], names: NDArray[np.int64], count: int, left_out: int) -> int:
    best = -1
    for i in range(count):
        if i != left_out and (
            best < 0 or distances[i] < distances[best] or (distances[i] == distances[best] and names[i] < names[best])
        ):
            best = i
    return best


@njit(nogil=True, cache=True)
def _nearer(distances: NDArray[np.float64], inside: NDArray[np.float64], count: int) -> None:
    for i in range(count):
        inside[i] = min(inside[i], distances[i])


@njit(nogil=True, cache=True)
def _v_mdav(columns: NDArray[np.float64], k: int, gamma: float) -> NDArray[np.int64]:
    s, n = columns.shape
    labels, names = np.zeros(n, np.int64), np.arange(n)
    whole, middle = columns.copy(), np.empty(s, np.float64)
    for j in range(s):
        total = 0.0
        for i in range(n):
            total += columns[j, i]
        middle[j] = total / n
    far, inside, distances = np.empty(n, np.float64), np.empty(n, np.float64), np.empty(n, np.float64)
    squared_distances(columns, n, middle, far)
    heap, gone = np.empty(max(k - 1, 1), np.int64), np.empty(k, np.int64)
    count, label = n, 0
    while count >= k:
        first = farthest(far, names, count)
        squared_distances(columns, count, columns[:, first].copy(), distances)
        held = nearest(distances, names, count, k - 1, first, heap)
        gone[0] = names[first]
        for at in range(held):
            gone[at + 1] = names[heap[at]]
        inside[:count] = np.inf
        for at in range(held + 1):
            member = gone[at]
            place = 0
            while names[place] != member:
                place += 1
            count = _take(place, label, count, columns, names, far, inside, labels)
            squared_distances(columns, count, whole[:, member].copy(), distances)
            _nearer(distances, inside, count)
        size = k
        while gamma > 0.0 and size < 2 * k - 1 and count > 0:
            u = _closest(inside, names, count, -1)
            point = columns[:, u].copy()
            squared_distances(columns, count, point, distances)
            other = _closest(distances, names, count, u)
            if other >= 0 and not np.sqrt(inside[u]) < gamma * np.sqrt(distances[other]):
                break
            count = _take(u, label, count, columns, names, far, inside, labels)
            squared_distances(columns, count, point, distances)
            _nearer(distances, inside, count)
            size += 1
        label += 1
    _join_nearest(whole, names[:count], label, labels)
    return labels


@njit(nogil=True, cache=True)
def _join_nearest(
    columns: NDArray[np.float64], left: NDArray[np.int64], groups: int, labels: NDArray[np.int64]
) -> None:
    """The last records, fewer than k, go to the group of nearest centroid, as the centroids stand before them."""
    s, n = columns.shape
    sums, sizes = np.zeros((s, groups), np.float64), np.zeros(groups, np.int64)
    outside = np.zeros(n, np.bool_)
    for i in left:
        outside[i] = True
    for i in range(n):
        if not outside[i]:
            sizes[labels[i]] += 1
            for j in range(s):
                sums[j, labels[i]] += columns[j, i]
    for g in range(groups):
        for j in range(s):
            sums[j, g] /= sizes[g]
    distances = np.empty(groups, np.float64)
    for i in left:
        squared_distances(sums, groups, columns[:, i].copy(), distances)
        labels[i] = _closest(distances, np.arange(groups), groups, -1)
