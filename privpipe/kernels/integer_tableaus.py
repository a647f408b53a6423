"""Moves along homogeneous relations with bounds, by a simplex method in integers: no float anywhere.

A tableau holds minors of the relations over one common denominator (Edmonds 1967; Bareiss 1968), so every division is
exact. Where an entry would leave 31 bits, the group of columns is given up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privpipe.compiled import njit

__all__ = ["FIELDS", "OPEN", "moves_of_groups", "nearby_columns"]

OPEN = 2**62
"""Room of a variable without a bound."""
FAR = 2**60
MOST_ENTRY = 2**31
LONGEST = 2**50
"""Numerator to which a move is made longer."""
EAGER = 24
"""Pivots of one requirement that go the steepest way; those after them follow Bland's rule, which ends."""
PIVOTS = 400
WALKS = 5
LONGEST_WALK = 60
"""Pivots of a walk."""
TRIED = 6
"""Equally steep columns of which the one that goes the farthest is taken."""
FIELDS = ("move_starts", "move_columns", "move_numerators", "move_denominators",
          "proof_starts", "proof_rows", "proof_multipliers", "proof_denominators", "proof_requirements",
          "proof_signs")  # fmt: skip


@njit(cache=True, nogil=True)
def moves_of_groups(system: Any, room: Any, groups: Any, asked: Any, unit: Any, modes: Any) -> Any:
    """Moves that take variables as far as they are required to go, or multipliers that show that none does.

    Parameters
    ----------
    system : tuple of ndarray of int64
        Relations by columns: starts, rows, entries; and an array of one -1 for each relation.
    room : tuple of ndarray of int64
        How far each column can go up and down; `OPEN` where there is no bound.
    groups : tuple of ndarray of int64
        Starts, and columns of each group: only these move.
    asked : tuple of ndarray of int64
        Starts for each group, and the place in the group, sign and need of each requirement. Need 0: any move at all,
        in any direction.
    unit : int
        Denominator of the needs.
    modes : tuple of bool
        Whether moves are whole numbers; whether multipliers are wanted (groups must be whole components then).

    Returns
    -------
    tuple of ndarray of int64
        As `FIELDS` names them. A proof is one row of a tableau: multipliers of relations over a denominator.

    Examples
    --------
    >>> square = np.array([0, 2, 4, 6, 8]), np.array([0, 2, 0, 3, 1, 2, 1, 3]), np.ones(8, np.int64), np.full(4, -1)
    >>> room = np.full(4, 2), np.array([5, 5, 3, 5])
    >>> asked = np.array([0, 1]), np.array([0]), np.array([1]), np.array([2])
    >>> found = moves_of_groups(square, room, (np.array([0, 4]), np.arange(4)), asked, 1, (True, True))
    >>> found[2][:4].tolist()
    [2, -2, -2, 2]
    """
    starts, rows, entries, row_place = system
    group_starts, group_columns = groups
    asked_starts, places, signs, needs = asked
    whole, certify = modes
    moves = (np.zeros(64, np.int64), np.zeros(1024, np.int64), np.zeros(1024, np.int64), np.zeros(64, np.int64))
    proofs = (np.zeros(64, np.int64), np.zeros(1024, np.int64), np.zeros(1024, np.int64), np.zeros(64, np.int64))
    proved = (np.zeros(64, np.int64), np.zeros(64, np.int64))
    held = np.zeros(2, np.int64)  # moves and proofs so far
    for group in range(len(group_starts) - 1):
        columns = group_columns[group_starts[group] : group_starts[group + 1]]
        first, last = asked_starts[group], asked_starts[group + 1]
        if first == last:
            continue
        table, used_rows = _dense(starts, rows, entries, columns, row_place)
        up, down = room[0][columns], room[1][columns]
        size_m, size_n = table.shape
        head = -1 - np.arange(size_m)
        side = np.arange(size_n)
        scale = _started(table, head, side, up, down)
        if scale == 0:
            continue
        state = (table, head, side, up, down, np.zeros(size_n, np.int64), np.zeros(size_m, np.int64))
        fresh = table.copy(), head.copy(), side.copy(), scale
        own = places[first:last], signs[first:last], needs[first:last], np.zeros(last - first, np.bool_), unit
        for request in range(last - first):
            for way in (1, -1):
                if own[3][request] or (way < 0 and own[2][request] > 0):
                    break
                sign = way * own[1][request]
                moves, scale, basic = _served(state, scale, fresh, own, (request, sign, whole), moves, held, columns)
                if certify and basic > -2:
                    wanted = first + request, sign
                    proofs, proved = _proved((proofs, proved, held), table, side, basic, used_rows, scale, wanted)
    return (
        moves[0][: held[0] + 1], moves[1][: moves[0][held[0]]], moves[2][: moves[0][held[0]]], moves[3][: held[0]],
        proofs[0][: held[1] + 1], proofs[1][: proofs[0][held[1]]], proofs[2][: proofs[0][held[1]]],
        proofs[3][: held[1]], proved[0][: held[1]], proved[1][: held[1]],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _served(state: Any, scale: Any, fresh: Any, own: Any, wanted: Any, moves: Any, held: Any, columns: Any) -> Any:
    """Look for moves that meet one requirement in one direction.

    Returns
    -------
    tuple
        The moves; the denominator of the tableau; and where the requirement cannot be met, the row that shows it, -1
        for the bound of the variable itself. -2: it was met, or nothing was found.
    """
    request, sign, whole = wanted
    place, need, unit = own[0][request], own[2][request], own[4]
    steps = max(1, -(-need // unit))
    if scale != fresh[3]:
        scale = _restored(state, fresh)
    scale, value, numerators, basic = _reached(state, scale, place, sign, steps, 0)
    if value < 0:
        return moves, scale, -2
    met = value > 0 if need == 0 else value * unit >= need * scale
    if not met and (whole or value == 0):
        return moves, scale, basic
    divisor = _common(numerators, scale)
    if not whole or divisor == scale:
        moves = _kept(moves, held, columns, numerators // divisor, scale // divisor, state, own)
        return moves, scale, -2 if met else basic
    # Perhaps the same way fits in whole steps, or another one does.
    moves = _kept(moves, held, columns, numerators // _common(numerators, 0), 1, state, own)
    for walk in range(1, WALKS + 1):
        if own[3][request]:
            break
        scale = _restored(state, fresh)
        scale, value, numerators, basic = _reached(state, scale, place, sign, steps, walk)
        if value > 0:
            moves = _kept(moves, held, columns, numerators // scale, 1, state, own)
    return moves, scale, -2


@njit(cache=True, nogil=True)
def _restored(state: Any, fresh: Any) -> Any:
    state[0][:] = fresh[0]
    state[1][:] = fresh[1]
    state[2][:] = fresh[2]
    return fresh[3]


@njit(cache=True, nogil=True)
def _dense(starts: Any, rows: Any, entries: Any, columns: Any, row_place: Any) -> Any:
    """The relations of some columns as a table, and their numbers; `row_place` is left as it was."""
    count = 0
    for column in columns:
        for at in range(starts[column], starts[column + 1]):
            if row_place[rows[at]] < 0:
                row_place[rows[at]] = count
                count += 1
    table = np.zeros((count, len(columns)), np.int64)
    used = np.empty(count, np.int64)
    for place in range(len(columns)):
        for at in range(starts[columns[place]], starts[columns[place] + 1]):
            table[row_place[rows[at]], place] = entries[at]
            used[row_place[rows[at]]] = rows[at]
    for row in used:
        row_place[row] = -1
    return table, used


@njit(cache=True, nogil=True)
def _started(table: Any, head: Any, side: Any, up: Any, down: Any) -> Any:
    """Solve each relation for one column, if it can be, for one with much room; the common denominator, 0 if lost."""
    size_m, size_n = table.shape
    scale = 1
    for row in range(size_m):
        best, most, even = -1, -1, False
        for j in range(size_n):
            if side[j] >= 0 and table[row, j] != 0:
                wide = min(up[side[j]], down[side[j]])
                plain = table[row, j] == scale or table[row, j] == -scale
                if best < 0 or (plain and not even) or (plain == even and wide > most):
                    best, most, even = j, wide, plain
        if best >= 0:
            scale = _pivot(table, head, side, row, best, scale)
            if scale == 0:
                return 0
    return scale


@njit(cache=True, nogil=True)
def _pivot(table: Any, head: Any, side: Any, row: Any, column: Any, scale: Any) -> Any:
    """Exchange the variable of a row with that of a column; the new denominator, 0 where an entry grew too large."""
    size_m, size_n = table.shape
    pivot = table[row, column]
    sign = 1 if pivot > 0 else -1
    size = pivot * sign
    filled = np.empty(size_n, np.int64)
    count = 0
    for j in range(size_n):
        if j != column and table[row, j] != 0:
            filled[count] = j
            count += 1
    for i in range(size_m):
        if i == row:
            continue
        factor = table[i, column] * sign
        if size != scale:
            for j in range(size_n):
                value = table[i, j] * size
                if factor != 0 and j != column:
                    value -= factor * table[row, j]
                value //= scale
                if value >= MOST_ENTRY or value <= -MOST_ENTRY:
                    return 0
                table[i, j] = value
        elif factor != 0:
            for at in range(count):
                j = filled[at]
                value = table[i, j] - factor * table[row, j] // scale
                if value >= MOST_ENTRY or value <= -MOST_ENTRY:
                    return 0
                table[i, j] = value
        table[i, column] = -factor
    if sign < 0:
        for j in range(size_n):
            table[row, j] = -table[row, j]
    table[row, column] = scale * sign
    leaving = head[row]
    head[row] = side[column]
    side[column] = leaving
    return size


@njit(cache=True, nogil=True)
def _reached(state: Any, scale: Any, target: Any, sign: Any, steps: Any, walk: Any) -> Any:
    """Move one variable from 0 in one direction, `steps` far or as far as it goes.

    A walk, if its number is not 0, takes steps of whole numbers only, and so ends anywhere.

    Returns
    -------
    tuple
        The denominator (0: the tableau is lost), how far the variable went (-1: given up) and the numerators of all,
        and the row of the variable at the end, -1 if it is at its bound.
    """
    table, head, side, up, down, at_side, values = state
    at_side[:] = 0
    values[:] = 0
    limit = min(steps, up[target] if sign > 0 else down[target])
    for pivots in range(LONGEST_WALK if walk > 0 else PIVOTS):
        basic = _place(head, target)
        if basic >= 0:
            distance = sign * values[basic]
            column, way = _entering(state, scale, basic, sign, pivots, walk)
            if distance >= steps * scale or column < 0:
                return _ended(state, scale, target, sign)
            rate = abs(table[basic, column])
        else:
            column, way, rate = _place(side, target), sign, scale
            distance = sign * at_side[column] * scale
            if distance >= limit * scale:
                return _ended(state, scale, target, sign)
        length, part, row = _ratio(state, scale, column, way, pivots)
        even = _whole_step(table, head, scale, column) if walk > 0 else 1
        # A whole step that goes far enough leaves columns at whole numbers.
        final = -((distance - steps * scale) // rate)
        final = -(-final // even) * even
        most = 1
        for i in range(len(values)):
            most = max(most, abs(table[i, column]))
        if length < 0 or final <= length // part:
            length, part, row = final, 1, -1
        if length > FAR // most or abs(at_side[column]) > FAR // part:
            break
        if row < 0:
            _advance(table, at_side, values, column, way, length // even * even)
            continue
        scale = _exchanged(state, scale, (row, column, way), length, part, even, walk)
        if scale <= 0:
            break
    return max(scale, 0), -1, values, -2


@njit(cache=True, nogil=True)
def _place(variables: Any, wanted: Any) -> Any:
    for place in range(len(variables)):
        if variables[place] == wanted:
            return place
    return -1


@njit(cache=True, nogil=True)
def _advance(table: Any, at_side: Any, values: Any, column: Any, way: Any, length: Any) -> Any:
    """Move a column a whole number of steps."""
    for i in range(len(values)):
        values[i] -= table[i, column] * way * length
    at_side[column] += way * length


@njit(cache=True, nogil=True)
def _exchanged(state: Any, scale: Any, step: Any, length: Any, part: Any, even: Any, walk: Any) -> Any:
    """Move a column as far as a row lets it, and exchange the two; the new denominator, 0 where the tableau is lost."""
    table, head, side, up, down, at_side, values = state
    row, column, way = step
    leaving = head[row]
    left = up[leaving] if table[row, column] * way < 0 else -down[leaving]
    for i in range(len(values)):
        if abs(values[i]) > FAR // part:
            return 0
    if walk > 0:
        # The variable that stops this step leaves where it is then, which need not be a bound.
        _advance(table, at_side, values, column, way, length // part // even * even)
        left = values[row] // scale
    entered = part * at_side[column] + (0 if walk > 0 else way * length)
    for i in range(len(values)):
        moved = 0 if walk > 0 else table[i, column] * way * length
        values[i] = (part * values[i] - moved) // scale
    scale = _pivot(table, head, side, row, column, scale)
    values[row] = entered
    at_side[column] = left
    return scale


@njit(cache=True, nogil=True)
def _ended(state: Any, scale: Any, target: Any, sign: Any) -> Any:
    """What `_reached` gives of where it ended."""
    _, head, side, _, _, at_side, values = state
    numerators = np.zeros(len(side), np.int64)
    for j in range(len(side)):
        if side[j] >= 0:
            if abs(at_side[j]) > FAR // scale:
                return scale, -1, values, -2
            numerators[side[j]] = at_side[j] * scale
    for i in range(len(head)):
        if head[i] >= 0:
            numerators[head[i]] = values[i]
    return scale, sign * numerators[target], numerators, _place(head, target)


@njit(cache=True, nogil=True)
def _whole_step(table: Any, head: Any, scale: Any, column: Any) -> Any:
    """The least number of steps of a column that takes every variable to a whole number."""
    common = scale
    for i in range(table.shape[0]):
        if head[i] >= 0:
            other = abs(table[i, column])
            while other:
                common, other = other, common % other
    return scale // common


@njit(cache=True, nogil=True)
def _entering(state: Any, scale: Any, basic: Any, sign: Any, pivots: Any, walk: Any) -> Any:
    """A column that takes the variable of row `basic` on, and in which direction it moves; -1 for none."""
    table, head, side, up, down, at_side, _ = state
    size_n = len(side)
    best, best_way, steepest = -1, 0, 0
    start = 0 if walk == 0 else (walk * 7919 + pivots * 104729) % size_n
    for turn in range(size_n):
        j = (start + turn) % size_n
        way = _useful(table, side, up, down, at_side, basic, sign, j)
        if way == 0:
            continue
        if pivots >= EAGER and walk == 0:
            if best < 0 or side[j] < side[best]:
                best, best_way = j, way
        elif walk > 0:
            best, best_way = j, way
            break
        elif abs(table[basic, j]) > steepest:
            best, best_way, steepest = j, way, abs(table[basic, j])
    if best < 0 or (pivots >= EAGER and walk == 0):
        return best, best_way
    farthest, tried, first = -1, 0, best
    for turn in range(size_n):
        j = (first + turn) % size_n
        if walk == 0 and abs(table[basic, j]) != steepest:
            continue
        way = _useful(table, side, up, down, at_side, basic, sign, j)
        if way == 0:
            continue
        length, part, _ = _ratio(state, scale, j, way, pivots)
        reach = FAR if length < 0 else length // part
        if walk > 0:
            even = _whole_step(table, head, scale, j)
            reach = min(reach, MOST_ENTRY) // even * even * abs(table[basic, j])
        if reach > farthest:
            farthest, best, best_way = reach, j, way
        tried += 1
        if tried == TRIED:
            break
    return best, best_way


@njit(cache=True, nogil=True)
def _useful(table: Any, side: Any, up: Any, down: Any, at_side: Any, basic: Any, sign: Any, column: Any) -> Any:
    """In which direction a column takes the variable of a row on; 0 for none."""
    variable = side[column]
    gain = -sign * table[basic, column]
    if variable < 0 or gain == 0:
        return 0
    if gain > 0:
        return 1 if at_side[column] < up[variable] else 0
    return -1 if at_side[column] > -down[variable] else 0


@njit(cache=True, nogil=True)
def _ratio(state: Any, scale: Any, column: Any, way: Any, pivots: Any) -> Any:
    """How far a column can go, as numerator (-1: for ever) and denominator, and the row that stops it (-1: itself)."""
    table, head, side, up, down, at_side, values = state
    variable = side[column]
    own = up[variable] if way > 0 else down[variable]
    length, part, stopping = -1, 1, -1
    if own < FAR:
        length = own - way * at_side[column]
    for i in range(table.shape[0]):
        rate = -table[i, column] * way
        if rate == 0 or head[i] < 0:
            continue
        bound = up[head[i]] if rate > 0 else down[head[i]]
        if bound > FAR // scale:
            continue
        room = bound * scale - values[i] if rate > 0 else bound * scale + values[i]
        rate = abs(rate)
        if length >= 0:
            here, there = room // rate, length // part
            if here > there:
                continue
            if here == there:
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
    return length, part, stopping


@njit(cache=True, nogil=True)
def _common(numerators: Any, denominator: Any) -> Any:
    """The greatest common divisor of a denominator, or 0, and numerators."""
    common = denominator
    for value in numerators:
        other = abs(value)
        while other:
            common, other = other, common % other
        if common == 1:
            break
    return common


@njit(cache=True, nogil=True)
def _kept(moves: Any, held: Any, columns: Any, numerators: Any, denominator: Any, state: Any, own: Any) -> Any:
    """Keep a move, as it is, longer and backwards, where it fits and meets requirements that are not met yet."""
    places, signs, needs, done, unit = own
    up, down = state[3], state[4]
    for way in range(3):
        longest = _longest(numerators, denominator, up, down, -1 if way == 2 else 1)
        if longest == 0 or (way == 1 and longest == 1):
            continue
        factor = (1, longest, -longest)[way]
        new = 0
        for request in range(len(places)):
            if done[request]:
                continue
            distance = signs[request] * numerators[places[request]] * factor
            if needs[request] == 0:
                met = distance != 0
            else:
                met = 0 < distance < FAR // unit and needs[request] < FAR // denominator
                met = met and distance * unit >= needs[request] * denominator
            if met:
                done[request] = True
                new += 1
        if new:
            moves = _added(moves, held, 0, columns, numerators * factor, denominator)
    return moves


@njit(cache=True, nogil=True)
def _longest(numerators: Any, denominator: Any, up: Any, down: Any, sign: Any) -> Any:
    """How many times a move fits into the room."""
    factor = LONGEST
    for place in range(len(numerators)):
        value = numerators[place] * sign
        if value != 0:
            room = up[place] if value > 0 else down[place]
            size = abs(value)
            here = LONGEST // size if room > FAR // denominator else room * denominator // size
            factor = min(factor, here, LONGEST // size)
    return factor


@njit(cache=True, nogil=True)
def _proved(kept: Any, table: Any, side: Any, basic: Any, used_rows: Any, scale: Any, wanted: Any) -> Any:
    """Keep the multipliers of one row of the tableau."""
    proofs, proved, held = kept
    multipliers = np.zeros(len(used_rows), np.int64)
    if basic >= 0:
        for j in range(len(side)):
            if side[j] < 0:
                multipliers[-1 - side[j]] = table[basic, j]
    proved = _longer(proved[0], held[1] + 2), _longer(proved[1], held[1] + 2)
    proved[0][held[1]] = wanted[0]
    proved[1][held[1]] = wanted[1]
    return _added(proofs, held, 1, used_rows, multipliers, scale), proved


@njit(cache=True, nogil=True)
def _added(kept: Any, held: Any, kind: Any, places: Any, values: Any, denominator: Any) -> Any:
    """Entries that are not 0, added as one row of a sparse matrix."""
    starts, columns, numerators, denominators = kept
    number = held[kind]
    end = starts[number]
    starts, denominators = _longer(starts, number + 2), _longer(denominators, number + 2)
    columns, numerators = _longer(columns, end + len(places)), _longer(numerators, end + len(places))
    for at in range(len(places)):
        if values[at] != 0:
            columns[end] = places[at]
            numerators[end] = values[at]
            end += 1
    starts[number + 1] = end
    denominators[number] = denominator
    held[kind] = number + 1
    return starts, columns, numerators, denominators


@njit(cache=True, nogil=True)
def _longer(array: Any, size: Any) -> Any:
    if len(array) >= size:
        return array
    longer = np.zeros(2 * size, np.int64)
    longer[: len(array)] = array
    return longer


@njit(cache=True, nogil=True)
def nearby_columns(by_column: Any, by_row: Any, column: Any, most: Any, seen: Any) -> Any:
    """Columns that relations join to one, the nearest first.

    Parameters
    ----------
    by_column, by_row : tuple of ndarray of int64
        Starts and places of the entries of the relations, by columns and by rows.
    column, most : int
    seen : ndarray of bool
        All False, for each column; left so.

    Returns
    -------
    ndarray of int64
    """
    found = np.empty(most, np.int64)
    found[0], count, at = column, 1, 0
    seen[column] = True
    while at < count and count < most:
        for i in range(by_column[0][found[at]], by_column[0][found[at] + 1]):
            row = by_column[1][i]
            for j in range(by_row[0][row], by_row[0][row + 1]):
                other = by_row[1][j]
                if not seen[other] and count < most:
                    seen[other] = True
                    found[count] = other
                    count += 1
        at += 1
    for i in range(count):
        seen[found[i]] = False
    return found[:count]
