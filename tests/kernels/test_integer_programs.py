"""Integer programs end at the optimum of plain enumeration, or say what was not proved."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import numpy as np
import pulp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import EngineError
from privpipe.kernels.integer_programs import Limits, broken, minimum, quiet, solve

MOST = 3
SENSES = ("<=", ">=", "==")
ROWS = st.tuples(st.lists(st.integers(-3, 3), min_size=3, max_size=3), st.sampled_from(SENSES), st.integers(-4, 8))


def holds(left: float, sense: str, right: float) -> bool:
    return {"<=": left <= right, ">=": left >= right, "==": left == right}[sense]


def modelled(costs: list[int], rows: list[tuple[list[int], str, int]], constant: int = 0) -> tuple[Any, list[Any]]:
    """A pulp problem; the names of its variables are in another order than the variables."""
    problem = pulp.LpProblem("example", pulp.LpMinimize)
    make = getattr(problem, "add_variable", pulp.LpVariable)
    variables = [make(name, 0, MOST, cat="Integer") for name in ("z", "m", "a")]
    problem += pulp.lpSum(cost * each for cost, each in zip(costs, variables, strict=True)) + constant
    for factors, sense, right in rows:
        left = pulp.lpSum(factor * each for factor, each in zip(factors, variables, strict=True))
        problem += left <= right if sense == "<=" else left >= right if sense == ">=" else left == right
    return problem, variables


def hard(seed: int, many: int = 40) -> tuple[Any, ...]:
    """A knapsack of several rows, which no relaxation settles."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(10, 99, (5, many)).astype(float)
    return -rng.integers(10, 99, many).astype(float), weights, (-np.inf, weights.sum(axis=1) / 2), (0.0, 1.0)


@given(st.lists(st.integers(-5, 5), min_size=3, max_size=3), st.lists(ROWS, max_size=4), st.integers(-2, 2))
def test_the_optimum_is_that_of_enumeration(
    costs: list[int], rows: list[tuple[list[int], str, int]], constant: int
) -> None:
    problem, variables = modelled(costs, rows, constant)
    feasible = [
        float(np.dot(costs, point) + constant)
        for point in itertools.product(range(MOST + 1), repeat=3)
        if all(holds(float(np.dot(factors, point)), sense, right) for factors, sense, right in rows)
    ]
    found = solve(problem, Limits(seconds=60))
    assert found.proved
    assert found.found == bool(feasible)
    values = [each.value() for each in variables]
    if not feasible:
        assert values == [None] * 3
        assert found.bound == math.inf
        return
    values = [value or 0.0 for value in values]  # some versions of pulp leave out what no row and no cost has
    assert found.bound == pytest.approx(min(feasible))
    assert np.dot(costs, values) + constant == pytest.approx(min(feasible))
    assert all(holds(round(float(np.dot(factors, values)), 6), sense, right) for factors, sense, right in rows)


def test_a_limit_of_nodes_is_no_proof_and_its_bound_holds() -> None:
    program, whole = hard(3, 100), np.ones(100, bool)
    best = minimum(*program, whole, Limits())
    assert best.proved
    cut = minimum(*program, whole, Limits(nodes=1))
    assert not cut.proved
    assert not cut.by_clock
    assert cut.values is not None
    assert cut.bound <= best.bound <= float(program[0] @ np.round(cut.values))


def test_the_clock_is_no_proof() -> None:
    ended = minimum(*hard(2, 400), np.ones(400, bool), Limits(seconds=0.01))
    assert (ended.proved, ended.by_clock) == (False, True)


def test_an_optimum_is_proved_without_a_gap() -> None:
    program, whole = hard(6, 60), np.ones(60, bool)
    exact, loose = (minimum(*program, whole, limits) for limits in (Limits(), Limits(gap=0.01)))
    assert exact.values is not None
    assert loose.values is not None
    assert float(program[0] @ exact.values) == pytest.approx(exact.bound, abs=1e-5)
    assert loose.bound <= exact.bound < float(program[0] @ loose.values) - 0.5


def test_rows_are_kept_to_the_tolerance_that_is_asked_for() -> None:
    """One margin of 1e-7 that must be met: with the solver's own tolerance it need not be."""
    program = (np.array([1.0]), np.array([[1.0]]), (1e-7, np.inf), (0.0, 1.0), np.array([True]))
    found = minimum(*program, Limits(tolerance=1e-9))
    assert found.values is not None
    assert found.values.tolist() == [1.0]


def test_nothing_is_written_while_it_solves(capfd: pytest.CaptureFixture[str]) -> None:
    assert minimum(*hard(1), np.ones(40, bool), Limits(tolerance=1e-9)).proved
    assert tuple(capfd.readouterr()) == ("", "")


def test_lines_of_the_solver_are_dropped_and_those_of_others_kept(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet():
        os.write(1, b"HighsMipSolverData::something\nof another thread\n")
    os.write(1, b"after\n")
    assert tuple(capfd.readouterr()) == ("after\n", "of another thread\n")


def test_what_is_missing_or_broken_is_named() -> None:
    assert "numpy " in str(broken("numpy", ImportError("x")))
    assert str(broken("privpipe-nowhere", ImportError("x"))).startswith("integer programs need privpipe-nowhere, which")
    with pytest.raises(EngineError, match="broke down"):
        minimum(np.array([math.nan]), np.array([[1.0, 1.0]]), (0.0, 1.0), (0.0, 1.0), np.array([True]), Limits())
