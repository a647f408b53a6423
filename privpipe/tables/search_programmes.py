"""Programmes of searches: work is limited in nodes, never in seconds, so that a search ends alike everywhere.

What they find is in floats and may be wrong; it chooses cells and figures, and what was chosen is checked exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats

__all__ = ["LinearAnswer", "WholeAnswer", "linear", "whole"]

Matrix: TypeAlias = "scipy.sparse.csr_array"
OPTIMAL = 0


@dataclass(frozen=True)
class LinearAnswer:
    """An optimal point, multipliers of the equalities, and by how much each inequality is more than met."""

    point: Floats
    multipliers: Floats
    slack: Floats


@dataclass(frozen=True)
class WholeAnswer:
    """A point, the bound on all values, and whether the solver calls the point optimal."""

    point: Floats
    bound: float | None
    optimal: bool


def linear(
    cost: Floats,
    low: Floats,
    high: Floats,
    *,
    equal: Matrix | None = None,
    above: Matrix | None = None,
    least: Floats | None = None,
) -> LinearAnswer | None:
    """Minimise cost x subject to equal x = 0, above x >= least, low <= x <= high; None if the solver did not."""
    solved: Any = scipy.optimize.linprog(
        cost,
        A_ub=cast(Any, None if above is None else -above),
        b_ub=None if least is None else -least,
        A_eq=cast(Any, equal),
        b_eq=None if equal is None else np.zeros(equal.shape[0]),
        bounds=cast(Any, np.column_stack((low, high))),
        method="highs",
    )
    if solved.status != OPTIMAL or solved.x is None or not np.isfinite(solved.x).all():
        return None
    return LinearAnswer(
        np.asarray(solved.x, dtype=np.float64),
        np.asarray(solved.eqlin.marginals, dtype=np.float64),
        np.asarray(solved.slack, dtype=np.float64),
    )


def whole(
    cost: Floats,
    low: Floats,
    high: Floats,
    matrix: Matrix,
    sides: tuple[Floats, Floats],
    *,
    nodes: int,
    gap: float = 0.0,
    whole: NDArray[np.bool_] | None = None,
) -> WholeAnswer | None:
    """Minimise cost x subject to sides[0] <= matrix x <= sides[1], low <= x <= high, x whole (or some of it)."""
    solved: Any = scipy.optimize.milp(
        cost,
        integrality=(np.ones(len(cost), dtype=np.bool_) if whole is None else whole).astype(np.int64),
        bounds=scipy.optimize.Bounds(low, high),
        constraints=scipy.optimize.LinearConstraint(cast(Any, matrix), *sides) if matrix.shape[0] else None,
        options={"node_limit": nodes, "mip_rel_gap": gap},
    )
    if solved.x is None or not np.isfinite(solved.x).all():
        return None
    bound = solved.mip_dual_bound
    known = bound is not None and bool(np.isfinite(bound))
    return WholeAnswer(
        np.asarray(solved.x, dtype=np.float64), float(bound) if known else None, bool(solved.status == OPTIMAL)
    )
