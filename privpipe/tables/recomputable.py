"""Cells that follow from published ones by sums and differences alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.audit_problem import AuditProblem, Integers
from privpipe.tables.proofs import FAILS, prove
from privpipe.tables.shrinking import OpenSystem, components_of, tightened

__all__ = ["recomputable"]


def recomputable(problem: AuditProblem, variables: Integers, deadline: float) -> tuple[NDArray[np.bool_], int]:
    """Which of some hidden variables are known from the relations alone, and how many programmes that took.

    A variable is known so if every solution of the relations that is 0 for published variables is 0 for it: all moves
    within -1 and 1, from 0, leave it at 0. Multipliers that make its unit vector from relations prove that exactly.
    """
    hidden = np.flatnonzero(~problem.published)
    matrix = problem.relations[:, hidden]
    matrix = matrix[np.flatnonzero(np.diff(matrix.indptr))]
    ones = np.ones(len(hidden), dtype=np.int64)
    right = np.zeros(matrix.shape[0], dtype=np.int64)
    low, high = tightened(OpenSystem(matrix, right, -ones, ones, False), rounds=len(hidden) + 1)
    place = np.full(len(problem.low), -1, dtype=np.int64)
    open_columns = np.flatnonzero(low < high)
    place[hidden[open_columns]] = np.arange(len(open_columns))
    matrix = matrix[:, open_columns]
    matrix = matrix[np.flatnonzero(np.diff(matrix.indptr))]
    system = OpenSystem(
        matrix, np.zeros(matrix.shape[0], dtype=np.int64), -ones[open_columns], ones[open_columns], False
    )
    found = place[variables] < 0
    found[problem.published[variables]] = True
    columns = place[variables]
    waiting = np.flatnonzero(columns >= 0)
    requirements = (
        columns[waiting],
        np.ones(len(waiting), dtype=np.int64),
        np.zeros(len(waiting), dtype=np.int64),
    )
    base = np.zeros(system.size, dtype=np.int64)
    proofs = prove(system, components_of(matrix), base, requirements, 1, deadline)
    found[waiting[proofs.outcome == FAILS]] = True
    return found, proofs.programmes
