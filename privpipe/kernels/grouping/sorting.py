"""Sorts for compiled code: small ones that compile fast, and a parallel radix sort of many numbers in place.

In the radix sort, numbers are dealt to buckets by their high bits where they lie. Buckets that fit into the cache are
sorted from the low bits up, through a small array.

Sources: for the small sorts Shell, A high-speed sorting procedure, Communications of the ACM 2(7), 1959, with gaps that
grow by 9/4 (Tokuda); for the radix sort McIlroy, Bostic, McIlroy, Engineering Radix Sort, Computing Systems 6(1),
1993.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints
from privpipe.compiled import njit

__all__ = ["FEW", "sort_integers", "sort_numbers", "sort_places"]


@njit(nogil=True, cache=True)
def _first_gap(count: int) -> int:
    gap = 1
    while gap < count // 2:
        gap = gap * 9 // 4 + 1
    return gap


@njit(nogil=True, cache=True)
def sort_integers(values: Ints, count: int) -> None:
    """Sort the first `count` values in place, ascending."""
    gap = _first_gap(count)
    while gap > 0:
        for i in range(gap, count):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap = gap * 4 // 9


@njit(nogil=True, cache=True)
def sort_places(places: Ints, keys: Floats) -> None:
    """Sort places in place by their key, ties by place."""
    gap = _first_gap(len(places))
    while gap > 0:
        for i in range(gap, len(places)):
            place = places[i]
            key = keys[place]
            j = i
            while j >= gap:
                before = places[j - gap]
                if keys[before] < key or (keys[before] == key and before < place):
                    break
                places[j] = before
                j -= gap
            places[j] = place
        gap = gap * 4 // 9


U = np.uint64
Words = Ints
FEW = 1 << 17
"""Numbers that the library's sort is as good for."""
CACHED, AIMED = 1 << 16, 1 << 14
"""Numbers of a bucket that go through the small array, at the most; and as many as buckets are made for."""
DEALT_BITS, DIGIT_BITS = 8, 11
"""By which numbers are dealt where they lie, and sorted in the cache: so many places are written to by turns."""
LEAST_DEALT = 256
TASKS = 2
"""For each thread at the least: parts are not equally large."""
SAMPLED = 1024
"""Numbers of which the middle one parts the others."""
SIGN, LAST = np.int64(-(2**63)), np.int64(2**63 - 1)
NAN = np.float64(np.nan).view(np.int64)


def sort_numbers(values: NDArray[Any], threads: int = 1) -> None:
    """Sort in place, ascending, NaN last.

    Parameters
    ----------
    values : ndarray of int64, uint64 or float64, shape (n,)
        Contiguous and writable; -0.0 comes before 0.0, and a NaN may get other bits.
    threads : int
        At least 1.

    Examples
    --------
    >>> values = np.arange(300_000) * 7919 % 300_007
    >>> sort_numbers(values, threads=2)
    >>> bool((values[1:] >= values[:-1]).all())
    True
    """
    if len(values) <= FEW:
        values.sort()
        return
    words = values.view(np.int64)
    if values.dtype == np.float64:
        _floats_as_integers(words)
    elif values.dtype == np.uint64:
        words ^= SIGN
    _sort(words, threads)
    if values.dtype == np.float64:
        _integers_as_floats(words)
    elif values.dtype == np.uint64:
        words ^= SIGN


def _sort(words: Words, threads: int) -> None:
    if threads <= 1:
        _sort_whole(words)
        return
    parts = [words]
    with ThreadPoolExecutor(threads, thread_name_prefix="privpipe-sort") as pool:
        while len(parts) < TASKS * threads:
            parts = list(chain.from_iterable(pool.map(_halves, parts)))
        list(pool.map(_sort_whole, filter(len, parts)))


def _halves(words: Words) -> tuple[Words, Words]:
    """Words below the middle one of some, and the others."""
    if len(words) < 2:
        return words, words[:0]
    middle = np.sort(words[:: max(1, len(words) // SAMPLED)])
    count = _parted(words, middle[len(middle) // 2])
    return words[:count], words[count:]


@njit(nogil=True, cache=True)
def _parted(words: Words, pivot: np.int64) -> int:
    """Move words below the pivot to the front; how many they are.

    Nothing hangs on a comparison but a sum, which is five times as fast as a branch that is guessed wrong half the time
    (Lomuto's scheme).
    """
    count = 0
    for i in range(len(words)):
        word = words[i]
        words[i] = words[count]
        words[count] = word
        count += word < pivot
    return count


@njit(nogil=True, cache=True)
def _floats_as_integers(words: Words) -> None:
    """Bits of floats as integers of the same order; negative numbers are ordered backwards by theirs."""
    for i in range(len(words)):
        if words[i] & LAST > np.int64(0x7FF0000000000000):
            words[i] = NAN
        elif words[i] < 0:
            words[i] ^= LAST


@njit(nogil=True, cache=True)
def _integers_as_floats(words: Words) -> None:
    for i in range(len(words)):
        if words[i] < 0:
            words[i] ^= LAST


@njit(nogil=True, cache=True)
def _range(words: Words) -> tuple[np.int64, int]:
    """The least word, and the bits of the distance to the largest."""
    low = high = words[0]
    for word in words:
        low, high = min(low, word), max(high, word)
    distance, bits = U(high) - U(low), 0
    while distance > U(0):
        distance >>= U(1)
        bits += 1
    return low, bits


@njit(nogil=True, cache=True)
def _dealt(words: Words) -> Ints:
    """Move words to buckets of ascending words, within the array; where each bucket begins, and the end."""
    low, bits = _range(words)
    wanted = 1
    while wanted < DEALT_BITS and len(words) >> wanted > AIMED:
        wanted += 1
    own = min(wanted, bits)
    shift, least = U(bits - own), U(low)
    bounds = np.zeros((1 << own) + 1, np.int64)
    for word in words:
        bounds[np.int64((U(word) - least) >> shift) + 1] += 1
    for bucket in range(1 << own):
        bounds[bucket + 1] += bounds[bucket]
    heads = bounds[:-1].copy()
    for bucket in range(1 << own):
        while heads[bucket] < bounds[bucket + 1]:
            word = words[heads[bucket]]
            place = np.int64((U(word) - least) >> shift)
            # Each word is exchanged for the one at its place, until one belongs here.
            while place != bucket:
                at = heads[place]
                heads[place] += 1
                word, words[at] = words[at], word
                place = np.int64((U(word) - least) >> shift)
            words[heads[bucket]] = word
            heads[bucket] += 1
    return bounds


@njit(nogil=True, cache=True)
def _sort_cached(words: Words, spare: Words, counts: Ints) -> None:
    """Sort few words by digits from the lowest, to and fro between two arrays."""
    if len(words) < LEAST_DEALT:
        sort_integers(words, len(words))
        return
    low, bits = _range(words)
    if bits == 0:
        return
    rounds = (bits + DIGIT_BITS - 1) // DIGIT_BITS
    width = (bits + rounds - 1) // rounds
    mask, least = U((1 << width) - 1), U(low)
    source, target = words, spare[: len(words)]
    for at in range(rounds):
        shift = U(at * width)
        counts[: 1 << width] = 0
        for word in source:
            counts[np.int64((U(word) - least) >> shift & mask)] += 1
        total = 0
        for digit in range(1 << width):
            before = total
            total += int(counts[digit])
            counts[digit] = before
        for word in source:
            own = np.int64((U(word) - least) >> shift & mask)
            target[counts[own]] = word
            counts[own] += 1
        source, target = target, source
    if rounds % 2:
        words[:] = source


@njit(nogil=True, cache=True)
def _sort_whole(words: Words) -> None:
    """Sort any number of words."""
    spare, counts = np.empty(CACHED, np.int64), np.empty(1 << DIGIT_BITS, np.int64)
    # Stretches that are still to be dealt do not overlap, and none is small.
    waiting = np.empty((len(words) // CACHED + 2, 2), np.int64)
    waiting[0, 0], waiting[0, 1], count = 0, len(words), 1
    while count > 0:
        count -= 1
        start, stop = waiting[count]
        if stop - start <= CACHED:
            _sort_cached(words[start:stop], spare, counts)
            continue
        bounds = _dealt(words[start:stop])
        for bucket in range(len(bounds) - 1):
            first, last = start + bounds[bucket], start + bounds[bucket + 1]
            if last - first > CACHED and len(bounds) > 2:
                waiting[count, 0], waiting[count, 1] = first, last
                count += 1
            elif len(bounds) > 2:
                _sort_cached(words[first:last], spare, counts)
