"""Rank swapping without a fixed window: p-buckets and p-distribution, whose partners may be any rank.

An intruder who knows p can intersect the windows of plain rank swapping; here every value is within reach of every
rank. Both give an involution that depends on (n, parameters, key) and on no data. Source: Nin, Herranz, Torra,
Rethinking rank swapping to decrease disclosure risk, Data & Knowledge Engineering 64(1), 2008.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws import Stream
from privpipe.draws.elementary import LARGEST_BELOW_ONE, normal_quantile, unit_interval
from privpipe.draws.siphash import high_product, word_of_2
from privpipe.errors import UsageError

__all__ = ["bucket_permutation", "distribution_permutation", "expected_displacement"]

U = np.uint64
Ints = NDArray[np.int64]
FAR = 64  # buckets beyond the first open one, whose chance is below 2^-64


def bucket_permutation(n: int, buckets: int, stream: Stream) -> Ints:
    """The permutation of p-buckets.

    Ranks are scanned upwards. A rank not yet swapped in bucket r draws bucket s in r .. P with probability
    proportional to 2^-(s - r + 1) among those that have unswapped ranks other than itself, and in it a partner
    uniformly among these; without any it stays.

    Parameters
    ----------
    n : int
        Ranks, at least 0.
    buckets : int
        P, at least 1: consecutive ranks, sizes differing by at most 1.
    stream : Stream
        Draws are keyed by the rank.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> pi = bucket_permutation(1000, 10, Stream(bytes(16)))
    >>> bool((pi[pi] == np.arange(1000)).all()), int((pi == np.arange(1000)).sum()) <= 1
    (True, True)
    """
    if n < 0 or buckets < 1:
        raise UsageError(f"p-buckets need n >= 0 and at least one bucket, got {n} and {buckets}")
    borders = np.arange(buckets + 1, dtype=np.int64) * n // buckets
    return np.asarray(_buckets(*stream.key_words, borders))


def distribution_permutation(n: int, p: float, stream: Stream) -> Ints:
    """The permutation of p-distribution.

    Ranks are scanned upwards. A rank i not yet swapped draws a displacement r from a normal distribution with mean
    and deviation 0.5 p n, given 1 <= r <= n - 1 - i (inverse on the truncated interval, then rounded up); its partner
    is the unswapped rank nearest to i + r, the larger of two.

    Parameters
    ----------
    n : int
        Ranks, at least 0.
    p : float
        In (0, 1].
    stream : Stream
        Draws are keyed by the rank.

    Examples
    --------
    >>> pi = distribution_permutation(1000, 0.1, Stream(bytes(16)))
    >>> bool((pi[pi] == np.arange(1000)).all()), bool(25 < abs(pi - np.arange(1000)).mean() < 100)
    (True, True)
    """
    if n < 0 or not 0 < p <= 1:
        raise UsageError(f"p-distribution needs n >= 0 and p in (0, 1], got {n} and {p}")
    return np.asarray(_distribution(*stream.key_words, n, 0.5 * p * n))


def expected_displacement(n: int, kind: str, p: float | None, buckets: int) -> float:
    """Mean |pi(r) - r| over the ranks, measured on at most 20,000 ranks under a public key and scaled to n."""
    few = min(n, 20_000)
    if few < 2:
        return 0.0
    public = Stream(bytes(16))
    pi = (
        bucket_permutation(few, buckets, public) if kind == "buckets" else distribution_permutation(few, p or 1, public)
    )
    return float(np.abs(pi - np.arange(few)).sum()) / few * (n / few)


@njit(nogil=True, cache=True)
def _take(places: Ints, members: Ints, starts: Ints, free: Ints, bucket: int, rank: int) -> None:
    """Take a rank out of its bucket's list of unswapped ranks: the last of the list fills the gap."""
    last = starts[bucket] + free[bucket] - 1
    at = places[rank]
    moved = members[last]
    members[at] = moved
    places[moved] = at
    free[bucket] -= 1


@njit(nogil=True, cache=True)
def _buckets(k0: U, k1: U, borders: Ints) -> Ints:
    number = len(borders) - 1
    n = borders[number]
    pi = np.arange(n)
    members, places = np.arange(n), np.arange(n)
    free = borders[1:] - borders[:-1]
    home = np.empty(n, np.int64)
    for bucket in range(number):
        home[borders[bucket] : borders[bucket + 1]] = bucket
    swapped = np.zeros(n, np.bool_)
    for i in range(n):
        if swapped[i]:
            continue
        r = home[i]
        _take(places, members, borders, free, r, i)
        first = r
        while first < number and free[first] == 0:
            first += 1
        if first == number:
            continue
        last = min(number, first + FAR)
        total = 0.0
        for s in range(first, last):
            if free[s] > 0:
                total += 0.5 ** (s - first)
        left = unit_interval(word_of_2(k0, k1, U(i), U(0))) * total
        chosen = first
        for s in range(first, last):
            if free[s] > 0:
                chosen = s
                left -= 0.5 ** (s - first)
                if left < 0.0:
                    break
        step = np.int64(high_product(word_of_2(k0, k1, U(i), U(1)), U(free[chosen])))
        other = members[borders[chosen] + step]
        _take(places, members, borders, free, chosen, other)
        swapped[i] = swapped[other] = True
        pi[i], pi[other] = other, i
    return pi


@njit(nogil=True, cache=True)
def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@njit(nogil=True, cache=True)
def _root(parents: Ints, at: int) -> int:
    """The free place that a chain of taken ones leads to; the chain is shortened on the way."""
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at


@njit(nogil=True, cache=True)
def _distribution(k0: U, k1: U, n: int, middle: float) -> Ints:
    pi = np.arange(n)
    # Place n above and place 0 below (ranks stand one higher) mean that none is free on that side.
    above, below = np.arange(n + 1), np.arange(n + 1)
    swapped = np.zeros(n, np.bool_)
    floor = _normal_cdf(-1.0)
    for i in range(n - 1):
        if swapped[i]:
            continue
        above[i], below[i + 1] = i + 1, i
        swapped[i] = True
        longest = n - 1 - i
        top = _normal_cdf((longest - middle) / middle)
        u = floor + unit_interval(word_of_2(k0, k1, U(i), U(0))) * (top - floor)
        r = math.ceil(middle + middle * normal_quantile(min(u, LARGEST_BELOW_ONE)))
        target = i + min(max(r, 1), longest)
        up, down = _root(above, target), _root(below, target + 1) - 1
        # All ranks up to i are swapped, or stay for want of any other.
        if up == n and down <= i:
            continue
        other = up if down <= i or (up < n and up - target <= target - down) else down
        above[other], below[other + 1] = other + 1, other
        swapped[other] = True
        pi[i], pi[other] = other, i
    return pi
