"""The search finds what brute force over all nodes finds, and never prunes what it must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.errors import NoSolutionError
from privpipe.kernels.lattice import node_classes as search_classes
from privpipe.kernels.quality.loss import LossModel
from privpipe.tolerance import floor_share
from privpipe.transforms.recoding import formed_classes
from privpipe.transforms.recoding import node as checking
from privpipe.transforms.recoding.encoded_table import encode
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.recoding.optimal_search import search_optimal
from tests.tiers import at_most

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def checks(plain: Any, problem: Any) -> NodeCheck:
    encoded = encode(plain, problem.table, problem.stage, problem.context)
    return NodeCheck(encoded, problem.context, LossModel(encoded, problem.stage.loss))


@settings(max_examples=at_most(400), suppress_health_check=SLOW)
@given(st.data())
def test_the_optimum_is_that_of_brute_force(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    wanted = problem.optimum()
    if wanted is None:
        with pytest.raises(NoSolutionError):
            plan(plain, problem.table, problem.stage, problem.context)
        return
    node, loss, gone = wanted
    found = plan(plain, problem.table, problem.stage, problem.context).detail
    figures = found["loss"] if isinstance(found["loss"], list) else [found["loss"]]
    assert figures == pytest.approx(loss, abs=1e-9)
    assert tuple(found["levels"].values()) == node
    assert found["optimal"]
    assert found["gap"] == 0
    kept = [row for row in range(len(problem)) if row not in gone]
    first = next(iter(checks(plain, problem).sets.keys))
    labels = problem.labels(node)
    assert found["classes"] == len({tuple(labels[key][row] for key in first) for row in kept})


ROUTES = {
    "runs of the first columns": [(search_classes, "DENSE", 0), (search_classes, "SPARE", 0)],
    "a hash table": [(search_classes, "DENSE", 0), (search_classes, "SPARE", 0), (search_classes, "SPARSE", 0)],
    "little remembered": [(formed_classes, "ROOM", 0)],
    "cells of kept classes": [(checking, "FEW_CELLS", 0), (checking, "MANY_CELLS", 1 << 20), (checking, "SPARE", 0)],
    "sorted cells": [(checking, "FEW_CELLS", 0), (checking, "MANY_CELLS", 0), (checking, "SPARE", 0)],
}
"""How large tables are searched, by the limits that small ones stay below."""


@pytest.mark.parametrize("route", ROUTES)
@settings(max_examples=at_most(40), suppress_health_check=SLOW)
@given(st.data())
def test_the_plan_is_the_same_by_every_route(plain: Any, random_problems: Any, route: str, data: st.DataObject) -> None:
    problem = data.draw(random_problems)

    def made() -> Any:
        try:
            return plan(plain, problem.table, problem.stage, problem.context)
        except NoSolutionError as error:
            return str(error)

    usual = made()
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in ROUTES[route]:
            patch.setattr(module, name, value)
        assert made() == usual


@settings(max_examples=at_most(150), suppress_health_check=SLOW)
@given(st.data())
def test_every_node_is_judged_as_by_hand(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    check = checks(plain, problem)
    for levels in problem.nodes():
        node, gone = check(levels), problem.suppressed(levels)
        if gone is None or len(gone) == len(problem):
            assert node.suppressed == -1
            continue
        assert node.suppressed == len(gone)
        loss, _ = check.loss.exact(levels, node.rows)
        assert list(loss) == pytest.approx(problem.exact_loss(levels, gone), abs=1e-9)


@settings(max_examples=at_most(150), suppress_health_check=SLOW)
@given(st.data())
def test_each_pruning_is_sound(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    """A bound is never above the loss; what must go goes at every specialization; failing at 0 fails below."""
    problem = data.draw(random_problems)
    check = checks(plain, problem)
    nodes = check.table.nodes()
    assert [tuple(node) for node in nodes.tolist()] == problem.nodes()
    bounds = check.loss.bounds(nodes)
    judged = [check(tuple(node)) for node in nodes.tolist()]
    models = [model for group in check.sets.class_models.values() for model in group]
    inherits = not check.sets.size_models and all(model.hereditary or model.convex for model in models)
    for node, bound in zip(judged, bounds, strict=True):
        loss, _ = check.loss.exact(node.levels, node.rows)
        assert list(bound) <= [figure + 1e-12 for figure in loss]
        for finer in judged:
            if all(v <= w for v, w in zip(finer.levels, node.levels, strict=True)):
                assert finer.suppressed == -1 or finer.suppressed >= node.must_go
                assert not inherits or node.suppressed == 0 or finer.suppressed != 0


@settings(max_examples=at_most(60), suppress_health_check=SLOW)
@given(st.data())
def test_a_budget_of_nodes_gives_a_sound_gap(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    check = checks(plain, problem)
    budget = floor_share(problem.limit, len(problem))
    best, _ = search_optimal(check, budget, 10_000)
    limit = data.draw(st.integers(1, 6))
    found, checked = search_optimal(check, budget, limit)
    assert checked <= limit
    if found is None or best is None:
        assert not (best is None and found)
        return
    assert found.loss[0] >= best.loss[0] - 1e-9
    assert found.loss[0] - found.gap <= best.loss[0] + 1e-9
    if found.optimal:
        assert found.node.levels == best.node.levels


@settings(max_examples=at_most(60), suppress_health_check=SLOW)
@given(st.data())
def test_the_plan_knows_no_row_order(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    order = data.draw(st.permutations(range(len(problem))))

    def made(table: Any) -> Any:
        try:
            return plan(plain, table, problem.stage, problem.context)
        except NoSolutionError as error:
            return str(error)

    assert made(problem.table) == made(problem.table.take(order))


@settings(max_examples=at_most(60), suppress_health_check=SLOW)
@given(st.data())
def test_doubled_rows_under_doubled_k_change_nothing(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    from dataclasses import replace

    from privpipe.models import KAnonymity

    problem = replace(data.draw(random_problems), guarantees=(KAnonymity(k=2),), limit=0.5)
    twice = replace(
        problem, rows={name: cells * 2 for name, cells in problem.rows.items()}, guarantees=(KAnonymity(k=4),)
    )
    if len(problem) % 2:
        return  # an odd half is not a half of the doubled number
    one, two = (each.optimum() for each in (problem, twice))
    assert (one is None) == (two is None)
    if one and two:
        found = plan(plain, twice.table, twice.stage, twice.context).detail
        assert tuple(found["levels"].values()) == one[0]
        assert np.allclose(found["loss"], one[1] if problem.loss.aggregate == "rank" else one[1][0])
