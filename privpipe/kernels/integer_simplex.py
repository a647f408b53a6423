"""A simplex method in integers: one variable moves as far as bounds allow, and no decision depends on a float.

A tableau holds minors of the relations over one common denominator (Edmonds 1967; Bareiss 1968), so every division is
exact. Where an entry would exceed 31 bits, the tableau is abandoned. It is stored by columns: `table[column, row]`.

The state of a search is a tuple: the table; the variable of each row and of each column; how far each variable can go
up and down; how far the variables of columns, and those of rows times the denominator, have gone; and an array for the
remaining distances of those of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privpipe.compiled import njit

__all__ = ["FAR", "ended", "place_of", "pushed", "reached", "solved_for_columns"]

FAR = 2**60
MOST_ENTRY = 2**31
EAGER = 24
"""Pivots of one requirement by the steepest column; later ones follow Bland's rule, which terminates."""
PIVOTS = 400
TRIED = 6
"""Equally steep columns that are tried, to take the one that goes the farthest."""


@njit(cache=True, nogil=True)
def solved_for_columns(table: Any, head: Any, side: Any, up: Any, down: Any) -> Any:
    """Solve each relation for one column, preferably one that can go far; the common denominator, 0 if abandoned."""
    size_n, size_m = table.shape
    scale = 1
    for row in range(size_m):
        best, most, even = -1, -1, False
        for j in range(size_n):
            if side[j] >= 0 and table[j, row] != 0:
                wide = min(up[side[j]], down[side[j]])
                plain = table[j, row] == scale or table[j, row] == -scale
                if best < 0 or (plain and not even) or (plain == even and wide > most):
                    best, most, even = j, wide, plain
        if best >= 0:
            scale = _pivot(table, head, side, row, best, scale)
            if scale == 0:
                return 0
    return scale


@njit(cache=True, nogil=True)
def reached(state: Any, scale: Any, target: Any, sign: Any, steps: Any) -> Any:
    """Move one variable from 0 in one direction, `steps` far or as far as it goes.

    Returns
    -------
    tuple
        The denominator (0: the tableau is abandoned), how far the variable went (-1: given up) and the numerators of
        all, and the row of the variable at the end, -1 if it is at its bound.
    """
    state[5][:] = 0
    state[6][:] = 0
    return pushed(state, scale, target, sign, steps)


@njit(cache=True, nogil=True)
def pushed(state: Any, scale: Any, target: Any, sign: Any, steps: Any) -> Any:
    """Move one variable from where it is, as `reached` does from 0."""
    table, head, side, up, down, at_side, values, _ = state
    limit = min(steps, up[target] if sign > 0 else down[target])
    for pivots in range(PIVOTS):
        basic = place_of(head, target)
        _measure_rooms(state, scale)
        if basic >= 0:
            distance = sign * values[basic]
            column, way = _entering(state, scale, basic, sign, pivots)
            if distance >= steps * scale or column < 0:
                return ended(state, scale, target, sign)
            rate = abs(table[column, basic])
        else:
            column, way, rate = place_of(side, target), sign, scale
            distance = sign * at_side[column] * scale
            if distance >= limit * scale:
                return ended(state, scale, target, sign)
        length, part, row = _ratio(state, scale, column, way, pivots, -1)
        # A whole step that goes far enough leaves columns at whole numbers.
        final = -((distance - steps * scale) // rate)
        most = 1
        for i in range(len(values)):
            most = max(most, abs(table[column, i]))
        if length < 0 or final <= length // part:
            length, part, row = final, 1, -1
        if length > FAR // most or abs(at_side[column]) > FAR // part:
            break
        if row < 0:
            for i in range(len(values)):
                values[i] -= table[column, i] * way * length
            at_side[column] += way * length
            continue
        scale = _exchanged(state, scale, (row, column, way), length, part)
        if scale <= 0:
            break
    return max(scale, 0), -1, values, -2


@njit(cache=True, nogil=True)
def _measure_rooms(state: Any, scale: Any) -> Any:
    """How far the variable of each row can go up and down, times the denominator; -1 without a bound."""
    _, head, _, up, down, _, values, rooms = state
    for i in range(len(head)):
        high, low = up[head[i]], down[head[i]]
        rooms[0, i] = high * scale - values[i] if high <= FAR // scale else -1
        rooms[1, i] = low * scale + values[i] if low <= FAR // scale else -1


@njit(cache=True, nogil=True)
def _entering(state: Any, scale: Any, basic: Any, sign: Any, pivots: Any) -> Any:
    """A column that moves the variable of row `basic` further, and the direction of the column; -1 for none."""
    table, _, side, up, down, at_side, _, _ = state
    size_n = len(side)
    best, best_way, steepest = -1, 0, 0
    for j in range(size_n):
        way = _useful(table, side, up, down, at_side, basic, sign, j)
        if way == 0:
            continue
        if pivots >= EAGER:
            if best < 0 or side[j] < side[best]:
                best, best_way = j, way
        elif abs(table[j, basic]) > steepest:
            best, best_way, steepest = j, way, abs(table[j, basic])
    if best < 0 or pivots >= EAGER:
        return best, best_way
    farthest, tried = -1, 0
    for j in range(best, size_n):
        if abs(table[j, basic]) != steepest:
            continue
        way = _useful(table, side, up, down, at_side, basic, sign, j)
        if way == 0:
            continue
        length, part, _ = _ratio(state, scale, j, way, pivots, farthest)
        reach = FAR if length < 0 else length // part
        if reach > farthest:
            farthest, best, best_way = reach, j, way
        tried += 1
        if tried == TRIED:
            break
    return best, best_way


@njit(cache=True, nogil=True)
def _useful(table: Any, side: Any, up: Any, down: Any, at_side: Any, basic: Any, sign: Any, column: Any) -> Any:
    """The direction in which a column moves the variable of a row further; 0 for none."""
    variable = side[column]
    gain = -sign * table[column, basic]
    if gain == 0:
        return 0
    if gain > 0:
        return 1 if at_side[column] < up[variable] else 0
    return -1 if at_side[column] > -down[variable] else 0


@njit(cache=True, nogil=True)
def _ratio(state: Any, scale: Any, column: Any, way: Any, pivots: Any, enough: Any) -> Any:
    """How far a column can go, as numerator (-1: no limit) and denominator, and the row that stops it (-1: itself).

    A column that cannot go farther than `enough` whole steps is not examined further.
    """
    table, head, side, up, down, at_side, _, rooms = state
    variable = side[column]
    own = up[variable] if way > 0 else down[variable]
    length, part, stopping = -1, 1, -1
    if own < FAR:
        length = own - way * at_side[column]
    whole = length
    for i in range(table.shape[1]):
        rate = -table[column, i] * way
        if rate == 0:
            continue
        room = rooms[0, i] if rate > 0 else rooms[1, i]
        if room < 0:
            continue
        rate = abs(rate)
        if length >= 0:
            if whole < MOST_ENTRY and room >= (whole + 1) * rate:
                continue
            here = room // rate
            if here > whole:
                continue
            if here == whole:
                left, right = (room % rate) * part, (length % part) * rate
                if left > right:
                    continue
                if left == right and stopping >= 0:
                    if pivots >= EAGER:
                        if head[i] > head[stopping]:
                            continue
                    elif part == scale:
                        continue
        length, part, stopping = room, rate, i
        whole = room // rate
        if whole <= enough:
            break
    return length, part, stopping


@njit(cache=True, nogil=True)
def _exchanged(state: Any, scale: Any, step: Any, length: Any, part: Any) -> Any:
    """Move a column as far as a row allows, and exchange the two; the new denominator, 0 if abandoned."""
    table, head, side, up, down, at_side, values, _ = state
    row, column, way = step
    leaving = head[row]
    left = up[leaving] if table[column, row] * way < 0 else -down[leaving]
    for i in range(len(values)):
        if abs(values[i]) > FAR // part:
            return 0
    entered = part * at_side[column] + way * length
    for i in range(len(values)):
        values[i] = (part * values[i] - table[column, i] * way * length) // scale
    scale = _pivot(table, head, side, row, column, scale)
    values[row] = entered
    at_side[column] = left
    return scale


@njit(cache=True, nogil=True)
def _pivot(table: Any, head: Any, side: Any, row: Any, column: Any, scale: Any) -> Any:
    """Exchange the variable of a row with that of a column; the new denominator, 0 where an entry grew too large."""
    size_n, size_m = table.shape
    pivot = table[column, row]
    sign = 1 if pivot > 0 else -1
    size = pivot * sign
    odd, shift = scale, 0
    while odd % 2 == 0:
        odd //= 2
        shift += 1
    divisor = scale, shift, _inverse(odd)
    for j in range(size_n):
        if j == column or (table[j, row] == 0 and size == scale):
            continue
        own = table[j, row]
        if not _eliminated(table, j, column, size, own * sign, divisor):
            return 0
        table[j, row] = own * sign
    for i in range(size_m):
        table[column, i] *= -sign
    table[column, row] = scale * sign
    leaving = head[row]
    head[row] = side[column]
    side[column] = leaving
    return size


@njit(cache=True, nogil=True)
def _inverse(odd: Any) -> Any:
    """The number whose product with an odd one is 1 modulo 2^64, by Newton's steps."""
    inverse = odd
    for _ in range(5):
        inverse *= 2 - odd * inverse
    return inverse


@njit(cache=True, nogil=True)
def _eliminated(table: Any, own: Any, other: Any, size: Any, factor: Any, divisor: Any) -> Any:
    """Subtract a multiple of one column from another, over the common denominator; whether every entry is small enough.

    Every division is exact (Bareiss 1968), so it is a product modulo 2^64, which takes a tenth of the time.
    """
    scale, shift, inverse = divisor
    bits = 0
    if scale == 1 and size == 1:
        for i in range(table.shape[1]):
            value = table[own, i] - factor * table[other, i]
            table[own, i] = value
            bits |= value + MOST_ENTRY
    else:
        for i in range(table.shape[1]):
            value = ((table[own, i] * size - factor * table[other, i]) >> shift) * inverse
            table[own, i] = value
            bits |= value + MOST_ENTRY
    return 0 <= bits < 2 * MOST_ENTRY


@njit(cache=True, nogil=True)
def ended(state: Any, scale: Any, target: Any, sign: Any) -> Any:
    """The result of `reached` from the final state."""
    _, head, side, _, _, at_side, values, _ = state
    numerators = np.zeros(len(state[3]), np.int64)
    for j in range(len(side)):
        if abs(at_side[j]) > FAR // scale:
            return scale, -1, values, -2
        numerators[side[j]] = at_side[j] * scale
    for i in range(len(head)):
        numerators[head[i]] = values[i]
    return scale, sign * numerators[target], numerators, place_of(head, target)


@njit(cache=True, nogil=True)
def place_of(variables: Any, wanted: Any) -> Any:
    for place in range(len(variables)):
        if variables[place] == wanted:
            return place
    return -1
