"""Mondrian's cuts: where a segment of distinct combinations may be divided, and the tree of all such cuts."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.kernels.mondrian.cuts import Cuts, CutTables, Rows, choose, choose_of_counts, partition, room_for

__all__ = [
    "MOST_CUTS",
    "NO_KEYS",
    "Columns",
    "Nodes",
    "Rows",
    "cuts_of",
    "cuts_of_counts",
    "divided",
    "grown",
]

MOST_CUTS = 8
"""Most cuts of one column that are tried."""
SERIAL = 1 << 15
NO_KEYS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Columns:
    """The properties of a table's columns that determine their cuts.

    Parameters
    ----------
    spans : ndarray of float64, shape (c,)
        Range of each column's codes in the whole table; a column of span 0 is never cut.
    groups, starts : ndarray of int64
        Group of each code, column after column, and where each column begins; a segment that reaches over several
        groups must be cut between them, whatever the halves are.
    levels, labels, shares : ndarrays
        For the score by loss: how many levels each column has, the label of each code at each of them, and the
        share of the domain it represents; flat, level after level, from `places` on. A column without levels is
        weighted by the codes it spans.
    places : ndarray of int64, shape (c,)
    units : ndarray of float64, shape (c,)
        Weight of a share in the loss.
    by_loss : bool
    persons : int
        Where persons are counted, how many of them are distinguished: numbers below it, in the last columns of the
        codes (see `Rows`). 0: records are counted.
    beside : bool
        Whether rows of a population are mixed with those of the table: a cut is made between two values of the table,
        and rows between them stay with the lower one.
    """

    spans: Floats
    groups: Ints
    starts: Ints
    levels: Ints
    labels: Ints
    shares: Floats
    places: Ints
    units: Floats
    by_loss: bool = False
    persons: int = 0
    beside: bool = False

    def packed(self) -> CutTables:
        """The arrays in the form that compiled code takes."""
        return CutTables(
            spans=read_only(self.spans, np.float64),
            groups=read_only(self.groups, np.int64),
            starts=read_only(self.starts, np.int64),
            levels=read_only(self.levels, np.int64),
            labels=read_only(self.labels, np.int64),
            shares=read_only(self.shares, np.float64),
            places=read_only(self.places, np.int64),
            units=read_only(self.units, np.float64),
            by_loss=self.by_loss,
            persons=self.persons or None,
            beside=self.beside,
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
        Among the records at the cut itself, those whose key is at most this come first; strict: all do.
    """

    starts: Ints = field(repr=False)
    stops: Ints = field(repr=False)
    columns: Ints = field(repr=False)
    cuts: Ints = field(repr=False)
    ties: Ints = field(repr=False)

    @classmethod
    def of(cls, parts: list[Ints]) -> Nodes:
        """From rows (start, stop, column, cut, tie) in any order."""
        rows = np.concatenate(parts) if parts else np.empty((0, 5), np.int64)
        order = np.lexsort((rows[:, 0] - rows[:, 1], rows[:, 0]))
        return cls(*(np.ascontiguousarray(column) for column in rows[order].T))

    def __len__(self) -> int:
        return len(self.starts)


def grown(
    codes: NDArray[Any], counts: Ints, least: int, columns: Columns, *, keys: Ints = NO_KEYS, workers: int = 1
) -> Nodes:
    """The tree whose every leaf has at least `least` records (or persons) and no legal cut.

    Rows of `codes`, `counts` and `keys` are moved in place, so that every node is a range of them.

    Source: LeFevre, DeWitt, Ramakrishnan, ICDE 2006.

    Parameters
    ----------
    codes : ndarray of uint16 or int32, shape (t, c)
    counts : ndarray of int64, shape (t,)
    least : int
    columns : Columns
    keys : ndarray of int64, shape (t,)
        Relaxed: the order of the records, each as a separate row. Omitted, strict: equal values stay together.
    workers : int
        Threads; the tree is the same for any number.

    Returns
    -------
    Nodes

    Examples
    --------
    >>> codes = np.array([[0], [1], [2], [3]], dtype=np.int32)
    >>> flat = np.zeros(4, np.int64)
    >>> one = Columns(np.array([3.0]), flat, np.array([0, 4]), np.array([0]), flat, flat / 1, np.array([0]), np.ones(1))
    >>> nodes = grown(codes, np.array([2, 1, 1, 3]), 2, one)
    >>> nodes.columns.tolist(), nodes.cuts.tolist()
    ([0, -1, -1], [1, 0, 0])
    """
    tables, rows = columns.packed(), Rows(codes, counts, keys)
    if len(codes) <= SERIAL or workers == 1:
        return Nodes.of([_grow(rows, 0, len(codes), least, False, tables)])
    parts: list[Ints] = []
    small = max(SERIAL, len(codes) // (8 * workers))

    def work(start: int, stop: int) -> tuple[Ints, bool]:
        if stop - start <= small:
            return _grow(rows, start, stop, least, False, tables), False
        return _grow(rows, start, stop, least, True, tables), True

    with ThreadPoolExecutor(workers, thread_name_prefix="privpipe") as pool:
        open_: set[Future[tuple[Ints, bool]]] = {pool.submit(work, 0, len(codes))}
        while open_:
            done, open_ = wait(open_, return_when=FIRST_COMPLETED)
            for future in done:
                nodes, divided_once = future.result()
                parts.append(nodes[:1] if divided_once else nodes)
                if divided_once and len(nodes) == 3:
                    open_ |= {pool.submit(work, int(start), int(stop)) for start, stop in nodes[1:, :2]}
    return Nodes.of(parts)


def cuts_of(rows: Rows, segments: Ints, least: int, columns: Columns) -> tuple[Cuts, Bools]:
    """Cuts of some segments that leave at least `least` records (or persons) on both sides, best first.

    Parameters
    ----------
    segments : ndarray of int64, shape (s, 2)

    Returns
    -------
    (Cuts of ndarrays of shape (s, q), ndarray of bool, shape (s,))
        The cuts end with a column of -1. True: a segment that must be cut, by its first cut.
    """
    cuts, forced = _room((len(segments), MOST_CUTS * len(columns.spans))), np.zeros(len(segments), np.bool_)
    _all_cuts(rows, np.ascontiguousarray(segments), least, MOST_CUTS, columns.packed(), cuts, forced)
    return cuts, forced


def cuts_of_counts(counts: Ints, least: int, columns: Columns) -> tuple[Cuts, bool]:
    """As `cuts_of`, for one segment by width, from the records of each code of each column, column after column.

    Examples
    --------
    >>> flat = np.zeros(4, np.int64)
    >>> one = Columns(np.array([3.0]), flat, np.array([0, 4]), np.array([0]), flat, flat / 1, np.array([0]), np.ones(1))
    >>> cuts, forced = cuts_of_counts(np.array([2, 1, 1, 3]), 2, one)
    >>> cuts.at[cuts.where >= 0].tolist(), forced
    ([1, 2, 0], False)
    """
    cuts, width = _room((MOST_CUTS * len(columns.spans),)), len(columns.spans)
    rows = Rows(np.empty((0, width), np.int32), counts, NO_KEYS)
    found, forced = choose_of_counts(rows, least, MOST_CUTS, columns.packed(), cuts)
    return Cuts(*(each[:found] for each in cuts)), bool(forced)


def _room(shape: tuple[int, ...]) -> Cuts:
    return Cuts(np.full(shape, -1, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


def divided(rows: Rows, segment: tuple[int, int], cut: tuple[int, int, int]) -> int:
    """Move the rows on the first side of a cut (column, code, tie) to the segment's front; where the others begin."""
    return int(partition(*rows, *segment, *cut))


@njit(nogil=True, cache=True)
def _grow(rows, start, stop, least, once, tables):  # type: ignore[no-untyped-def]
    """The tree below one segment, as nodes (start, stop, column, cut, tie); once: a first cut, and both halves."""
    width, room = len(tables.spans), room_for(tables)
    where, at, ties = np.empty(width + 1, np.int64), np.empty(width + 1, np.int64), np.empty(width + 1, np.int64)
    cuts = Cuts(where, at, ties)
    codes, counts, keys = rows  # unpacked once: each access to a tuple counts a reference
    nodes = np.empty((64, 5), np.int64)
    stack = [(start, stop)]
    count = 0
    while len(stack):
        first, last = stack.pop()
        # A literal 1 would have another type and be compiled a second time.
        found, _ = choose(rows, first, last, least, np.int64(1), tables, cuts, room)
        if count == len(nodes):
            wider = np.empty((2 * count, 5), np.int64)
            wider[:count] = nodes
            nodes = wider
        nodes[count, 0], nodes[count, 1], nodes[count, 2], nodes[count, 3], nodes[count, 4] = first, last, -1, 0, 0
        if found:
            middle = partition(codes, counts, keys, first, last, where[0], at[0], ties[0])
            nodes[count, 2], nodes[count, 3], nodes[count, 4] = where[0], at[0], ties[0]
            if once:
                nodes[1, 0], nodes[1, 1], nodes[2, 0], nodes[2, 1] = first, middle, middle, last
                count = 2
            else:
                stack.append((middle, last))
                stack.append((first, middle))
        count += 1
    return nodes[:count].copy()


@njit(nogil=True, cache=True)
def _all_cuts(rows, segments, least, most, tables, cuts, forced):  # type: ignore[no-untyped-def]
    room = room_for(tables)
    for s in range(len(segments)):
        own = Cuts(cuts.where[s], cuts.at[s], cuts.ties[s])
        found, forced[s] = choose(rows, segments[s, 0], segments[s, 1], least, most, tables, own, room)
        own.where[found:] = -1
