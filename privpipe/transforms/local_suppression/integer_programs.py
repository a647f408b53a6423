"""The pulp problems of cell suppression, and the limits within which they are solved."""

from __future__ import annotations

from typing import Any

from privpipe.kernels.integer_programs import Limits, Solved, broken
from privpipe.kernels.integer_programs import solve as solve_problem

__all__ = ["new_program", "new_variable", "solve"]

MOST_NODES = 1_000


def new_program() -> Any:
    """A pulp problem whose objective is to be made small."""
    try:
        import pulp
    except ImportError as error:
        raise broken("pulp", error) from None
    return pulp.LpProblem("cells", pulp.LpMinimize)


def new_variable(program: Any, name: str, most: float, *, integer: bool = True) -> Any:
    """A variable of a program, from 0 to `most`; made as this version of pulp wants it."""
    import pulp

    make = getattr(program, "add_variable", pulp.LpVariable)
    return make(name, 0, most, cat="Integer" if integer else "Continuous")


def solve(program: Any, seconds: float) -> Solved:
    """Solve a pulp problem, by number of nodes first, by the clock as a last resort."""
    return solve_problem(program, Limits(seconds=seconds, nodes=MOST_NODES))
