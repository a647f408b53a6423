"""Proofs that variables can, or cannot, go as far from a known table as they must."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.integer_tableaus import nearby_columns
from privpipe.tables.audit_problem import Integers, Matrix, matrix_of
from privpipe.tables.exact_programmes import Extreme, extreme, is_short, linear_extreme
from privpipe.tables.shrinking import NO_BOUND, OpenSystem, components_of
from privpipe.tables.solver import Programme, solve
from privpipe.tables.tableau_proofs import FEWEST, TableauProofs, ranges_of
from privpipe.tables.witnesses import Move, Requirements, Witnesses

__all__ = ["FAILS", "HOLDS", "UNPROVED", "Proofs", "parts", "prove", "prove_knowing"]

HOLDS, FAILS, UNPROVED = 0, 1, 2
BUNDLE = 200
"""Variables of components that share a programme."""
NEAR = 400
"""Variables around a required one that are tried first in a larger component."""
SURROUNDINGS = (NEAR, NEAR // 2, 2 * NEAR, 4 * NEAR)
"""Of a component half as large again: this many variables are tried, for all requirements in the middle of them."""
LARGE = 2_000
"""Variables from which sums, which need not be whole numbers, get no joint programmes: their moves are not exact."""
NEARBY = (NEAR, 4 * NEAR, 16 * NEAR, 40 * NEAR)
"""Variables around a single requirement, of a component half as large again."""
TRIES = 3
"""Short moves of sums in one region, as long as the solver finds some and none is exact."""
FEW_LEFT = 20
"""Programmes of a large component as a whole are for more than one of this many requirements."""
LONGEST_BRANCHING = 5.0
"""Seconds for one requirement."""
BRANCHING_EACH = 0.1
"""Seconds for each requirement that shares a programme, where these are more."""
JOINT_GAP = 0.1
"""How far from the optimum a programme of many may end: the next one treats the rest."""
FEWEST_MET = 3
"""Requirements that a joint programme must meet for another one to follow it."""


@dataclass
class Proofs:
    """What was proved of each requirement.

    Parameters
    ----------
    outcome : ndarray of int64
        `HOLDS` (there is a move), `FAILS` (there is an exact bound that is too low) or `UNPROVED`.
    witness : ndarray of int64
        The move that meets each requirement; -1 for none.
    moves : list of Move
        Over the columns of the system.
    moved : ndarray of bool
        Columns that some move changes.
    programmes : int
        Linear and whole-number programmes that were solved.
    by_tableaus : int
        Requirements that tableaus of integers settled.
    """

    outcome: Integers
    witness: Integers
    moved: NDArray[np.bool_]
    moves: list[Move] = field(default_factory=list)
    programmes: int = 0
    by_tableaus: int = 0


def parts(system: OpenSystem, component: Integers, wanted: Integers) -> Iterator[tuple[Integers, OpenSystem]]:
    """Columns and system of each bundle of components that has a wanted column."""
    used = np.zeros(int(component.max(initial=-1)) + 1, dtype=np.bool_)
    used[component[wanted]] = True
    chosen = np.flatnonzero(used[component])
    order = chosen[np.argsort(component[chosen], kind="stable")]
    ends = np.flatnonzero(np.diff(component[order], append=-1)) + 1
    start, cuts = 0, []
    for end in ends.tolist():
        if end - start >= BUNDLE or end == len(order):
            cuts.append(end)
            start = end
    matrix = system.matrix[:, order]
    first = np.full(matrix.shape[0], len(order))
    filled = np.diff(matrix.indptr) > 0
    if matrix.nnz:
        first[filled] = np.minimum.reduceat(matrix.indices, matrix.indptr[:-1][filled])
    rows = np.argsort(first, kind="stable")
    matrix, first = matrix[rows], first[rows]
    start = row = 0
    for end in cuts:
        last = int(np.searchsorted(first, end))
        here = order[start:end]
        yield (
            here,
            OpenSystem(
                _rows_from(matrix, row, last, start, end),
                system.right[rows[row:last]],
                system.low[here],
                system.high[here],
                system.whole,
            ),
        )
        start, row = end, last


def prove(
    system: OpenSystem,
    component: Integers,
    base: Integers,
    requirements: tuple[Integers, Integers, Integers],
    denominator: int,
    deadline: float,
) -> Proofs:
    """Prove requirements one by one or many at a time.

    Parameters
    ----------
    system : OpenSystem
    component : ndarray of int64
        Component of each column.
    base : ndarray of int64
        A point of the system.
    requirements : three ndarrays of int64
        Columns, signs and needs, as `Witnesses` takes them.
    denominator : int
        Of the needs.
    deadline : float
        In seconds of `time.monotonic`.
    """
    asked = Requirements(*requirements, denominator)
    by_tableaus = TableauProofs(system, component, base, asked)
    if len(asked) >= FEWEST:
        by_tableaus.run(deadline)
    failed, witness, moved = by_tableaus.failed, by_tableaus.witness, by_tableaus.moved
    moves, programmes = by_tableaus.moves, 0
    rest = np.flatnonzero(by_tableaus.waiting)
    settled = len(asked) - len(rest)
    by_column = rest[np.argsort(asked.columns[rest], kind="stable")]
    place = np.full(system.size, -1, dtype=np.int64)
    for here, part in parts(system, component, asked.columns[rest]):
        place[here] = np.arange(len(here))
        numbers = by_column[ranges_of(asked.columns[by_column], here)]
        own = Requirements(place[asked.columns[numbers]], asked.signs[numbers], asked.needs[numbers], denominator)
        search = _Part(Witnesses(part, base[here], own), deadline)
        search.run()
        found = search.witnesses
        failed[numbers] = search.failed & (found.met < 0)
        witness[numbers] = np.where(found.met >= 0, found.met + len(moves), -1)
        moves.extend(Move(here[move.columns], move.numerators, move.denominator) for move in found.moves)
        moved[here] |= found.moved
        programmes += search.programmes
    outcome = np.where(witness >= 0, HOLDS, np.where(failed, FAILS, UNPROVED))
    return Proofs(outcome, witness, moved, moves, programmes, settled)


def prove_knowing(
    system: OpenSystem,
    base: Integers,
    asked: Requirements,
    known: Iterable[tuple[int, tuple[Integers, Integers, Integers]]],
    deadline: float,
) -> tuple[Integers, list[Move], int]:
    """Prove requirements one by one, each where a reader knows more.

    Parameters
    ----------
    asked : Requirements
    known : iterable of (int, (ndarray, ndarray, ndarray))
        A requirement; columns, and between which values its reader knows them to be.

    Returns
    -------
    tuple
        The outcome of each, moves that were found, how many programmes were solved.
    """
    own = replace(system, low=system.low.copy(), high=system.high.copy())
    witnesses = Witnesses(own, base, asked)
    search = _Part(witnesses, deadline)
    outcome = []
    for requirement, (columns, low, high) in known:
        kept = own.low[columns], own.high[columns]
        room = witnesses.up[columns], witnesses.down[columns]
        own.low[columns], own.high[columns] = np.maximum(kept[0], low), np.minimum(kept[1], high)
        witnesses.up[columns] = np.where(own.high[columns] == NO_BOUND, NO_BOUND, own.high[columns] - base[columns])
        witnesses.down[columns] = np.where(own.low[columns] == -NO_BOUND, NO_BOUND, base[columns] - own.low[columns])
        witnesses.met[requirement], search.failed[requirement] = -1, False
        if time.monotonic() < deadline:
            search.single(requirement)
        met, failed = witnesses.met[requirement] >= 0, search.failed[requirement]
        outcome.append(HOLDS if met else FAILS if failed else UNPROVED)
        own.low[columns], own.high[columns] = kept
        witnesses.up[columns], witnesses.down[columns] = room
    return np.array(outcome, dtype=np.int64), witnesses.moves, search.programmes


class _Part:
    """The search for witnesses and certificates in one bundle of components."""

    def __init__(self, witnesses: Witnesses, deadline: float) -> None:
        self.witnesses = witnesses
        self.deadline = deadline
        self.failed = np.zeros(len(witnesses.asked.columns), dtype=np.bool_)
        self.programmes = 0
        self.draw = np.random.default_rng(0)
        self.component = components_of(witnesses.system.matrix)

    def run(self) -> None:
        found = self.witnesses
        every = np.arange(found.system.size)
        few = FEWEST_MET
        for size in SURROUNDINGS if found.system.whole else ():
            if 2 * len(every) >= 3 * size:
                few = max(few, len(found.asked) // FEW_LEFT)
                self._by_surroundings(size)
        for sign in (1, -1) if found.system.whole or len(every) < LARGE else ():
            for whole in (False, True) if found.system.whole else (False,):
                while len(waiting := self._waiting(sign)) > few and time.monotonic() < self.deadline:
                    self._joint(every, waiting, sign, whole=whole)
                    if len(waiting) - len(self._waiting(sign)) < FEWEST_MET:
                        break
        for requirement in range(len(found.asked.columns)):
            if found.met[requirement] < 0 and not self.failed[requirement] and time.monotonic() < self.deadline:
                self.single(requirement)

    def _waiting(self, sign: int) -> Integers:
        """Requirements that may still be met in one direction, one for each column."""
        found = self.witnesses
        room = (found.up if sign > 0 else found.down)[found.asked.columns]
        either = (found.asked.needs == 0) & (room > 0)
        waiting = np.flatnonzero((found.met < 0) & ~self.failed & (either | ((found.asked.signs == sign) & (room > 0))))
        _, first = np.unique(found.asked.columns[waiting], return_index=True)
        return waiting[np.sort(first)]

    def _by_surroundings(self, size: int) -> None:
        """Offer moves of the variables around each requirement, for those near it at the same time."""
        asked, found = self.witnesses.asked, self.witnesses
        for sign in (1, -1):
            waiting = np.zeros(len(asked), dtype=np.bool_)
            waiting[self._waiting(sign)] = True
            for requirement in np.flatnonzero(waiting).tolist():
                if not waiting[requirement] or found.met[requirement] >= 0 or time.monotonic() > self.deadline:
                    continue
                columns = self._nearest(int(asked.columns[requirement]), size)
                near = waiting & (found.met < 0) & np.isin(asked.columns, columns[: size // 3])
                waiting &= ~near
                self._joint(np.sort(columns), np.flatnonzero(near), sign)

    def _nearest(self, column: int, size: int) -> Integers:
        """Columns that relations join to one, the nearest first."""
        nearest: Integers = nearby_columns(*self._places, column, size, np.zeros(self.component.shape, dtype=np.bool_))
        return nearest

    @cached_property
    def _places(self) -> tuple[tuple[Integers, Integers], tuple[Integers, Integers]]:
        """Starts and places of the entries of the relations, by columns and by rows."""
        rows = self.witnesses.system.matrix
        by_column, by_row = (
            (each.indptr.astype(np.int64), each.indices.astype(np.int64)) for each in (cast(Any, rows).tocsc(), rows)
        )
        return by_column, by_row

    def single(self, requirement: int) -> None:
        """Look for a move that meets one requirement, or for a proof that none does, in ever larger surroundings."""
        found = self.witnesses
        column = int(found.asked.columns[requirement])
        signs = (1, -1) if found.asked.needs[requirement] == 0 else (int(found.asked.signs[requirement]),)
        every = np.flatnonzero(self.component == self.component[column])
        regions = (np.sort(self._nearest(column, size)) for size in NEARBY if 2 * len(every) >= 3 * size)
        waiting = list(signs)
        for region in (*regions, every):
            # Of a large component as a whole the bound gives a move too, where that need not be whole.
            last = len(region) == len(every)
            tries = 0 if last and len(every) >= LARGE and not found.system.whole else TRIES
            certified = self._certified if last else self._certified_near
            for sign in tuple(waiting):
                for attempt in range(tries):
                    near = self._shortest(region, requirement, sign, shaken=attempt > 0)
                    if near and found.system.whole and found.met[requirement] < 0:
                        self._joint(region, np.array([requirement]), sign, whole=True)
                    if found.met[requirement] >= 0:
                        return
                    if not near or found.system.whole:
                        break
                if certified(region, requirement, sign):
                    waiting.remove(sign)
            if not waiting:
                self.failed[requirement] = True
                return

    def _certified_near(self, columns: Integers, requirement: int, sign: int) -> bool:
        """Whether only the relations between some columns prove that a requirement is not met in one direction."""
        found, asked = self.witnesses, self.witnesses.asked
        part = found.system.copies(columns, np.zeros_like(columns), found.base, inside=True)
        at = int(np.searchsorted(columns, asked.columns[requirement]))
        start, level = sign * int(found.base[columns[at]]), int(asked.needs[requirement])

        def short(bound: Fraction) -> bool:
            return _short((Fraction(floor(bound)) if part.whole else bound) - start, level, asked.denominator)

        self.programmes += 1
        return is_short(replace(part, whole=False), at, sign, short, self.deadline)

    def _proved_short(
        self, system: OpenSystem, base: Integers, requirement: int, column: int, sign: int
    ) -> tuple[bool, Extreme, NDArray[np.float64] | None]:
        """Whether a linear bound of a system shows that a requirement is not met in one direction; the result."""
        asked = self.witnesses.asked
        level, unit = int(asked.needs[requirement]), asked.denominator
        need = max(1, -(-level // unit))
        capped = system.high.copy(), system.low.copy()
        # On the way to any table beyond the level there is one at it: to look no further proves as much.
        if sign > 0:
            capped[0][column] = min(int(system.high[column]), int(base[column]) + need)
        else:
            capped[1][column] = max(int(system.low[column]), int(base[column]) - need)
        linear = OpenSystem(system.matrix, system.right, capped[1], capped[0], False)
        self.programmes += 1
        start = sign * int(base[column])
        below = start + need if system.whole else None
        end, near = linear_extreme(linear, column, sign, self.deadline, below)
        bound = None if end.bound is None else Fraction(floor(end.bound)) if system.whole else end.bound
        return bound is not None and _short(bound - start, level, unit), end, near

    def _certified(self, columns: Integers, requirement: int, sign: int) -> bool:
        """Whether a proof was found that a requirement is not met in one direction; a witness may turn up instead."""
        found = self.witnesses
        column = int(np.searchsorted(columns, found.asked.columns[requirement]))
        system, base = found.system.part(columns), found.base[columns]
        level, start = int(found.asked.needs[requirement]), sign * int(base[column])
        short, end, near = self._proved_short(system, base, requirement, column, sign)
        if short:
            return True
        if near is not None:
            found.offer(columns, near - base)
        if not system.whole:
            if end.point is not None and found.met[requirement] < 0:
                found.keep_point(columns, end.point)
            return False
        if found.met[requirement] >= 0:
            return False
        self.programmes += 1
        whole = extreme(system, column, sign, self.deadline)
        if whole.point is not None:
            found.keep_point(columns, whole.point)
        return whole.bound is not None and _short(whole.bound - start, level, found.asked.denominator)

    def _joint(self, columns: Integers, required: Integers, sign: int, *, whole: bool = False) -> None:
        """Offer a move that takes many requirements as far as they need to go."""
        found = self.witnesses
        # Different worths make the solver take a few all the way instead of many half the way.
        worth = np.exp(6 * self.draw.random(len(required)))
        programme, at = self._programme(columns, required, sign, worth, whole=whole)
        self.programmes += 1
        remaining = self.deadline - time.monotonic()
        if whole:
            remaining = min(max(LONGEST_BRANCHING, BRANCHING_EACH * len(required)), remaining)
            programme = replace(programme, gap=JOINT_GAP if len(required) > 1 else 0.0)
        answer = solve(programme, remaining)
        if answer.point is not None:
            move = answer.point[: len(columns)].copy()
            np.add.at(move, at, answer.point[len(columns) :])
            found.offer(columns, move)

    def _shortest(self, columns: Integers, requirement: int, sign: int, *, shaken: bool = False) -> bool:
        """Offer a short move of some columns that takes one requirement as far as it needs to go.

        Cells with little room are expensive: other moves change few cells, mostly in whole steps, and serve others.

        Returns
        -------
        bool
            Whether the solver claims that it goes so far.
        """
        found = self.witnesses
        block = found.system.matrix if len(columns) == found.system.size else found.system.matrix[:, columns]
        block = block[np.flatnonzero(np.diff(block.indptr))]
        size = len(columns)
        at = int(np.searchsorted(columns, found.asked.columns[requirement]))
        need = int(max(1, -(-found.asked.needs[requirement] // found.asked.denominator)))
        high = np.concatenate([found.up[columns], found.down[columns]])
        there, back = (at, at + size) if sign > 0 else (at + size, at)
        if high[there] == 0:
            return False
        need = min(need, int(high[there]))
        cost = 1 / np.clip(high, 1, 1000) + 0.05
        if shaken:  # so that another vertex is the shortest
            cost *= np.exp(self.draw.random(len(cost)))
        high[there], high[back], cost[there] = need, 0, -1e4
        entries = block.tocoo()
        row, column = entries.row.astype(np.int64), entries.col.astype(np.int64)
        matrix = matrix_of(
            np.concatenate([entries.data, -entries.data]),
            np.concatenate([row, row]),
            np.concatenate([column, column + size]),
            (block.shape[0], 2 * size),
        )
        right = np.zeros(block.shape[0], dtype=np.int64)
        self.programmes += 1
        answer = solve(Programme(cost, matrix, right, np.zeros_like(high), high), self.deadline - time.monotonic())
        if answer.point is None:
            return False
        found.offer(columns, answer.point[:size] - answer.point[size:])
        return bool(answer.point[there] > need - 0.5)

    def _programme(
        self, columns: Integers, required: Integers, sign: int, worth: NDArray[np.float64], *, whole: bool = False
    ) -> tuple[Programme, Integers]:
        """A programme of moves, in which each required column is split into the required part and the rest."""
        found = self.witnesses
        block = found.system.matrix if len(columns) == found.system.size else found.system.matrix[:, columns]
        block = block[np.flatnonzero(np.diff(block.indptr))]
        place = np.full(found.system.size, -1, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        at = place[found.asked.columns[required]]
        up, down = found.up[columns].copy(), found.down[columns].copy()
        room = up if sign > 0 else down
        needs = np.minimum(np.maximum(1, -(-found.asked.needs[required] // found.asked.denominator)), room[at])
        room[at] -= np.where(room[at] == NO_BOUND, 0, needs)
        zero = np.zeros_like(needs)
        low = np.concatenate([np.where(down == NO_BOUND, -NO_BOUND, -down), zero if sign > 0 else -needs])
        high = np.concatenate([up, needs if sign > 0 else zero])
        entries, again = block.tocoo(), block[:, at].tocoo()
        matrix = matrix_of(
            np.concatenate([entries.data, again.data]),
            np.concatenate([entries.row, again.row]).astype(np.int64),
            np.concatenate([entries.col, again.col + len(columns)]).astype(np.int64),
            (block.shape[0], len(columns) + len(at)),
        )
        cost = np.concatenate([np.zeros(len(columns)), -sign * worth])
        return Programme(cost, matrix, np.zeros(block.shape[0], dtype=np.int64), low, high, whole), at


def _short(distance: Fraction, need: int, denominator: int) -> bool:
    """Whether a distance is less than a need, or is none where any will do."""
    return distance <= 0 if need == 0 else distance * denominator < need


def _rows_from(matrix: Matrix, row: int, last: int, start: int, end: int) -> Matrix:
    """Rows `row` to `last` of a matrix, whose entries all are in columns `start` to `end`."""
    block = matrix[row:last]
    rows = np.repeat(np.arange(last - row), np.diff(block.indptr))
    return matrix_of(block.data, rows, block.indices.astype(np.int64) - start, (last - row, end - start))
