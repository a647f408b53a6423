"""Where one segment of distinct combinations may be cut: its ends and counts; by width, by loss or at the median."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints
from privpipe.compiled import njit

__all__ = [
    "ALL",
    "CutTables",
    "Cuts",
    "Room",
    "Rows",
    "Segment",
    "choose",
    "choose_of_counts",
    "ends",
    "extent",
    "goes_first",
    "histogram",
    "partition",
    "room_for",
]


class Rows(NamedTuple):
    """Combinations of codes, the records of each, and their order where they are single records.

    Where persons are counted, the last two columns of codes are the number of a row's person and how many persons it
    represents. Rows of a population have no records: the last column of codes is how many of its records they
    represent, 0 for rows of the table. Without rows of codes, `counts` has the records of each code of each column,
    column after column.
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
    """Codes that occur, ascending, and the records of each, 0 where a code occurs only in the population.

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

    The lower side of a value has the persons who begin there or before, the upper side those who do not end there or
    before: a person with records on both sides is in both.
    """
    codes, firsts, lasts = rows.codes, noted[0], noted[1]
    place = codes.shape[1] - 2
    for i in range(segment.start, segment.stop):
        person, code = np.int64(codes[i, place]), np.int64(codes[i, column])
        if firsts[person] < 0:
            firsts[person] = lasts[person] = code
        elif code < firsts[person]:
            firsts[person] = code
        elif code > lasts[person]:
            lasts[person] = code
    begin, end = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    for i in range(segment.start, segment.stop):
        person = np.int64(codes[i, place])
        if firsts[person] >= 0:
            begin[np.searchsorted(values, firsts[person])] += codes[i, place + 1]
            end[np.searchsorted(values, lasts[person])] += codes[i, place + 1]
            firsts[person] = -1
    return begin, end


@njit(nogil=True, cache=True)
def ends(rows, segment, column, values, totals, noted):  # type: ignore[no-untyped-def]
    """How many persons begin and end at each value, and how many there are; a record does both at its value."""
    if noted is None:
        return totals, totals, segment.total
    begin, end = _persons(rows, segment, column, values, noted)
    return begin, end, end.sum()


ALL = np.iinfo(np.int64).max
"""The tie of a strict cut: every record at the cut comes first."""


class CutTables(NamedTuple):
    """The properties of columns that determine their cuts, in the form that compiled code takes; see `Columns`."""

    spans: Floats
    groups: Ints
    starts: Ints
    levels: Ints
    labels: Ints
    shares: Floats
    places: Ints
    units: Floats
    by_loss: bool
    persons: int | None
    beside: bool


class Cuts(NamedTuple):
    """Room for the cuts of one segment, best first: column, code, tie."""

    where: Ints
    at: Ints
    ties: Ints


class Room(NamedTuple):
    """Room for two codes of each column, and for two of each person, shape (2, persons): -1 where nothing is noted.

    None instead of room for persons: code for records is then compiled without that for persons, and is a fifth faster.
    """

    lows: Ints
    highs: Ints
    noted: Ints | None


@njit(nogil=True, cache=True)
def _room_of(persons):  # type: ignore[no-untyped-def]
    if persons is None:
        return None
    return np.full((2, persons), np.int64(-1))


@njit(nogil=True, cache=True)
def room_for(tables):  # type: ignore[no-untyped-def]
    width = len(tables.spans)
    return Room(np.empty(width, np.int64), np.empty(width, np.int64), _room_of(tables.persons))


@njit(nogil=True, cache=True)
def goes_first(code, cut, relaxed, keys, i, tie):  # type: ignore[no-untyped-def]
    return code < cut or (code == cut and (not relaxed or keys[i] <= tie))


@njit(nogil=True, cache=True)
def partition(codes, counts, keys, start, stop, column, cut, tie):  # type: ignore[no-untyped-def]
    low, high = start, stop - 1
    width, relaxed = codes.shape[1], len(keys) > 0
    while True:
        while low <= high and goes_first(codes[low, column], cut, relaxed, keys, low, tie):
            low += 1
        while low <= high and not goes_first(codes[high, column], cut, relaxed, keys, high, tie):
            high -= 1
        if low >= high:
            return low
        for c in range(width):
            codes[low, c], codes[high, c] = codes[high, c], codes[low, c]
        counts[low], counts[high] = counts[high], counts[low]
        if relaxed:
            keys[low], keys[high] = keys[high], keys[low]
        low += 1
        high -= 1


@njit(nogil=True, cache=True)
def _forced(rows, segment, groups, starts, noted):  # type: ignore[no-untyped-def]
    """The most even cut between two groups of the first column whose range covers several groups."""
    lows, highs = segment.lows, segment.highs
    for c in range(len(lows)):
        if groups[starts[c] + lows[c]] == groups[starts[c] + highs[c]]:
            continue
        values, totals = histogram(rows, segment, c, starts)
        begin, end, right = ends(rows, segment, c, values, totals, noted)
        left, best, cut = np.int64(0), np.int64(-1), np.int64(0)
        for q in range(len(values) - 1):
            left += begin[q]
            right -= end[q]
            if groups[starts[c] + values[q]] != groups[starts[c] + values[q + 1]]:
                uneven = abs(left - right)
                if best < 0 or uneven < best:
                    best, cut = uneven, values[q]
        return c, cut
    return -1, np.int64(0)


@njit(nogil=True, cache=True)
def _widths(segment, spans):  # type: ignore[no-untyped-def]
    """Range of each column's codes as a share of that in the whole table; 0 for one that is never cut."""
    lows, highs = segment.lows, segment.highs
    widths = np.zeros(len(spans))
    for c in range(len(spans)):
        if spans[c] > 0:
            widths[c] = (highs[c] - lows[c]) / spans[c]
    return widths


@njit(nogil=True, cache=True)
def _cut_below(values, q, with_population):  # type: ignore[no-untyped-def]
    """The code up to which rows come first where a cut separates a value from the next one.

    With a population: up to the next value of the table, so that rows between two values of the table stay with the
    lower one, and bounds of cells are values of the table.
    """
    return values[q + 1] - 1 if with_population else values[q]


@njit(nogil=True, cache=True)
def _by_width(rows, segment, least, most, tables, cuts, noted):  # type: ignore[no-untyped-def]
    """Cuts of the widest column first, within a column the most even first; `most` 1: only the first cut."""
    where, at, starts = cuts.where, cuts.at, tables.starts
    widths, uneven = _widths(segment, tables.spans), np.empty(most, np.int64)
    found = 0
    for c in np.argsort(-widths, kind="mergesort"):
        if widths[c] <= 0:
            break
        values, totals = histogram(rows, segment, c, starts)
        begin, end, right = ends(rows, segment, c, values, totals, noted)
        first, left = found, np.int64(0)
        for q in range(len(values) - 1):
            left += begin[q]
            right -= end[q]
            if left < least:
                continue
            if right < least:
                break
            if totals[q + 1] == 0:
                continue
            here = abs(left - right)
            place = found
            while place > first and uneven[place - 1 - first] > here:
                place -= 1
            if place - first == most:
                continue
            if found - first < most:
                found += 1
            for later in range(found - 1, place, -1):
                uneven[later - first] = uneven[later - 1 - first]
                where[later], at[later] = where[later - 1], at[later - 1]
            uneven[place - first], where[place], at[place] = here, c, _cut_below(values, q, tables.beside)
        if most == 1 and found:
            return found
    return found


@njit(nogil=True, cache=True)
def _by_half(rows, segment, least, spans, cuts):  # type: ignore[no-untyped-def]
    """Relaxed cuts, the widest column first: half of the records, those of the middle value in the order of keys."""
    codes, keys, start, stop = rows.codes, rows.keys, segment.start, segment.stop
    half = (stop - start) // 2
    widths = _widths(segment, spans)
    found = 0
    for c in np.argsort(-widths, kind="mergesort"):
        if widths[c] <= 0 or half < least:
            break
        own = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            own[i - start] = codes[i, c]
        middle = np.sort(own)[half - 1]
        below = np.sum(own < middle)
        inside = np.sort(keys[start:stop][own == middle])
        wanted = half - below
        tie = ALL
        if wanted < len(inside):  # between two keys, so that it is no record's value
            tie = inside[wanted - 1] + (inside[wanted] - inside[wanted - 1]) // 2
        cuts.where[found], cuts.at[found], cuts.ties[found] = c, middle, tie
        found += 1
    return found


@njit(nogil=True, cache=True)
def _share(c, low, high, tables):  # type: ignore[no-untyped-def]
    """Share of the domain that the label of a range of codes represents: that of its lowest common ancestor."""
    size = tables.starts[c + 1] - tables.starts[c]
    if tables.levels[c] == 0:
        return (high - low + 1) / size
    for level in range(tables.levels[c]):
        row = tables.places[c] + level * size
        if tables.labels[row + low] == tables.labels[row + high]:
            return tables.shares[row + low]
    return 1.0


@njit(nogil=True, cache=True)
def _loss_of_side(lows, highs, records, tables):  # type: ignore[no-untyped-def]
    loss = 0.0
    for c in range(len(lows)):
        loss += records * tables.units[c] * _share(c, lows[c], highs[c], tables)
    return loss


@njit(nogil=True, cache=True)
def _bounds(rows, segment, column, values):  # type: ignore[no-untyped-def]
    """Least and greatest codes of the rows up to each value of a column, and of those from it on, shape (n, width)."""
    codes, n, width = rows.codes, len(values), len(segment.lows)
    low, high = np.empty((n, width), np.int64), np.empty((n, width), np.int64)
    for q in range(n):
        low[q] = segment.highs
        high[q] = segment.lows
    for i in range(segment.start, segment.stop):
        own = np.searchsorted(values, np.int64(codes[i, column]))
        for other in range(width):
            code = np.int64(codes[i, other])
            low[own, other] = min(low[own, other], code)
            high[own, other] = max(high[own, other], code)
    low_after, high_after = low.copy(), high.copy()
    for q in range(n - 2, -1, -1):
        for other in range(width):
            low_after[q, other] = min(low_after[q, other], low_after[q + 1, other])
            high_after[q, other] = max(high_after[q, other], high_after[q + 1, other])
    for q in range(1, n - 1):
        for other in range(width):
            low[q, other] = min(low[q, other], low[q - 1, other])
            high[q, other] = max(high[q, other], high[q - 1, other])
    return low, high, low_after, high_after


@njit(nogil=True, cache=True)
def _keep(cuts, losses, full, found, loss, column, cut):  # type: ignore[no-untyped-def]
    """Insert a cut by its loss; how many there are then. In a full column it replaces the worst one."""
    where, at = cuts.where, cuts.at
    place = found
    while place > 0 and losses[place - 1] > loss:
        place -= 1
    end = found
    if full:
        end -= 1
        while where[end] != column:
            end -= 1
        if place > end:
            return found
    for later in range(end, place, -1):
        losses[later], where[later], at[later] = losses[later - 1], where[later - 1], at[later - 1]
    losses[place], where[place], at[place] = loss, column, cut
    return found if full else found + 1


@njit(nogil=True, cache=True)
def _by_loss(rows, segment, least, most, tables, cuts, noted):  # type: ignore[no-untyped-def]
    """Cuts by the loss that remains, the least first; at most `most` per column, ties by column, then by code."""
    losses = np.empty(len(cuts.where))
    found = 0
    for c in range(len(segment.lows)):
        if segment.highs[c] == segment.lows[c] or tables.spans[c] <= 0:
            continue
        values, totals = histogram(rows, segment, c, tables.starts)
        begin, end, right = ends(rows, segment, c, values, totals, noted)
        low, high, low_after, high_after = _bounds(rows, segment, c, values)
        left, records, first = np.int64(0), np.int64(0), found
        for q in range(len(values) - 1):
            left += begin[q]
            right -= end[q]
            records += totals[q]
            if left < least:
                continue
            if right < least:
                break
            if totals[q + 1] == 0:
                continue
            one = _loss_of_side(low[q], high[q], records, tables)
            two = _loss_of_side(low_after[q + 1], high_after[q + 1], segment.total - records, tables)
            cut = _cut_below(values, q, tables.beside)
            found = _keep(cuts, losses, found - first == most, found, one + two, c, cut)
    return found


@njit(nogil=True, cache=True)
def choose(rows, start, stop, least, most, tables, cuts, room):  # type: ignore[no-untyped-def]
    """Write the cuts of one segment into `cuts`; how many, and whether the first must be made.

    `least` persons are left on either side, where persons are counted; cuts at the median leave `least` records.
    """
    segment = extent(rows, start, stop, room.lows, room.highs)
    column, cut = _forced(rows, segment, tables.groups, tables.starts, room.noted)
    if column >= 0:
        cuts.where[0], cuts.at[0], cuts.ties[0] = column, cut, ALL
        return 1, True
    if segment.total < 2 * least:
        return 0, False
    if len(rows.keys):
        return _by_half(rows, segment, least, tables.spans, cuts), False
    cuts.ties[:] = ALL
    if tables.by_loss:
        return _by_loss(rows, segment, least, most, tables, cuts, room.noted), False
    return _by_width(rows, segment, least, most, tables, cuts, room.noted), False


@njit(nogil=True, cache=True)
def choose_of_counts(rows, least, most, tables, cuts):  # type: ignore[no-untyped-def]
    """As `choose` by width, of a segment whose codes are counted by column."""
    starts = tables.starts
    room = room_for(tables)
    lows, highs = room.lows, room.highs
    for c in range(len(lows)):
        seen = np.flatnonzero(rows.counts[starts[c] : starts[c + 1]])
        lows[c], highs[c] = seen[0], seen[-1]
    total = rows.counts[: starts[1]].sum()
    segment = Segment(0, 0, total, lows, highs)
    column, cut = _forced(rows, segment, tables.groups, starts, room.noted)
    if column >= 0:
        cuts.where[0], cuts.at[0] = column, cut
        return 1, True
    if total < 2 * least:
        return 0, False
    return _by_width(rows, segment, least, most, tables, cuts, room.noted), False
