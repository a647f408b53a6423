"""Equal rows and words: groups by hashing inside cache-sized buckets, runs in sorted words, counts of packed digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints, Words, read_only
from privpipe.compiled import SMALL, njit

__all__ = [
    "add_hashes",
    "digit_sums",
    "group_rows",
    "number_words",
    "ordered_by_group",
    "ranges_of",
    "runs",
    "shares_of",
    "split_order",
]


U = np.uint64
ONE = np.uint64(1)
BUCKET_ROWS = 2048
MOST_BITS = 14


def group_rows(words: Ints) -> tuple[Ints, Ints]:
    """Number the distinct rows of a matrix of words.

    Rows are first scattered into buckets that fit the processor's cache, which is about eight times faster on
    near-unique rows than one large hash table.

    Parameters
    ----------
    words : ndarray of int64, shape (n, w)
        Rows; all words are compared.

    Returns
    -------
    groups : ndarray of int64, shape (n,)
        Group of each row, in 0 .. g - 1, in no meaningful order.
    firsts : ndarray of int64, shape (g,)
        Position of the first row of each group.

    Examples
    --------
    >>> groups, firsts = group_rows(np.array([[7, 1], [7, 2], [7, 1]]))
    >>> bool(groups[0] == groups[2] != groups[1]), sorted(firsts.tolist())
    (True, [0, 1])
    """
    groups, firsts = _group(read_only(words, np.int64))
    return np.asarray(groups), np.asarray(firsts)


def number_words(words: Ints, room: int) -> tuple[Ints, Ints]:
    """As `group_rows`, for one word per row, all in 0 .. room - 1: by a table of `room` entries instead of hashing.

    Examples
    --------
    >>> groups, firsts = number_words(np.array([7, 2, 7]), 8)
    >>> groups.tolist(), firsts.tolist()
    ([0, 1, 0], [0, 1])
    """
    groups, firsts = _numbered(read_only(words, np.int64), room)
    return np.asarray(groups), np.asarray(firsts)


def ordered_by_group(groups: Ints, number: int) -> tuple[Ints, Ints]:
    """Positions of the rows, group after group and in their old order within one, and each group's offset.

    Examples
    --------
    >>> order, offsets = ordered_by_group(np.array([1, 0, 1]), 2)
    >>> order.tolist(), offsets.tolist()
    ([1, 0, 2], [0, 1, 3])
    """
    order, offsets = _counting_sort(read_only(groups, np.int64), number)
    return np.asarray(order), np.asarray(offsets)


def split_order(words: Ints, parts: int) -> tuple[Ints, Ints]:
    """Rows by part: the part of the 64-bit range that contains an (evenly distributed) word.

    Parameters
    ----------
    words : ndarray of int64, shape (n,)
        Taken as signed: the parts are ranges in ascending order.

    Examples
    --------
    >>> order, offsets = split_order(np.array([2**62, -(2**62), 5]), 2)
    >>> order.tolist(), offsets.tolist()
    ([1, 0, 2], [0, 1, 3])
    """
    return ordered_by_group(shares_of(words, parts), parts)


def shares_of(words: Ints, parts: int) -> Ints:
    """Which of `parts` equal ranges of all 64-bit integers, in ascending order, contains each word.

    Examples
    --------
    >>> shares_of(np.array([-(2**63), -1, 0, 2**63 - 1]), 4).tolist()
    [0, 1, 2, 3]
    """
    return np.asarray(_shares(read_only(words, np.int64), parts))


def ranges_of(rows: Ints, cuts: Ints) -> Ints:
    """How many of the cuts are at or below each row, compared word by word.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, w)
    cuts : ndarray of int64, shape (m, w)
        Ascending.

    Examples
    --------
    >>> ranges_of(np.array([[1, 9], [2, 0], [2, 1]]), np.array([[2, 1]])).tolist()
    [0, 0, 1]
    """
    return np.asarray(_ranges(read_only(rows, np.int64), read_only(cuts, np.int64)))


def add_hashes(total: Words, table: Ints, codes: Ints) -> None:
    """Add to each row's 128-bit number the table's entry for its code, modulo 2^128, in place.

    Parameters
    ----------
    total : ndarray of uint64, shape (n, 2)
        High and low words.
    table : ndarray of int64, shape (m, 2)
    codes : ndarray of int64, shape (n,)
        In 0 .. m - 1.

    Examples
    --------
    >>> total = np.array([[0, 2**64 - 1]], dtype=np.uint64)
    >>> add_hashes(total, np.array([[5, 1]]), np.array([0]))
    >>> total.tolist()
    [[6, 0]]
    """
    _add_hashes(total, read_only(table, np.int64), read_only(codes, np.int64))


@njit(nogil=True, cache=True)
def _not_above(cuts: Ints, m: int, rows: Ints, i: int) -> bool:
    j, width = 0, rows.shape[1]
    while j < width and cuts[m, j] == rows[i, j]:
        j += 1
    return bool(j == width or cuts[m, j] < rows[i, j])


@njit(small=SMALL, nogil=True, cache=True)
def _ranges(rows: Ints, cuts: Ints) -> Ints:
    out = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        low, high = 0, len(cuts)
        while low < high:
            middle = (low + high) // 2
            if _not_above(cuts, middle, rows, i):
                low = middle + 1
            else:
                high = middle
        out[i] = low
    return out


@njit(nogil=True, cache=True)
def _add_hashes(total: Words, table: Ints, codes: Ints) -> None:
    for i in range(len(codes)):
        low = U(table[codes[i], 1])
        total[i, 1] += low
        total[i, 0] += U(table[codes[i], 0]) + U(total[i, 1] < low)


@njit(nogil=True, cache=True)
def _mixed(words: Ints, i: int) -> np.uint64:
    h = U(0x9E3779B97F4A7C15)
    for j in range(words.shape[1]):
        h = (h ^ U(words[i, j])) * U(0xBF58476D1CE4E5B9)
        h ^= h >> U(32)
    h *= U(0x94D049BB133111EB)
    return h ^ (h >> U(29))


@njit(small=SMALL, nogil=True, cache=True)
def _counting_sort(groups: Ints, number: int) -> tuple[Ints, Ints]:
    offsets = np.zeros(number + 1, np.int64)
    for i in range(len(groups)):
        offsets[groups[i] + 1] += 1
    for g in range(number):
        offsets[g + 1] += offsets[g]
    order = np.empty(len(groups), np.int64)
    cursor = offsets.copy()
    for i in range(len(groups)):
        order[cursor[groups[i]]] = i
        cursor[groups[i]] += 1
    return order, offsets


@njit(small=SMALL, nogil=True, cache=True)
def _numbered(words: Ints, room: int) -> tuple[Ints, Ints]:
    places = np.full(room, -1, np.int64)
    groups = np.empty(len(words), np.int64)
    firsts = np.empty(min(room, len(words)), np.int64)
    found = 0
    for i in range(len(words)):
        if places[words[i]] < 0:
            places[words[i]] = found
            firsts[found] = i
            found += 1
        groups[i] = places[words[i]]
    return groups, firsts[:found].copy()


@njit(nogil=True, cache=True)
def _shares(words: Ints, parts: int) -> Ints:
    out = np.empty(len(words), np.int64)
    high = U(1) << U(63)
    low = U(0xFFFFFFFF)
    for i in range(len(words)):
        word = U(words[i]) ^ high
        middle = (word >> U(32)) * U(parts) + (((word & low) * U(parts)) >> U(32))
        out[i] = np.int64(middle >> U(32))
    return out


@njit(nogil=True, cache=True)
def _equal(words: Ints, a: int, b: int) -> bool:
    j, width = 0, words.shape[1]
    while j < width and words[a, j] == words[b, j]:
        j += 1
    return bool(j == width)


def _group_plain(words: Ints) -> tuple[Ints, Ints]:
    _, firsts, groups = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return groups.reshape(-1).astype(np.int64), firsts.astype(np.int64)


@njit(small=SMALL, plain=_group_plain, nogil=True, cache=True)
def _group(words: Ints) -> tuple[Ints, Ints]:
    n = len(words)
    bits = 0
    while (n >> bits) > BUCKET_ROWS and bits < MOST_BITS:
        bits += 1
    hashes = np.empty(n, np.uint64)
    buckets = np.empty(n, np.int64)
    for i in range(n):
        hashes[i] = _mixed(words, i)
        buckets[i] = np.int64(hashes[i] >> U(64 - bits)) if bits else 0
    order, offsets = _counting_sort(buckets, 1 << bits)
    groups = np.empty(n, np.int64)
    firsts = np.empty(n, np.int64)
    slots = np.empty(16, np.int64)
    found = 0
    for bucket in range(1 << bits):
        rows = order[offsets[bucket] : offsets[bucket + 1]]
        size = 16
        while size < 2 * len(rows):
            size *= 2
        if size > len(slots):
            slots = np.empty(size, np.int64)
        slots[:size] = -1
        found = _group_bucket(words, hashes, rows, slots[:size], groups, firsts, found)
    return groups, firsts[:found].copy()


@njit(nogil=True, cache=True)
def _group_bucket(words: Ints, hashes: Words, rows: Ints, slots: Ints, groups: Ints, firsts: Ints, found: int) -> int:
    mask = U(len(slots) - 1)
    for i in rows:
        at = hashes[i] & mask
        while slots[at] >= 0:
            first = firsts[slots[at]]
            if hashes[first] == hashes[i] and _equal(words, first, i):
                break
            at = (at + ONE) & mask
        if slots[at] < 0:
            slots[at] = found
            firsts[found] = i
            found += 1
        groups[i] = slots[at]
    return found


def runs(words: NDArray[Any]) -> tuple[Ints, Ints]:
    """Where equal words begin, and how many there are of each.

    Parameters
    ----------
    words : ndarray of int64 or float64, shape (n,)
        Ascending, without NaN; -0.0 equals 0.0.

    Returns
    -------
    starts, sizes : ndarray of int64, shape (runs,)

    Examples
    --------
    >>> [found.tolist() for found in runs(np.array([3, 3, 5, 7, 7, 7]))]
    [[0, 2, 3], [2, 1, 3]]
    """
    starts, sizes = _runs(words)
    return starts, sizes


def _runs_plain(words: NDArray[Any]) -> tuple[Ints, Ints]:
    if not len(words):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    fresh = np.flatnonzero(words[1:] != words[:-1]) + 1
    starts = np.concatenate([np.zeros(1, np.int64), fresh])
    return starts, np.diff(np.append(starts, len(words)))


@njit(small=8 * SMALL, plain=_runs_plain, nogil=True, cache=True)
def _runs(words: NDArray[Any]) -> tuple[Ints, Ints]:
    found = min(len(words), 1)
    for i in range(1, len(words)):
        found += words[i] != words[i - 1]
    starts, sizes = np.empty(found, np.int64), np.empty(found, np.int64)
    at, first = 0, 0
    for i in range(1, len(words)):
        if words[i] != words[i - 1]:
            starts[at], sizes[at] = first, i - first
            at, first = at + 1, i
    if found:
        starts[at], sizes[at] = first, len(words) - first
    return starts, sizes


def digit_sums(words: Ints, records: Ints, radices: Sequence[int]) -> list[Ints]:
    """How many records have each digit, place by place.

    Parameters
    ----------
    words : ndarray of int64, shape (n,)
        In [0, product of the radices).
    records : ndarray of int64, shape (n,)
        Records of each word.
    radices : sequence of int
        Radix of each place, the most significant first; their sum determines the memory.

    Returns
    -------
    list of ndarray of int64, shape (radix,)

    Examples
    --------
    >>> [sums.tolist() for sums in digit_sums(np.array([0, 4, 5]), np.array([1, 2, 3]), [2, 3])]
    [[1, 5], [1, 2, 3]]
    """
    starts = np.concatenate([[0], np.cumsum(radices, dtype=np.int64)])
    sums = np.zeros(starts[-1], np.int64)
    _add(words, records, np.array(radices, np.int64), starts, sums)
    return np.split(sums, starts[1:-1]) if len(radices) else []


def _add_plain(words: Ints, records: Ints, radices: Ints, starts: Ints, sums: Ints) -> None:
    rest = words
    for place in range(len(radices) - 1, -1, -1):
        rest, digits = np.divmod(rest, radices[place])
        np.add.at(sums, starts[place] + digits, records)


@njit(small=8 * SMALL, plain=_add_plain, nogil=True, cache=True)
def _add(words: Ints, records: Ints, radices: Ints, starts: Ints, sums: Ints) -> None:
    for i in range(len(words)):
        rest, own = np.uint64(words[i]), records[i]  # unsigned: a plain division of 64-bit words without sign checks
        for place in range(len(radices) - 1, -1, -1):
            radix = np.uint64(radices[place])
            above = rest // radix
            sums[starts[place] + np.int64(rest - above * radix)] += own
            rest = above
