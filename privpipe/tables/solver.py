"""The one door to the floating-point solver. Nothing that comes through it is believed: callers prove it exactly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.tables.audit_problem import Matrix
from privpipe.tables.shrinking import NO_BOUND

__all__ = ["Answer", "Programme", "solve"]


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
    """What the solver returned: a point and multipliers of the relations, each of which may be wrong or missing."""

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
        warnings.simplefilter("ignore")  # what it warns of shows in its answer
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
    """An array of so many finite numbers, or nothing."""
    if values is None:
        return None
    found = np.asarray(values, dtype=np.float64)
    return found if found.shape == (length,) and np.isfinite(found).all() else None
