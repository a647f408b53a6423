"""Moves from one table to another that a reader cannot distinguish, each checked in exact integers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools
from privpipe.tables.audit_problem import Integers, product
from privpipe.tables.exact_programmes import DENOMINATORS, Point
from privpipe.tables.shrinking import NO_BOUND, OpenSystem, components_of

__all__ = ["Move", "Requirements", "Witnesses"]

SMALL = 1e-5
"""Entries of a solver's move below this count as 0 when it is made exact, which is checked."""
LONGEST = 2**50
"""Numerator to which a move is made longer."""


@dataclass(frozen=True, repr=False, eq=False)
class Move:
    """A difference of two tables of the system: numerators over one denominator, 0 for all other columns."""

    columns: Integers
    numerators: NDArray[np.int64] | NDArray[np.object_]
    denominator: int


@dataclass(frozen=True, repr=False, eq=False)
class Requirements:
    """Each requirement is that a column goes up, or down, by so much.

    Parameters
    ----------
    columns, signs : ndarray of int64
        Column and sign of each requirement.
    needs : ndarray of int64
        How far, in fractions of a unit; 0 for any distance other than 0, in any direction.
    denominator : int
        Of `needs`.
    """

    columns: Integers
    signs: Integers
    needs: Integers
    denominator: int

    def __len__(self) -> int:
        return len(self.columns)

    def of(self, numbers: Integers) -> Requirements:
        """Some of them."""
        return Requirements(self.columns[numbers], self.signs[numbers], self.needs[numbers], self.denominator)

    def met(self, numbers: Integers, numerators: Integers, denominators: Integers) -> Bools:
        """Whether moves of the columns of some requirements by such distances meet them."""
        here, needs = self.signs[numbers] * numerators, self.needs[numbers]
        return np.where(needs == 0, here != 0, _at_least(here, self.denominator, needs, denominators))


@dataclass(repr=False, eq=False)
class Witnesses:
    """Which requirements moves from one base have met.

    Parameters
    ----------
    system : OpenSystem
    base : ndarray of int64
        A point of the system.
    asked : Requirements
    """

    system: OpenSystem
    base: Integers
    asked: Requirements
    moves: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.met = np.full(len(self.asked), -1, dtype=np.int64)
        """For each requirement the number of the move that meets it."""
        self.moved = np.zeros(self.system.size, dtype=np.bool_)
        """Columns that some move changes."""
        self.up = np.where(self.system.high == NO_BOUND, NO_BOUND, self.system.high - self.base)
        self.down = np.where(self.system.low == -NO_BOUND, NO_BOUND, self.base - self.system.low)

    def offer(self, columns: Integers, near: NDArray[np.float64]) -> Integers:
        """Keep the exact part of a floating-point move of some columns; the columns of the rest.

        A move falls into pieces that share no relation; each is a move in its own right.
        """
        moving = np.abs(near) > SMALL
        columns, near = columns[moving], near[moving]
        if not len(columns):
            return columns
        block = self.system.matrix[:, columns]
        block = block[np.flatnonzero(np.diff(block.indptr))]
        piece = components_of(block)
        waiting = np.ones(len(columns), dtype=np.bool_)
        row_piece = piece[block.indices[block.indptr[:-1]]]
        for denominator in (1,) if self.system.whole else DENOMINATORS:
            scaled = np.rint(near * denominator)
            if np.abs(scaled).max() >= 2**52:
                break
            numerators = self._inside(columns, scaled.astype(np.int64), denominator)
            wrong = np.zeros(int(piece.max()) + 1, dtype=np.bool_)
            wrong[row_piece[product(block, numerators) != 0]] = True
            exact = waiting & ~wrong[piece] & (numerators != 0)
            if exact.any():
                self._keep_pieces(columns[exact], numerators[exact], piece[exact], denominator)
            waiting &= wrong[piece]
            if not waiting.any():
                break
        return columns[waiting]

    def _keep_pieces(self, columns: Integers, numerators: Integers, piece: Integers, denominator: int) -> None:
        """Keep a move, and its reverse, each piece as long as its bounds allow in whole multiples."""
        size = np.abs(numerators)
        limit = NO_BOUND // denominator - 1
        up, down = (np.minimum(room[columns], limit) * denominator // size for room in (self.up, self.down))
        most = LONGEST // (int(size.max()) + 1) + 1
        for sign in (1, -1):
            factor = np.full(int(piece.max()) + 1, most)
            np.minimum.at(factor, piece, np.where(sign * numerators > 0, up, down))
            moving = factor[piece] > 0
            if moving.any():
                self._keep(Move(columns[moving], (sign * numerators * factor[piece])[moving], denominator))

    def keep_point(self, columns: Integers, point: Point) -> None:
        """Keep the move from the base to an exact point of some whole components."""
        base = self.base[columns]
        if point.numerators.dtype == object or point.denominator * int(np.abs(base).max(initial=0)) >= 2**62:
            return
        numerators = point.numerators - base * point.denominator
        moving = np.flatnonzero(numerators)
        if len(moving):
            self._keep(Move(columns[moving], numerators[moving], point.denominator))

    def _inside(self, columns: Integers, numerators: Integers, denominator: int) -> Integers:
        """Numerators cut to the bounds."""
        limit = NO_BOUND // denominator - 1
        above, below = np.minimum(self.up[columns], limit), np.minimum(self.down[columns], limit)
        return np.clip(numerators, -below * denominator, above * denominator)

    def _keep(self, move: Move) -> None:
        distance = np.zeros(self.system.size, dtype=np.int64)
        distance[move.columns] = move.numerators
        new_columns = not self.moved[move.columns].all()
        self.moved[move.columns] = True
        every = np.arange(len(self.asked))
        far = self.asked.met(every, distance[self.asked.columns], np.full(len(every), move.denominator))
        new = (self.met < 0) & far
        if new.any() or new_columns:
            self.met[new] = len(self.moves)
            self.moves.append(move)


def _at_least(left: Integers, left_factor: int, right: Integers, right_factors: Integers) -> Bools:
    """Whether left * left_factor >= right * right_factors, without overflow."""
    greatest = int(right_factors.max(initial=1))
    most = max(int(np.abs(left).max(initial=0)) * left_factor, int(np.abs(right).max(initial=0)) * greatest)
    if most < 2**62:
        return np.asarray(left * left_factor >= right * right_factors)
    wide = right.astype(object) * right_factors.astype(object)
    return np.asarray(left.astype(object) * left_factor >= wide, dtype=np.bool_)
