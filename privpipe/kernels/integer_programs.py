"""Integer programs: solved by HiGHS in scipy, without its output, with a status that shows what was proved.

A program is given by its matrices, or modelled in pulp; pulp's bundled solvers differ from version to version.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Bools, Floats
from privpipe.errors import EngineError

__all__ = ["NAME", "PACKAGE", "Limits", "Solved", "broken", "minimum", "quiet", "solve"]


_alone = threading.Lock()
_SOLVER = b"Highs"
"""Start of the lines that HiGHS prints and no option silences."""


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what the solver prints in this context, and send other output to standard error; one thread at a time.

    Only Linux distinguishes the two. Where there are no file descriptors, nothing is done.

    Examples
    --------
    >>> with quiet():
    ...     done = True
    """
    with _alone:
        try:
            kept = os.dup(1)
        except OSError:
            yield
            return
        held = os.memfd_create("solver") if sys.platform == "linux" else None
        try:
            _flush()
            os.dup2(2 if held is None else held, 1)
            yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)
            if held is not None:
                with os.fdopen(held, "rb") as printed:
                    printed.seek(0)
                    _pass_on(printed.read())


def _pass_on(printed: bytes) -> None:
    """Write to standard error, where there is one, the output that is not the solver's."""
    others = b"".join(line for line in printed.splitlines(keepends=True) if not line.startswith(_SOLVER))
    if others:
        try:
            os.write(2, others)
        except OSError:
            return


def _flush() -> None:
    """Flush the C library's buffer of standard output."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


NAME, PACKAGE = "highs", "scipy"
"""The solver, and the distribution that contains it."""
_OPTIMAL, _INFEASIBLE = 0, 2
_INTEGER = "Integer"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When the search ends, and how exact it is.

    Parameters
    ----------
    seconds : float, default inf
        Time limit, as a last resort: a result that it cuts short differs from machine to machine.
    nodes : int, optional
        Nodes of the search.
    gap : float, default 0
        Relative distance to the bound at which the search may stop.
    tolerance : float, optional
        By how much rows and whole numbers may be violated. Default: that of the solver, 1e-6.
    """

    seconds: float = math.inf
    nodes: int | None = None
    gap: float = 0.0
    tolerance: float | None = None

    def options(self) -> Any:
        """The options of `milp`, including those that it passes on and its stubs do not contain."""
        given = {
            "mip_rel_gap": self.gap,
            "node_limit": self.nodes,
            "time_limit": self.seconds if math.isfinite(self.seconds) else None,
            "mip_feasibility_tolerance": self.tolerance,
            "primal_feasibility_tolerance": self.tolerance,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Solved:
    """How a program ended.

    Parameters
    ----------
    values : ndarray of float64, optional
        The best feasible solution that was found, or None.
    proved : bool
        Whether it is proved to be the best within the required gap; without `values`: that there is no solution.
    bound : float
        Proved lower bound of the cost of any solution.
    by_clock : bool
        Whether the time limit ended it, so that it cannot be repeated exactly.
    """

    values: Floats | None
    proved: bool
    bound: float
    by_clock: bool

    @property
    def found(self) -> bool:
        """Whether there is a feasible solution."""
        return self.values is not None


def minimum(
    costs: Floats,
    rows: Any,
    between: tuple[Floats | float, Floats | float],
    bounds: tuple[Floats | float, Floats | float],
    integral: Bools,
    limits: Limits,
) -> Solved:
    """The least `costs @ x` such that `rows @ x` and `x` are within their bounds and `x[integral]` is whole.

    Parameters
    ----------
    costs : ndarray of float64, shape (n,)
    rows : sparse matrix or ndarray, shape (m, n)
    between, bounds : tuple
        Lowest and highest values of the rows, and of `x`.
    integral : ndarray of bool, shape (n,)
    limits : Limits

    Raises
    ------
    EngineError
        The solver cannot be loaded or fails.

    Examples
    --------
    >>> rows, whole = np.array([[2.0, 2.0]]), np.array([True, True])
    >>> found = minimum(np.array([1.0, 1.0]), rows, (3.0, np.inf), (0.0, 5.0), whole, Limits())
    >>> float(found.values.sum()), found.proved, found.bound
    (2.0, True, 2.0)
    """
    if not len(costs):
        settled = bool((np.asarray(between[0]) <= 0).all() and (np.asarray(between[1]) >= 0).all())
        return Solved(costs if settled else None, True, 0.0 if settled else math.inf, False)
    start = time.monotonic()
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp

        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # it warns that it passes the tolerances on
            ended = milp(
                costs,
                constraints=LinearConstraint(rows, *between),
                bounds=Bounds(*bounds),
                integrality=integral.astype(np.int64),
                options=limits.options(),
            )
    except Exception as error:  # noqa: BLE001 any failure of a foreign library becomes an EngineError
        raise broken(PACKAGE, error) from None
    values = None if ended.x is None else np.asarray(ended.x, dtype=np.float64)
    proved = ended.status == (_INFEASIBLE if values is None else _OPTIMAL)
    lower = [each for each in (ended.fun if proved else None, ended.mip_dual_bound) if each is not None]
    bound = min(map(float, lower), default=math.inf if proved else -math.inf)
    return Solved(values, proved, bound, not proved and time.monotonic() - start >= 0.95 * limits.seconds)


def solve(problem: Any, limits: Limits) -> Solved:
    """Solve a pulp problem of minimisation; its variables then hold the solution, or None where none was found.

    Variables are taken in the order of their names, which is the same for every version of pulp.

    Examples
    --------
    >>> import pulp
    >>> problem = pulp.LpProblem("fewest", pulp.LpMinimize)
    >>> x = getattr(problem, "add_variable", pulp.LpVariable)("x", 0, 9, cat="Integer")
    >>> problem += x + 1
    >>> problem += 2 * x >= 3
    >>> solve(problem, Limits()).bound, x.value()
    (3.0, 2.0)
    """
    variables = sorted(problem.variables(), key=lambda each: str(each.name))
    place = {each.name: at for at, each in enumerate(variables)}
    costs = np.zeros(len(variables))
    for each, price in problem.objective.items():
        costs[place[each.name]] = price
    constant = float(problem.objective.constant)
    found = minimum(
        costs,
        *_rows(problem, place),
        (
            np.array([_or(each.lowBound, -math.inf) for each in variables]),
            np.array([_or(each.upBound, math.inf) for each in variables]),
        ),
        np.array([each.cat == _INTEGER for each in variables]),
        limits,
    )
    values = [None] * len(variables) if found.values is None else found.values.tolist()
    for each, value in zip(variables, values, strict=True):
        each.varValue = value
    return Solved(found.values, found.proved, found.bound + constant, found.by_clock)


def broken(package: str, error: BaseException) -> EngineError:
    """The error for a package that integer programs need and that does not load or fails."""
    try:
        distribution = f"{package} {version(package)}"
    except ModuleNotFoundError:
        return EngineError(f"integer programs need {package}, which is not installed; pip install {package}")
    return EngineError(
        f"{distribution}, which integer programs need, broke down ({type(error).__name__}); `privpipe doctor` shows "
        "what to install"
    )


def _rows(problem: Any, place: dict[str, int]) -> tuple[Any, tuple[Floats, Floats]]:
    """The constraints as a sparse matrix, and the bounds of its rows."""
    from scipy.sparse import csr_array

    held = problem.constraints
    held = held() if callable(held) else held  # a mapping by name, a method or both, as versions of pulp have it
    constraints = list(held.values() if hasattr(held, "values") else held)
    starts, columns, factors = [0], list[int](), list[float]()
    low, high = np.full(len(constraints), -math.inf), np.full(len(constraints), math.inf)
    for row, each in enumerate(constraints):
        for variable, factor in each.items():
            columns.append(place[variable.name])
            factors.append(float(factor))
        starts.append(len(columns))
        if each.sense >= 0:
            low[row] = -float(each.constant)
        if each.sense <= 0:
            high[row] = -float(each.constant)
    return csr_array((factors, columns, starts), shape=(len(constraints), len(place))), (low, high)


def _or(bound: float | None, unbounded: float) -> float:
    return unbounded if bound is None else float(bound)
