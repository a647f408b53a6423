"""A condition on the sensitive values of each group: enough distinct ones, or shares near those of the table.

Source: Machanavajjhala et al., l-Diversity, ACM TKDD 1(1), 2007 (distinct); Li, Li, Venkatasubramanian,
t-Closeness, ICDE 2007, with equal distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["ANYTHING", "GroupCondition", "meets", "no_condition", "value_counts"]

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
