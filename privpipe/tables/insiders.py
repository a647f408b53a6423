"""Contributors who know the true value of hidden cells because no one else is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.audit_problem import AuditProblem
from privpipe.tables.integer_matrices import Integers, matrix_of, product
from privpipe.tables.proofs import FAILS, HOLDS, Proofs, prove
from privpipe.tables.shrinking import OpenSystem, Shrunk, components_of, tightened
from privpipe.tables.witnesses import Move

__all__ = ["insider_failures"]

BATCH = 50_000
"""Columns of the systems of several insiders that are proved together."""
MOST_MARKS = 20_000_000
"""Columns of all moves of a component that are looked at; programmes do what moves beyond them would."""


@dataclass(frozen=True)
class _Insider:
    """What is not settled for one insider: open columns of its components, those it knows, and targets of others."""

    position: int
    columns: Integers
    known: Integers
    targets: Integers


def insider_failures(
    problem: AuditProblem, shrunk: Shrunk, base: Integers, moves: list[Move], deadline: float
) -> tuple[dict[int, Integers], int, int]:
    """What follows from what insiders know.

    A move that leaves what an insider knows as it is shows that others' cells which it changes stay hidden from that
    insider; what no such move changes gets programmes in which the known cells are constants.

    Returns
    -------
    tuple
        For each insider that fails, by position, the variables of others that have one value; how many others were
        not proved; how many programmes were solved.
    """
    failures: dict[int, Integers] = {}
    unproved = programmes = 0
    if not problem.knowing:
        return failures, unproved, programmes
    for position, (_, others) in enumerate(problem.knowing):
        constant = others[shrunk.place[others] < 0]
        if len(constant):
            failures[position] = np.unique(constant)
    for batch in _batches(_unsettled(problem, shrunk, moves)):
        proofs = _knowing(shrunk, base, batch, deadline)
        programmes += proofs.programmes
        unproved += int(((proofs.outcome != FAILS) & (proofs.outcome != HOLDS)).sum())
        ends = np.cumsum([len(each.targets) for each in batch])[:-1]
        for each, outcome in zip(batch, np.split(proofs.outcome, ends), strict=True):
            failing = shrunk.variables[each.targets[outcome == FAILS]]
            if len(failing):
                failures[each.position] = np.union1d(failures.get(each.position, failing), failing)
    return failures, unproved, programmes


def _unsettled(problem: AuditProblem, shrunk: Shrunk, moves: list[Move]) -> Iterator[_Insider]:
    """Each insider with the targets that no move changes which leaves alone what it knows."""
    members = _columns_of_components(shrunk)
    moved = _moved(shrunk, members, moves)
    component = np.full(len(shrunk.place), shrunk.components)
    component[shrunk.variables] = shrunk.component
    near = np.zeros(shrunk.components + 1, dtype=np.bool_)
    for position, (known, others) in enumerate(problem.knowing):
        open_known = shrunk.place[known][shrunk.place[known] >= 0]
        near[shrunk.component[open_known]] = True
        # Most others are in components of which the insider knows nothing: there may be very many.
        places = np.setdiff1d(shrunk.place[others[near[component[others]]]], open_known)
        near[:] = False
        touched = np.unique(shrunk.component[places])
        columns, targets = [], []
        for number in touched.tolist():
            own, inside = members[number], places[shrunk.component[places] == number]
            if number in moved:
                table = moved[number]
                knows = np.searchsorted(own, open_known[shrunk.component[open_known] == number])
                still = np.flatnonzero(~np.any(table[:, knows], axis=1))
                free: NDArray[np.bool_] = np.any(table[still], axis=0)
                inside = inside[~free[np.searchsorted(own, inside)]]
            if len(inside):
                columns.append(own)
                targets.append(inside)
        if targets:
            every = np.sort(np.concatenate(columns))
            yield _Insider(position, every, np.intersect1d(open_known, every), np.concatenate(targets))


def _columns_of_components(shrunk: Shrunk) -> list[Integers]:
    order = np.argsort(shrunk.component, kind="stable")
    return np.split(order, np.cumsum(np.bincount(shrunk.component))[:-1])


def _moved(shrunk: Shrunk, members: list[Integers], moves: list[Move]) -> dict[int, NDArray[np.bool_]]:
    """For each component which of its columns each move changes; the part of a move in a component is a move."""
    found: dict[int, list[NDArray[np.bool_]]] = {}
    for move in moves:
        component = shrunk.component[move.columns]
        for number in np.unique(component).tolist():
            size, tables = len(members[number]), found.setdefault(number, [])
            if len(tables) * size <= MOST_MARKS:
                changed = np.zeros(size, dtype=np.bool_)
                changed[np.searchsorted(members[number], move.columns[component == number])] = True
                tables.append(changed)
    return {number: np.stack(tables) for number, tables in found.items()}


def _batches(insiders: Iterator[_Insider]) -> Iterator[list[_Insider]]:
    batch: list[_Insider] = []
    size = 0
    for each in insiders:
        batch.append(each)
        size += len(each.columns)
        if size > BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _knowing(shrunk: Shrunk, base: Integers, batch: Sequence[_Insider], deadline: float) -> Proofs:
    """Whether each target can be anything else than it is where what its insider knows is constant.

    The components of each insider are a system for that insider alone; all of them side by side are one system.
    """
    columns = np.concatenate([each.columns for each in batch])
    sizes = [len(each.columns) for each in batch]
    fixed = np.concatenate([np.isin(each.columns, each.known) for each in batch])
    part = _side_by_side(shrunk.system, columns, np.repeat(np.arange(len(batch)), sizes))
    right = part.right - product(part.matrix, np.where(fixed, base[columns], 0))
    matrix = part.matrix[:, ~fixed]
    left = np.flatnonzero(np.diff(matrix.indptr))
    matrix, right = matrix[left], right[left]
    low, high = tightened(OpenSystem(matrix, right, part.low[~fixed], part.high[~fixed], part.whole))
    place = np.cumsum(~fixed) - 1
    starts = np.cumsum([0, *sizes])
    targets = np.concatenate(
        [place[start + np.searchsorted(each.columns, each.targets)] for start, each in zip(starts, batch, strict=False)]
    )
    ones = np.ones(len(targets), dtype=np.int64)
    system = OpenSystem(matrix, right, low, high, part.whole)
    return prove(system, components_of(matrix), base[columns[~fixed]], (targets, ones, 0 * ones), 1, deadline)


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
