"""Sorts for compiled code, a parallel radix sort in place, and orders of many records by group and by value.

In the radix sort, numbers are distributed in place to buckets by their high bits. Buckets that fit into the cache are
sorted from the low bits up, through a small array. For an order by value, ties by keyed order, records are distributed
to buckets of consecutive values, which are sorted in parallel on a few threads.

Sources: for the small sorts Shell, A high-speed sorting procedure, Communications of the ACM 2(7), 1959, with gaps that
grow by 9/4 (Tokuda); for the radix sort McIlroy, Bostic, McIlroy, Engineering Radix Sort, Computing Systems 6(1),
1993; for the orders Frazer, McKellar, Samplesort, Journal of the ACM 17(3), 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints, Words, read_only
from privpipe.compiled import njit

__all__ = [
    "FEW",
    "give_by_rank",
    "positions_by_code",
    "positions_by_value",
    "sort_integers",
    "sort_numbers",
    "sort_places",
    "sortable_words",
    "sorted_values",
]


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
FEW = 1 << 17
"""Up to this many numbers the library's sort is as fast."""
CACHED, AIMED = 1 << 16, 1 << 14
"""Most numbers of a bucket that are sorted through the small array; and the intended size of a bucket."""
DEALT_BITS, DIGIT_BITS = 8, 11
"""Bits by which numbers are distributed in place, and sorted in the cache: each pass writes to 2^bits places."""
LEAST_DEALT = 256
TASKS = 2
"""Least tasks per thread, since parts are not equally large."""
SAMPLED_FOR_MIDDLE = 1024
"""Size of the sample whose median splits the numbers."""
LEAST, LAST = np.int64(-(2**63)), np.int64(2**63 - 1)
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
        words ^= LEAST
    _sort(words, threads)
    if values.dtype == np.float64:
        _integers_as_floats(words)
    elif values.dtype == np.uint64:
        words ^= LEAST


def _sort(words: Ints, threads: int) -> None:
    if threads <= 1:
        _sort_whole(words)
        return
    parts = [words]
    with ThreadPoolExecutor(threads, thread_name_prefix="privpipe-sort") as pool:
        while len(parts) < TASKS * threads:
            parts = list(chain.from_iterable(pool.map(_halves, parts)))
        list(pool.map(_sort_whole, filter(len, parts)))


def _halves(words: Ints) -> tuple[Ints, Ints]:
    """The words below the median of a sample, and the others."""
    if len(words) < 2:
        return words, words[:0]
    middle = np.sort(words[:: max(1, len(words) // SAMPLED_FOR_MIDDLE)])
    count = _parted(words, middle[len(middle) // 2])
    return words[:count], words[count:]


@njit(nogil=True, cache=True)
def _parted(words: Ints, pivot: np.int64) -> int:
    """Move words below the pivot to the front; how many there are.

    A comparison only affects a sum, which is five times as fast as a branch that is mispredicted half of the time
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
def _floats_as_integers(words: Ints) -> None:
    """Bits of floats as integers of the same order; the bits of negative numbers are in reverse order."""
    for i in range(len(words)):
        if words[i] & LAST > np.int64(0x7FF0000000000000):
            words[i] = NAN
        elif words[i] < 0:
            words[i] ^= LAST


@njit(nogil=True, cache=True)
def _integers_as_floats(words: Ints) -> None:
    for i in range(len(words)):
        if words[i] < 0:
            words[i] ^= LAST


@njit(nogil=True, cache=True)
def _range(words: Ints) -> tuple[np.int64, int]:
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
def _dealt_in_place(words: Ints) -> Ints:
    """Move words in place to buckets of ascending words; where each bucket begins, and the end."""
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
            # Each word is exchanged with the one at its place, until one belongs here.
            while place != bucket:
                at = heads[place]
                heads[place] += 1
                word, words[at] = words[at], word
                place = np.int64((U(word) - least) >> shift)
            words[heads[bucket]] = word
            heads[bucket] += 1
    return bounds


@njit(nogil=True, cache=True)
def _sort_cached(words: Ints, spare: Ints, counts: Ints) -> None:
    """Sort few words by digits from the lowest, alternating between two arrays."""
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
def _sort_whole(words: Ints) -> None:
    """Sort any number of words."""
    spare, counts = np.empty(CACHED, np.int64), np.empty(1 << DIGIT_BITS, np.int64)
    # Stretches that remain to be distributed do not overlap, and none is small.
    waiting = np.empty((len(words) // CACHED + 2, 2), np.int64)
    waiting[0, 0], waiting[0, 1], count = 0, len(words), 1
    while count > 0:
        count -= 1
        start, stop = waiting[count]
        if stop - start <= CACHED:
            _sort_cached(words[start:stop], spare, counts)
            continue
        bounds = _dealt_in_place(words[start:stop])
        for bucket in range(len(bounds) - 1):
            first, last = start + bounds[bucket], start + bounds[bucket + 1]
            if last - first > CACHED and len(bounds) > 2:
                waiting[count, 0], waiting[count, 1] = first, last
                count += 1
            elif len(bounds) > 2:
                _sort_cached(words[first:last], spare, counts)


SIGN = U(1 << 63)
BUCKETS = 256
SAMPLED = 1 << 15
STRETCH = 1 << 18
"""Records that one task distributes at a time."""


def positions_by_code(codes: NDArray[np.int32], count: int) -> Ints:
    """Positions of the records of code 0, of code 1, and so on, each in their order.

    Parameters
    ----------
    codes : ndarray of int32, shape (n,)
        In 0 .. count - 1.

    Examples
    --------
    >>> positions_by_code(np.array([1, 0, 1, 0], np.int32), 2).tolist()
    [1, 3, 0, 2]
    """
    return np.asarray(_by_code(read_only(codes, np.int32), np.zeros(count + 1, np.int64)))


def sortable_words(values: NDArray[Any]) -> Words:
    """Words that are ordered, as unsigned integers, like these numbers; -0.0 is 0.0.

    Parameters
    ----------
    values : ndarray of float64 (without NaN) or int64, shape (n,)

    Examples
    --------
    >>> words = sortable_words(np.array([-1.5, -0.0, 0.0, 2.0]))
    >>> bool((words[:-1] <= words[1:]).all()), bool(words[1] == words[2])
    (True, True)
    """
    if values.dtype != np.float64:
        return values.astype(np.int64, copy=False).view(U) ^ SIGN
    return np.asarray(_float_words(read_only((values + 0.0).view(U), U)))


def sorted_values(words: Words, kind: type[np.float64] | type[np.int64]) -> NDArray[Any]:
    """The numbers that `sortable_words` made words of.

    Examples
    --------
    >>> sorted_values(sortable_words(np.array([-1.5, 2.0])), np.float64).tolist()
    [-1.5, 2.0]
    >>> sorted_values(sortable_words(np.array([-3, 2**62])), np.int64).tolist() == [-3, 2**62]
    True
    """
    return np.asarray(_words_of_floats(words) if kind is np.float64 else words ^ SIGN).view(kind)


def positions_by_value(
    words: Words,
    tie_words: Callable[[], Words],
    settle: Callable[[NDArray[Any]], NDArray[Any]],
    pool: Executor,
) -> tuple[NDArray[Any], Words]:
    """Positions of the records by (word, tie word), and the words in that order.

    Parameters
    ----------
    words : ndarray of uint64, shape (n,)
    tie_words : callable
        Returns the tie words of all records, uint64 of shape (n,); called only if words are equal.
    settle : callable
        Puts positions of records with equal words and equal tie words in order.
    pool : Executor
        An executor with threads.

    Returns
    -------
    (ndarray of int32, of int64 when n is 2^31 or more; ndarray of uint64), each of shape (n,)

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> ties = np.array([0, 9, 3], np.uint64)
    >>> with ThreadPoolExecutor(1) as pool:
    ...     order, _ = positions_by_value(np.array([5, 2, 2], np.uint64), lambda: ties, np.sort, pool)
    >>> order.tolist()
    [2, 1, 0]
    """
    positions, dealt, borders = _dealt(words, pool)
    del words
    sides = list(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True))
    tied = list(pool.map(lambda side: _sort_bucket(dealt[slice(*side)], positions[slice(*side)]), sides))
    if any(tied):
        ties = tie_words()
        again = [side for side, found in zip(sides, tied, strict=True) if found]
        list(pool.map(lambda side: _break_ties(dealt[slice(*side)], positions[slice(*side)], ties, settle), again))
    return positions, dealt


def _dealt(words: Words, pool: Executor) -> tuple[NDArray[Any], Words, Ints]:
    """Positions and words by bucket, and where each bucket begins; a bucket has the words between two splitters."""
    n = len(words)
    sample = np.sort(words[:: max(n // SAMPLED, 1)])
    buckets = BUCKETS if n > STRETCH // 4 else 1
    splitters = sample[np.arange(1, buckets) * len(sample) // buckets] if n else sample
    starts = range(0, n, STRETCH)
    stretches = [words[start : start + STRETCH] for start in starts]
    found = list(pool.map(lambda stretch: _buckets_of(stretch, splitters), stretches))
    counts = np.array([each for _, each in found], np.int64).reshape(len(found), buckets)
    # Stretch by stretch within a bucket, so that each thread writes to separate places.
    firsts = (np.cumsum(counts.T) - counts.T.ravel()).reshape(buckets, len(found)).T.copy()
    borders = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    positions: NDArray[Any] = np.empty(n, np.int32 if n < 2**31 else np.int64)
    dealt = np.empty(n, U)

    def deal(number: int) -> None:
        _scatter(stretches[number], starts[number], found[number][0], firsts[number], positions, dealt)

    list(pool.map(deal, range(len(found))))
    return positions, dealt, borders


def _sort_bucket(words: Words, positions: NDArray[Any]) -> bool:
    """Sort a bucket in place by its words; whether some are equal."""
    order = np.argsort(words)
    words[:] = words[order]
    positions[:] = positions[order]
    return bool((words[1:] == words[:-1]).any())


def _break_ties(
    words: Words, positions: NDArray[Any], ties: Words, settle: Callable[[NDArray[Any]], NDArray[Any]]
) -> None:
    """Put the records of a sorted bucket that have equal words in the order of their tie words."""
    runs = np.zeros(len(words), U)
    np.cumsum(words[1:] != words[:-1], out=runs[1:])
    bits = U(max(int(runs[-1]).bit_length(), 1))
    # The number of the run, followed by as many bits of the tie word as fit.
    keys = (runs << (U(64) - bits)) | (ties[positions] >> bits)
    order = np.argsort(keys)
    keys = keys[order]
    positions[:] = positions[order]
    for start, stop in _equal_stretches(keys):
        inside = positions[start:stop]
        whole = ties[inside]
        by_word = np.argsort(whole)
        inside[:] = inside[by_word]
        for first, last in _equal_stretches(whole[by_word]):
            inside[first:last] = settle(inside[first:last])


def _equal_stretches(keys: Words) -> Sequence[tuple[int, int]]:
    """Where two or more equal keys begin, and where they end."""
    equal = np.flatnonzero(keys[1:] == keys[:-1])
    if not len(equal):
        return ()
    fresh = np.flatnonzero(np.diff(equal, prepend=-2) != 1)
    lasts = equal[np.append(fresh[1:], len(equal)) - 1]
    return list(zip(equal[fresh].tolist(), (lasts + 2).tolist(), strict=True))


@njit(nogil=True, cache=True)
def _by_code(codes: NDArray[np.int32], starts: Ints) -> Ints:
    for code in codes:
        starts[code + 1] += 1
    for code in range(len(starts) - 1):
        starts[code + 1] += starts[code]
    out = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        out[starts[codes[i]]] = i
        starts[codes[i]] += 1
    return out


@njit(nogil=True, cache=True)
def _float_words(words: Words) -> Words:
    """The bits of negative numbers are in reverse order."""
    out = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        out[i] = ~words[i] if words[i] >> U(63) else words[i] ^ SIGN
    return out


@njit(nogil=True, cache=True)
def _buckets_of(words: Words, splitters: Words) -> tuple[NDArray[np.uint8], Ints]:
    """Bucket of each word, the number of splitters up to it, by bisection; and how many words each bucket has."""
    out, counts = np.empty(len(words), np.uint8), np.zeros(len(splitters) + 1, np.int64)
    half = (len(splitters) + 1) // 2
    for i in range(len(words)):
        bucket, step = 0, half
        while step > 0:
            bucket += step if splitters[bucket + step - 1] <= words[i] else 0
            step //= 2
        out[i] = bucket
        counts[bucket] += 1
    return out, counts


@njit(nogil=True, cache=True)
def _scatter(
    words: Words,
    first: int,
    buckets: NDArray[np.uint8],
    places: Ints,
    positions: NDArray[np.int32],
    dealt: Words,
) -> None:
    """Write each word and its position to the next place of its bucket."""
    for i in range(len(words)):
        place = places[buckets[i]]
        places[buckets[i]] += 1
        positions[place] = first + i
        dealt[place] = words[i]


@njit(nogil=True, cache=True)
def give_by_rank(positions: NDArray[np.int32], words: Words, pi: Ints, start: int, out: Words) -> None:
    """The record at rank start + r receives the word of rank pi[r].

    Parameters
    ----------
    positions : ndarray of int32 or int64
        Position of the record at each rank.
    words : ndarray of uint64
        In order.
    out : ndarray of uint64
        By position.
    """
    for r in range(len(pi)):
        out[positions[start + r]] = words[pi[r]]


@njit(nogil=True, cache=True)
def _words_of_floats(words: Words) -> Words:
    out = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        out[i] = words[i] ^ SIGN if words[i] >> U(63) else ~words[i]
    return out
