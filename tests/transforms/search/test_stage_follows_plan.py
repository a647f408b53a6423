"""What the stages release on an engine is what the plan, and the rule in plain Python, say."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import NoSolutionError
from privpipe.models import AverageRisk, KAnonymity
from privpipe.tolerance import floor_share
from privpipe.transforms import SuppressRecords
from privpipe.transforms.base import StagePlan
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.labelling import LossSpec
from tests.tiers import at_most

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
SEED = Seed.insecure(1)


def released(engine: Engine, table: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in engine.collect(table).to_pylist())


def expected(problem: Any, node: Any, gone: set[int]) -> Counter[Any]:
    labels = problem.labels(node)
    return Counter(tuple(labels[name][row] for name in labels) for row in range(len(problem)) if row not in gone)


@settings(max_examples=at_most(120), suppress_health_check=SLOW)
@given(st.data())
def test_the_released_records_are_those_of_brute_force(
    embedded: Engine, random_problems: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    table = embedded.with_record_ids(embedded.scan(Source(data=problem.table)), None, SEED)
    wanted = problem.optimum()
    if wanted is None:
        with pytest.raises(NoSolutionError):
            plan(embedded, table, problem.stage, problem.context)
        return
    node, _, gone = wanted
    made = plan(embedded, table, problem.stage, problem.context)
    found = problem.stage.run(embedded, table, made, Draws(SEED, 0, "generalize"), problem.context)
    assert released(embedded, found) == expected(problem, node, gone)


@pytest.mark.deep
@settings(max_examples=at_most(120), suppress_health_check=SLOW)
@given(st.data())
def test_suppression_of_a_table_unchanged(
    embedded: Engine, random_problems: Any, suppressed_rows: Any, data: st.DataObject
) -> None:
    problem = data.draw(random_problems)
    gone = suppressed_rows(
        problem.rows, problem.guarantees, problem.keys, {"ill": problem.rows["ill"]}, lambda keys, row: []
    )
    stage = SuppressRecords(suppress_at_most=problem.limit)
    table = embedded.with_record_ids(embedded.scan(Source(data=problem.table)), None, SEED)

    def suppressed() -> Any:
        return stage.run(embedded, table, StagePlan(name=""), Draws(SEED, 0, "suppress_records"), problem.context)

    n = len(problem)
    if gone is None or len(gone) == n or len(gone) > floor_share(problem.limit, n):
        with pytest.raises(NoSolutionError, match=r"transform\[0\]"):
            suppressed()
        return
    raw = [0] * len(problem.columns)
    assert released(embedded, suppressed()) == expected(problem, raw, gone)


def test_the_plan_is_the_same_on_every_engine(engine: Engine, embedded: Engine, make_problem: Any) -> None:
    """Several sets of keys, a sample-based model with ties, a fixed column with nulls."""
    tree = [[f"v{at}", f"g{at // 2}", "*"] for at in range(6)]
    draw, n = random.Random(4), 90
    skewed = {name: [f"v{int(6 * draw.random() ** 2)}" for _ in range(n)] for name in "ab"}
    problem = make_problem(
        rows={
            **skewed,
            "fixed": [draw.choice(["x", "x", "y", None]) for _ in range(n)],
            "ill": [draw.choice(["flu", "gout", "ulcer"]) for _ in range(n)],
        },
        hierarchies={"a": tree, "b": tree},
        guarantees=(KAnonymity(k=2), KAnonymity(k=9, quasi_identifiers=("b",)), AverageRisk(at_most=0.17)),
        loss=LossSpec(gs_factor=0.25),
        limit=0.5,
    )
    found = []
    for target, order in ((embedded, range(n)), (engine, [*range(1, n, 2), *range(0, n, 2)])):
        rows = problem.table.take(pa.array(order))
        table = target.with_record_ids(target.scan(Source(data=rows)), None, SEED)
        made = plan(target, table, problem.stage, problem.context)
        kept = problem.stage.run(target, table, made, Draws(SEED, 0, "generalize"), problem.context)
        found.append((made, released(target, kept)))
    assert found[0] == found[1]
    node, _, gone = problem.optimum()
    assert len(gone) > 9
    assert found[0][1] == expected(problem, node, gone)


def test_the_budget_is_exact_and_over_the_whole_table(embedded: Engine, make_problem: Any) -> None:
    """0.1 of 30 records are 3, though 0.1 * 30 is below 3 in no float arithmetic that counts."""
    rows = {"a": ["v0"] * 27 + ["v1"] * 3, "ill": ["u"] * 30}
    problem = make_problem(rows, {"a": [["v0", "*"], ["v1", "*"]]}, (KAnonymity(k=4),), limit=0.1)
    table = embedded.with_record_ids(embedded.scan(Source(data=problem.table)), None, SEED)
    draws = Draws(SEED, 0, "suppress_records")
    kept = SuppressRecords(suppress_at_most=0.1).run(embedded, table, StagePlan(name=""), draws, problem.context)
    assert embedded.count(kept) == 27
    with pytest.raises(NoSolutionError, match=r"need 3 of 30 records .* allows 2; .* suppress_at_most >= 0.1,"):
        SuppressRecords(suppress_at_most=0.09).run(embedded, table, StagePlan(name=""), draws, problem.context)
    short = replace(problem, limit=0.09)
    assert plan(embedded, table, problem.stage, problem.context).detail["levels"] == {"a": 0}
    assert plan(embedded, table, short.stage, short.context).detail["levels"] == {"a": 1}
