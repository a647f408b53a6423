"""Walk vectors of levels in a given order and keep, at each, the classes that pass among what is left, compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit

__all__ = ["LARGEST_MASK", "CodedTuples", "next_vector", "swept"]

Ints = NDArray[np.int64]
NONE = -1
LARGEST_MASK = 64
"""Sensitive values that a word tells apart; classes with more of them are judged elsewhere."""
SPACE = 1 << 62


@dataclass(frozen=True)
class CodedTuples:
    """Distinct combinations with the code of each label of each column at each level.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, m)
        Leaf codes; of columns without a hierarchy, ranks of their values.
    labels : ndarray of int64, flat
        For each column and level the label's code of each leaf, times the column's stride within its word.
    starts, widths : ndarray of int64, shape (m,)
        Where a column's labels begin, and how many leaves it has.
    ends : ndarray of int64, shape (w,)
        Column behind the last one of each word of a class key: as many words as exact keys need.
    counts : ndarray of int64, shape (t,)
    values : ndarray of int64, shape (t,) or (0,)
        Sensitive codes below `LARGEST_MASK`; none where they are not looked at.
    """

    codes: NDArray[np.int32] = field(repr=False)
    labels: Ints = field(repr=False)
    starts: Ints
    widths: Ints
    ends: Ints
    counts: Ints = field(repr=False)
    values: Ints = field(repr=False)

    @classmethod
    def of(cls, codes: NDArray[np.int32], lookups: list[list[Ints]], counts: Ints, values: Ints | None) -> Self:
        """From the label codes of each column, level by level.

        Examples
        --------
        >>> tuples = CodedTuples.of(np.array([[0], [1]], np.int32), [[np.array([0, 1])]], np.array([2, 3]), None)
        >>> tuples.ends.tolist(), tuples.widths.tolist()
        ([1], [2])
        """
        flat, starts, widths, ends = [], [], [], []
        at, stride = 0, 1
        for column, levels in enumerate(lookups):
            many = max((int(own.max(initial=-1)) for own in levels), default=0) + 1
            if stride > 1 and stride * many >= SPACE:
                ends.append(column)
                stride = 1
            starts.append(at)
            widths.append(len(levels[0]))
            flat += [own.astype(np.int64) * stride for own in levels]
            at += sum(len(own) for own in levels)
            stride *= many
        ends.append(len(lookups))
        return cls(
            np.ascontiguousarray(codes, dtype=np.int32),
            np.concatenate(flat) if flat else np.zeros(0, np.int64),
            np.array(starts, np.int64),
            np.array(widths, np.int64),
            np.array(ends, np.int64),
            np.ascontiguousarray(counts, dtype=np.int64),
            np.zeros(0, np.int64) if values is None else np.ascontiguousarray(values, dtype=np.int64),
        )


def swept(
    tuples: CodedTuples, vectors: NDArray[np.int16], rest: NDArray[np.intp], k: int, values: int, least: int
) -> NDArray[np.int32]:
    """The vector at which each combination of `rest` is kept, -1 where none keeps it, shape (t,).

    Parameters
    ----------
    vectors : ndarray of int16, shape (v, m)
        In the order in which they are walked; columns without a hierarchy have level 0.
    k, values : int
        Records, and distinct sensitive values, of a class that passes; 0 values where they are not looked at.
    least : int
        Records that a vector must keep, or it keeps nothing.

    Examples
    --------
    >>> own = [[np.array([0, 1, 2]), np.array([0, 0, 0])]]
    >>> tuples = CodedTuples.of(np.array([[0], [1], [2]], np.int32), own, np.array([3, 1, 1]), None)
    >>> swept(tuples, np.array([[0], [1]], np.int16), np.arange(3), 2, 0, 1).tolist()
    [0, 1, 1]
    """
    found = np.full(len(tuples.codes), NONE, dtype=np.int32)
    _sweep(_packed(tuples), _wide(tuples, vectors), rest.astype(np.int64), (k, values, least), found)
    return found


def next_vector(
    tuples: CodedTuples,
    vectors: NDArray[np.int16],
    rest: NDArray[np.intp],
    k: int,
    values: int,
    *,
    first: int = 0,
    whole: bool = False,
) -> tuple[int, NDArray[np.bool_]]:
    """The first vector from `first` on at which a class may pass, and which of `rest` are in such classes.

    Parameters
    ----------
    whole : bool
        Whether every class must.

    Returns
    -------
    (int, ndarray of bool, shape (len(rest),))
        -1 and no combination where there is none.
    """
    passing = np.zeros(len(rest), dtype=np.bool_)
    asked = (k, values, first, whole)
    return int(_next(_packed(tuples), _wide(tuples, vectors), rest.astype(np.int64), asked, passing)), passing


def _packed(tuples: CodedTuples) -> tuple[Any, ...]:
    keys = (tuples.labels, tuples.starts, tuples.widths, tuples.ends)
    return (tuples.codes, *keys, tuples.counts, tuples.values)


def _wide(tuples: CodedTuples, vectors: NDArray[np.int16]) -> NDArray[np.int16]:
    wide = np.zeros((len(vectors), len(tuples.starts)), dtype=np.int16)
    wide[:, : vectors.shape[1]] = vectors
    return wide


@njit(nogil=True, cache=True)
def _table(rows: int, words: int) -> tuple[Ints, Ints, NDArray[np.uint64], Ints]:
    """Stamp, records, values and key of each slot of a hash table at most half full."""
    size = 2
    while size < 2 * rows:
        size *= 2
    stamps, totals = np.zeros(size, np.int64), np.zeros(size, np.int64)
    return stamps, totals, np.zeros(size, np.uint64), np.zeros((size, words), np.int64)


@njit(nogil=True, cache=True)
def _slot(own: Ints, stamp: int, stamps: Ints, keys: Ints) -> int:
    """Where a class stands in the table, or the free slot that is to be its own."""
    mixed = np.uint64(0)
    for word in range(len(own)):
        mixed = (mixed ^ np.uint64(own[word])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    last = len(stamps) - 1
    slot = np.int64(mixed) & last
    while stamps[slot] == stamp:
        same = True
        for word in range(len(own)):
            same &= keys[slot, word] == own[word]
        if same:
            break
        slot = (slot + 1) & last
    return int(slot)


@njit(nogil=True, cache=True)
def _group(coded: Any, vector: NDArray[np.int16], rest: Ints, stamp: int, k: int, table: Any, slots: Ints) -> bool:
    """The slot of the class of each of `rest`; whether some class holds k records."""
    codes, labels, starts, widths, ends, counts, values = coded
    stamps, totals, masks, keys = table
    own = np.empty(len(ends), np.int64)
    enough = False
    for i in range(len(rest)):
        row = rest[i]
        column = 0
        for word in range(len(ends)):
            key = np.int64(0)
            while column < ends[word]:
                key += labels[starts[column] + vector[column] * widths[column] + codes[row, column]]
                column += 1
            own[word] = key
        slot = _slot(own, stamp, stamps, keys)
        if stamps[slot] != stamp:
            stamps[slot], totals[slot], masks[slot] = stamp, 0, 0
            keys[slot] = own
        totals[slot] += counts[row]
        enough |= totals[slot] >= k
        if len(values):
            masks[slot] |= np.uint64(1) << np.uint64(values[row])
        slots[i] = slot
    return enough


@njit(nogil=True, cache=True)
def _passes(slot: int, table: Any, k: int, values: int) -> bool:
    _, totals, masks, _ = table
    if totals[slot] < k:
        return False
    many, mask = 0, masks[slot]
    while mask and many < values:
        mask &= mask - np.uint64(1)
        many += 1
    return many >= values


@njit(nogil=True, cache=True)
def _sweep(coded: Any, vectors: NDArray[np.int16], rest: Ints, asked: Any, found: NDArray[np.int32]) -> None:
    k, values, least = asked
    table = _table(len(rest), len(coded[4]))
    slots, n = np.empty(len(rest), np.int64), len(rest)
    for v in range(len(vectors)):
        if n == 0:
            break
        if not _group(coded, vectors[v], rest[:n], v + 1, k, table, slots):
            continue
        kept = 0
        for i in range(n):
            if _passes(slots[i], table, k, values):
                kept += coded[5][rest[i]]
        if kept == 0 or kept < least:
            continue
        left = 0
        for i in range(n):
            if _passes(slots[i], table, k, values):
                found[rest[i]] = v
            else:
                rest[left] = rest[i]
                left += 1
        n = left


@njit(nogil=True, cache=True)
def _next(coded: Any, vectors: NDArray[np.int16], rest: Ints, asked: Any, passing: NDArray[np.bool_]) -> int:
    k, values, first, whole = asked
    table = _table(len(rest), len(coded[4]))
    slots = np.empty(len(rest), np.int64)
    for v in range(first, len(vectors)):
        if not _group(coded, vectors[v], rest, v + 1, k, table, slots):
            continue
        many = 0
        for i in range(len(rest)):
            passing[i] = _passes(slots[i], table, k, values)
            many += passing[i]
        if many == len(rest) or (many > 0 and not whole):
            return v
    passing[:] = False
    return NONE
