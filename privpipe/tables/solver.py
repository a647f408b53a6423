"""The one door to the floating-point solver. Nothing that comes through it is believed: callers prove it exactly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from privpipe.tables.integer_matrices import Matrix
from privpipe.tables.shrinking import NO_BOUND

__all__ = ["Answer", "Programme", "solve"]


@dataclass(frozen=True)
class Programme:
    """Minimise cost x subject to matrix x = right, low <= x <= high; x whole if `whole`."""

    cost: NDArray[np.float64]
    matrix: Matrix
    right: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    whole: bool = False


@dataclass(frozen=True)
class Answer:
    """What the solver said: a point and multipliers of the relations, each of which may be wrong or missing."""

    point: NDArray[np.float64] | None
    multipliers: NDArray[np.float64] | None = None


def solve(programme: Programme, time_limit: float) -> Answer:
    """What HiGHS finds within a time limit, in seconds."""
    if time_limit <= 0:
        return Answer(None)
    low = np.where(programme.low == -NO_BOUND, -np.inf, programme.low)
    high = np.where(programme.high == NO_BOUND, np.inf, programme.high)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of shows in its answer
        if programme.whole:
            constraint = optimize.LinearConstraint(programme.matrix, programme.right, programme.right)
            branched = optimize.milp(
                programme.cost,
                integrality=np.ones(len(low), dtype=np.int64),
                bounds=optimize.Bounds(low, high),
                constraints=constraint if programme.matrix.shape[0] else None,
                options={"time_limit": time_limit},
            )
            return Answer(_finite(branched.x))
        found = optimize.linprog(
            programme.cost,
            A_eq=cast(Any, programme.matrix if programme.matrix.shape[0] else None),
            b_eq=programme.right if programme.matrix.shape[0] else None,
            bounds=cast(Any, np.column_stack([low, high])),
            method="highs-ds",
            options={"time_limit": time_limit},
        )
    multipliers = found.eqlin.marginals if programme.matrix.shape[0] else np.empty(0)
    return Answer(_finite(found.x), _finite(multipliers))


def _finite(values: object) -> NDArray[np.float64] | None:
    if values is None:
        return None
    found = np.asarray(values, dtype=np.float64)
    return found if np.isfinite(found).all() else None
