"""Groups of records: their numbers, conditions on their sensitive values, at least k persons in each.

Source: Machanavajjhala et al., l-Diversity, ACM TKDD 1(1), 2007 (distinct); Li, Li, Venkatasubramanian, t-Closeness,
ICDE 2007, with equal distances.

Groups of k records are made as if each record belonged to a different person, and those with fewer than k persons are
then merged with the groups nearest to them. Where each person has one record nothing changes. The result depends only
on the points, the persons and the keyed order of the records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit

__all__ = [
    "ANYTHING",
    "GroupCondition",
    "by_first_member",
    "groups_of_persons",
    "held_by_persons",
    "meets",
    "merged_groups",
    "no_condition",
    "restored",
    "value_counts",
]


def by_first_member(labels: Ints) -> Ints:
    """The same groups, numbered in the order in which they first occur.

    Examples
    --------
    >>> by_first_member(np.array([7, 2, 7, -1])).tolist()
    [0, 1, 0, 2]
    """
    if len(labels) and labels.min() >= 0 and labels.max() < 2 * len(labels):
        return np.asarray(_numbered(read_only(labels, np.int64), int(labels.max()) + 1))
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]


@njit(nogil=True, cache=True)
def _numbered(labels: Ints, groups: int) -> Ints:
    numbers, out, count = np.full(groups, -1, np.int64), np.empty(len(labels), np.int64), 0
    for i in range(len(labels)):
        if numbers[labels[i]] < 0:
            numbers[labels[i]] = count
            count += 1
        out[i] = numbers[labels[i]]
    return out


def restored(labels: Ints, order: Ints) -> Ints:
    """Labels of arranged records at the original places of the records.

    Examples
    --------
    >>> restored(np.array([0, 0, 1]), np.array([2, 0, 1])).tolist()
    [0, 1, 0]
    """
    out = np.empty(len(labels), np.int64)
    out[order] = labels
    return out


ROOM = 1e-9
"""A distance may exceed t by this much, since sums of shares are rounded."""


class GroupCondition(NamedTuple):
    """The condition that each group must meet; compiled code takes it unchanged.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Sensitive value of each record, 0 .. m - 1; empty: no condition.
    shares : ndarray of float64, shape (m,)
        Share of each value in the whole table.
    l : int
        Least number of distinct values in a group.
    t : float
        Largest distance of a group's shares to the whole table's, half the sum of differences; infinite: none.
    """

    codes: Ints
    shares: Floats
    l: int
    t: float

    def of(self, members: Ints) -> GroupCondition:
        """The same condition for some of the records."""
        return self if not len(self.codes) else self._replace(codes=self.codes[members])


def no_condition() -> GroupCondition:
    """The condition that every group meets."""
    return GroupCondition(np.empty(0, np.int64), np.empty(0, np.float64), 0, np.inf)


ANYTHING = no_condition()


@njit(nogil=True, cache=True)
def meets(counts: Ints, size: int, shares: Floats, l: int, t: float) -> bool:
    """Whether a group with these counts of values meets the condition.

    Examples
    --------
    >>> shares = np.array([0.5, 0.5])
    >>> meets(np.array([2, 2]), 4, shares, 2, np.inf), meets(np.array([3, 1]), 4, shares, 0, 0.2)
    (True, False)
    """
    distinct, apart = 0, 0.0
    for v in range(len(counts)):
        distinct += 1 if counts[v] > 0 else 0
        apart += abs(counts[v] / size - shares[v])
    fine: bool = distinct >= l and apart / 2.0 <= t + ROOM
    return fine


@njit(nogil=True, cache=True)
def value_counts(labels: Ints, groups: int, codes: Ints, values: int) -> Ints:
    """Records of each group with each value, shape (groups, values); without codes, no column."""
    counts = np.zeros((groups, values if len(codes) > 0 else 0), np.int64)
    for i in range(len(codes)):
        counts[labels[i], codes[i]] += 1
    return counts


def merged_groups(points: Floats, labels: Ints, condition: GroupCondition) -> Ints | None:
    """Merge the group that fails the condition by most with the group of nearest centroid, until none fails it.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
    labels : ndarray of int64, shape (n,)
        0 .. groups - 1, every one in use; ties go to the smaller number.
    condition : GroupCondition

    Returns
    -------
    ndarray of int64, shape (n,), or None
        Group numbers, with gaps; None where all the records together fail the condition.

    Examples
    --------
    >>> two = GroupCondition(np.array([0, 0, 1, 1, 0, 1]), np.array([0.5, 0.5]), 2, np.inf)
    >>> merged_groups(np.array([[0.0], [1.0], [2.0], [3.0], [9.0], [9.0]]), np.array([0, 0, 1, 1, 2, 2]), two).tolist()
    [1, 1, 1, 1, 2, 2]
    """
    groups = read_only(labels, np.int64)
    if not len(condition.codes):
        return groups
    found, fine = _merge(read_only(points, np.float64), groups.copy(), condition)
    return np.asarray(found) if fine else None


@njit(nogil=True, cache=True)
def _shortfall(counts: Ints, size: int, shares: Floats, l: int, t: float) -> float:
    """How far a group is from the condition; -1 where it meets it."""
    if meets(counts, size, shares, l, t):
        return -1.0
    distinct, apart = 0, 0.0
    for v in range(len(counts)):
        distinct += 1 if counts[v] > 0 else 0
        apart += abs(counts[v] / size - shares[v])
    return np.float64(max(l - distinct, 0)) if l > 0 else apart / 2.0


@njit(nogil=True, cache=True)
def _merge(points: Floats, labels: Ints, condition: GroupCondition) -> tuple[Ints, bool]:
    n, s = points.shape
    shares, l, t = condition.shares, condition.l, condition.t
    groups = labels.max() + 1
    counts = value_counts(labels, groups, condition.codes, len(shares))
    sums, sizes, short = np.zeros((groups, s), np.float64), np.zeros(groups, np.int64), np.empty(groups, np.float64)
    for i in range(n):
        sizes[labels[i]] += 1
        for j in range(s):
            sums[labels[i], j] += points[i, j]
    for g in range(groups):
        short[g] = _shortfall(counts[g], sizes[g], shares, l, t)
    into = np.arange(groups)
    left = groups
    while True:
        worst = np.argmax(short)
        if short[worst] < 0.0:
            break
        if left == 1:
            return labels, False
        nearest, least = -1, np.inf
        for g in range(groups):
            if g == worst or sizes[g] == 0:
                continue
            apart = 0.0
            for j in range(s):
                apart += (sums[g, j] / sizes[g] - sums[worst, j] / sizes[worst]) ** 2
            if nearest < 0 or apart < least:
                nearest, least = g, apart
        counts[nearest] += counts[worst]
        sums[nearest] += sums[worst]
        sizes[nearest] += sizes[worst]
        sizes[worst] = 0
        into[worst] = nearest
        short[worst] = -1.0
        short[nearest] = _shortfall(counts[nearest], sizes[nearest], shares, l, t)
        left -= 1
    for i in range(n):
        g = labels[i]
        while into[g] != g:
            g = into[g]
        labels[i] = g
    return labels, True


def groups_of_persons(points: Floats, labels: Ints, persons: Ints, k: int) -> Ints | None:
    """Groups of at least k persons: a smaller one is merged with the group of nearest centroid until it has k.

    The group with the fewest persons comes first. Of equally near groups it takes the next by number.

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
        Group numbers, with gaps; None where all the records together belong to fewer than k persons.

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
    """Mark the persons of a chain; how many of them were not marked before."""
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
    # A merged group is removed from the ring.
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
    """Move the holders of each group with fewer than k persons to the nearest group with holders, the fewest first.

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
        None where all the holders together are fewer than k persons.

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
