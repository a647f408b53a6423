"""Groups drawn by distance: a record publishes the values of one of the groups around it.

Source: Torra, Fuzzy microaggregation for the transparency principle, J. Applied Logic 23, 2017, for the idea of
overlapping groups; memberships as in fuzzy c-means. The procedure is our own.
"""

from __future__ import annotations

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.kernels.microaggregation.blocks import group_means
from privpipe.kernels.microaggregation.nearest import nearest, squared_distances

__all__ = ["drawn_groups", "held_by_k"]


def drawn_groups(
    points: Floats,
    labels: Ints,
    order: Ints,
    uniforms: Floats,
    k: int,
    *,
    neighbours: int,
    fuzziness: float,
) -> Ints:
    """The group whose values each record publishes; each published one has at least k holders.

    Membership of a record in each of its nearest groups is d^(-2 / (fuzziness - 1)), scaled to sum 1; groups at
    distance 0 share all of it.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
    labels : ndarray of int64, shape (n,)
        Groups 0 .. groups - 1 of at least k records.
    order : ndarray of int64, shape (n,)
        Positions in keyed order, the order in which sums run.
    uniforms : ndarray of float64, shape (n,)
        One draw per record, in (0, 1).
    neighbours : int
        Nearest groups that a record may publish.
    fuzziness : float
        Above 1; the closer to 1, the more likely the nearest group.

    Examples
    --------
    >>> points, labels = np.array([[0.0], [1.0], [9.0], [10.0]]), np.array([0, 0, 1, 1])
    >>> drawn_groups(points, labels, np.arange(4), np.full(4, 0.5), 2, neighbours=2, fuzziness=2.0).tolist()
    [0, 0, 1, 1]
    """
    centroids = group_means(points, labels, order)
    drawn = _draw(
        read_only(points, np.float64),
        np.array(centroids.T, order="C"),
        read_only(uniforms, np.float64),
        min(neighbours, len(centroids)),
        1.0 / (fuzziness - 1.0),
    )
    return held_by_k(np.asarray(drawn), centroids, k)


def held_by_k(drawn: Ints, centroids: Floats, k: int) -> Ints:
    """Move the holders of each group that has fewer than k to the nearest one with holders, the fewest first.

    Parameters
    ----------
    drawn : ndarray of int64, shape (n,)
        Group of each record, n >= k.
    centroids : ndarray of float64, shape (groups, s)
        Ties go to the smaller number.

    Examples
    --------
    >>> held_by_k(np.array([0, 0, 1, 2, 2]), np.array([[0.0], [2.0], [3.0]]), 2).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.asarray(_merge(read_only(drawn, np.int64), np.array(centroids.T, order="C"), k))


@njit(nogil=True, cache=True)
def _draw(
    points: Floats,
    columns: Floats,
    uniforms: Floats,
    wanted: int,
    exponent: float,
) -> Ints:
    groups = columns.shape[1]
    names, distances = np.arange(groups), np.empty(groups, np.float64)
    heap, shares = np.empty(wanted, np.int64), np.empty(wanted, np.float64)
    out = np.empty(len(points), np.int64)
    for i in range(len(points)):
        squared_distances(columns, groups, points[i].copy(), distances)
        nearest(distances, names, groups, wanted, -1, heap)
        heap.sort()
        least = distances[heap].min()
        total = 0.0
        for c in range(wanted):
            # Relative to the nearest, so that no power overflows.
            if least > 0.0:
                shares[c] = (least / distances[heap[c]]) ** exponent
            else:
                shares[c] = 1.0 if distances[heap[c]] == 0.0 else 0.0
            total += shares[c]
        reached, out[i] = 0.0, -1
        for c in range(wanted):
            reached += shares[c]
            if out[i] < 0 and reached > uniforms[i] * total:
                out[i] = heap[c]
        if out[i] < 0:
            out[i] = heap[wanted - 1]
    return out


@njit(nogil=True, cache=True)
def _smallest_below(holders: Ints, k: int) -> int:
    """The group with the fewest holders, of those with some and fewer than k; -1: there is none."""
    small = -1
    for g in range(len(holders)):
        if 0 < holders[g] < k and (small < 0 or holders[g] < holders[small]):
            small = g
    return small


@njit(nogil=True, cache=True)
def _merge(drawn: Ints, columns: Floats, k: int) -> Ints:
    groups = columns.shape[1]
    holders, into = np.zeros(groups, np.int64), np.arange(groups)
    for g in drawn:
        holders[g] += 1
    distances = np.empty(groups, np.float64)
    while True:
        small = _smallest_below(holders, k)
        if small < 0:
            break
        squared_distances(columns, groups, columns[:, small].copy(), distances)
        target = -1
        for g in range(groups):
            if g != small and holders[g] > 0 and (target < 0 or distances[g] < distances[target]):
                target = g
        if target < 0:
            break
        holders[target] += holders[small]
        holders[small] = 0
        into[small] = target
    out = drawn.copy()
    for i in range(len(out)):
        while into[out[i]] != out[i]:
            out[i] = into[out[i]]
    return out
