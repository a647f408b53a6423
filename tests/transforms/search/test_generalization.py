"""The planner of `generalize`: what a plan says, levels that are given, and what cannot be had."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Source
from privpipe.errors import NoSolutionError, UnsupportedError, UsageError
from privpipe.models import AverageRisk, DistinctLDiversity, KAnonymity, SampleUniqueness
from privpipe.transforms import Generalize
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.generalize_stage import SearchBudget
from privpipe.transforms.recoding.labelling import LossSpec

TREE = [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"]]
ROWS = {
    "a": ["v0"] * 4 + ["v1"] * 4 + ["v2"] * 3 + ["v3"],
    "b": ["v0", "v0", "v1", "v1"] * 3,
    "ill": ["flu", "gout", "ulcer"] * 4,
}


@pytest.fixture
def problem(make_problem: Any) -> Any:
    return make_problem(ROWS, {"a": TREE, "b": TREE}, (KAnonymity(k=2),), limit=0.1)


def given(embedded: Any, problem: Any, stage: Generalize) -> dict[str, Any]:
    """The plan of given levels: they are run, which takes a whole engine."""
    table = embedded.scan(Source(data=problem.table))
    return dict(plan(embedded, table, stage, problem.context).detail)


def planned(plain: Any, problem: Any, stage: Generalize | None = None) -> dict[str, Any]:
    return dict(plan(plain, problem.table, stage or problem.stage, problem.context).detail)


def test_a_plan_says_what_was_found_and_how(plain: Any, problem: Any) -> None:
    made = plan(plain, problem.table, problem.stage, problem.context)
    detail = made.detail
    node, loss, _ = problem.optimum()
    assert detail["levels"] == dict(zip("ab", node, strict=True))
    assert detail["loss"] == pytest.approx(loss[0])
    assert detail["recoded"] == [name for name, level in detail["levels"].items() if level]
    assert detail["level_names"] == {name: f"level {level}" for name, level in detail["levels"].items()}
    assert (detail["records"], detail["nodes"], detail["budget"], detail["optimal"]) == (12, 9, 1, True)
    done = (
        detail["nodes_checked"]
        + detail["pruned_by_bound"]
        + detail["pruned_by_mandatory"]
        + detail["pruned_by_witness"]
    )
    assert done == detail["nodes"]
    assert made.parameters["loss"]["aggregate"] == "geometric_mean"
    text = json.dumps(made.detail)
    assert not any(value in text for value in ("v0", "v3", "flu", "g1"))


def test_given_levels_are_taken(embedded: Any, problem: Any) -> None:
    detail = given(embedded, problem, Generalize(levels={"a": 1, "b": 0}))
    assert detail["levels"] == {"a": 1, "b": 0}
    assert "optimal" not in detail
    # Nothing is suppressed, so nothing is charged for it, though k = 2 fails at these levels.
    assert detail["loss"] == pytest.approx(problem.exact_loss((1, 0), set())[0])
    within = given(embedded, problem, Generalize(levels={"a": 2, "b": 0}, suppress_at_most=0.5))
    assert within["loss"] == pytest.approx(problem.exact_loss((2, 0), problem.suppressed((2, 0)))[0])
    only = given(embedded, problem, Generalize(levels={"a": 1}))
    assert only["levels"] == {"a": 1}
    assert given(embedded, problem, Generalize(levels={}))["levels"] == {"a": 0, "b": 0}


def test_given_levels_that_do_not_do(embedded: Any, problem: Any) -> None:
    with pytest.raises(UsageError, match="level 3 of 'a' is above its hierarchy, whose last level is 2"):
        given(embedded, problem, Generalize(levels={"a": 3}))
    stage = Generalize(levels={"a": 0, "b": 0}, suppress_at_most=0.0)
    with pytest.raises(NoSolutionError, match=r"need 2 of 12 records suppressed, the limit allows 0; .*>= 0.166667"):
        given(embedded, problem, stage)
    hopeless = replace(problem, guarantees=(KAnonymity(k=11),))
    with pytest.raises(NoSolutionError, match="every record would have to be suppressed"):
        given(embedded, hopeless, Generalize(levels={"a": 0}, suppress_at_most=1.0))


def test_levels_need_no_guarantee_and_a_search_does(plain: Any, embedded: Any, problem: Any) -> None:
    free = replace(problem, guarantees=())
    assert given(embedded, free, Generalize(levels={"a": 1, "b": 1}))["records"] == 12
    with pytest.raises(UsageError, match="needs a guarantee"):
        planned(plain, free)


@pytest.mark.parametrize(
    ("guarantee", "message"),
    [
        (KAnonymity(k=13), "cannot be met by this table: it has 12 records"),
        (AverageRisk(at_most=0.05), "cannot be met by this table"),
        (DistinctLDiversity(column="ill", l=4), "cannot be met by this table"),
    ],
)
def test_more_than_the_table_can_give(plain: Any, problem: Any, guarantee: Any, message: str) -> None:
    with pytest.raises(NoSolutionError, match=message):
        planned(plain, replace(problem, guarantees=(guarantee,), limit=1.0))


def test_guarantees_over_several_sets_and_over_roles(plain: Any, problem: Any) -> None:
    """km_anonymity judges every pair of columns; p_sensitive_k_anonymity takes the sensitive ones of the roles."""
    from privpipe.models import KmAnonymity, PSensitiveKAnonymity

    alone = {
        name: planned(plain, replace(problem, guarantees=(KAnonymity(k=4, quasi_identifiers=(name,)),)))
        for name in "ab"
    }
    both = planned(plain, replace(problem, guarantees=(KmAnonymity(k=4, m=1),)))
    assert both["levels"] == {name: found["levels"][name] for name, found in alone.items()}
    sensitive = planned(plain, replace(problem, guarantees=(PSensitiveKAnonymity(k=3, p=3),), limit=0.5))
    equal = (KAnonymity(k=3), DistinctLDiversity(column="ill", l=3))
    assert sensitive["levels"] == planned(plain, replace(problem, guarantees=equal, limit=0.5))["levels"]


def test_a_population_is_not_counted_here(plain: Any, embedded: Any, problem: Any) -> None:
    from privpipe.models import KMap

    compared = replace(problem, guarantees=(KMap(k=2),))
    with pytest.raises(UnsupportedError, match="k_map compares with a population"):
        planned(plain, compared)
    assert given(embedded, compared, Generalize(levels={"a": 1, "b": 1}))["levels"] == {"a": 1, "b": 1}


def test_what_would_do_is_said(plain: Any, make_problem: Any) -> None:
    flat = [["v0", "v0"], ["v1", "v1"]]  # no root: the lone record never finds company
    rows = {"a": ["v0"] * 6 + ["v1"], "ill": ["u"] * 7}
    problem = make_problem(rows, {"a": [[*row, "*"] for row in flat]}, (KAnonymity(k=2),), limits={"a": (0, 1)})
    with pytest.raises(NoSolutionError, match=r"1 must go: suppress_at_most >= 0.142858 would do"):
        planned(plain, problem)
    assert planned(plain, replace(problem, limit=0.142858))["levels"] == {"a": 0}


def test_a_budget_of_nodes(plain: Any, problem: Any) -> None:
    strict = replace(problem, guarantees=(KAnonymity(k=6),), limit=0.0)
    with pytest.raises(NoSolutionError, match="not found within 1 of 9 vectors .*; raise budget.nodes"):
        planned(plain, strict, Generalize(budget=SearchBudget(nodes=1)))
    found = planned(plain, problem, Generalize(suppress_at_most=1.0, budget=SearchBudget(nodes=1)))
    assert not found["optimal"]
    assert found["gap"] > 0
    assert found["nodes_checked"] == 1


def test_columns_that_cannot_be_generalized(plain: Any, problem: Any) -> None:
    with pytest.raises(UsageError, match="'ill' is not a quasi-identifier with a hierarchy"):
        planned(plain, problem, Generalize(columns=["ill"]))
    with pytest.raises(UsageError, match="'c' is not a quasi-identifier"):
        planned(plain, problem, Generalize(loss=LossSpec(weights={"c": 2.0})))
    without = replace(problem.context, hierarchies={})
    with pytest.raises(UsageError, match="nothing to generalize"):
        plan(plain, problem.table, problem.stage, without)


def test_named_columns_alone_are_generalized(plain: Any, problem: Any) -> None:
    found = planned(plain, problem, Generalize(columns=["b"], suppress_at_most=1.0))
    assert list(found["levels"]) == ["b"]


def test_a_table_without_information_is_counted(plain: Any, make_problem: Any) -> None:
    rows = {"a": ["v0", "v1", "v2", "v3"], "ill": ["u"] * 4}
    found = planned(plain, make_problem(rows, {"a": TREE}, (KAnonymity(k=4),)))
    assert found["levels"] == {"a": 2}
    assert found["records_without_information"] == 4


def test_one_record_and_a_constant_column(plain: Any, make_problem: Any) -> None:
    one = make_problem({"a": ["v0"], "ill": ["u"]}, {"a": TREE}, (KAnonymity(k=1),))
    assert planned(plain, one)["levels"] == {"a": 0}
    same = make_problem({"a": ["v0"] * 5, "ill": ["u"] * 5}, {"a": TREE}, (KAnonymity(k=5),))
    assert planned(plain, same)["levels"] == {"a": 0}
    unique = make_problem({"a": ["v0", "v1"], "ill": ["u"] * 2}, {"a": TREE}, (SampleUniqueness(at_most=0.0),))
    assert planned(plain, unique)["levels"] == {"a": 1}


def test_classes_over_no_key_are_the_whole_table(plain: Any, problem: Any) -> None:
    whole = replace(problem, guarantees=(KAnonymity(k=12, quasi_identifiers=()),))
    assert planned(plain, whole)["levels"] == {"a": 0, "b": 0}


def test_a_lattice_above_a_word_of_keys(plain: Any, make_problem: Any) -> None:
    """Eleven columns of 100 values: their product exceeds 64 bits."""
    values = [[f"v{at}", "*"] for at in range(100)]
    names = [f"c{at}" for at in range(11)]
    rows: dict[str, list[str | None]] = {
        name: [f"v{(at * 7 + place) % 100}" for at in range(50)] for place, name in enumerate(names)
    }
    problem = make_problem({**rows, "ill": ["u"] * 50}, dict.fromkeys(names, values), (KAnonymity(k=1),))
    assert planned(plain, problem)["classes"] == 50
    assert isinstance(problem.table, pa.Table)
