"""Moves along homogeneous relations with bounds, and proofs that there are none, by integer tableaus."""

from __future__ import annotations

from typing import Any

import numpy as np

from privpipe.compiled import njit
from privpipe.kernels.integer_simplex import FAR, ended, place_of, pushed, reached, solved_for_columns

__all__ = ["FIELDS", "OPEN", "moves_of_groups", "nearby_columns"]

OPEN = 2**62
"""How far a variable without a bound can go."""
LONGEST = 2**50
"""Largest numerator of a lengthened move."""
DIVES = 6
"""Orders in which the fractions of one solution are rounded, until one ends in whole numbers."""
FIELDS = ("move_starts", "move_columns", "move_numerators", "move_denominators",
          "proof_starts", "proof_rows", "proof_multipliers", "proof_denominators", "proof_requirements",
          "proof_signs")  # fmt: skip


@njit(cache=True, nogil=True)
def moves_of_groups(system: Any, room: Any, groups: Any, asked: Any, unit: Any, modes: Any) -> Any:
    """Moves that take variables as far as they are required to go, or multipliers that show that none does.

    Parameters
    ----------
    system : tuple of ndarray of int64
        Relations by columns: starts, rows, entries; and an array with one -1 per relation.
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
        Whether moves are whole numbers; whether multipliers are wanted (then groups must be whole components).

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
    need_starts, places, signs, needs = asked
    whole, certify = modes
    moves = (np.zeros(64, np.int64), np.zeros(1024, np.int64), np.zeros(1024, np.int64), np.zeros(64, np.int64))
    proofs = (np.zeros(64, np.int64), np.zeros(1024, np.int64), np.zeros(1024, np.int64), np.zeros(64, np.int64))
    proved = (np.zeros(64, np.int64), np.zeros(64, np.int64))
    held = np.zeros(2, np.int64)  # moves and proofs so far
    for group in range(len(group_starts) - 1):
        columns = group_columns[group_starts[group] : group_starts[group + 1]]
        first, last = need_starts[group], need_starts[group + 1]
        if first == last:
            continue
        table, used_rows = _dense(starts, rows, entries, columns, row_place)
        up, down = room[0][columns], room[1][columns]
        size_n, size_m = table.shape
        head = -1 - np.arange(size_m)
        side = np.arange(size_n)
        scale = solved_for_columns(table, head, side, up, down)
        if scale == 0:
            continue
        solved = _multipliers(table, side), head, scale, used_rows
        # Columns of the relations themselves never move again: only a proof needs them.
        table = np.ascontiguousarray(table[side >= 0][:, head >= 0])
        head, side = head[head >= 0], side[side >= 0]
        rooms = np.empty((2, len(head)), np.int64)
        state = (table, head, side, up, down, np.zeros(len(side), np.int64), np.zeros(len(head), np.int64), rooms)
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
                    proofs, proved = _proved((proofs, proved, held), state, solved, basic, scale, wanted)
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
    scale, value, numerators, basic = reached(state, scale, place, sign, steps)
    if value < 0:
        return moves, scale, -2
    met = value > 0 if need == 0 else value * unit >= need * scale
    if not met and (whole or value == 0):
        return moves, scale, basic
    divisor = _common(numerators, scale)
    if not whole or divisor == scale:
        moves = _kept(moves, held, columns, numerators // divisor, scale // divisor, state, own)
        return moves, scale, -2 if met else basic
    # Perhaps the same way fits in whole steps, or a point near it does.
    moves = _kept(moves, held, columns, numerators // _common(numerators, 0), 1, state, own)
    for dive in range(DIVES):
        if own[3][request]:
            break
        if dive > 0:
            scale = _restored(state, fresh)
            scale = reached(state, scale, place, sign, steps)[0]
        scale, value, numerators = _dived(state, scale, fresh[2], (place, sign, steps), dive)
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
    """Some columns of the relations, each as a row of a table, and the relations; `row_place` is left unchanged."""
    count = 0
    for column in columns:
        for at in range(starts[column], starts[column + 1]):
            if row_place[rows[at]] < 0:
                row_place[rows[at]] = count
                count += 1
    table = np.zeros((len(columns), count), np.int64)
    used = np.empty(count, np.int64)
    for place in range(len(columns)):
        for at in range(starts[columns[place]], starts[columns[place] + 1]):
            table[place, row_place[rows[at]]] = entries[at]
            used[row_place[rows[at]]] = rows[at]
    for row in used:
        row_place[row] = -1
    return table, used


@njit(cache=True, nogil=True)
def _dived(state: Any, scale: Any, lattice: Any, wanted: Any, order: Any) -> Any:
    """Round a point with fractions to whole numbers, one bound after another, like the dives of branch and bound.

    Parameters
    ----------
    lattice : ndarray of int64
        Variables of which all others are sums.
    wanted : tuple of int
        A variable, and in which direction and how far it must go.
    order : int
        0: the value closest to a whole number first; 1: the one farthest from it; otherwise pseudorandom.

    Returns
    -------
    tuple
        The denominator; how far the variable went, -1 if no such point was found; and the numerators of all.
    """
    target, sign, steps = wanted
    up, down = state[3].copy(), state[4].copy()
    here = (*state[:3], up, down, *state[5:])
    if sign > 0:
        down[target] = -steps
    else:
        up[target] = -steps
    head, side, at_side, values = state[1], state[2], state[5], state[6]
    for _ in range(3 * len(lattice)):
        chosen, below, above = _with_fraction(here, scale, lattice, order)
        if chosen < 0:
            scale, value, numerators, _ = ended(here, scale, target, sign)
            return scale, value if _common(numerators, scale) == scale else -1, numerators
        high, low, bounded = up[chosen], down[chosen], False
        for upward in (above, not above):
            goal = below + 1 if upward else below
            if bounded or (upward and goal > high) or (not upward and goal < -low):
                continue
            if upward:
                up[chosen] = goal
                scale = pushed(here, scale, chosen, 1, goal)[0]
            else:
                down[chosen] = -goal
                scale = pushed(here, scale, chosen, -1, -goal)[0]
            if scale == 0:
                return 0, -1, values
            place = place_of(head, chosen)
            bounded = at_side[place_of(side, chosen)] == goal if place < 0 else values[place] == goal * scale
            up[chosen], down[chosen] = high, low
            # The first order, which settles most requirements, does not return to a variable.
            if bounded and (upward or order == 0):
                down[chosen] = -goal
            if bounded and (order == 0 or not upward):
                up[chosen] = goal
        if not bounded:
            break
    return scale, -1, values


@njit(cache=True, nogil=True)
def _with_fraction(state: Any, scale: Any, lattice: Any, order: Any) -> Any:
    """The next variable to be rounded, -1 for none; the whole number below it, and whether the one above is closer."""
    chosen, least, below, above = -1, 2 * scale, 0, False
    for variable in lattice:
        place = place_of(state[1], variable)
        part = state[6][place] % scale if place >= 0 else 0
        if part == 0:
            continue
        rank = min(part, scale - part)
        if order == 1:
            rank = scale - rank
        elif order > 1:
            rank = variable * 7919 * order % 1009 * scale // 1009
        if rank < least:
            chosen, least, below, above = variable, rank, state[6][place] // scale, 2 * part > scale
    return chosen, below, above


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
    """Keep a move, its multiple and its reverse, where they fit and meet requirements that are not met yet."""
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
    """How many times a move fits within the bounds."""
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
def _multipliers(table: Any, side: Any) -> Any:
    """The multiple of each relation in each row of a tableau."""
    found = np.zeros((table.shape[1], table.shape[1]), np.int64)
    for j in range(len(side)):
        if side[j] < 0:
            found[:, -1 - side[j]] = table[j]
    return found


@njit(cache=True, nogil=True)
def _proved(kept: Any, state: Any, solved: Any, basic: Any, scale: Any, wanted: Any) -> Any:
    """Keep the multipliers of the relations that add up to one row of the tableau, unless they are too large."""
    proofs, proved, held = kept
    first, first_head, divisor, used_rows = solved
    multipliers = np.zeros(len(used_rows), np.int64)
    if basic >= 0:
        table, head, side = state[:3]
        row = np.zeros(len(state[3]), np.int64)
        row[head[basic]] = scale
        row[side] = table[:, basic]
        largest = 0
        for i in range(len(first_head)):
            factor = row[first_head[i]] if first_head[i] >= 0 else 0
            if factor == 0:
                continue
            for at in range(len(used_rows)):
                multipliers[at] += factor * first[i, at]
                largest = max(largest, abs(multipliers[at]))
            if largest > FAR:
                return proofs, proved
        multipliers //= divisor
    proved = _longer(proved[0], held[1] + 2), _longer(proved[1], held[1] + 2)
    proved[0][held[1]] = wanted[0]
    proved[1][held[1]] = wanted[1]
    return _added(proofs, held, 1, used_rows, multipliers, scale), proved


@njit(cache=True, nogil=True)
def _added(kept: Any, held: Any, kind: Any, places: Any, values: Any, denominator: Any) -> Any:
    """Add the entries that are not 0 as one row of a sparse matrix."""
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
    """Columns that relations connect to a given one, the nearest first.

    Parameters
    ----------
    by_column, by_row : tuple of ndarray of int64
        Starts and places of the entries of the relations, by columns and by rows.
    column, most : int
    seen : ndarray of bool
        False for each column; unchanged at the end.

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
