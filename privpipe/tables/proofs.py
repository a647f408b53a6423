"""Proofs that variables can, or cannot, go as far from a known table as they must."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.exact_programmes import extreme, linear_extreme
from privpipe.tables.integer_matrices import Integers, Matrix, matrix_of
from privpipe.tables.shrinking import NO_BOUND, OpenSystem
from privpipe.tables.solver import Programme, solve
from privpipe.tables.witnesses import Move, Witnesses

__all__ = ["FAILS", "HOLDS", "UNPROVED", "Proofs", "parts", "prove"]

HOLDS, FAILS, UNPROVED = 0, 1, 2
BUNDLE = 200
"""Variables of components that share a programme."""
NEAR = 400
"""Variables around a required one that are tried first in a larger component."""
LONGEST_BRANCHING = 5.0
"""Seconds."""
FEWEST = 3
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
    """

    outcome: Integers
    witness: Integers
    moved: NDArray[np.bool_]
    moves: list[Move] = field(default_factory=list)
    programmes: int = 0


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
    columns, signs, needs = requirements
    proofs = Proofs(
        np.full(len(columns), UNPROVED, dtype=np.int64),
        np.full(len(columns), -1, dtype=np.int64),
        np.zeros(system.size, dtype=np.bool_),
    )
    place = np.full(system.size, -1, dtype=np.int64)
    by_column = np.argsort(columns, kind="stable")
    for here, part in parts(system, component, columns):
        place[here] = np.arange(len(here))
        of_here = by_column[_ranges(columns[by_column], here)]
        part_proof = _Part(
            Witnesses(part, base[here], place[columns[of_here]], signs[of_here], needs[of_here], denominator), deadline
        )
        part_proof.run()
        found = part_proof.witnesses
        proofs.outcome[of_here] = np.where(found.met >= 0, HOLDS, np.where(part_proof.failed, FAILS, UNPROVED))
        proofs.witness[of_here] = np.where(found.met >= 0, found.met + len(proofs.moves), -1)
        proofs.moves.extend(Move(here[move.columns], move.numerators, move.denominator) for move in found.moves)
        proofs.moved[here] = found.moved
        proofs.programmes += part_proof.programmes
    return proofs


class _Part:
    """The search for witnesses and certificates in one bundle of components."""

    def __init__(self, witnesses: Witnesses, deadline: float) -> None:
        self.witnesses = witnesses
        self.deadline = deadline
        self.failed = np.zeros(len(witnesses.columns), dtype=np.bool_)
        self.programmes = 0
        self.draw = np.random.default_rng(0)

    def run(self) -> None:
        found = self.witnesses
        up, down = found.up[found.columns], found.down[found.columns]
        room = np.where(found.signs > 0, up, down)
        # What is needed is at least 1 / denominator; a room of NO_BOUND is more than any need.
        short = np.minimum(room, NO_BOUND // found.denominator - 1) * found.denominator < found.needs
        self.failed = np.where(found.needs > 0, short & (room != NO_BOUND), (up == 0) & (down == 0))
        every = np.arange(found.system.size)
        for sign in (1, -1):
            while len(waiting := self._waiting(sign)) > 1:
                self._joint(every, waiting, sign)
                if len(waiting) - len(self._waiting(sign)) < FEWEST:
                    break
        for requirement in range(len(found.columns)):
            if found.met[requirement] < 0 and not self.failed[requirement] and time.monotonic() < self.deadline:
                self._single(requirement)

    def _waiting(self, sign: int) -> Integers:
        """Requirements that may still be met in one direction, one for each column."""
        found = self.witnesses
        room = (found.up if sign > 0 else found.down)[found.columns]
        either = (found.needs == 0) & (room > 0)
        waiting = np.flatnonzero((found.met < 0) & ~self.failed & (either | ((found.signs == sign) & (room > 0))))
        _, first = np.unique(found.columns[waiting], return_index=True)
        return waiting[np.sort(first)]

    def _single(self, requirement: int) -> None:
        found = self.witnesses
        column = int(found.columns[requirement])
        signs = (1, -1) if found.needs[requirement] == 0 else (int(found.signs[requirement]),)
        every = np.arange(found.system.size)
        for sign in signs:
            regions = [_around(found.system.matrix, column, NEAR)] if found.system.size > 2 * NEAR else []
            for region in (*regions, every):
                near = self._joint(region, self._waiting(sign), sign, requirement)
                if near and found.system.whole and found.met[requirement] < 0:
                    self._joint(region, self._waiting(sign), sign, requirement, whole=True)
                if found.met[requirement] >= 0:
                    return
        if all(self._certified(requirement, sign) for sign in signs):
            self.failed[requirement] = True

    def _certified(self, requirement: int, sign: int) -> bool:
        """Whether a proof was found that a requirement is not met in one direction; a witness may turn up instead."""
        found = self.witnesses
        column, system = int(found.columns[requirement]), found.system
        need = int(max(1, -(-found.needs[requirement] // found.denominator)))
        level = int(found.needs[requirement])
        capped = system.high.copy(), system.low.copy()
        # On the way to any table beyond the level there is one at it: to look no further proves as much.
        if sign > 0:
            capped[0][column] = min(int(system.high[column]), int(found.base[column]) + need)
        else:
            capped[1][column] = max(int(system.low[column]), int(found.base[column]) - need)
        linear = OpenSystem(system.matrix, system.right, capped[1], capped[0], False)
        self.programmes += 1
        end, near = linear_extreme(linear, column, sign, self.deadline)
        start = sign * int(found.base[column])
        bound = None if end.bound is None else Fraction(floor(end.bound)) if system.whole else end.bound
        if bound is not None and _short(bound - start, level, found.denominator):
            return True
        every = np.arange(system.size)
        if near is not None:
            found.offer(every, near - found.base)
        if not system.whole:
            if end.point is not None and found.met[requirement] < 0:
                found.keep_point(end.point)
            return False
        if found.met[requirement] >= 0:
            return False
        self.programmes += 1
        whole = extreme(system, column, sign, self.deadline)
        if whole.point is not None:
            found.keep_point(whole.point)
        return whole.bound is not None and _short(whole.bound - start, level, found.denominator)

    def _joint(
        self, columns: Integers, required: Integers, sign: int, leader: int | None = None, *, whole: bool = False
    ) -> bool:
        """Offer a move that takes many requirements as far as they need to go, the leader first.

        Returns
        -------
        bool
            Whether the solver says that the leader went as far as it needs.
        """
        found = self.witnesses
        inside = np.zeros(found.system.size, dtype=np.bool_)
        inside[columns] = True
        required = required[inside[found.columns[required]]]
        if whole:  # any whole move of the leader will do: to prove the best one would take longer
            required = required[found.columns[required] == found.columns[leader]]
        if not len(required):
            return False
        # Different worths make the solver take a few all the way in the place of many half the way.
        worth = np.exp(6 * self.draw.random(len(required)))
        leads = np.zeros(len(required), dtype=np.bool_)
        if leader is not None:
            leads = found.columns[required] == found.columns[leader]
            worth[leads] = 1e6
        programme, at = self._programme(columns, required, sign, worth, whole=whole)
        self.programmes += 1
        remaining = self.deadline - time.monotonic()
        answer = solve(programme, min(LONGEST_BRANCHING, remaining) if whole else remaining)
        if answer.point is None:
            return False
        part = answer.point[len(columns) :]
        move = answer.point[: len(columns)].copy()
        np.add.at(move, at, part)
        found.offer(columns, move)
        needs = np.abs((programme.high + programme.low)[len(columns) :])
        return bool(np.any(leads & (np.abs(part) > needs - 0.5)))

    def _programme(
        self, columns: Integers, required: Integers, sign: int, worth: NDArray[np.float64], *, whole: bool = False
    ) -> tuple[Programme, Integers]:
        """A programme of moves, in which each required column is split into what it needs and the rest."""
        found = self.witnesses
        block = found.system.matrix if len(columns) == found.system.size else found.system.matrix[:, columns]
        block = block[np.flatnonzero(np.diff(block.indptr))]
        place = np.full(found.system.size, -1, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        at = place[found.columns[required]]
        up, down = found.up[columns].copy(), found.down[columns].copy()
        room = up if sign > 0 else down
        needs = np.minimum(np.maximum(1, -(-found.needs[required] // found.denominator)), room[at])
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


def _around(matrix: Matrix, column: int, size: int) -> Integers:
    """Columns that relations join to one, the nearest first, about so many."""
    inside = np.zeros(matrix.shape[1])
    inside[column] = 1
    joined = abs(matrix)
    while True:
        wider = joined.T @ (joined @ inside) > 0
        if wider.sum() > size or wider.sum() == (inside > 0).sum():
            return np.flatnonzero(wider if (inside > 0).sum() < size // 8 else inside > 0)
        inside = wider.astype(np.float64)


def _rows_from(matrix: Matrix, row: int, last: int, start: int, end: int) -> Matrix:
    """Rows `row` to `last` of a matrix, whose entries all are in columns `start` to `end`."""
    block = matrix[row:last]
    rows = np.repeat(np.arange(last - row), np.diff(block.indptr))
    return matrix_of(block.data, rows, block.indices.astype(np.int64) - start, (last - row, end - start))


def _ranges(sorted_values: Integers, wanted: Integers) -> Integers:
    """Places in `sorted_values` of all values that are wanted."""
    first = np.searchsorted(sorted_values, wanted)
    count = np.searchsorted(sorted_values, wanted, side="right") - first
    starts = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
    return np.asarray(starts + np.arange(int(count.sum())), dtype=np.int64)
