"""A solver that perturbs, stops or lies costs proofs, never a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from privpipe.errors import DataError
from privpipe.tables.audit import Kind, audit, intervals, verified
from tests.tables.exhaustive_search import small_table
from tests.tiers import deep_beyond

Result = Any
Fault = Callable[[Result, np.random.Generator], Result]
TABLES = [small_table(seed) for seed in range(6)]


def perturbed(by: float) -> Fault:
    def fault(found: Result, draw: np.random.Generator) -> Result:
        if found.x is not None:
            found.x = found.x + by * draw.standard_normal(len(found.x))
        if "eqlin" in found and found.eqlin.marginals is not None:
            found.eqlin.marginals = found.eqlin.marginals + by * draw.standard_normal(len(found.eqlin.marginals))
        return found

    return fault


def with_status(status: int) -> Fault:
    """The same answer under another status: 1 a limit, 2 infeasible, 3 unbounded, 4 trouble."""

    def fault(found: Result, draw: np.random.Generator) -> Result:
        found.status, found.success = status, status == 0
        return found

    return fault


def without_answer(status: int) -> Fault:
    def fault(found: Result, draw: np.random.Generator) -> Result:
        found.x, found.status, found.success, found.fun = None, status, False, None
        if "eqlin" in found:
            found.eqlin.marginals = None
        return found

    return fault


def another_point(found: Result, draw: np.random.Generator) -> Result:
    """Optimal, says the solver, and gives any numbers."""
    if found.x is not None:
        found.x = draw.integers(0, 9, len(found.x)).astype(float)
    if "eqlin" in found and found.eqlin.marginals is not None:
        found.eqlin.marginals = draw.standard_normal(len(found.eqlin.marginals))
    found.status, found.success = 0, True
    return found


def not_numbers(found: Result, draw: np.random.Generator) -> Result:
    if found.x is not None:
        found.x = np.full(len(found.x), np.nan)
    return found


def too_short(found: Result, draw: np.random.Generator) -> Result:
    if found.x is not None:
        found.x = found.x[:-1]
    return found


def raising(found: Result, draw: np.random.Generator) -> Result:
    raise ValueError("the solver broke down")


FAULTS: dict[str, Fault] = {
    "perturbed by 1e-6": perturbed(1e-6),
    "perturbed by 1e-3": perturbed(1e-3),
    "perturbed by 1": perturbed(1.0),
    "status infeasible": with_status(2),
    "status unbounded": with_status(3),
    "status trouble": with_status(4),
    "time out": without_answer(1),
    "infeasible": without_answer(2),
    "unbounded": without_answer(3),
    "another point": another_point,
    "not numbers": not_numbers,
    "too short": too_short,
    "raising": raising,
}


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Every second answer of the solver, or every one, has the fault."""
    fault, every = FAULTS[request.param[0]], request.param[1]
    draw = np.random.default_rng(7)
    asked = [0]
    for name in ("linprog", "milp"):
        proper = getattr(optimize, name)

        def answer(*given: Any, proper: Any = proper, **settings: Any) -> Any:
            asked[0] += 1
            found = proper(*given, **settings)
            return fault(found, draw) if asked[0] % every == 0 else found

        monkeypatch.setattr(optimize, name, answer)


CASES = deep_beyond(len(FAULTS), [(name, every) for every in (1, 2) for name in FAULTS])


@pytest.mark.parametrize("faulty", CASES, indirect=True, ids=lambda case: f"{case[0]}, {case[1]}")
def test_no_fault_of_the_solver_makes_a_wrong_proof(clean: list[Any], faulty: None) -> None:
    wrong: list[Any] = []
    for at, (table, (kinds, found)) in enumerate(zip(TABLES, clean, strict=True)):
        result = audit(table.problem, time_limit=3)
        if not verified(table.problem, result):
            wrong.append((at, "not verified"))
        for got, kind in zip(result.kinds, kinds, strict=True):
            # A cell that follows by sums may be called exact where the proof of that is missing.
            fine = got in (kind, Kind.UNPROVED) or (kind == Kind.RECOMPUTABLE and got == Kind.EXACT)
            if not fine and not (got == Kind.LEVEL and kind in (Kind.EXACT, Kind.RECOMPUTABLE)):
                wrong.append((at, Kind(got), kind))
        if result.passed and any(kind != Kind.HOLDS for kind in kinds):
            wrong.append((at, "passed"))
        try:
            ends = intervals(table.problem, time_limit=3)
        except DataError:
            continue
        for mine, proper in ((ends.low, found.low), (ends.high, found.high), (ends.whole_low, found.whole_low)):
            if mine.tolist() != proper.tolist():
                wrong.append((at, "interval"))
    assert wrong == []


@pytest.fixture(scope="module")
def clean() -> list[Any]:
    return [(audit(table.problem).kinds.tolist(), intervals(table.problem)) for table in TABLES]


@pytest.mark.parametrize("faulty", [("time out", 1), ("another point", 1)], indirect=True, ids=lambda case: case[0])
def test_a_strangers_table_without_a_point_is_an_error(faulty: None) -> None:
    table = next(t for t in TABLES if len(intervals_open(t)))
    with pytest.raises(DataError, match="no table was found"):
        audit(replace(table.problem, true=None, levels=None))


def intervals_open(table: Any) -> Any:
    from privpipe.tables.shrinking import shrink

    return shrink(table.problem).variables


def test_no_time_proves_nothing() -> None:
    table = next(t for t in TABLES if len(intervals_open(t)))
    result = audit(table.problem, time_limit=0)
    assert not result.passed
