"""The best groups of consecutive points along a line: one sorted column, or a path through many columns.

best[e] = min over e - 2k < a <= e - k of best[a] + SSE(a .. e - 1). Source: Hansen, Mukherjee, A polynomial algorithm
for optimal univariate microaggregation, IEEE TKDE 15(4), 2003; along a path through several columns: Domingo-Ferrer,
Martinez-Balleste, Mateo-Sanz, Sebe, VLDB Journal 15, 2006.
"""

from __future__ import annotations

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.errors import UsageError

__all__ = ["fixed_groups", "path_ends", "sorted_ends", "univariate_groups"]


SPLIT = 134217729.0  # 2^27 + 1, which halves the digits of a double


@njit(nogil=True, cache=True)
def _walk_back(cuts: Ints, n: int) -> Ints:
    groups = 0
    at = n
    while at > 0:
        at = cuts[at]
        groups += 1
    ends = np.empty(groups, np.int64)
    at = n
    for g in range(groups - 1, -1, -1):
        ends[g] = at
        at = cuts[at]
    return ends


@njit(nogil=True, cache=True)
def path_ends(points: Floats, k: int) -> Ints:
    """End of each group of the best partition into runs of k .. 2k - 1 points; ties take the longest last group.

    Sums are taken relative to the last point of the group, so that they lose no digits. O(n k s).

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        In the order of the path, n >= k.

    Returns
    -------
    ndarray of int64, shape (groups,)
        Ascending; the last is n.
    """
    n, s = points.shape
    best = np.full(n + 1, np.inf)
    cuts = np.zeros(n + 1, np.int64)
    best[0] = 0.0
    sums = np.empty(s, np.float64)
    for e in range(k, n + 1):
        sums[:] = 0.0
        squares = 0.0
        for a in range(e - 1, max(e - 2 * k, -1), -1):
            total = 0.0
            for j in range(s):
                d = points[a, j] - points[e - 1, j]
                sums[j] += d
                squares += d * d
                total += sums[j] * sums[j]
            if e - a >= k and best[a] < np.inf:
                cost = best[a] + max(squares - total / (e - a), 0.0)
                if cost <= best[e]:
                    best[e] = cost
                    cuts[e] = a
    ends: Ints = _walk_back(cuts, n)
    return ends


@njit(nogil=True, cache=True)
def _product(a: float, b: float) -> tuple[float, float]:
    """a b as a rounded product and its rounding error (Dekker, 1971)."""
    t = SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    p = a * b
    return p, a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)


@njit(nogil=True, cache=True)
def _sum(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Sum of two numbers of two parts each (Knuth's two-sum on the upper parts)."""
    s = a + b
    back = s - a
    low = (a - (s - back)) + (b - back) + a_low + b_low
    high = s + low
    return high, low - (high - s)


@njit(nogil=True, cache=True)
def _prefix_sums(values: Floats) -> Floats:
    """Sums and sums of squares of the first i values, in two parts each, shape (n + 1, 4)."""
    sums = np.zeros((len(values) + 1, 4), np.float64)
    for i in range(len(values)):
        x = values[i]
        sums[i + 1, 0], sums[i + 1, 1] = _sum(sums[i, 0], sums[i, 1], x, 0.0)
        square, low = _product(x, x)
        sums[i + 1, 2], sums[i + 1, 3] = _sum(sums[i, 2], sums[i, 3], square, low)
    return sums


@njit(nogil=True, cache=True)
def _sse(sums: Floats, a: int, e: int) -> float:
    """SSE of values a .. e - 1, from sums with twice the digits of a double."""
    total, total_low = _sum(sums[e, 0], sums[e, 1], -sums[a, 0], -sums[a, 1])
    squares, squares_low = _sum(sums[e, 2], sums[e, 3], -sums[a, 2], -sums[a, 3])
    high, low = _product(total, total)
    low += 2.0 * total * total_low
    m = np.float64(e - a)
    quotient = high / m
    back, back_low = _product(quotient, m)
    rest = ((high - back) - back_low + low) / m
    left: tuple[float, float] = _sum(squares, squares_low, -quotient, -rest)
    return max(left[0], 0.0)


@njit(nogil=True, cache=True)
def sorted_ends(values: Floats, k: int) -> Ints:
    """As `path_ends` along one sorted column, in O(n log k): for large k.

    The best cut moves to the right with e (the cost is Monge), and the k ends from a multiple of k on depend
    only on starts that are known, so each such run is solved by halving: the middle end bounds the others.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Ascending, n >= k.
    """
    n = len(values)
    sums = _prefix_sums(values)
    best = np.full(n + 1, np.inf)
    cuts = np.zeros(n + 1, np.int64)
    best[0] = 0.0
    stack = np.empty((2 * 64, 4), np.int64)
    for first in range(k, n + 1, k):
        stop = min(first + k, n + 1)
        stack[0, 0], stack[0, 1] = first, stop
        stack[0, 2], stack[0, 3] = max(first - 2 * k + 1, 0), stop - 1 - k
        depth = 1
        while depth > 0:
            depth -= 1
            low, high = stack[depth, 0], stack[depth, 1]
            a_low, a_high = stack[depth, 2], stack[depth, 3]
            e = (low + high) // 2
            cut = a_low
            for a in range(max(a_low, e - 2 * k + 1), min(a_high, e - k) + 1):
                if best[a] < np.inf:
                    cost = best[a] + _sse(sums, a, e)
                    if cost < best[e]:
                        best[e] = cost
                        cut = a
            cuts[e] = cut
            if low < e:
                stack[depth, 0], stack[depth, 1] = low, e
                stack[depth, 2], stack[depth, 3] = a_low, cut
                depth += 1
            if e + 1 < high:
                stack[depth, 0], stack[depth, 1] = e + 1, high
                stack[depth, 2], stack[depth, 3] = cut, a_high
                depth += 1
    ends: Ints = _walk_back(cuts, n)
    return ends


LARGE_K = 50


def univariate_groups(values: Floats, k: int, *, keep_ties: bool = False) -> Ints:
    """The partition of one column into groups of k .. 2k - 1 with the least SSE.

    Source: Hansen, Mukherjee, IEEE TKDE 15(4), 2003.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Finite, n >= k. Equal values are ordered by position; rows in keyed order make the groups a function of records.
    k : int
        At least 1. Up to 50 in O(n k) after the sort, above 50 in O(n log k).
    keep_ties : bool
        Move each cut between equal values to the nearest place between different ones that leaves k records on
        both sides (the lower at equal distance), or drop it where there is none. Groups may then exceed 2k - 1.

    Returns
    -------
    ndarray of int64, shape (n,)
        Group number of each record, ascending with the value.

    Examples
    --------
    >>> univariate_groups(np.array([1.0, 9.0, 1.2, 8.8, 1.1, 9.1, 8.9]), 3).tolist()
    [0, 1, 0, 1, 0, 1, 1]
    """
    column, order = _sorted(values, k)
    ordered = column[order]
    if k <= LARGE_K:
        ends = path_ends(read_only(ordered[:, None], np.float64), k)
    else:
        ends = sorted_ends(read_only(ordered, np.float64), k)
    return _labels(_between_values(ends, ordered, k) if keep_ties else ends, order)


def fixed_groups(values: Floats, k: int, *, keep_ties: bool = False) -> Ints:
    """Groups of k records in the order of the values, the last of k .. 2k - 1 (cheaper than `univariate_groups`).

    Examples
    --------
    >>> fixed_groups(np.array([5.0, 1.0, 4.0, 2.0, 3.0]), 2).tolist()
    [1, 0, 1, 0, 1]
    """
    column, order = _sorted(values, k)
    n = len(column)
    ends = np.append(np.arange(k, n - k + 1, k), n)
    return _labels(_between_values(ends, column[order], k) if keep_ties else ends, order)


def _sorted(values: Floats, k: int) -> tuple[Floats, Ints]:
    column: Floats = read_only(values, np.float64)
    if k < 1 or column.ndim != 1 or len(column) < k:
        raise UsageError(f"microaggregation needs k >= 1 and at least k records, got k = {k} and {len(column)}")
    return column, np.argsort(column, kind="stable")


def _labels(ends: Ints, order: Ints) -> Ints:
    labels = np.empty(len(order), np.int64)
    labels[order] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return labels


def _between_values(ends: Ints, ordered: Floats, k: int) -> Ints:
    """Move cuts away from equal values, from the left; each keeps k records to the neighbouring cuts."""
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    kept = [0]
    for at, following in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        allowed = changes[np.searchsorted(changes, kept[-1] + k) : np.searchsorted(changes, following - k, "right")]
        if len(allowed):
            kept.append(int(allowed[np.argmin(np.abs(allowed - at))]))
    return np.array([*kept[1:], len(ordered)], dtype=np.int64)
