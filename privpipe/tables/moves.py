"""Moves between tables that agree with everything published: how far a sensitive cell can go, and what must be hidden.

A move d is a difference of two tables: relations d = 0. Everything here is found by a solver in floats and serves to
choose cells; only the audit decides whether a pattern is safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Insider, Levels
from privpipe.tables.solver import linear, whole

__all__ = ["Hiding", "Requirement", "cheapest_move", "farthest", "joint_move"]

SMALLEST_STEP = 1e-7
NODES = 10_000
LEAST_PRICE = 1e-4
REWARD = 50.0
"""For a unit of the way of a sensitive cell: more than any sensible detour costs, with prices of at most 1."""


@dataclass(frozen=True)
class Requirement:
    """What one sensitive variable must be able to do: move up, move down, or lie in a wide interval.

    Parameters
    ----------
    variable : int
    signs : tuple of int
        (1,) up, (-1,) down, (1, -1) the distance of both ends.
    level : float
        In units, more than 0.
    held : tuple of (int, float, float)
        Variables that an insider knows, and how far up and down it finds each possible.
    """

    variable: int
    signs: tuple[int, ...]
    level: float
    held: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True)
class Hiding:
    """Cells to choose from, so that sensitive ones are protected.

    Parameters
    ----------
    relations : csr_array of int64, shape (relations, cells)
        Of all linked tables.
    true : ndarray of int64, shape (cells,)
    low, high : ndarray of int64, shape (cells,)
        What a reader knows about each cell once it is hidden; `UNBOUNDED` where there is no bound.
    cost : ndarray of int64, shape (cells,)
        Price of hiding each cell, at least 1.
    candidates : ndarray of bool, shape (cells,)
        Cells that may be hidden; sensitive ones are hidden whatever this says.
    levels : Levels
        The sensitive cells with their protection levels.
    whole : bool
        Whether every cell is an integer (counts).
    knowing : tuple of Insider
        None of the sensitive cells of others may be exact for such a contributor.
    insider_levels : bool
        Whether they keep their levels for insiders as well.
    given : ndarray of bool, shape (cells,), optional
        Cells that no reader sees whatever is decided here: hidden already, or in no table that is published.
    shown : tuple of ndarray of int64, optional
        Least and greatest value that a reader gives a cell while it is published; default: its true value.
    additive : bool
        Whether totals are the sums of their parts; if not, what follows from others implies no population.
    """

    relations: scipy.sparse.csr_array
    true: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    cost: NDArray[np.int64]
    candidates: Bools
    levels: Levels
    whole: bool
    knowing: tuple[Insider, ...] = ()
    insider_levels: bool = False
    given: Bools | None = None
    shown: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    additive: bool = True

    def __len__(self) -> int:
        return len(self.true)

    @cached_property
    def primary(self) -> Bools:
        found = np.zeros(len(self), dtype=np.bool_)
        found[self.levels.variables] = True
        return found

    @cached_property
    def required(self) -> Bools:
        """Cells that are hidden in every pattern: sensitive ones, and those that no reader sees anyway."""
        return self.primary if self.given is None else np.asarray(self.primary | self.given, dtype=np.bool_)

    @cached_property
    def open(self) -> Bools:
        """Cells that may be hidden and need not be."""
        return np.asarray(self.candidates & ~self.required, dtype=np.bool_)

    @cached_property
    def by_cell(self) -> scipy.sparse.csc_array:
        """The relations by columns, from which those of few cells are taken fast."""
        return scipy.sparse.csc_array(self.relations)

    @cached_property
    def lowest(self) -> Bools:
        """Cells that are not totals of others."""
        total = np.zeros(len(self), dtype=np.bool_)
        total[self.relations.indices[self.relations.data > 0]] = True
        return ~total

    @cached_property
    def room_up(self) -> Floats:
        return np.where(self.high == UNBOUNDED, np.inf, self.high - self.true.astype(np.float64))

    @cached_property
    def room_down(self) -> Floats:
        return np.where(self.low == UNBOUNDED, np.inf, self.true - self.low.astype(np.float64))

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        found = []
        levels, unit = self.levels, self.levels.denominator
        for at, variable in enumerate(levels.variables.tolist()):
            up, down = int(levels.upper[at]), int(levels.lower[at])
            span = max(int(levels.span[at]), unit)
            if up > 0:
                found.append(Requirement(variable, (1,), up / unit))
            if down > 0:
                found.append(Requirement(variable, (-1,), down / unit))
            if up + down < span:
                found.append(Requirement(variable, (1, -1), span / unit))
        for insider in self.knowing:
            found += self.for_insider(insider, insider.others)
        return tuple(found)

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """For each cell its place among the levels; -1 without."""
        place = np.full(len(self), -1)
        place[self.levels.variables] = np.arange(len(self.levels.variables))
        return place

    def for_insider(self, insider: Insider, variables: NDArray[np.int64]) -> list[Requirement]:
        """What some sensitive cells must be able to do for a contributor who knows others."""
        true, levels = self.true[insider.known], self.levels
        above, below = (
            np.zeros(len(true)) if side is None else sign * (side.astype(np.float64) - true)
            for sign, side in ((1, insider.high), (-1, insider.low))
        )
        held = tuple(zip(insider.known.tolist(), above.tolist(), below.tolist(), strict=True))
        found = []
        for variable, at in zip(variables.tolist(), self._place[variables].tolist(), strict=True):
            up, down = (
                int(side[at]) if at >= 0 and self.insider_levels else 0 for side in (levels.upper, levels.lower)
            )
            if up > 0:
                found.append(Requirement(variable, (1,), up / levels.denominator, held))
            if down > 0:
                found.append(Requirement(variable, (-1,), down / levels.denominator, held))
            if up <= 0 and down <= 0:
                found.append(Requirement(variable, (1, -1), 1.0, held))
        return found

    def rooms(self, need: Requirement) -> tuple[Floats, Floats]:
        """How far each hidden cell can move up and down for the reader of a requirement."""
        if not need.held:
            return self.room_up, self.room_down
        up, down = self.room_up.copy(), self.room_down.copy()
        for variable, above, below in need.held:
            up[variable], down[variable] = min(up[variable], above), min(down[variable], below)
        return up, down

    def price(self, hidden: Bools) -> int:
        """Cost of the cells that are hidden without having to be."""
        return int(self.cost[hidden & ~self.required].sum())

    def part(self, cells: NDArray[np.int64]) -> Hiding:
        """The cells of some whole components, renumbered."""
        place = np.full(len(self), -1)
        place[cells] = np.arange(len(cells))
        mine = place[self.levels.variables] >= 0
        knowing = []
        for insider in self.knowing:
            if (place[insider.others] >= 0).any():
                here = place[insider.known] >= 0
                low, high = (None if side is None else side[here] for side in (insider.low, insider.high))
                sensitive = place[insider.sensitive]
                knowing.append(Insider(place[insider.known][here], sensitive[sensitive >= 0], low, high))
        levels = self.levels
        within = self.relations[:, cells]
        levels = Levels(
            place[levels.variables[mine]], levels.lower[mine], levels.upper[mine], levels.span[mine], levels.denominator
        )
        return Hiding(
            scipy.sparse.csr_array(within[np.diff(within.indptr) > 0]),
            self.true[cells],
            self.low[cells],
            self.high[cells],
            self.cost[cells],
            self.candidates[cells],
            levels,
            self.whole,
            tuple(knowing),
            self.insider_levels,
            None if self.given is None else self.given[cells],
            None if self.shown is None else (self.shown[0][cells], self.shown[1][cells]),
        )

    def components(self, hidden: Bools) -> Iterator[NDArray[np.int64]]:
        """Hidden cells that depend on each other, in the order of their first cells."""
        cells = np.flatnonzero(hidden)
        if not len(cells):
            return
        within = self.relations[:, cells]
        blocks: list[list[Any]] = [[None, within], [within.T, None]]
        graph: Any = scipy.sparse.block_array(blocks)
        _, label = scipy.sparse.csgraph.connected_components(graph, directed=False)
        label = label[within.shape[0] :]
        order = np.argsort(label, kind="stable")
        groups = np.split(cells[order], np.flatnonzero(np.diff(label[order])) + 1)
        yield from sorted(groups, key=lambda group: int(group[0]))

    def problem(self, hidden: Bools) -> AuditProblem:
        """What a reader of the table knows when these cells are hidden."""
        least, most = (self.true, self.true) if self.shown is None else self.shown
        return AuditProblem(
            self.relations,
            np.where(hidden, self.low, least),
            np.where(hidden, self.high, most),
            self.whole,
            self.true,
            self.levels,
            self.knowing,
            insider_levels=self.insider_levels,
        )


def farthest(hiding: Hiding, objective: Floats, up: Floats, down: Floats) -> tuple[Floats, Floats] | None:
    """The move within -down <= d <= up with the largest objective, and a multiplier for each relation.

    Returns
    -------
    tuple of ndarray of float64 or None
        The move, and y for which no move within the bounds exceeds the sum of the larger end of each
        (objective + relations' y) d; None if the solver found none.
    """
    cells = np.flatnonzero((up > 0) | (down > 0))
    within = hiding.relations[:, cells]
    rows = np.flatnonzero(np.diff(within.indptr))
    solved = linear(-objective[cells], -down[cells], up[cells], equal=scipy.sparse.csr_array(within[rows]))
    if solved is None:
        return None
    move, multipliers = np.zeros(len(hiding)), np.zeros(hiding.relations.shape[0])
    move[cells] = solved.point
    multipliers[rows] = solved.multipliers
    return move, multipliers


def cheapest_move(hiding: Hiding, hidden: Bools, requirement: Requirement, *, in_whole: bool = False) -> Bools | None:
    """Cells of a move that meets a requirement, for the least sum of cost times distance over published cells.

    Returns
    -------
    ndarray of bool or None
        Published cells that move; None if no move within the bounds was found.
    """
    cells = np.flatnonzero(hidden | hiding.open)
    at = int(np.searchsorted(cells, requirement.variable))
    within = hiding.relations[:, cells]
    within = within[np.diff(within.indptr) > 0]
    price = np.where(hidden[cells], 0.0, hiding.cost[cells] / max(int(hiding.cost.max()), 1))
    up, down = (room[cells] for room in hiding.rooms(requirement))
    level, best = requirement.level, None
    ways = [[(sign, level)] for sign in requirement.signs]
    if len(ways) > 1 and max(up[at], down[at]) < level:
        ways = [[(1, up[at]), (-1, level - up[at])]]
    for way in ways:
        moved = np.zeros(len(hiding), dtype=np.bool_)
        for sign, length in way:
            step = _priced_step(within, price, (up, down), at, sign, length, in_whole)
            if step is None:
                break
            moved[cells[np.abs(step) > SMALLEST_STEP * max(length, 1.0)]] = True
        else:
            added = np.asarray(moved & ~hidden, dtype=np.bool_)
            if best is None or hiding.price(added) < hiding.price(best):
                best = added
    return best


def _priced_step(
    relations: scipy.sparse.csr_array,
    price: Floats,
    room: tuple[Floats, Floats],
    at: int,
    sign: int,
    level: float,
    in_whole: bool,
) -> Floats | None:
    up, down = (side.copy() for side in room)
    if (up if sign > 0 else down)[at] < level:
        return None
    count = len(price)
    least = np.zeros(2 * count)
    least[at if sign > 0 else count + at] = level
    (down if sign > 0 else up)[at] = 0.0
    both = scipy.sparse.csr_array(scipy.sparse.hstack([relations, -relations]))
    # Cells that are hidden already are not quite free, so that no circle of them turns without a purpose.
    costs = np.maximum(np.concatenate([price, price]), 1e-6)
    most = np.concatenate([up, down])
    zeros = np.zeros(relations.shape[0])
    if in_whole:
        found = whole(costs, np.ceil(least), np.floor(most), both, (zeros, zeros), nodes=NODES)
        point = None if found is None or not found.optimal else found.point
    else:
        solved = linear(costs, least, most, equal=both)
        point = None if solved is None else solved.point
    return None if point is None else np.asarray(point[:count] - point[count:], dtype=np.float64)


def joint_move(
    hiding: Hiding, hidden: Bools, needs: Sequence[Requirement], sign: int, among: Bools
) -> tuple[Bools, Bools]:
    """One cheap move in which as many sensitive cells as possible go as far as they need in one direction.

    Parameters
    ----------
    needs : sequence of Requirement
        Of different variables.
    sign : int
        1 up, -1 down.
    among : ndarray of bool
        Cells that may move; each need's is one of them.

    Returns
    -------
    tuple of ndarray of bool
        Published cells that move, and which needs were met.
    """
    cells = np.flatnonzero(among)
    at = np.searchsorted(cells, [need.variable for need in needs])
    within = hiding.by_cell[:, cells].tocsr()
    within = within[np.diff(within.indptr) > 0]
    price = np.clip(hiding.cost[cells] / max(int(hiding.cost.max()), 1), LEAST_PRICE, 1.0)
    price = np.where(hidden[cells], LEAST_PRICE / 10, price)
    up, down = hiding.room_up[cells], hiding.room_down[cells]
    level = np.array([need.level for need in needs])
    # A sensitive cell may only go forward: a rewarded part up to its level, and the rest without a reward.
    rewarded = np.minimum(level, (up if sign > 0 else down)[at])
    forward, backward = (up, down) if sign > 0 else (down, up)
    backward[at] = 0.0
    forward[at] -= rewarded
    count = len(cells)
    solved = linear(
        np.concatenate([price, price, np.full(len(at), -REWARD)]),
        np.zeros(2 * count + len(at)),
        np.concatenate([up, down, rewarded]),
        equal=scipy.sparse.csr_array(scipy.sparse.hstack([within, -within, sign * within[:, at]])),
    )
    moved = np.zeros(len(hiding), dtype=np.bool_)
    if solved is None:
        return moved, np.zeros(len(at), dtype=np.bool_)
    reached = solved.point[2 * count :]
    step = solved.point[:count] - solved.point[count : 2 * count]
    step[at] += sign * reached
    moved[cells] = np.abs(step) > SMALLEST_STEP
    return np.asarray(moved & ~hidden, dtype=np.bool_), np.asarray(reached >= level * (1 - 1e-6), dtype=np.bool_)
