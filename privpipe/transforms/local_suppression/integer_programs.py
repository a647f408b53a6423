"""Integer programs: solved within limits, with a status that says what was proved."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

from privpipe.blocks.integer_solver import solver_name
from privpipe.private_files import scratch_folder

__all__ = ["Solved", "new_program", "new_variable", "solve"]

MOST_NODES = 1_000


@dataclass(frozen=True)
class Solved:
    """How a program ended.

    Parameters
    ----------
    found : bool
        Whether the variables hold a feasible solution.
    proved : bool
        Whether it is proved to be the best; with `found` False: that there is none.
    by_clock : bool
        Whether the clock ended it, so that it cannot be repeated exactly.
    """

    found: bool
    proved: bool
    by_clock: bool


def new_program() -> Any:
    """A pulp problem whose objective is to be made small."""
    import pulp

    return pulp.LpProblem("cells", pulp.LpMinimize)


def new_variable(program: Any, name: str, most: float, *, integer: bool = True) -> Any:
    """A variable of a program, from 0 to `most`; made as this version of pulp wants it."""
    import pulp

    make = getattr(program, "add_variable", pulp.LpVariable)
    return make(name, 0, most, cat="Integer" if integer else "Continuous")


def solve(program: Any, seconds: float) -> Solved:
    """Solve a pulp problem on one thread, by number of nodes first, by the clock as a last resort.

    At a limit pulp calls the status "Optimal" with a mere incumbent: `sol_status` distinguishes the two.
    """
    import pulp

    if solver_name() == "highs":
        solver = pulp.HiGHS(msg=False, threads=1, timeLimit=seconds, mip_max_nodes=MOST_NODES)
    else:
        with warnings.catch_warnings():  # the bundled solver leaves pulp with its version 4
            warnings.simplefilter("ignore", DeprecationWarning)
            cbc = getattr(pulp, "PULP_CBC_CMD", pulp.COIN_CMD)
            solver = cbc(msg=False, threads=1, timeLimit=seconds, maxNodes=MOST_NODES)
    start = time.monotonic()
    with scratch_folder("program") as folder:
        solver.tmpDir = str(folder)  # a program that another program solves is handed over in files
        program.solve(solver)
    # Both halves are asked: a status without a solution status is that of a relaxation.
    proved = program.status == pulp.LpStatusOptimal and program.sol_status == pulp.LpSolutionOptimal
    feasible = program.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    found = feasible and all(variable.value() is not None for variable in program.variables())
    infeasible = program.sol_status == pulp.LpSolutionInfeasible
    return Solved(found, proved or infeasible, not proved and time.monotonic() - start >= 0.95 * seconds)
