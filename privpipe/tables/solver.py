"""Linear and integer programmes in floating point. Nothing that they find is believed: callers prove it exactly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats
from privpipe.tables.audit_problem import Matrix
from privpipe.tables.shrinking import NO_BOUND

__all__ = ["Answer", "LinearAnswer", "Programme", "WholeAnswer", "linear", "solve", "whole"]


@dataclass(frozen=True)
class Programme:
    """Minimise cost x subject to matrix x = right, low <= x <= high; x whole if `whole`.

    `multipliers` asks for those of the relations too; `gap` is by how much whole numbers may miss the optimum, of it.
    """

    cost: NDArray[np.float64]
    matrix: Matrix
    right: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    whole: bool = False
    multipliers: bool = False
    gap: float = 0.0


@dataclass(frozen=True)
class Answer:
    """The answer of the solver: a point and multipliers of the relations, each possibly wrong or missing."""

    point: NDArray[np.float64] | None
    multipliers: NDArray[np.float64] | None = None


def solve(programme: Programme, time_limit: float) -> Answer:
    """What HiGHS finds within a time limit, in seconds; nothing if it fails."""
    if time_limit <= 0:
        return Answer(None)
    low = np.where(programme.low == -NO_BOUND, -np.inf, programme.low)
    high = np.where(programme.high == NO_BOUND, np.inf, programme.high)
    rows, columns = programme.matrix.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its warnings are reflected in its answer
        try:
            if programme.multipliers:
                found = scipy.optimize.linprog(
                    programme.cost,
                    A_eq=cast(Any, programme.matrix if rows else None),
                    b_eq=programme.right if rows else None,
                    bounds=cast(Any, np.column_stack([low, high])),
                    method="highs-ds",
                    options={"time_limit": time_limit},
                )
                multipliers = found.eqlin.marginals if rows else np.empty(0)
                return Answer(_finite(found.x, columns), _finite(multipliers, rows))
            constraint = scipy.optimize.LinearConstraint(programme.matrix, programme.right, programme.right)
            branched = scipy.optimize.milp(
                programme.cost,
                integrality=np.full(columns, int(programme.whole)),
                bounds=scipy.optimize.Bounds(low, high),
                constraints=constraint if rows else None,
                options={"time_limit": time_limit, "presolve": programme.whole, "mip_rel_gap": programme.gap},
            )
            return Answer(_finite(branched.x, columns))
        except (ValueError, RuntimeError, ArithmeticError, AttributeError):
            return Answer(None)


def _finite(values: object, length: int) -> NDArray[np.float64] | None:
    """An array of this many finite numbers, or nothing."""
    if values is None:
        return None
    found = np.asarray(values, dtype=np.float64)
    return found if found.shape == (length,) and np.isfinite(found).all() else None


SparseMatrix: TypeAlias = "scipy.sparse.csr_array"
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
    equal: SparseMatrix | None = None,
    above: SparseMatrix | None = None,
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
    matrix: SparseMatrix,
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
