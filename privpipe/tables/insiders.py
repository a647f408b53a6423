"""Contributors who know the true value of hidden cells because no one else is in them."""

from __future__ import annotations

import numpy as np

from privpipe.tables.audit_problem import AuditProblem
from privpipe.tables.integer_matrices import Integers, product
from privpipe.tables.proofs import FAILS, HOLDS, prove
from privpipe.tables.shrinking import OpenSystem, Shrunk, components_of, tightened
from privpipe.tables.witnesses import Move

__all__ = ["insider_failures"]


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
    members = _columns_of_components(shrunk)
    by_component: dict[int, list[Move]] = {}
    for move in moves:
        for number in np.unique(shrunk.component[move.columns]).tolist():
            by_component.setdefault(number, []).append(move)
    for position, (known, others) in enumerate(problem.knowing):
        places = shrunk.place[others]
        known_columns = shrunk.place[known]
        known_columns = known_columns[known_columns >= 0]
        touched = np.unique(shrunk.component[known_columns])
        failing = others[places < 0]
        still = others[places >= 0]
        waiting = still[np.isin(shrunk.component[shrunk.place[still]], touched)]
        waiting = np.setdiff1d(waiting, known)
        if len(waiting):
            free = np.zeros(shrunk.system.size, dtype=np.bool_)
            for move in [move for number in touched.tolist() for move in by_component.get(number, ())]:
                if not np.isin(known_columns, move.columns).any():
                    free[move.columns] = True
            waiting = waiting[~free[shrunk.place[waiting]]]
        if len(waiting):
            columns = np.concatenate([members[number] for number in touched.tolist()])
            outcome, more = _without(shrunk, base, columns, known_columns, shrunk.place[waiting], deadline)
            programmes += more
            failing = np.concatenate([failing, waiting[outcome == FAILS]])
            unproved += int(((outcome != FAILS) & (outcome != HOLDS)).sum())
        if len(failing):
            failures[position] = np.unique(failing)
    return failures, unproved, programmes


def _columns_of_components(shrunk: Shrunk) -> list[Integers]:
    order = np.argsort(shrunk.component, kind="stable")
    return np.split(order, np.cumsum(np.bincount(shrunk.component))[:-1])


def _without(
    shrunk: Shrunk, base: Integers, columns: Integers, known: Integers, targets: Integers, deadline: float
) -> tuple[Integers, int]:
    """Outcome of each target where the known columns are constants: whether it can be anything else than it is."""
    part = shrunk.system.part(columns)
    fixed = np.isin(columns, known)
    right = part.right - product(part.matrix, np.where(fixed, base[columns], 0))
    low, high = np.where(fixed, 0, part.low), np.where(fixed, 0, part.high)
    matrix = part.matrix[:, ~fixed]
    left = np.flatnonzero(np.diff(matrix.indptr))
    matrix, right = matrix[left], right[left]
    low, high = tightened(OpenSystem(matrix, right, low[~fixed], high[~fixed], part.whole))
    rest = columns[~fixed]
    place = np.full(shrunk.system.size, -1, dtype=np.int64)
    place[rest] = np.arange(len(rest))
    system = OpenSystem(matrix, right, low, high, part.whole)
    ones = np.ones(len(targets), dtype=np.int64)
    found = prove(system, components_of(matrix), base[rest], (place[targets], ones, 0 * ones), 1, deadline)
    return found.outcome, found.programmes
