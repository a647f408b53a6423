"""Groups of records that hold at least k different persons: where a person has several records, k of them are not k.

Groups of k records are made as if each record were a person's only one, and those with fewer than k persons then take
in the groups nearest to them. Where each person has one record nothing changes. Everything follows from the points,
the persons and the keyed order of the records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["groups_of_persons", "held_by_persons"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def groups_of_persons(points: Floats, labels: Ints, persons: Ints, k: int) -> Ints | None:
    """Groups of at least k persons: one of fewer takes in the group of nearest centroid until it has them.

    The group of the fewest persons is served first. Of equally near groups it takes the next by number.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        In keyed order.
    labels : ndarray of int64, shape (n,)
        0 .. groups - 1, every one in use.
    persons : ndarray of int64, shape (n,)
        The person of each record, any integers.
    k : int

    Returns
    -------
    ndarray of int64, shape (n,), or None
        Group numbers, with gaps; None where all the records together are of fewer persons.

    Examples
    --------
    >>> points = np.array([[0.0], [0.0], [1.0], [1.0], [9.0], [9.0]])
    >>> groups_of_persons(points, np.array([0, 0, 1, 1, 2, 2]), np.array([7, 7, 7, 8, 3, 4]), 2).tolist()
    [0, 0, 0, 0, 2, 2]
    """
    if not len(labels):
        return labels
    people, codes = np.unique(persons, return_inverse=True)
    if len(people) < k:
        return None
    return np.asarray(
        _taken_in(
            read_only(points, np.float64),
            read_only(labels, np.int64),
            read_only(codes.reshape(-1), np.int64),
            len(people),
            k,
        )
    )


@njit(nogil=True, cache=True)
def _chained(labels: Ints, groups: int) -> tuple[Ints, Ints, Ints]:
    """The records of each group as a chain: its first and last one, and the next of each record, -1 after the last."""
    first, last, following = np.full(groups, -1, np.int64), np.full(groups, -1, np.int64), np.full(len(labels), -1)
    for i in range(len(labels)):
        g = labels[i]
        if first[g] < 0:
            first[g] = i
        else:
            following[last[g]] = i
        last[g] = i
    return first, last, following


@njit(nogil=True, cache=True)
def _met(start: int, following: Ints, persons: Ints, seen: Ints, mark: int) -> int:
    """How many persons of a chain do not bear the mark yet; from now on they do."""
    new, i = 0, start
    while i >= 0:
        if seen[persons[i]] != mark:
            seen[persons[i]] = mark
            new += 1
        i = following[i]
    return new


@njit(nogil=True, cache=True)
def _nearest(g: int, after: Ints, sums: Floats, sizes: Ints) -> int:
    """The group of nearest centroid among those left in the ring; of equally near ones the next."""
    nearest, least, h = -1, np.inf, after[g]
    while h != g:
        apart = 0.0
        for j in range(sums.shape[1]):
            apart += (sums[h, j] / sizes[h] - sums[g, j] / sizes[g]) ** 2
        if nearest < 0 or apart < least:
            nearest, least = h, apart
        if apart == 0.0:
            break
        h = after[h]
    return nearest


@njit(nogil=True, cache=True)
def _taken_in(points: Floats, labels: Ints, persons: Ints, people: int, k: int) -> Ints:
    groups = labels.max() + 1
    sums, sizes = np.zeros((groups, points.shape[1]), np.float64), np.zeros(groups, np.int64)
    for i in range(len(points)):
        sizes[labels[i]] += 1
        sums[labels[i]] += points[i]
    first, last, following = _chained(labels, groups)
    seen, distinct = np.full(people, -1, np.int64), np.zeros(groups, np.int64)
    for g in range(groups):
        distinct[g] = _met(first[g], following, persons, seen, g)
    # What is taken in drops out of the ring.
    after, before = (np.arange(groups) + 1) % groups, (np.arange(groups) - 1) % groups
    gone = np.zeros(groups, np.bool_)
    for g in np.argsort(distinct, kind="mergesort"):
        if gone[g] or distinct[g] >= k:
            continue
        _met(first[g], following, persons, seen, groups + g)
        while distinct[g] < k:
            taken = _nearest(g, after, sums, sizes)
            distinct[g] += _met(first[taken], following, persons, seen, groups + g)
            following[last[g]], last[g] = first[taken], last[taken]
            sizes[g] += sizes[taken]
            sums[g] += sums[taken]
            gone[taken] = True
            after[before[taken]], before[after[taken]] = after[taken], before[taken]
    out = np.empty(len(labels), np.int64)
    for g in range(groups):
        i = -1 if gone[g] else first[g]
        while i >= 0:
            out[i] = g
            i = following[i]
    return out


def held_by_persons(drawn: Ints, centroids: Floats, persons: Ints, k: int) -> Ints | None:
    """Hand the holders of each group that are fewer than k persons to the nearest one with holders, the fewest first.

    Parameters
    ----------
    drawn : ndarray of int64, shape (n,)
        Group whose values each record publishes.
    centroids : ndarray of float64, shape (groups, s)
        Ties go to the smaller number.
    persons : ndarray of int64, shape (n,)

    Returns
    -------
    ndarray of int64, shape (n,), or None
        None where all the holders together are fewer persons.

    Examples
    --------
    >>> drawn, who = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 3, 3, 4, 5])
    >>> held_by_persons(drawn, np.array([[0.0], [2.0], [3.0]]), who, 2).tolist()
    [0, 0, 2, 2, 2, 2]
    """
    if not len(drawn):
        return drawn
    holders: list[set[int]] = [set() for _ in range(len(centroids))]
    for group, person in np.unique(np.column_stack([drawn, persons]), axis=0).tolist():
        holders[group].add(person)
    left = np.array([len(each) > 0 for each in holders])
    numbers = np.array([len(each) for each in holders], np.int64)
    into = np.arange(len(centroids))
    while True:
        short = np.flatnonzero(left & (numbers < k))
        if not len(short):
            break
        small = int(short[numbers[short].argmin()])
        left[small] = False
        others = np.flatnonzero(left)
        if not len(others):
            return None
        apart = np.zeros(len(others))
        for column in centroids.T:
            apart += (column[others] - column[small]) ** 2
        target = int(others[apart.argmin()])
        holders[target] |= holders[small]
        numbers[target] = len(holders[target])
        into[small] = target
    while not np.array_equal(into, into[into]):
        into = into[into]
    return np.asarray(into[drawn])
