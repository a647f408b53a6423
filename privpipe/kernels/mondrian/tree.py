"""Mondrian's cuts: where a segment of distinct combinations may be divided, and the tree of all such cuts."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.mondrian.cuts import choose, partition

__all__ = [
    "MOST_CUTS",
    "NO_KEYS",
    "Columns",
    "Nodes",
    "cuts_of",
    "divided",
    "grown",
]

Ints = NDArray[np.int64]
MOST_CUTS = 8
"""Cuts of one column that are tried."""
SERIAL = 1 << 15
NO_KEYS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Columns:
    """What the cuts of a table's columns depend on.

    Parameters
    ----------
    spans : ndarray of float64, shape (c,)
        Range of each column's codes in the whole table; a column of span 0 is never cut.
    groups, starts : ndarray of int64
        Group of each code, column after column, and where each column begins; a segment that reaches over several
        groups must be cut between them, whatever becomes of the halves.
    levels, labels, shares : ndarrays
        For the score by loss: how many levels each column has, the label of each code at each of them, and the
        share of the domain it stands for; flat, level after level, from `places` on. A column without levels is
        weighted by the codes it spans.
    places : ndarray of int64, shape (c,)
    units : ndarray of float64, shape (c,)
        What a share counts in the loss.
    by_loss : bool
    """

    spans: NDArray[np.float64]
    groups: Ints
    starts: Ints
    levels: Ints
    labels: Ints
    shares: NDArray[np.float64]
    places: Ints
    units: NDArray[np.float64]
    by_loss: bool = False

    def packed(self) -> tuple[Any, ...]:
        """The arrays as compiled code takes them."""
        return (
            read_only(self.spans, np.float64),
            read_only(self.groups, np.int64),
            read_only(self.starts, np.int64),
            read_only(self.levels, np.int64),
            read_only(self.labels, np.int64),
            read_only(self.shares, np.float64),
            read_only(self.places, np.int64),
            read_only(self.units, np.float64),
            self.by_loss,
        )


@dataclass(frozen=True)
class Nodes:
    """Nodes of a forest as ranges of the combinations, in preorder; a leaf has column -1.

    Parameters
    ----------
    starts, stops : ndarray of int64, shape (n,)
    columns, cuts : ndarray of int64, shape (n,)
        Combinations whose code in `columns` is at most `cuts` come first.
    ties : ndarray of int64, shape (n,)
        Of the records at the cut itself, those whose key is at most this come first; strict: all do.
    """

    starts: Ints = field(repr=False)
    stops: Ints = field(repr=False)
    columns: Ints = field(repr=False)
    cuts: Ints = field(repr=False)
    ties: Ints = field(repr=False)

    @classmethod
    def of(cls, parts: list[NDArray[np.int64]]) -> Nodes:
        """From rows (start, stop, column, cut, tie) in any order."""
        rows = np.concatenate(parts) if parts else np.empty((0, 5), np.int64)
        order = np.lexsort((rows[:, 0] - rows[:, 1], rows[:, 0]))
        return cls(*(np.ascontiguousarray(column) for column in rows[order].T))

    def __len__(self) -> int:
        return len(self.starts)


def grown(
    codes: NDArray[Any], counts: Ints, least: int, columns: Columns, *, keys: Ints = NO_KEYS, workers: int = 1
) -> Nodes:
    """The tree whose every leaf has at least `least` records and no legal cut.

    Rows of `codes`, `counts` and `keys` are moved in place, so that every node is a range of them.

    Source: LeFevre, DeWitt, Ramakrishnan, ICDE 2006.

    Parameters
    ----------
    codes : ndarray of uint16 or int32, shape (t, c)
    counts : ndarray of int64, shape (t,)
    least : int
    columns : Columns
    keys : ndarray of int64, shape (t,)
        Relaxed: what orders records, each a row of its own. Left out, strict: equal values stay together.
    workers : int
        Threads; the tree is the same for any number.

    Returns
    -------
    Nodes

    Examples
    --------
    >>> codes = np.array([[0], [1], [2], [3]], dtype=np.uint16)
    >>> flat = np.zeros(4, np.int64)
    >>> one = Columns(np.array([3.0]), flat, np.array([0, 4]), np.array([0]), flat, flat / 1, np.array([0]), np.ones(1))
    >>> nodes = grown(codes, np.array([2, 1, 1, 3]), 2, one)
    >>> nodes.columns.tolist(), nodes.cuts.tolist()
    ([0, -1, -1], [1, 0, 0])
    """
    table = columns.packed()
    if len(codes) <= SERIAL or workers == 1:
        return Nodes.of([_grow(codes, counts, keys, 0, len(codes), least, False, *table)])
    parts: list[NDArray[np.int64]] = []
    small = max(SERIAL, len(codes) // (8 * workers))

    def work(start: int, stop: int) -> tuple[NDArray[np.int64], bool]:
        if stop - start <= small:
            return _grow(codes, counts, keys, start, stop, least, False, *table), False
        return _grow(codes, counts, keys, start, stop, least, True, *table), True

    with ThreadPoolExecutor(workers, thread_name_prefix="privpipe") as pool:
        open_: set[Future[tuple[NDArray[np.int64], bool]]] = {pool.submit(work, 0, len(codes))}
        while open_:
            done, open_ = wait(open_, return_when=FIRST_COMPLETED)
            for future in done:
                rows, divided_once = future.result()
                parts.append(rows[:1] if divided_once else rows)
                if divided_once and len(rows) == 3:
                    open_ |= {pool.submit(work, int(start), int(stop)) for start, stop in rows[1:, :2]}
    return Nodes.of(parts)


def cuts_of(
    codes: NDArray[Any], counts: Ints, keys: Ints, starts: Ints, stops: Ints, least: int, columns: Columns
) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    """Cuts of some segments that leave at least `least` records on both sides, best first.

    Returns
    -------
    (columns, cuts, ties), each ndarray of int64, shape (s, q), and ndarray of bool, shape (s,)
        A column of -1 stands after the last. True: a segment that must be cut, by its first cut.
    """
    shape = (len(starts), MOST_CUTS * len(columns.spans))
    where, at, ties = np.full(shape, -1, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    forced = np.zeros(len(starts), np.bool_)
    table = columns.packed()
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    _all_cuts(codes, counts, keys, starts, stops, least, MOST_CUTS, where, at, ties, forced, *table)
    return where, at, ties, forced


def divided(codes: NDArray[Any], counts: Ints, keys: Ints, segment: tuple[int, int], cut: tuple[int, int, int]) -> int:
    """Move the rows of a segment that come first by a cut (column, code, tie) to its front; where the others begin."""
    return int(partition(codes, counts, keys, *segment, *cut))


@njit(nogil=True, cache=True)
def _grow(  # type: ignore[no-untyped-def]
    codes, counts, keys, start, stop, least, once, spans, groups, starts, levels, labels, shares, places, units, by_loss
):
    """The tree below one segment, as rows (start, stop, column, cut); once: a first cut, and rows of both halves."""
    width = len(spans)
    lows, highs = np.empty(width, np.int64), np.empty(width, np.int64)
    where, at, ties = np.empty(width + 1, np.int64), np.empty(width + 1, np.int64), np.empty(width + 1, np.int64)
    rows = np.empty((64, 5), np.int64)
    stack = [(start, stop)]
    count = 0
    while len(stack):
        first, last = stack.pop()
        found, _ = choose(
            codes,
            counts,
            keys,
            first,
            last,
            least,
            np.int64(1),  # a literal would be a type of its own, and compiled once more
            where,
            at,
            ties,
            lows,
            highs,
            spans,
            groups,
            starts,
            levels,
            labels,
            shares,
            places,
            units,
            by_loss,
        )
        if count == len(rows):
            wider = np.empty((2 * count, 5), np.int64)
            wider[:count] = rows
            rows = wider
        rows[count, 0], rows[count, 1], rows[count, 2], rows[count, 3], rows[count, 4] = first, last, -1, 0, 0
        if found:
            middle = partition(codes, counts, keys, first, last, where[0], at[0], ties[0])
            rows[count, 2], rows[count, 3], rows[count, 4] = where[0], at[0], ties[0]
            if once:
                rows[1, 0], rows[1, 1], rows[2, 0], rows[2, 1] = first, middle, middle, last
                count = 2
            else:
                stack.append((middle, last))
                stack.append((first, middle))
        count += 1
    return rows[:count].copy()


@njit(nogil=True, cache=True)
def _all_cuts(  # type: ignore[no-untyped-def]
    codes,
    counts,
    keys,
    begins,
    ends,
    least,
    most,
    where,
    at,
    ties,
    forced,
    spans,
    groups,
    starts,
    levels,
    labels,
    shares,
    places,
    units,
    by_loss,
):
    width = len(spans)
    lows, highs = np.empty(width, np.int64), np.empty(width, np.int64)
    for s in range(len(begins)):
        found, must = choose(
            codes,
            counts,
            keys,
            begins[s],
            ends[s],
            least,
            most,
            where[s],
            at[s],
            ties[s],
            lows,
            highs,
            spans,
            groups,
            starts,
            levels,
            labels,
            shares,
            places,
            units,
            by_loss,
        )
        forced[s] = must
        for later in range(found, where.shape[1]):
            where[s, later] = -1
