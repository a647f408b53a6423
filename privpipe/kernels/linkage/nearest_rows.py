"""The rows of a table that are nearest to given records, including all ties."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.kernels.linkage.distance import LinkedFile, Mismatches, largest_codes, mismatches

__all__ = ["NearRows", "SearchedRows", "distinct_rows"]

Places = Ints
LEAF = 256
CHUNK = 256


@dataclass(frozen=True)
class NearRows:
    """The distinct rows that are nearest to each record.

    Parameters
    ----------
    distance : ndarray of float64, shape (m,)
        Distance of the k-th nearest row.
    offsets : ndarray of int64, shape (m + 1,)
        Where the members of each record begin.
    members : ndarray of int64
        Distinct rows at that distance or nearer.
    nearer : ndarray of bool
        Which of them are strictly nearer.
    """

    distance: Floats = field(repr=False)
    offsets: Places = field(repr=False)
    members: Places = field(repr=False)
    nearer: Bools = field(repr=False)


def distinct_rows(file: LinkedFile) -> tuple[Places, Places, Places]:
    """One row for each combination of values, the combination of each row, and how many rows have each combination.

    Examples
    --------
    >>> file = LinkedFile(np.array([[1.0], [np.nan], [1.0], [np.nan]]), np.array([[0], [1], [0], [1]]))
    >>> [part.tolist() for part in distinct_rows(file)]
    [[0, 1], [0, 1, 0, 1], [2, 2]]
    """
    key = np.zeros(len(file), dtype=np.int64)
    columns = [*file.numbers.T, *file.codes.T]
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        key = np.unique(key * len(values) + places.reshape(-1), return_inverse=True)[1].reshape(-1).astype(np.int64)
    _, first, place, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    return first.astype(np.int64), place.reshape(-1).astype(np.int64), counts.astype(np.int64)


class SearchedRows:
    """The distinct rows of a table, arranged for searching by the sum over columns of Gower's distances.

    Parameters
    ----------
    file : LinkedFile
        At least one row. A missing number is at distance 0 of another and at distance 1 of any other number.

    Examples
    --------
    >>> none = np.zeros((3, 0), dtype=np.int64)
    >>> rows = SearchedRows(LinkedFile(np.array([[0.0], [0.0], [1.0]]), none))
    >>> near = rows.nearest(LinkedFile(np.array([[0.4], [0.5]]), none[:2]))
    >>> near.members.tolist(), near.offsets.tolist(), rows.counts.tolist()
    ([0, 0, 1], [0, 1, 3], [2, 1])
    """

    def __init__(self, file: LinkedFile) -> None:
        first, self.place, self.counts = distinct_rows(file)
        rows = file.take(first)
        self._order, starts = _leaves(rows)
        numbers, codes = rows.numbers[self._order], rows.codes[self._order]
        self._rows = _Rows(read_only(numbers.T, np.float64), read_only(codes.T, np.int64))
        self._counts = read_only(self.counts[self._order], np.int64)
        self._boxes = _boxes(numbers, codes, starts)
        self._largest = largest_codes(codes)

    def nearest(self, asked: LinkedFile, k: int = 1) -> NearRows:
        """The distinct rows that hold the k nearest rows of each record, k at most the number of rows."""
        first, place, _ = distinct_rows(asked)
        some = asked.take(first)
        tables = mismatches(asked.mismatch, (largest_codes(asked.codes), self._largest))

        def part(start: int) -> tuple[Floats, Places, Places, Bools]:
            rows = slice(start, start + CHUNK)
            queries = _Rows(read_only(some.numbers[rows], np.float64), read_only(some.codes[rows], np.int64))
            return _search(queries, self._rows, self._counts, self._boxes, tables, k)  # type: ignore[no-any-return]

        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with ThreadPoolExecutor(workers, thread_name_prefix="privpipe-nearest") as pool:
            parts = list(pool.map(part, range(0, len(some), CHUNK)))
        distance, sizes, members, nearer = (
            np.concatenate([np.zeros(0, kind), *(found[at] for found in parts)])
            for at, kind in enumerate((np.float64, np.int64, np.int64, np.bool_))
        )
        return _spread(distance, sizes, self._order[members], nearer, place)


def _spread(distance: Floats, sizes: Places, members: Places, nearer: Bools, place: Places) -> NearRows:
    """The result for distinct records, repeated for each record."""
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    lengths = sizes[place]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    taken = np.repeat(starts[place], lengths) + inside
    return NearRows(distance[place], offsets, members[taken], nearer[taken])


class _Rows(NamedTuple):
    numbers: Floats
    codes: Ints


class _Boxes(NamedTuple):
    """Leaves of rows: where each begins, and the values in its columns."""

    starts: Places
    low: Floats
    high: Floats
    missing: Ints
    first: Places
    last: Places


def _leaves(rows: LinkedFile) -> tuple[Places, Places]:
    """Rows in an order in which leaves of similar rows are contiguous, and where each leaf begins."""
    columns = [*np.where(np.isnan(rows.numbers), -1.0, rows.numbers).T, *rows.codes.T]
    numbers = rows.numbers.shape[1]
    leaves, open_ = [], [np.arange(len(rows), dtype=np.int64)]
    while open_:
        part = open_.pop()
        spreads = [float(column[part].max() - column[part].min()) if len(part) > LEAF else 0.0 for column in columns]
        spreads = [min(spread, 1.0) if at >= numbers else spread for at, spread in enumerate(spreads)]
        widest = int(np.argmax(spreads)) if spreads else 0
        if len(part) <= LEAF or spreads[widest] <= 0:
            leaves.append(part)
            continue
        half = len(part) // 2
        split = part[np.argpartition(columns[widest][part], half)]
        open_ += [split[half:], split[:half]]
    starts = np.cumsum([0, *(len(leaf) for leaf in leaves)]).astype(np.int64)
    return np.concatenate(leaves), starts


def _boxes(numbers: Floats, codes: Places, starts: Places) -> _Boxes:
    begin, empty = starts[:-1], np.isnan(numbers)
    low = np.minimum.reduceat(np.where(empty, np.inf, numbers), begin, axis=0)
    high = np.maximum.reduceat(np.where(empty, -np.inf, numbers), begin, axis=0)
    some, every = np.maximum.reduceat(empty, begin, axis=0), np.minimum.reduceat(empty, begin, axis=0)
    first, last = np.minimum.reduceat(codes, begin, axis=0), np.maximum.reduceat(codes, begin, axis=0)
    return _Boxes(
        read_only(starts, np.int64),
        read_only(low, np.float64),
        read_only(high, np.float64),
        read_only(some.astype(np.int64) + every, np.int64),
        read_only(first, np.int64),
        read_only(last, np.int64),
    )


@njit(nogil=True, cache=True)
def _bound(numbers: Floats, codes: Ints, boxes: _Boxes, leaf: int, tables: Mismatches) -> float:
    """A lower bound of the distance to any row of the leaf."""
    bound = 0.0
    for j in range(len(numbers)):
        at, missing = numbers[j], boxes.missing[leaf, j]
        if np.isnan(at):
            bound += 1.0 if missing == 0 else 0.0
        elif missing == 2:
            bound += 1.0
        else:
            apart = max(boxes.low[leaf, j] - at, at - boxes.high[leaf, j], 0.0)
            bound += min(apart, 1.0) if missing else apart
    for j in range(len(codes)):
        first, last, offset = boxes.first[leaf, j], boxes.last[leaf, j], tables.offsets[j]
        if offset < 0:
            bound += 1.0 if codes[j] < first or codes[j] > last else 0.0
        elif first == last and tables.table[offset + codes[j] * tables.widths[j] + first]:
            bound += 1.0
    return bound


@njit(nogil=True, cache=True)
def _leaf_distances(
    numbers: Floats,
    codes: Ints,
    rows: _Rows,
    span: tuple[int, int],
    tables: Mismatches,
    out: Floats,
) -> None:
    start, end = span
    for i in range(end - start):
        out[i] = 0.0
    for j in range(len(numbers)):
        column, at = rows.numbers[j], numbers[j]
        for i in range(start, end):
            apart = abs(column[i] - at)
            if np.isnan(apart):
                apart = 0.0 if np.isnan(column[i]) and np.isnan(at) else 1.0
            out[i - start] += apart
    for j in range(len(codes)):
        column_codes, code, offset = rows.codes[j], codes[j], tables.offsets[j]
        if offset < 0:
            for i in range(start, end):
                out[i - start] += 1.0 if column_codes[i] != code else 0.0
        else:
            base = offset + code * tables.widths[j]
            for i in range(start, end):
                out[i - start] += 1.0 if tables.table[base + column_codes[i]] else 0.0


@njit(nogil=True, cache=True)
def _kth(best: Floats, held: Ints, k: int) -> float:
    """Distance of the k-th nearest row among the nearest distinct ones, infinite while fewer rows are known."""
    seen = 0
    for i in range(len(best)):
        seen += held[i]
        if seen >= k:
            return float(best[i])
    return np.inf


@njit(nogil=True, cache=True)
def _search(
    queries: _Rows, rows: _Rows, counts: Ints, boxes: _Boxes, tables: Mismatches, k: int
) -> tuple[Floats, Ints, Ints, Bools]:
    m, leaves = len(queries.numbers), len(boxes.starts) - 1
    largest = 0
    for leaf in range(leaves):
        largest = max(largest, boxes.starts[leaf + 1] - boxes.starts[leaf])
    out, bounds = np.empty(largest), np.empty(leaves)
    best, held = np.empty(k), np.empty(k, np.int64)
    distance, sizes = np.empty(m), np.zeros(m, np.int64)
    members, apart = np.empty(max(64, 2 * m), np.int64), np.empty(max(64, 2 * m))
    nearer = np.empty(max(64, 2 * m), np.bool_)
    filled = 0
    for r in range(m):
        numbers, codes = queries.numbers[r], queries.codes[r]
        for leaf in range(leaves):
            bounds[leaf] = _bound(numbers, codes, boxes, leaf, tables)
        best[:], held[:] = np.inf, 0
        reach, begun = np.inf, filled
        for leaf in np.argsort(bounds):
            if bounds[leaf] > reach + 1e-9 * (1.0 + reach):
                break
            start, end = boxes.starts[leaf], boxes.starts[leaf + 1]
            _leaf_distances(numbers, codes, rows, (start, end), tables, out)
            for i in range(end - start):
                d = out[i]
                if d - reach > 1e-12 * (1.0 + d):
                    continue
                if filled == len(members):
                    members, apart = np.concatenate((members, members)), np.concatenate((apart, apart))
                    nearer = np.concatenate((nearer, nearer))
                members[filled], apart[filled] = start + i, d
                filled += 1
                if d < best[k - 1]:
                    at = k - 1
                    while at > 0 and best[at - 1] > d:
                        best[at], held[at] = best[at - 1], held[at - 1]
                        at -= 1
                    best[at], held[at] = d, counts[start + i]
                    reach = _kth(best, held, k)
        kept = begun
        for i in range(begun, filled):
            d = apart[i]
            if d - reach <= 1e-12 * (1.0 + d):
                members[kept] = members[i]
                nearer[kept] = reach - d > 1e-12 * (1.0 + reach)
                kept += 1
        filled = kept
        distance[r], sizes[r] = reach, kept - begun
    return distance, sizes, members[:filled], nearer[:filled]
