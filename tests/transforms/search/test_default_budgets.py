"""Searches of wide tables end by themselves, say how far the best may be, and find the same on any number of cores."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.models import DistinctLDiversity, KAnonymity
from privpipe.progress import watched
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize
from privpipe.transforms.recoding import explorer
from privpipe.transforms.recoding.encoded_table import encode, searched_quality
from privpipe.transforms.recoding.explorer import Explorer, Lattice, Limits
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.generalize_stage import MOST_NODES, SearchBudget
from privpipe.transforms.recoding.labelling import LossSpec
from privpipe.transforms.recoding.node import Ahead, NodeCheck
from privpipe.transforms.recoding.strategies import BoxSearch
from tests.tiers import at_most

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
ROWS = 60
ALLOWED = {"optimal": 700, "genetic": 700, "top_down": 700, "bottom_up": 2500}
"""Checks; a climb from the finest levels of thirty columns needs a thousand."""


@pytest.fixture
def wide(make_problem: Any) -> Any:
    """Thirty quasi-identifiers of three levels: 3^30 vectors."""
    tree = [[f"v{i}", f"p{i // 3}", "*"] for i in range(6)]
    names = [f"c{j}" for j in range(30)]
    # Ten kinds of records, and here and there a cell that is another.
    rows = {
        name: [f"v{(i // 6 * (j % 5 + 1) + ((i * 7 + j * 3) % 13 == 0)) % 6}" for i in range(ROWS)]
        for j, name in enumerate(names)
    }
    rows["ill"] = ["flu", "gout"] * (ROWS // 2)
    return make_problem(rows, dict.fromkeys(names, tree), (KAnonymity(k=3),), limit=0.1)


@pytest.mark.parametrize("search", list(ALLOWED))
def test_thirty_columns_end_without_a_budget_and_say_the_gap(
    plain: Any, wide: Any, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Generalize.build({"search": search, "suppress_at_most": 0.1})
    encoded = encode(plain, wide.table, stage, wide.context)
    allowed = ALLOWED[search]
    monkeypatch.setattr(explorer, "LOOKED_UP", allowed * len(encoded) * len(encoded.packed.codes))
    one, two = (plan(plain, wide.table, stage, wide.context) for _ in range(2))
    assert one == two
    detail = one.detail
    assert (detail["nodes"], detail["optimal"]) == (3**30, False)
    assert detail["nodes_allowed"] == (allowed if search == "optimal" else MOST_NODES)  # a walk ends by itself
    assert detail["nodes_checked"] <= 5000
    assert "reproducible" not in detail
    assert 0 <= detail["lower_bound"] < detail["loss"]
    assert detail["gap"] == pytest.approx(detail["loss"] - detail["lower_bound"])
    # What the policy says goes before.
    told = replace(stage, budget=SearchBudget(nodes=allowed - 1))
    assert plan(plain, wide.table, told, wide.context).detail["nodes_allowed"] == allowed - 1


def test_the_proof_has_its_share_of_the_checks(plain: Any, wide: Any) -> None:
    """Half of them better the vector; with the others the bound rises above what is known without any."""
    stage = Generalize(suppress_at_most=0.1, budget=SearchBudget(nodes=2000))
    encoded = encode(plain, wide.table, stage, wide.context)
    check = NodeCheck(encoded, wide.context, searched_quality(encoded, stage, wide.context))
    looking = Explorer(check, Lattice.of(encoded), floor_share(0.1, ROWS), Limits(2000))
    found = BoxSearch(looking, "transform[0]").run()
    assert found is not None
    assert looking.kept_back == 0
    assert found.notes["boxes_pruned_by_mandatory"] > 0
    assert found.lower_bound > looking.least()


def test_a_budget_follows_from_the_size_of_the_table(plain: Any, wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode(plain, wide.table, Generalize(), wide.context)
    codes = len(encoded) * len(encoded.packed.codes)
    assert Limits.of(SearchBudget(), encoded) == Limits(MOST_NODES)
    monkeypatch.setattr(explorer, "LOOKED_UP", 40 * codes)
    assert Limits.of(SearchBudget(), encoded) == Limits(40)
    assert Limits.of(SearchBudget(), encoded, passes=10) == Limits(4)
    assert Limits.of(SearchBudget(), encoded, passes=1000) == Limits(1)
    assert Limits.of(SearchBudget(nodes=9), encoded) == Limits(9)
    assert Limits.of(SearchBudget(seconds=5), encoded) == Limits(MOST_NODES, 5)


def test_plans_state_a_budget_as_they_always_did() -> None:
    """A frozen plan of a policy without a budget fits it still."""
    assert Generalize().stated_parameters()["budget"] == {"nodes": 100_000, "seconds": None}
    assert Generalize(budget=SearchBudget(nodes=7)).stated_parameters()["budget"] == {"nodes": 7, "seconds": None}


def test_progress_is_reported_against_what_may_be_checked(plain: Any, wide: Any) -> None:
    told: list[str] = []
    stage = Generalize(search="top_down", budget=SearchBudget(nodes=200))
    with watched(told.append, every=0) as step:
        step("search")
        plan(plain, wide.table, stage, wide.context)
    assert "search: 1 of 200 nodes" in told


@pytest.mark.parametrize("search", list(ALLOWED))
@pytest.mark.parametrize("model", [KAnonymity(k=3), DistinctLDiversity(column="ill", l=2)])
def test_cores_change_nothing(plain: Any, wide: Any, search: str, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(wide, guarantees=(model,))
    stage = Generalize.build({"search": search, "suppress_at_most": 0.1, "budget": {"nodes": ALLOWED[search]}})
    monkeypatch.setattr("privpipe.transforms.recoding.node.SMALLEST", 0)
    found = []
    for cores in (1, 2, 4):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        found.append(plan(plain, problem.table, stage, problem.context))
    assert found[0] == found[1] == found[2]
    assert not [each for each in threading.enumerate() if each.name.startswith("privpipe-search")]


@settings(max_examples=at_most(25), suppress_health_check=SLOW)
@given(st.data())
def test_boxes_checked_ahead_find_the_optimum(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    stage = replace(problem.stage, loss=LossSpec())
    encoded = encode(plain, problem.table, stage, problem.context)
    budget = floor_share(problem.limit, len(problem))
    check = NodeCheck(encoded, problem.context, searched_quality(encoded, stage, problem.context))
    asked = Ahead(check, 2)
    found = BoxSearch(Explorer(check, Lattice.of(encoded), budget, Limits(10_000), asked), "transform[0]").run()
    asked.close()
    alone = Explorer(check, Lattice.of(encoded), budget, Limits(10_000))
    losses = [alone.visit(tuple(node)).loss for node in alone.lattice.nodes().tolist()]
    least = min((loss[0] for loss in losses if loss is not None), default=None)
    assert (found is None) == (least is None)
    if found is not None:
        assert found.optimal
        assert found.loss[0] == pytest.approx(least, abs=1e-9)


def test_a_check_that_fails_ahead_fails_where_it_is_asked_for(plain: Any, wide: Any) -> None:
    def broken(levels: tuple[int, ...]) -> Any:
        raise ValueError("no such vector")

    asked = Ahead(broken, 1)  # type: ignore[arg-type]
    asked.ask([(0,), (1,)])
    with pytest.raises(ValueError, match="no such vector"):
        asked.take((0,), [(1,), (2,), (3,)])
    asked.close()
