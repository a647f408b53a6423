"""Rank swapping: which rank gives its value to which, a function of (n, w, segment, key) and of no data.

The record at rank r receives the value of rank pi(r), and |pi(r) - r| <= w. Source: Moore, Controlled
data-swapping techniques for masking public use microdata sets, US Census Bureau, 1996.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws import Stream
from privpipe.draws.siphash import high_product, word_of_2
from privpipe.errors import UsageError

__all__ = ["Partner", "segment_length", "swap_permutation", "swap_segment"]

Partner = Literal["unswapped", "content", "skip"]

U = np.uint64
UNSWAPPED, CONTENT, SKIP = 0, 1, 2
PARTNERS = {"unswapped": UNSWAPPED, "content": CONTENT, "skip": SKIP}
TRIES = 8  # of a uniform partner, before the free ones are counted
BLOCK = 2048


def segment_length(n: int, w: int) -> int:
    """Ranks of a segment by default: max(64 w, 65536), so that its border touches at most 1/64 of the ranks.

    One segment of n when that is longer than n. Depends on no partitioning.

    Examples
    --------
    >>> segment_length(10_000_000, 10_000), segment_length(10_000_000, 500_000)
    (640000, 10000000)
    """
    return min(n, max(64 * w, 65536))


def swap_permutation(
    n: int, w: int, stream: Stream, *, partner: Partner = "unswapped", segment: int | None = None
) -> NDArray[np.int32] | NDArray[np.int64]:
    """The whole permutation of n ranks.

    Parameters
    ----------
    n : int
        Ranks, at least 0; 0-based.
    w : int
        Window, at least 1.
    stream : Stream
        Of the column. Draws are keyed by the rank.
    partner : str
        Ranks are scanned upwards. ``unswapped``: a rank not yet swapped takes a partner that is not yet swapped
        either, uniformly among those of the window above it (none left: it stays), which pairs the ranks.
        ``content``: uniformly in the whole window, and contents are exchanged even if the partner was
        swapped before. ``skip``: uniformly in the whole window, and if that partner was swapped, the rank stays.
    segment : int, optional
        Ranks of a segment, across whose border nobody is paired; n for none. Default: `segment_length`.

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


def swap_segment(start: int, stop: int, w: int, stream: Stream, *, partner: Partner = "unswapped") -> NDArray[np.int64]:
    """The permutation of the ranks of one segment, which any worker can compute alone.

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
def _free_between(first: int, stop: int, swapped: NDArray[np.bool_], free: NDArray[np.int32]) -> int:
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
def _nth_free(first: int, n: int, swapped: NDArray[np.bool_], free: NDArray[np.int32]) -> int:
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
def _swap(k0: U, k1: U, start: int, length: int, w: int, kind: int) -> NDArray[np.int64]:
    pi = np.arange(start, start + length)
    swapped = np.zeros(length, np.bool_)
    free = np.full(length // BLOCK + 1, BLOCK, np.int32)  # of each block; the last one is never asked as a whole
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
