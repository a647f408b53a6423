"""What follows from hidden cells that a contributor knows because hardly anyone else is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.audit_problem import AuditProblem, Levels
from privpipe.tables.integer_matrices import Integers, matrix_of, product
from privpipe.tables.proofs import FAILS, HOLDS, Proofs, prove
from privpipe.tables.shrinking import OpenSystem, Shrunk, components_of, tightened
from privpipe.tables.witnesses import Move, Requirements

__all__ = ["insider_failures"]

BATCH = 50_000
"""Columns of the systems of several insiders that are proved together."""
MOST_MARKS = 20_000_000
"""Columns of all moves of a component that are looked at; programmes do what moves beyond them would."""


@dataclass(frozen=True)
class _Open:
    """What is not settled for one insider: open columns of its components, and requirements on those of others.

    `known` are columns that it knows to be between `low` and `high`.
    """

    position: int
    columns: Integers
    known: Integers
    low: Integers
    high: Integers
    requirements: Integers


def insider_failures(
    problem: AuditProblem, shrunk: Shrunk, base: Integers, moves: list[Move], deadline: float
) -> tuple[dict[int, Integers], int, int]:
    """What follows from what insiders know.

    A move that leaves what an insider knows as it is shows that others' cells which it changes stay hidden from that
    insider; what no such move changes gets programmes in which the known cells are constants, or closely bounded.

    Returns
    -------
    tuple
        For each insider that fails, by position, the variables of others that have one value, or not as many as their
        levels require; how many others were not proved; how many programmes were solved.
    """
    failures: dict[int, Integers] = {}
    unproved = programmes = 0
    if not problem.knowing:
        return failures, unproved, programmes
    for position, insider in enumerate(problem.knowing):
        constant = insider.others[shrunk.place[insider.others] < 0]
        if len(constant):
            failures[position] = np.unique(constant)
    asked = _requirements(problem, shrunk)
    for batch in _batches(_unsettled(problem, shrunk, base, asked, moves)):
        proofs = _knowing(shrunk, base, asked, batch, deadline)
        programmes += proofs.programmes
        ends = np.cumsum([len(each.requirements) for each in batch])[:-1]
        for each, outcome in zip(batch, np.split(proofs.outcome, ends), strict=True):
            variables = shrunk.variables[asked.columns[each.requirements]]
            failing = np.unique(variables[outcome == FAILS])
            open_ = np.unique(variables[(outcome != FAILS) & (outcome != HOLDS)])
            unproved += len(np.setdiff1d(open_, failing))
            if len(failing):
                failures[each.position] = np.union1d(failures.get(each.position, failing), failing)
    return failures, unproved, programmes


def _requirements(problem: AuditProblem, shrunk: Shrunk) -> Requirements:
    """What insiders must find possible of each open sensitive column: another value, or the levels of it."""
    sensitive = {id(insider.sensitive): insider.sensitive for insider in problem.knowing}
    columns = shrunk.place[np.unique(np.concatenate(list(sensitive.values())))]
    columns = columns[columns >= 0]
    none = np.empty(0, dtype=np.int64)
    levels = problem.levels if problem.insider_levels else None
    levels = Levels(none, none, none, none) if levels is None else levels
    place = shrunk.place[levels.variables]
    up, down = (np.zeros(shrunk.system.size, dtype=np.int64) for _ in range(2))
    up[place[place >= 0]], down[place[place >= 0]] = levels.upper[place >= 0], levels.lower[place >= 0]
    above, below = columns[up[columns] > 0], columns[down[columns] > 0]
    either = columns[(up[columns] <= 0) & (down[columns] <= 0)]
    found = np.concatenate([above, below, either])
    signs = np.ones(len(found), dtype=np.int64)
    signs[len(above) : len(above) + len(below)] = -1
    needs = np.concatenate([up[above], down[below], np.zeros(len(either), dtype=np.int64)])
    order = np.argsort(found, kind="stable")
    return Requirements(found[order], signs[order], needs[order], levels.denominator)


def _unsettled(
    problem: AuditProblem, shrunk: Shrunk, base: Integers, asked: Requirements, moves: list[Move]
) -> Iterator[_Open]:
    """Each insider with the requirements that no move meets which leaves alone what it knows."""
    members = _groups(shrunk.component, shrunk.components)
    own_requirements = _groups(shrunk.component[asked.columns], shrunk.components)
    moved = _moved(shrunk, members, asked, own_requirements, moves)
    component = np.full(len(shrunk.place), shrunk.components)
    component[shrunk.variables] = shrunk.component
    near = np.zeros(shrunk.components + 1, dtype=np.bool_)
    for position, insider in enumerate(problem.knowing):
        is_open = shrunk.place[insider.known] >= 0
        known = shrunk.place[insider.known][is_open]
        near[shrunk.component[known]] = True
        # Most others are in components of which the insider knows nothing: there may be very many.
        places = np.setdiff1d(shrunk.place[insider.sensitive[near[component[insider.sensitive]]]], known)
        near[:] = False
        columns, waiting = [], []
        for number in np.unique(shrunk.component[places]).tolist():
            own, requirements = members[number], own_requirements[number]
            inside = np.isin(asked.columns[requirements], places)
            if number in moved:
                changed, met = moved[number]
                knows = np.searchsorted(own, known[shrunk.component[known] == number])
                still = np.flatnonzero(~np.any(changed[:, knows], axis=1))
                inside &= ~np.any(met[still], axis=0)
            if inside.any():
                columns.append(own)
                waiting.append(requirements[inside])
        if waiting:
            every = np.sort(np.concatenate(columns))
            here = np.isin(known, every)
            low, high = (base[known] if side is None else side[is_open] for side in (insider.low, insider.high))
            yield _Open(position, every, known[here], low[here], high[here], np.concatenate(waiting))


def _groups(number: Integers, most: int) -> list[Integers]:
    """Places of each number from 0 to below `most`, in ascending order."""
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number, minlength=most))[:-1])


def _moved(
    shrunk: Shrunk, members: list[Integers], asked: Requirements, own_requirements: list[Integers], moves: list[Move]
) -> dict[int, tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """For each component which of its columns each move changes, and which requirements it meets.

    The part of a move in a component is a move.
    """
    found: dict[int, tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]]] = {}
    distance = np.zeros(shrunk.system.size, dtype=np.int64)
    for move in moves:
        component = shrunk.component[move.columns]
        distance[move.columns] = move.numerators
        for number in np.unique(component).tolist():
            own, requirements = members[number], own_requirements[number]
            changed, met = found.setdefault(number, ([], []))
            if len(changed) * (len(own) + len(requirements)) <= MOST_MARKS:
                changed.append(distance[own] != 0)
                far = distance[asked.columns[requirements]]
                met.append(asked.met(requirements, far, np.full(len(far), move.denominator)))
        distance[move.columns] = 0
    return {number: (np.stack(changed), np.stack(met)) for number, (changed, met) in found.items()}


def _batches(insiders: Iterator[_Open]) -> Iterator[list[_Open]]:
    batch: list[_Open] = []
    size = 0
    for each in insiders:
        batch.append(each)
        size += len(each.columns)
        if size > BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _knowing(shrunk: Shrunk, base: Integers, asked: Requirements, batch: Sequence[_Open], deadline: float) -> Proofs:
    """Whether each requirement is met where what its insider knows is constant, or within bounds.

    The components of each insider are a system for that insider alone; all of them side by side are one system.
    """
    columns = np.concatenate([each.columns for each in batch])
    sizes = [len(each.columns) for each in batch]
    starts = np.cumsum([0, *sizes])
    part = _side_by_side(shrunk.system, columns, np.repeat(np.arange(len(batch)), sizes))
    low, high, fixed = part.low.copy(), part.high.copy(), np.zeros(len(columns), dtype=np.bool_)
    for start, each in zip(starts, batch, strict=False):
        at = start + np.searchsorted(each.columns, each.known)
        low[at], high[at] = np.maximum(low[at], each.low), np.minimum(high[at], each.high)
        fixed[at] = low[at] == high[at]
    right = part.right - product(part.matrix, np.where(fixed, base[columns], 0))
    matrix = part.matrix[:, ~fixed]
    left = np.flatnonzero(np.diff(matrix.indptr))
    matrix, right = matrix[left], right[left]
    low, high = tightened(OpenSystem(matrix, right, low[~fixed], high[~fixed], part.whole))
    place = np.cumsum(~fixed) - 1
    targets = np.concatenate(
        [
            place[start + np.searchsorted(each.columns, asked.columns[each.requirements])]
            for start, each in zip(starts, batch, strict=False)
        ]
    )
    own = np.concatenate([each.requirements for each in batch])
    requirements = (targets, asked.signs[own], asked.needs[own])
    system = OpenSystem(matrix, right, low, high, part.whole)
    return prove(system, components_of(matrix), base[columns[~fixed]], requirements, asked.denominator, deadline)


def _side_by_side(system: OpenSystem, columns: Integers, copy: Integers) -> OpenSystem:
    """Columns of a system, as many times as they are given; a relation is one of each copy that has columns in it."""
    by_column = cast(Any, system.matrix).tocsc()
    starts, counts = by_column.indptr[columns].astype(np.int64), np.diff(by_column.indptr)[columns]
    at = np.repeat(np.arange(len(columns)), counts)
    entry = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    relations = system.matrix.shape[0]
    numbers, row = np.unique(copy[at] * relations + by_column.indices[entry], return_inverse=True)
    matrix = matrix_of(by_column.data[entry], row.astype(np.int64), at, (len(numbers), len(columns)))
    return OpenSystem(
        matrix, system.right[numbers % relations], system.low[columns], system.high[columns], system.whole
    )
