"""A condition on the sensitive values of each group: enough distinct ones, or shares near those of the table.

Source: Machanavajjhala et al., l-Diversity, ACM TKDD 1(1), 2007 (distinct); Li, Li, Venkatasubramanian,
t-Closeness, ICDE 2007, with equal distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["ANYTHING", "GroupCondition", "meets", "merged_groups", "no_condition", "value_counts"]

ROOM = 1e-9
"""Sums of shares are rounded: a distance may exceed t by this much."""


class GroupCondition(NamedTuple):
    """What each group must meet; compiled code takes it as it is.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Sensitive value of each record, 0 .. m - 1; empty: no condition.
    shares : ndarray of float64, shape (m,)
        Of each value in the whole table.
    l : int
        Least number of distinct values in a group.
    t : float
        Largest distance of a group's shares to the whole table's, half the sum of differences; infinite: none.
    """

    codes: NDArray[np.int64]
    shares: NDArray[np.float64]
    l: int
    t: float

    def of(self, members: NDArray[np.int64]) -> GroupCondition:
        """The same condition on some of the records."""
        return self if not len(self.codes) else self._replace(codes=self.codes[members])


def no_condition() -> GroupCondition:
    """Every group will do."""
    return GroupCondition(np.empty(0, np.int64), np.empty(0, np.float64), 0, np.inf)


ANYTHING = no_condition()


@njit(nogil=True, cache=True)
def meets(counts: NDArray[np.int64], size: int, shares: NDArray[np.float64], l: int, t: float) -> bool:
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
def value_counts(labels: NDArray[np.int64], groups: int, codes: NDArray[np.int64], values: int) -> NDArray[np.int64]:
    """Records of each group with each value, shape (groups, values); without codes, no column."""
    counts = np.zeros((groups, values if len(codes) > 0 else 0), np.int64)
    for i in range(len(codes)):
        counts[labels[i], codes[i]] += 1
    return counts


def merged_groups(
    points: NDArray[np.float64], labels: NDArray[np.int64], condition: GroupCondition
) -> NDArray[np.int64] | None:
    """Merge the group that misses the condition most with the group of nearest centroid, until none misses it.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
    labels : ndarray of int64, shape (n,)
        0 .. groups - 1, every one in use; ties go to the smaller number.
    condition : GroupCondition

    Returns
    -------
    ndarray of int64, shape (n,), or None
        Group numbers, with gaps; None where all the records together miss the condition.

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
def _shortfall(counts: NDArray[np.int64], size: int, shares: NDArray[np.float64], l: int, t: float) -> float:
    """How far a group is from the condition; -1 where it meets it."""
    if meets(counts, size, shares, l, t):
        return -1.0
    distinct, apart = 0, 0.0
    for v in range(len(counts)):
        distinct += 1 if counts[v] > 0 else 0
        apart += abs(counts[v] / size - shares[v])
    return np.float64(max(l - distinct, 0)) if l > 0 else apart / 2.0


@njit(nogil=True, cache=True)
def _merge(
    points: NDArray[np.float64], labels: NDArray[np.int64], condition: GroupCondition
) -> tuple[NDArray[np.int64], bool]:
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
