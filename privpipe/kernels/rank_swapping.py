"""Rank swapping: which ranks exchange their values, within a fixed window, by p-buckets or by a p-distribution.

In a window, the record at rank r receives the value of rank pi(r), and |pi(r) - r| <= w. Source: Moore, Controlled
data-swapping techniques for masking public use microdata sets, US Census Bureau, 1996.

p-buckets and p-distribution: an intruder who knows p can intersect the windows of plain rank swapping; here every
value is within reach of every rank. Both give an involution that depends only on n, the parameters and the key.
Source: Nin, Herranz, Torra, Rethinking rank swapping to decrease disclosure risk, Data & Knowledge Engineering 64(1),
2008.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.compiled import njit
from privpipe.draws import Stream
from privpipe.draws.elementary import LARGEST_BELOW_ONE, normal_quantile, unit_interval
from privpipe.draws.siphash import high_product, word_of_2
from privpipe.errors import UsageError

__all__ = [
    "SEGMENT_WINDOWS",
    "Partner",
    "bucket_permutation",
    "distribution_permutation",
    "expected_displacement",
    "segment_length",
    "swap_permutation",
    "swap_segment",
]


Partner = Literal["unswapped", "content", "skip"]

U = np.uint64
UNSWAPPED, CONTENT, SKIP = 0, 1, 2
PARTNERS = {"unswapped": UNSWAPPED, "content": CONTENT, "skip": SKIP}
TRIES = 8  # to draw a uniform partner, before the free ones are counted
BLOCK = 2048
SEGMENT_WINDOWS = 64
"""Default number of windows in a segment."""


def segment_length(n: int, w: int) -> int:
    """Ranks of a segment by default: max(64 w, 65536), so that its border touches at most 1/64 of the ranks.

    One segment of n when that is longer than n. Independent of the partitioning.

    Examples
    --------
    >>> segment_length(10_000_000, 10_000), segment_length(10_000_000, 500_000)
    (640000, 10000000)
    """
    return min(n, max(SEGMENT_WINDOWS * w, 65536))


def swap_permutation(
    n: int, w: int, stream: Stream, *, partner: Partner = "unswapped", segment: int | None = None
) -> NDArray[np.int32] | Ints:
    """The whole permutation of n ranks.

    Parameters
    ----------
    n : int
        Ranks, at least 0; 0-based.
    w : int
        Window, at least 1.
    stream : Stream
        The stream of the column. Draws are keyed by the rank.
    partner : str
        Ranks are scanned upwards. ``unswapped``: a rank not yet swapped takes a partner that is not yet swapped
        either, uniformly among those of the window above it (none left: it is not swapped), which pairs the ranks.
        ``content``: uniformly in the whole window, and contents are exchanged even if the partner was
        swapped before. ``skip``: uniformly in the whole window; if that partner was swapped, the rank is not swapped.
    segment : int, optional
        Ranks of a segment; no records are paired across its borders; n: one segment. Default: `segment_length`.

    Returns
    -------
    ndarray of int32, of int64 when n is 2^31 or more, shape (n,)
        pi(r) for each rank r.

    Examples
    --------
    >>> pi = swap_permutation(1000, 50, Stream(bytes(16)))
    >>> bool((pi[pi] == np.arange(1000)).all()), int(abs(pi - np.arange(1000)).max()) <= 50
    (True, True)
    """
    length = segment_length(n, w) if segment is None else segment
    if n < 0 or w < 1 or length < min(n, 1):
        raise UsageError(f"rank swapping needs n >= 0, w >= 1 and a segment >= 1, got {n}, {w} and {length}")
    pi: NDArray[Any] = np.empty(n, np.int32 if n < 2**31 else np.int64)
    for start in range(0, n, max(length, 1)):
        stop = min(start + length, n)
        pi[start:stop] = swap_segment(start, stop, w, stream, partner=partner)
    return pi


def swap_segment(start: int, stop: int, w: int, stream: Stream, *, partner: Partner = "unswapped") -> Ints:
    """The permutation of the ranks of one segment, which any worker can compute independently.

    Returns
    -------
    ndarray of int64, shape (stop - start,)
        pi(r) for start <= r < stop, in the same range.

    Examples
    --------
    >>> stream = Stream(bytes(16))
    >>> whole = swap_permutation(300, 10, stream, segment=100)
    >>> bool((whole[100:200] == swap_segment(100, 200, 10, stream)).all())
    True
    """
    if partner not in PARTNERS:
        raise UsageError(f"partner must be one of {', '.join(PARTNERS)}, got {partner!r}")
    return np.asarray(_swap(*stream.key_words, start, stop - start, w, PARTNERS[partner]))


@njit(nogil=True, cache=True)
def _free_between(first: int, stop: int, swapped: Bools, free: NDArray[np.int32]) -> int:
    """Ranks not yet swapped in first .. stop - 1: whole blocks by their counts, the ends one by one."""
    total = 0
    at = first
    while at < stop:
        if at % BLOCK == 0 and at + BLOCK <= stop:
            total += free[at // BLOCK]
            at += BLOCK
        else:
            end = min(stop, (at // BLOCK + 1) * BLOCK)
            total += end - at - int(np.sum(swapped[at:end]))
            at = end
    return total


@njit(nogil=True, cache=True)
def _nth_free(first: int, n: int, swapped: Bools, free: NDArray[np.int32]) -> int:
    """The place of free rank number n (from 0) at or above `first`."""
    at = first
    while True:
        if at % BLOCK == 0 and free[at // BLOCK] <= n:
            n -= free[at // BLOCK]
            at += BLOCK
            continue
        if not swapped[at]:
            if n == 0:
                return at
            n -= 1
        at += 1


@njit(nogil=True, cache=True)
def _swap(k0: U, k1: U, start: int, length: int, w: int, kind: int) -> Ints:
    pi = np.arange(start, start + length)
    swapped = np.zeros(length, np.bool_)
    free = np.full(length // BLOCK + 1, BLOCK, np.int32)  # of each block; the last one is never counted as a whole
    for i in range(length - 1):
        if swapped[i]:
            continue
        last = min(i + w, length - 1)
        other: int | np.int64 = i
        for attempt in range(TRIES if kind == UNSWAPPED else 1):
            step = high_product(word_of_2(k0, k1, U(start + i), U(attempt)), U(last - i))
            candidate = i + 1 + np.int64(step)
            if kind == CONTENT or not swapped[candidate]:
                other = candidate
                break
        if other == i and kind == UNSWAPPED:
            left = _free_between(i + 1, last + 1, swapped, free)
            if left > 0:
                step = high_product(word_of_2(k0, k1, U(start + i), U(TRIES)), U(left))
                other = _nth_free(i + 1, np.int64(step), swapped, free)
        if other != i:
            pi[i], pi[other] = pi[other], pi[i]
            for place in (i, other):
                if not swapped[place]:
                    swapped[place] = True
                    free[place // BLOCK] -= 1
    return pi


FAR = 64  # buckets this far after the first open one have a chance below 2^-64


def bucket_permutation(n: int, buckets: int, stream: Stream) -> Ints:
    """The permutation of p-buckets.

    Ranks are scanned upwards. A rank not yet swapped in bucket r draws bucket s in r .. P with probability
    proportional to 2^-(s - r + 1) among those that have unswapped ranks other than itself, and in it a partner
    uniformly among these; without any it is not swapped.

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
    """Remove a rank from its bucket's list of unswapped ranks: the last of the list fills the gap."""
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
    # Place n above and place 0 below (ranks are stored one higher) mean that none is free on that side.
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
        # All ranks up to i are swapped, or have no partner.
        if up == n and down <= i:
            continue
        other = up if down <= i or (up < n and up - target <= target - down) else down
        above[other], below[other + 1] = other + 1, other
        swapped[other] = True
        pi[i], pi[other] = other, i
    return pi
