"""One segment of distinct combinations: its ends, and the records or persons of each code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit

__all__ = ["Rows", "Segment", "ends", "extent", "histogram"]

Ints = NDArray[np.int64]


class Rows(NamedTuple):
    """Combinations of codes, the records of each, and what orders them where they are single records.

    Where persons are counted, the last two columns of codes are the number of a row's person and how many persons it
    stands for. Rows of a population have no records: the last column of codes is how many of it they are, 0 for rows of
    the table. No row of codes: `counts` has the records of each code of each column, column after column.
    """

    codes: NDArray[Any]
    counts: Ints
    keys: Ints


class Segment(NamedTuple):
    """A range of the rows: its ends, its records, and the least and greatest code of each column."""

    start: int
    stop: int
    total: int
    lows: Ints
    highs: Ints


@njit(nogil=True, cache=True)
def extent(rows, start, stop, lows, highs):  # type: ignore[no-untyped-def]
    """Least and greatest code of each column, and the records."""
    codes, counts = rows.codes, rows.counts
    width = len(lows)
    total = np.int64(0)
    for c in range(width):
        lows[c] = highs[c] = codes[start, c]
    for i in range(start, stop):
        total += counts[i]
        for c in range(width):
            code = np.int64(codes[i, c])
            if code < lows[c]:
                lows[c] = code
            elif code > highs[c]:
                highs[c] = code
    return Segment(start, stop, total, lows, highs)  # type: ignore[arg-type]


@njit(nogil=True, cache=True)
def histogram(rows, segment, column, starts):  # type: ignore[no-untyped-def]
    """Codes that occur, ascending, and the records of each, 0 where a code is the population's alone.

    Dense where that is short, sorted elsewhere.
    """
    codes, counts = rows.codes, rows.counts
    if len(codes) == 0:
        known = counts[starts[column] : starts[column + 1]]
        present = np.flatnonzero(known)
        return present, known[present]
    start, stop, low = segment.start, segment.stop, segment.lows[column]
    n, space = stop - start, segment.highs[column] - low + 1
    if space <= 4 * n + 64:
        dense = np.full(space, np.int64(-1))
        for i in range(start, stop):
            place = np.int64(codes[i, column]) - low
            dense[place] = max(dense[place], 0) + counts[i]
        seen, many = np.empty(space, np.int64), 0
        for code in range(space):
            if dense[code] >= 0:
                seen[many], dense[many] = low + code, dense[code]
                many += 1
        return seen[:many], dense[:many]
    own = np.empty(n, np.int64)
    for i in range(n):
        own[i] = codes[start + i, column]
    order = np.argsort(own)
    values, totals = np.empty(n, np.int64), np.zeros(n, np.int64)
    found = 0
    for i in order:
        if found == 0 or values[found - 1] != own[i]:
            values[found] = own[i]
            found += 1
        totals[found - 1] += counts[start + i]
    return values[:found], totals[:found]


@njit(nogil=True, cache=True)
def _persons(rows, segment, column, values, noted):  # type: ignore[no-untyped-def]
    """Persons by the first value of a column that they have, and by the last one.

    Up to a value are those who begin there or before, above it those who do not end there or before: who has records on
    both sides is in both.
    """
    codes, firsts, lasts = rows.codes, noted[0], noted[1]
    place = codes.shape[1] - 2
    for i in range(segment.start, segment.stop):
        who, code = np.int64(codes[i, place]), np.int64(codes[i, column])
        if firsts[who] < 0:
            firsts[who] = lasts[who] = code
        elif code < firsts[who]:
            firsts[who] = code
        elif code > lasts[who]:
            lasts[who] = code
    begin, end = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    for i in range(segment.start, segment.stop):
        who = np.int64(codes[i, place])
        if firsts[who] >= 0:
            begin[np.searchsorted(values, firsts[who])] += codes[i, place + 1]
            end[np.searchsorted(values, lasts[who])] += codes[i, place + 1]
            firsts[who] = -1
    return begin, end


@njit(nogil=True, cache=True)
def ends(rows, segment, column, values, totals, noted):  # type: ignore[no-untyped-def]
    """Who begins and who ends at each value, and how many there are: persons, or records, which do both."""
    if noted is None:
        return totals, totals, segment.total
    begin, end = _persons(rows, segment, column, values, noted)
    return begin, end, end.sum()
