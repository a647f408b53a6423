"""Under every quality model a search finds what trying all vectors finds, and no bound it goes by is too high."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks.quality_spec import DEFAULT_AGGREGATES, QualityName
from privpipe.errors import UnsupportedError, UsageError
from privpipe.models import KAnonymity
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize
from privpipe.transforms.recoding.encoded_table import encode, searched_quality
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.generalize_stage import MOST_NODES
from privpipe.transforms.recoding.labelling import LossSpec
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck
from privpipe.transforms.recoding.optimal_search import search_optimal
from tests.tiers import at_most

NAMES = [name for name in get_args(QualityName) if name != "loss"]


def spec_of(draw: random.Random, name: str, problem: Any) -> LossSpec:
    given: dict[str, Any] = {"name": name}
    if name in DEFAULT_AGGREGATES:
        given["aggregate"] = draw.choice([None, None, "geometric_mean", "max", "rank"])
    if name in ("precision", "entropy", "normalized_entropy", "aecs", "entropy_based", "publisher_payout"):
        given["gs_factor"] = draw.choice([0.2, 0.5, 0.8, 1.0])
    if name == "static":
        heights = {column: len(rows[0]) for column, rows in problem.hierarchies.items()}
        given["penalties"] = {column: [draw.random() for _ in range(levels)] for column, levels in heights.items()}
    if name == "classification":
        given["response"] = "ill"
    return LossSpec(**given)


def no_worse(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Entry by entry up to rounding, as vectors are compared."""
    for a, b in zip(one, other, strict=True):
        if abs(a - b) > 1e-9 * max(1.0, abs(b)):
            return a < b
    return True


def close_below(bound: Any, loss: tuple[float, ...]) -> bool:
    return all(b <= x + 1e-9 * max(1.0, abs(x)) for b, x in zip(bound, loss, strict=True))


@pytest.mark.deep
@given(data=st.data())
@settings(max_examples=at_most(25))
def test_the_optimum_is_that_of_trying_all(data: st.DataObject, plain: Any, random_problems: Any) -> None:
    problem = data.draw(random_problems)
    draw = random.Random(len(problem) * 1000 + len(problem.nodes()))
    budget = floor_share(problem.limit, len(problem))
    for name in NAMES:
        stage = Generalize(loss=spec_of(draw, name, problem), suppress_at_most=problem.limit)
        encoded = encode(plain, problem.table, stage, problem.context)
        check = NodeCheck(encoded, problem.context, searched_quality(encoded, stage, problem.context))
        checked = [check(levels) for levels in problem.nodes()]
        feasible = {node.levels: node for node in checked if 0 <= node.suppressed <= budget}
        losses = {levels: check.loss.exact(levels, node.rows)[0] for levels, node in feasible.items()}
        for levels, loss in losses.items():
            assert close_below(check.loss.bounds(np.array([levels], dtype=np.int16))[0], loss), (name, levels)
        for node in draw.sample(checked, min(len(checked), 4)):
            below_and_above_hold(check, node, losses, name)
        found, _ = search_optimal(check, budget, MOST_NODES)
        if not losses:
            assert found is None, name
            continue
        assert found is not None
        assert found.optimal, name
        assert found.node.levels in losses
        assert all(no_worse(found.loss, loss) for loss in losses.values()), name


def below_and_above_hold(
    check: NodeCheck, node: CheckedNode, losses: dict[tuple[int, ...], tuple[float, ...]], name: str
) -> None:
    """What a checked node says of the nodes below and above it is true of each that is feasible."""
    forced = node.forced()
    upward = check.loss.upward_bound(node.levels)
    for levels, loss in losses.items():
        if forced is not None and all(a <= b for a, b in zip(levels, node.levels, strict=True)):
            bound = check.loss.forced_bounds(np.array([levels], dtype=np.int16), forced)[0]
            assert close_below(bound, loss), (name, levels, node.levels)
        if upward is not None and all(a >= b for a, b in zip(levels, node.levels, strict=True)):
            assert close_below([upward], loss[:1]), (name, levels, node.levels)


def test_the_response_may_be_any_column(plain: Any, make_problem: Any) -> None:
    tree = [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"], ["d", "y", "*"]]
    rows = {"a": ["a", "b", "c", "d", "c", "d"], "sex": list("fmfmmf"), "ill": ["u", "u", "v", "v", "v", "v"]}
    problem = make_problem(rows, {"a": tree}, (KAnonymity(k=2, quasi_identifiers=("a",)),), limit=0.0)
    for response, expected in (("ill", 0.0), ("sex", 0.5), ("a", 0.5)):
        stage = Generalize(columns=("a",), loss=LossSpec(name="classification", response=response))
        detail = plan(plain, problem.table, stage, problem.context).detail
        assert detail["levels"] == {"a": 1}
        assert detail["loss"] == pytest.approx(expected), response
        assert detail["column_losses"] == {}


def test_parameters_that_do_not_fit_name_the_stage(plain: Any, make_problem: Any) -> None:
    tree = [["a", "x", "*"], ["b", "x", "*"]]
    problem = make_problem({"a": ["a", "b"], "ill": ["u", "u"]}, {"a": tree}, (KAnonymity(k=2),))
    for spec, told in (
        (LossSpec(weights={"aa": 2.0}), "'aa' is .*; did you mean 'a'"),
        (LossSpec(name="static", penalties={"a": [0.0, 1.0]}), "2 figures for 3 levels"),
    ):
        with pytest.raises(UsageError, match=rf"transform\[0\].generalize: .*{told}"):
            plan(plain, problem.table, Generalize(loss=spec), problem.context)
    journalist = LossSpec(name="publisher_payout", attacker="journalist")
    with pytest.raises(UnsupportedError, match="a journalist needs a population"):
        plan(plain, problem.table, Generalize(loss=journalist), problem.context)


def test_the_plan_says_the_models_own_parameters(plain: Any, make_problem: Any) -> None:
    tree = [["a", "x", "*"], ["b", "x", "*"]]
    problem = make_problem({"a": ["a", "b"], "ill": ["u", "u"]}, {"a": tree}, (KAnonymity(k=2),))
    stage = replace(problem.stage, loss=LossSpec(name="publisher_payout", publisher_loss=1.0))
    assert plan(plain, problem.table, stage, problem.context).parameters["loss"] == {
        "name": "publisher_payout",
        "gs_factor": 0.5,
        "attacker": "prosecutor",
        "publisher_benefit": 1200.0,
        "publisher_loss": 1.0,
        "adversary_gain": 300.0,
        "adversary_cost": 4.0,
    }
