"""Tableaus of integers find the same as the solver does, and are not believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.tables import proofs, tableau_proofs
from privpipe.tables.exact_audit import audit, verified
from tests.tables.exhaustive_search import small_table

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
    monkeypatch.setattr(tableau_proofs, "REGIONS", (12, 24))
    for table, kinds in zip(TABLES, by_solver, strict=True):
        result = audit(table.problem)
        assert result.kinds.tolist() == kinds
        assert verified(table.problem, result)


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
