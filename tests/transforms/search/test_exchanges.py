"""Exchanges of levels: never worse than their start, and the best there is where they reach every vector."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.tolerance import floor_share
from privpipe.transforms.recoding.encoded_table import encode, searched_quality
from privpipe.transforms.recoding.explorer import Explorer, Lattice, Limits, Spent
from privpipe.transforms.recoding.heuristics import exchange, exchange_on, genetic, top_down
from privpipe.transforms.recoding.labelling import LossSpec
from privpipe.transforms.recoding.node import NodeCheck
from tests.tiers import at_most

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def explorer_of(plain: Any, problem: Any, limits: Limits) -> Explorer:
    stage = replace(problem.stage, loss=LossSpec())
    encoded = encode(plain, problem.table, stage, problem.context)
    check = NodeCheck(encoded, problem.context, searched_quality(encoded, stage, problem.context))
    return Explorer(check, Lattice.of(encoded), floor_share(problem.limit, len(problem)), limits)


def least_of(explorer: Explorer) -> float | None:
    """By brute force."""
    found = [explorer.visit(tuple(node)).loss for node in explorer.lattice.nodes().tolist()]
    return min((loss[0] for loss in found if loss is not None), default=None)


@settings(max_examples=at_most(40), suppress_health_check=SLOW)
@given(st.data())
def test_exchanges_of_all_columns_find_the_best(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    explorer = explorer_of(plain, problem, Limits(10_000))
    with contextlib.suppress(Spent):
        top_down(explorer)
    start = explorer.best
    exchange(explorer, widths=tuple(range(1, len(explorer.lattice.allowed) + 1)))
    if start is None or start.loss is None:
        return
    assert explorer.best is not None
    assert explorer.best.loss is not None
    assert explorer.best.loss[0] <= start.loss[0] + 1e-12
    least = least_of(explorer_of(plain, problem, Limits(10_000)))
    assert explorer.best.loss[0] == pytest.approx(least, abs=1e-9)


@settings(max_examples=at_most(15), suppress_health_check=SLOW)
@given(st.data())
def test_they_end_with_the_limits_and_are_the_same_each_time(
    plain: Any, random_problems: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    limits = Limits(data.draw(st.integers(1, 30)))
    made = []
    for _ in range(2):
        explorer = explorer_of(plain, problem, limits)
        with contextlib.suppress(Spent):
            top_down(explorer)
            exchange_on(explorer)  # no time is limited, so it starts no second time
        assert explorer.checked <= limits.nodes
        made.append(explorer.best)
    assert made[0] == made[1]


@settings(max_examples=5, suppress_health_check=SLOW)
@given(st.data())
def test_a_small_lattice_does_not_take_all_the_time(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    problem = data.draw(random_problems)
    explorer = explorer_of(plain, problem, Limits(100_000, seconds=600))
    genetic(explorer)
    began = time.monotonic()
    exchange_on(explorer)
    assert time.monotonic() - began < 300
