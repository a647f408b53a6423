"""Orders of many records: by group, and by value with ties by keyed order, on a few threads.

Records are dealt to buckets of consecutive values, which are sorted side by side. Source: Frazer, McKellar,
Samplesort, Journal of the ACM 17(3), 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints, Words
from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["give_by_rank", "positions_by_code", "positions_by_value", "sortable_words", "sorted_values"]

U = np.uint64
SIGN = U(1 << 63)
BUCKETS = 256
SAMPLED = 1 << 15
STRETCH = 1 << 18
"""Records that one task deals out at a time."""


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
        Gives the tie words of all records, uint64 of shape (n,); asked only if words are equal.
    settle : callable
        Puts positions of records with equal words and equal tie words in order.
    pool : Executor
        Of threads.

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
    """Positions and words by bucket, and where each bucket begins; a bucket holds what lies between two splitters."""
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
    # The number of the run in front of as much of the tie word as there is room for.
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
    """Negative numbers are ordered backwards by their bits."""
    out = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        out[i] = ~words[i] if words[i] >> U(63) else words[i] ^ SIGN
    return out


@njit(nogil=True, cache=True)
def _buckets_of(words: Words, splitters: Words) -> tuple[NDArray[np.uint8], Ints]:
    """Bucket of each word, the number of splitters up to it, by halving; and how many words each bucket has."""
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
        Of the record at each rank.
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
