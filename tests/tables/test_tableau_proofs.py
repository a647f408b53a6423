"""Tableaus of integers find the same as the solver does, and are not believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.tables import proofs, tableau_proofs
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Levels
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.exact_audit import audit, verified
from tests.tables.exhaustive_search import small_table
from tests.tiers import deep_beyond

TABLES = [small_table(seed) for seed in range(30)]


@pytest.fixture(scope="module")
def by_solver() -> list[list[int]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "FEWEST", 10**9)
        return [audit(table.problem).kinds.tolist() for table in TABLES]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "FEWEST", 0)


def test_the_same_kinds_as_by_the_solver(always: None, by_solver: list[list[int]]) -> None:
    settled = 0
    for table, kinds in zip(TABLES, by_solver, strict=True):
        result = audit(table.problem)
        assert result.kinds.tolist() == kinds
        assert verified(table.problem, result)
        settled += result.by_tableaus
    assert settled > 0


def test_the_same_kinds_by_surroundings_alone(
    always: None, by_solver: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tableau_proofs, "LARGEST_COMPONENT", 0)
    monkeypatch.setattr(tableau_proofs, "LARGEST_AFTER_REGIONS", 0)
    monkeypatch.setattr(tableau_proofs, "REGIONS", (12, 24))
    for table, kinds in zip(TABLES, by_solver, strict=True):
        result = audit(table.problem)
        assert result.kinds.tolist() == kinds
        assert verified(table.problem, result)


def scattered(seed: int, size: int = 8) -> AuditProblem:
    """Counts of three dimensions, 45 % of the inner cells hidden: most linear solutions have fractions."""
    draw = np.random.default_rng(seed)
    cells = Cells.complete([Dimension.tree(name, {f"{name}{at}": "Total" for at in range(size)}) for name in "abc"])
    figures = np.zeros((size + 1,) * 3, dtype=np.int64)
    figures[1:, 1:, 1:] = draw.poisson(2, (size,) * 3)
    for axis in range(3):
        along = np.moveaxis(figures, axis, 0)
        along[0] = along[1:].sum(axis=0)
    counts = figures[tuple(cells.codes.T)]
    hidden = (cells.codes > 0).all(axis=1) & (draw.random(len(counts)) < 0.45)
    sensitive = np.flatnonzero(hidden & (counts > 0) & (counts < 5))
    n = counts[sensitive]
    low, high = np.where(hidden, 0, counts), np.where(hidden, UNBOUNDED, counts)
    return AuditProblem(cells.relations, low, high, True, counts, Levels(sensitive, n, 4 - n, np.zeros_like(n)))


@pytest.mark.parametrize("seed", deep_beyond(1, [0, 1]))
def test_whole_numbers_are_found_near_solutions_with_fractions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = scattered(seed)
    result = audit(problem)
    assert result.by_tableaus == result.requirements > 300
    assert verified(problem, result)
    monkeypatch.setattr(proofs, "FEWEST", 10**9)
    assert audit(problem).kinds.tolist() == result.kinds.tolist()


@pytest.mark.parametrize("wrong", [2, 6], ids=["moves", "multipliers"])
def test_tableaus_that_lie_prove_nothing(
    always: None, by_solver: list[list[int]], monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    proper, draw = tableau_proofs.moves_of_groups, np.random.default_rng(1)

    def lying(*given: Any) -> tuple[Any, ...]:
        found = list(proper(*given))
        found[wrong] = found[wrong] + draw.integers(-3, 4, len(found[wrong]))
        return tuple(found)

    monkeypatch.setattr(tableau_proofs, "moves_of_groups", lying)
    for table, kinds in zip(TABLES[:12], by_solver, strict=False):
        result = audit(table.problem)
        assert result.kinds.tolist() == kinds
        assert verified(table.problem, result)
