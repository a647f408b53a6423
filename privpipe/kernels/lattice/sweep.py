"""Walk vectors of levels in a given order and keep, at each, the classes of the remaining combinations that pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.compiled import njit

__all__ = ["LARGEST_MASK", "CodedTuples", "next_vector", "swept"]

NONE = -1
LARGEST_MASK = 64
"""Sensitive values that a word distinguishes; classes of columns with more values are judged elsewhere."""
SPACE = 1 << 62
MOST_LEAVES = 4096
MOST_LABELS = 1 << 17
"""Most labels of columns that share one code, so that the look-up table stays in the processor's cache."""


@dataclass(frozen=True)
class CodedTuples:
    """Distinct combinations with the code of each label at each level; neighbouring columns are looked up at once.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, g)
        Leaf codes of each group of columns.
    labels : ndarray of int64, flat
        For each group and each of its vectors of levels, the code of each leaf's labels, times the stride of the group
        within its word.
    starts, widths : ndarray of int64, shape (g,)
        Where the labels of a group begin, and how many leaves it has.
    steps : ndarray of int64, shape (m,)
        Increase of the number of the group's vector for one more level of a column.
    ends : ndarray of int64, shape (g,)
        Column after the last one of each group.
    words : ndarray of int64, shape (w,)
        Group after the last one of each word of a class key: as many words as exact keys need.
    counts : ndarray of int64, shape (t,)
    values : ndarray of int64, shape (t,) or (0,)
        Sensitive codes below `LARGEST_MASK`; empty where they are not counted.
    """

    codes: NDArray[np.int32] = field(repr=False)
    labels: Ints = field(repr=False)
    starts: Ints
    widths: Ints
    steps: Ints
    ends: Ints
    words: Ints
    counts: Ints = field(repr=False)
    values: Ints = field(repr=False)

    @classmethod
    def of(cls, codes: NDArray[np.int32], lookups: list[list[Ints]], counts: Ints, values: Ints | None) -> Self:
        """From the label codes of each column, level by level.

        Examples
        --------
        >>> tuples = CodedTuples.of(np.array([[0], [1]], np.int32), [[np.array([0, 1])]], np.array([2, 3]), None)
        >>> tuples.words.tolist(), tuples.widths.tolist()
        ([1], [2])
        """
        flat, starts, widths, steps, grouped = [], [], [], [], []
        ends, words, at, stride = _groups(lookups), [], 0, 1
        for group, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            leaves, table, many = np.zeros(len(codes), np.int64), np.zeros((1, 1), np.int64), 1
            own: list[int] = []
            for column in range(first, last):
                levels = np.array(lookups[column], dtype=np.int64).reshape(len(lookups[column]), -1)
                labels = int(levels.max(initial=-1)) + 1
                leaves = leaves * levels.shape[1] + codes[:, column]
                own = [step * len(levels) for step in own] + [1]
                wider = table[:, None, :, None] * labels + levels[None, :, None, :]
                table, many = wider.reshape(len(table) * len(levels), -1), many * labels
            if stride > 1 and stride * many >= SPACE:
                words.append(group)
                stride = 1
            starts.append(at)
            widths.append(table.shape[1])
            steps += own
            flat.append(table.ravel() * stride)
            grouped.append(leaves)
            at, stride = at + table.size, stride * many
        words.append(len(ends))
        return cls(
            np.ascontiguousarray(np.column_stack(grouped) if grouped else codes[:, :0], dtype=np.int32),
            np.concatenate(flat) if flat else np.zeros(0, np.int64),
            np.array(starts, np.int64),
            np.array(widths, np.int64),
            np.array(steps, np.int64),
            np.array(ends, np.int64),
            np.array(words, np.int64),
            np.ascontiguousarray(counts, dtype=np.int64),
            np.zeros(0, np.int64) if values is None else np.ascontiguousarray(values, dtype=np.int64),
        )

    def places(self, vectors: NDArray[np.int16]) -> Ints:
        """Where the labels of each group begin at each vector of levels, shape (v, g); further columns: level 0."""
        steps = self.steps[: vectors.shape[1]]
        reached = np.zeros((len(vectors), len(self.steps) + 1), dtype=np.int64)
        np.cumsum(vectors * steps, axis=1, out=reached[:, 1 : len(steps) + 1])
        reached[:, len(steps) + 1 :] = reached[:, [len(steps)]]
        own = reached[:, self.ends] - reached[:, np.concatenate([[0], self.ends[:-1]]).astype(np.int64)]
        return np.ascontiguousarray(self.starts + own * self.widths)


def _groups(lookups: list[list[Ints]]) -> list[int]:
    """Column after the last one of each group."""
    ends, leaves, labels = [], 1, 1
    for column, levels in enumerate(lookups):
        own = max(len(levels[0]), 1)
        if column and (leaves * own > MOST_LEAVES or labels * own * len(levels) > MOST_LABELS):
            ends.append(column)
            leaves = labels = 1
        leaves, labels = leaves * own, labels * own * len(levels)
    return [*ends, len(lookups)] if lookups else []


def swept(
    tuples: CodedTuples, vectors: NDArray[np.int16], rest: NDArray[np.intp], k: int, values: int, least: int
) -> NDArray[np.int32]:
    """The vector at which each combination of `rest` is kept, -1 where none keeps it, shape (t,).

    Parameters
    ----------
    vectors : ndarray of int16, shape (v, m)
        In the order in which they are walked; columns without a hierarchy have level 0.
    k, values : int
        Least records and distinct sensitive values of a class that passes; 0 values where they are not counted.
    least : int
        Least records that a vector keeps; with fewer, it keeps nothing.

    Examples
    --------
    >>> own = [[np.array([0, 1, 2]), np.array([0, 0, 0])]]
    >>> tuples = CodedTuples.of(np.array([[0], [1], [2]], np.int32), own, np.array([3, 1, 1]), None)
    >>> swept(tuples, np.array([[0], [1]], np.int16), np.arange(3), 2, 0, 1).tolist()
    [0, 1, 1]
    """
    found = np.full(len(tuples.codes), NONE, dtype=np.int32)
    rule = (k, values, least)
    _sweep((tuples.labels, tuples.words), tuples.places(vectors), _taken(tuples, rest), rule, found)
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
) -> tuple[int, Bools]:
    """The first vector from `first` on at which a class may pass, and which of `rest` are in such classes.

    Parameters
    ----------
    whole : bool
        Whether every class must pass.

    Returns
    -------
    (int, ndarray of bool, shape (len(rest),))
        -1 and no combination where there is no such vector.
    """
    passing = np.zeros(len(rest), dtype=np.bool_)
    rule = (k, values, whole)
    places = tuples.places(vectors[first:])
    found = int(_next((tuples.labels, tuples.words), places, _taken(tuples, rest), rule, passing))
    return (NONE if found == NONE else first + found), passing


def _taken(tuples: CodedTuples, rest: NDArray[np.intp]) -> tuple[Any, ...]:
    """Copies of rows, codes, counts and values of some combinations, which may be reordered."""
    values = tuples.values[rest] if len(tuples.values) else tuples.values
    return rest.astype(np.int64), tuples.codes[rest], tuples.counts[rest], values


@njit(nogil=True, cache=True, inline="always")
def _slot(table, last, stamp, own):  # type: ignore[no-untyped-def]
    """The position of a class in the table, or the free slot for it."""
    mixed = np.uint64(0)
    for word in range(len(own)):
        mixed = (mixed ^ np.uint64(own[word])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    slot = np.int64(mixed) & last
    while table[slot, 0] == stamp:
        same = True
        for word in range(len(own)):
            same &= table[slot, 3 + word] == own[word]
        if same:
            break
        slot = (slot + 1) & last
    return slot


@njit(nogil=True, cache=True)
def _group(keys, places, rest, n, stamp, k, room):  # type: ignore[no-untyped-def]
    """The slot of the class of each of the first n; whether some class has k records.

    A slot of the table: stamp of the vector that uses it, records, values seen, key. Only as much of the table is used
    as n combinations need, so that it stays in the processor's cache.
    """
    labels, words = keys
    _, codes, counts, values = rest
    table, slots = room
    last = 1
    while last < 2 * n:
        last *= 2
    last -= 1
    own = np.empty(len(words), np.int64)
    most = 0
    for i in range(n):
        group = 0
        for word in range(len(words)):
            key = np.int64(0)
            while group < words[word]:
                key += labels[places[group] + codes[i, group]]
                group += 1
            own[word] = key
        slot = _slot(table, last, stamp, own)
        if table[slot, 0] != stamp:
            table[slot, 0], table[slot, 1], table[slot, 2] = stamp, 0, 0
            for word in range(len(words)):
                table[slot, 3 + word] = own[word]
        table[slot, 1] += counts[i]
        most = max(most, table[slot, 1])
        if len(values):
            table[slot, 2] |= np.int64(1) << values[i]
        slots[i] = slot
    return most >= k


@njit(nogil=True, cache=True, inline="always")
def _passes(table, slot, k, values):  # type: ignore[no-untyped-def]
    if table[slot, 1] < k:
        return False
    many, mask = 0, np.uint64(table[slot, 2])
    while mask != np.uint64(0) and many < values:
        mask &= mask - np.uint64(1)
        many += 1
    return many >= values


@njit(nogil=True, cache=True)
def _room(n, words):  # type: ignore[no-untyped-def]
    size = 1
    while size < 2 * n:
        size *= 2
    return np.zeros((size, 3 + len(words)), np.int64), np.empty(n, np.int64)


@njit(nogil=True, cache=True)
def _sweep(keys, places, rest, rule, found):  # type: ignore[no-untyped-def]
    k, values, least = rule
    rows, codes, counts, own = rest
    n = len(rows)
    room = _room(n, keys[1])
    table, slots = room
    for v in range(len(places)):
        if n == 0:
            break
        if not _group(keys, places[v], rest, n, v + 1, k, room):
            continue
        kept = 0
        for i in range(n):
            if _passes(table, slots[i], k, values):
                kept += counts[i]
        if kept == 0 or kept < least:
            continue
        left = 0
        for i in range(n):
            if _passes(table, slots[i], k, values):
                found[rows[i]] = v
            else:
                rows[left], counts[left] = rows[i], counts[i]
                for group in range(codes.shape[1]):
                    codes[left, group] = codes[i, group]
                if len(own):
                    own[left] = own[i]
                left += 1
        n = left


@njit(nogil=True, cache=True)
def _next(keys, places, rest, rule, passing):  # type: ignore[no-untyped-def]
    k, values, whole = rule
    n = len(rest[0])
    room = _room(n, keys[1])
    table, slots = room
    for v in range(len(places)):
        if not _group(keys, places[v], rest, n, v + 1, k, room):
            continue
        many = 0
        for i in range(n):
            passing[i] = _passes(table, slots[i], k, values)
            many += passing[i]
        if many == n or (many > 0 and not whole):
            return v
    passing[:] = False
    return NONE
