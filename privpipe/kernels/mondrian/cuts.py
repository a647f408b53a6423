"""Where one segment of distinct combinations may be cut: by width, by loss, in the middle of records."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["ALL", "choose", "goes_first", "partition"]

ALL = np.iinfo(np.int64).max
"""The tie of a strict cut: every record at the cut comes first."""


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
def _extent(codes, counts, start, stop, width, lows, highs):  # type: ignore[no-untyped-def]
    """Least and greatest code of each column, and the records."""
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
    return total


@njit(nogil=True, cache=True)
def _histogram(codes, counts, start, stop, column, low, high):  # type: ignore[no-untyped-def]
    """Codes that occur, ascending, and the records of each: dense where that is short, sorted elsewhere."""
    n, space = stop - start, high - low + 1
    if space <= 4 * n + 64:
        dense = np.zeros(space, np.int64)
        for i in range(start, stop):
            dense[np.int64(codes[i, column]) - low] += counts[i]
        seen = np.flatnonzero(dense)
        return seen + low, dense[seen]
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
def _forced(codes, counts, start, stop, lows, highs, groups, starts, total):  # type: ignore[no-untyped-def]
    """The cut between two groups of the first column whose range reaches over several, the most even one."""
    for c in range(len(lows)):
        if groups[starts[c] + lows[c]] == groups[starts[c] + highs[c]]:
            continue
        values, totals = _histogram(codes, counts, start, stop, c, lows[c], highs[c])
        left, best, cut = np.int64(0), np.int64(-1), np.int64(0)
        for q in range(len(values) - 1):
            left += totals[q]
            if groups[starts[c] + values[q]] != groups[starts[c] + values[q + 1]]:
                uneven = abs(2 * left - total)
                if best < 0 or uneven < best:
                    best, cut = uneven, values[q]
        return c, cut
    return -1, np.int64(0)


@njit(nogil=True, cache=True)
def _by_width(codes, counts, start, stop, least, most, lows, highs, total, spans, where, at):  # type: ignore[no-untyped-def]
    """Cuts of the widest column first, within a column the most even first; `most` 1: the first cut alone."""
    width = len(lows)
    widths = np.zeros(width)
    for c in range(width):
        if spans[c] > 0:
            widths[c] = (highs[c] - lows[c]) / spans[c]
    found = 0
    for c in np.argsort(-widths, kind="mergesort"):
        if widths[c] <= 0:
            break
        values, totals = _histogram(codes, counts, start, stop, c, lows[c], highs[c])
        first, left = found, np.int64(0)
        uneven = np.empty(most, np.int64)
        for q in range(len(values) - 1):
            left += totals[q]
            if left < least:
                continue
            if total - left < least:
                break
            here = abs(2 * left - total)
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
            uneven[place - first], where[place], at[place] = here, c, values[q]
        if most == 1 and found:
            return found
    return found


@njit(nogil=True, cache=True)
def _by_half(codes, keys, start, stop, least, lows, highs, spans, where, at, ties):  # type: ignore[no-untyped-def]
    """Relaxed cuts, the widest column first: half of the records, those of the middle value in the order of keys."""
    width, half = len(lows), (stop - start) // 2
    widths = np.zeros(width)
    for c in range(width):
        if spans[c] > 0:
            widths[c] = (highs[c] - lows[c]) / spans[c]
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
        if wanted < len(inside):  # between two keys, so that it is nobody's own
            tie = inside[wanted - 1] + (inside[wanted] - inside[wanted - 1]) // 2
        where[found], at[found], ties[found] = c, middle, tie
        found += 1
    return found


@njit(nogil=True, cache=True)
def _share(c, low, high, levels, labels, shares, places, spans, starts):  # type: ignore[no-untyped-def]
    """Share of the domain that the label of a range of codes stands for: that of its lowest common ancestor."""
    size = starts[c + 1] - starts[c]
    if levels[c] == 0:
        return (high - low + 1) / size
    for level in range(levels[c]):
        row = places[c] + level * size
        if labels[row + low] == labels[row + high]:
            return shares[row + low]
    return 1.0


@njit(nogil=True, cache=True)
def _loss_of_sides(lows, highs, records, width, levels, labels, shares, places, spans, starts, units):  # type: ignore[no-untyped-def]
    loss = 0.0
    for c in range(width):
        loss += records * units[c] * _share(c, lows[c], highs[c], levels, labels, shares, places, spans, starts)
    return loss


@njit(nogil=True, cache=True)
def _by_loss(  # type: ignore[no-untyped-def]
    codes,
    counts,
    start,
    stop,
    least,
    most,
    lows,
    highs,
    total,
    spans,
    levels,
    labels,
    shares,
    places,
    units,
    starts,
    where,
    at,
):
    """Cuts by what they leave of the loss, the least first; at most `most` a column, ties by column, then by code."""
    width = len(lows)
    kept = np.empty(len(where))
    found = 0
    for c in range(width):
        if highs[c] == lows[c] or spans[c] <= 0:
            continue
        values, totals = _histogram(codes, counts, start, stop, c, lows[c], highs[c])
        n = len(values)
        low, high = np.empty((n, width), np.int64), np.empty((n, width), np.int64)
        for q in range(n):
            low[q] = highs
            high[q] = lows
        for i in range(start, stop):
            own = np.searchsorted(values, np.int64(codes[i, c]))
            for other in range(width):
                code = np.int64(codes[i, other])
                low[own, other] = min(low[own, other], code)
                high[own, other] = max(high[own, other], code)
        low_after, high_after = low.copy(), high.copy()
        for q in range(n - 2, -1, -1):
            for other in range(width):
                low_after[q, other] = min(low_after[q, other], low_after[q + 1, other])
                high_after[q, other] = max(high_after[q, other], high_after[q + 1, other])
        left, mine = np.int64(0), 0
        for q in range(n - 1):
            left += totals[q]
            if q:
                for other in range(width):
                    low[q, other] = min(low[q, other], low[q - 1, other])
                    high[q, other] = max(high[q, other], high[q - 1, other])
            if left < least:
                continue
            if total - left < least:
                break
            one = _loss_of_sides(low[q], high[q], left, width, levels, labels, shares, places, spans, starts, units)
            two = _loss_of_sides(
                low_after[q + 1],
                high_after[q + 1],
                total - left,
                width,
                levels,
                labels,
                shares,
                places,
                spans,
                starts,
                units,
            )
            here = one + two
            place = found
            while place > 0 and kept[place - 1] > here:
                place -= 1
            if mine == most:  # the worst of this column makes room
                last = found - 1
                while where[last] != c:
                    last -= 1
                if place > last:
                    continue
                end = last
            else:
                mine += 1
                end = found
                found += 1
            for later in range(end, place, -1):
                kept[later], where[later], at[later] = kept[later - 1], where[later - 1], at[later - 1]
            kept[place], where[place], at[place] = here, c, values[q]
    return found


@njit(nogil=True, cache=True)
def choose(  # type: ignore[no-untyped-def]
    codes,
    counts,
    keys,
    start,
    stop,
    least,
    most,
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
):
    """Cuts of one segment into `where` and `at`; how many, and whether the first must be made."""
    total = _extent(codes, counts, start, stop, len(lows), lows, highs)
    column, cut = _forced(codes, counts, start, stop, lows, highs, groups, starts, total)
    if column >= 0:
        where[0], at[0], ties[0] = column, cut, ALL
        return 1, True
    if total < 2 * least:
        return 0, False
    if len(keys):
        return _by_half(codes, keys, start, stop, least, lows, highs, spans, where, at, ties), False
    ties[:] = ALL
    if by_loss:
        found = _by_loss(
            codes,
            counts,
            start,
            stop,
            least,
            most,
            lows,
            highs,
            total,
            spans,
            levels,
            labels,
            shares,
            places,
            units,
            starts,
            where,
            at,
        )
        return found, False
    return _by_width(codes, counts, start, stop, least, most, lows, highs, total, spans, where, at), False
