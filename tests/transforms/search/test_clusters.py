"""Local recoding by clusters: what comes out, against the definitions and against the sweep."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import NoSolutionError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness
from privpipe.tolerance import floor_share
from privpipe.transforms import LocalRecoding
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.local_recoding import clusters
from privpipe.transforms.local_recoding.local_recoding import plan
from tests.tiers import at_most

SEED = Seed.insecure(1)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
TREE = [["v0", "g0", "*"], ["v1", "g0", "*"], ["v2", "g1", "*"], ["v3", "g1", "*"]]


@pytest.fixture(autouse=True)
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "SMALL", 64)


def scanned(engine: Engine, rows: pa.Table) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, SEED)


def made(engine: Engine, stage: LocalRecoding, table: Any, context: StageContext) -> tuple[StagePlan, pa.Table]:
    """The plan, and what it makes of the table once it was written and read."""
    found = plan(engine, table, stage, context)
    text = StagePlan(name=found.name, parameters={}, detail=json.loads(json.dumps(found.detail)))
    return found, engine.collect(stage.run(engine, table, text, Draws(SEED, 0, "local_recoding"), context))


@settings(max_examples=at_most(40), suppress_health_check=SLOW)
@given(st.data(), st.sampled_from([2, 6, 32_000]))
def test_a_release_meets_everything(
    embedded: Engine, random_problems: Any, suppressed_rows: Any, data: st.DataObject, block: int
) -> None:
    problem = data.draw(random_problems)
    table = scanned(embedded, problem.table)
    stage = LocalRecoding(method="search", steps=2, block=block, suppress_at_most=problem.limit)
    try:
        found, rows = made(embedded, stage, table, problem.context)
    except NoSolutionError:
        with pytest.raises(NoSolutionError):
            plan(embedded, table, LocalRecoding(suppress_at_most=problem.limit), problem.context)
        return
    released = {name: rows.column(name).to_pylist() for name in rows.column_names}
    assert len(problem) - len(rows) == found.detail["left"] <= floor_share(problem.limit, len(problem))
    assert_labels_cover(problem, released)
    if not any("closeness" in guarantee.name() for guarantee in problem.guarantees):
        values = {"ill": released["ill"]}
        assert not suppressed_rows(released, problem.guarantees, problem.keys, values, lambda *_: [])
    if block > len(problem) and not found.detail["left"] and found.detail["method"] == "search":
        sweep = plan(embedded, table, LocalRecoding(), problem.context).detail
        assert found.detail["cell_loss"] <= sweep["cell_loss"] + 1e-12


def assert_labels_cover(problem: Any, released: dict[str, list[Any]]) -> None:
    """As many records of each value at least as of the labels that cover it alone."""
    for name, rows in problem.hierarchies.items():
        known = {label for row in rows for label in row}
        assert set(released[name]) <= known
        raw = Counter(problem.rows[name])
        for label, count in Counter(released[name]).items():
            assert count <= sum(raw[row[0]] for row in rows if label in row)


@pytest.mark.deep
@settings(max_examples=at_most(20), suppress_health_check=SLOW)
@given(st.data(), st.randoms(use_true_random=False), st.sampled_from([3, 32_000]))
def test_row_order_changes_nothing(
    embedded: Engine, random_problems: Any, data: st.DataObject, random: Any, block: int
) -> None:
    problem = data.draw(random_problems)
    problem = replace(problem, guarantees=(KAnonymity(k=3), DistinctLDiversity(column="ill", l=2)))
    stage = LocalRecoding(method="search", steps=1, block=block, suppress_at_most=1.0)
    order = list(range(len(problem)))
    random.shuffle(order)
    shuffled = replace(problem, rows={name: [cells[row] for row in order] for name, cells in problem.rows.items()})
    try:
        first, rows = made(embedded, stage, scanned(embedded, problem.table), problem.context)
    except NoSolutionError:
        return
    second, others = made(embedded, stage, scanned(embedded, shuffled.table), shuffled.context)
    assert first.detail == second.detail
    assert Counter(map(repr, rows.to_pylist())) == Counter(map(repr, others.to_pylist()))


def wide_table(draw: np.random.Generator, n: int) -> dict[str, list[str | None]]:
    codes = np.minimum(draw.geometric(0.4, (n, 3)) - 1, 3)
    columns: dict[str, list[str | None]] = {
        name: [f"v{code}" for code in codes[:, at]] for at, name in enumerate("abc")
    }
    return {**columns, "ill": [f"i{value}" for value in draw.integers(0, 4, n)]}


@pytest.mark.parametrize("block", [7, 32_000])
def test_a_rule_that_the_kernel_does_not_know_holds(embedded: Engine, make_problem: Any, block: int) -> None:
    """Groups that fail t-closeness give way to those they were made of; the sweep is never left for worse."""
    rows = wide_table(np.random.default_rng(4), 160)
    closeness = TCloseness(column="ill", t=0.35)
    problem = make_problem(rows, dict.fromkeys("abc", TREE), (KAnonymity(k=3), closeness))
    context = replace(problem.context, base=problem.context.base)
    table = scanned(embedded, problem.table)
    found, released = made(embedded, LocalRecoding(method="search", steps=3, block=block), table, context)
    assert found.detail["method"] == "search"
    totals = Counter(rows["ill"])
    classes: dict[Any, Counter[Any]] = {}
    for row in released.to_pylist():
        classes.setdefault((row["a"], row["b"], row["c"]), Counter())[row["ill"]] += 1
    for own in classes.values():
        size = sum(own.values())
        assert size >= 3
        assert sum(abs(own[value] / size - totals[value] / 160) for value in totals) / 2 <= 0.35 + 1e-9
    if block > 160:
        sweep = plan(embedded, table, LocalRecoding(), context).detail
        assert found.detail["cell_loss"] <= sweep["cell_loss"] + 1e-12


@pytest.mark.parametrize("block", [5, 32_000])
def test_a_judged_column_that_stays_divides_groups(embedded: Engine, make_problem: Any, block: int) -> None:
    """`d` has no hierarchy; its values in order of text and of number differ."""
    rows = wide_table(np.random.default_rng(3), 120)
    rows["d"] = [str(1 + 9 * (row % 2)) for row in range(120)]
    problem = make_problem({**rows, "ill": rows.pop("ill")}, dict.fromkeys("abc", TREE), (KAnonymity(k=4),))
    table = scanned(embedded, problem.table)
    found, released = made(embedded, LocalRecoding(method="search", steps=2, block=block), table, problem.context)
    assert found.detail["method"] == "search"
    assert Counter(released.column("d").to_pylist()) == Counter(rows["d"])
    sizes = Counter(tuple(row[name] for name in "abcd") for row in released.to_pylist())
    assert min(sizes.values()) >= 4
    assert len(sizes) == found.detail["classes"]


def test_limits_of_levels_hold(embedded: Engine, make_problem: Any) -> None:
    """`a` shows at least its groups and never the root."""
    rows = wide_table(np.random.default_rng(5), 90)
    problem = make_problem(rows, dict.fromkeys("abc", TREE), (KAnonymity(k=5),), limit=0.2)
    hierarchy = Hierarchy.from_rows(TREE, column="a", min_level=1, max_level=1)
    specs = {**problem.context.hierarchies, "a": HierarchySpec.from_hierarchy(hierarchy, column="a")}
    context = replace(problem.context, hierarchies=specs)
    stage = LocalRecoding(method="search", steps=2, suppress_at_most=0.2)
    found, released = made(embedded, stage, scanned(embedded, problem.table), context)
    assert found.detail["method"] == "search"
    assert set(released.column("a").to_pylist()) <= {"g0", "g1"}
    assert 90 - len(released) == found.detail["left"] <= 18


def test_a_lattice_too_large_for_a_sweep_starts_from_cuts(
    monkeypatch: pytest.MonkeyPatch, embedded: Engine, make_problem: Any
) -> None:
    monkeypatch.setattr(clusters, "MOST_VECTORS", 1)
    rows = wide_table(np.random.default_rng(6), 150)
    problem = make_problem(rows, dict.fromkeys("abc", TREE), (KAnonymity(k=3),))
    table = scanned(embedded, problem.table)
    found, released = made(embedded, LocalRecoding(method="search", steps=4), table, problem.context)
    assert found.detail["method"] == "search"
    assert len(released) == 150
    assert min(Counter(tuple(row[name] for name in "abc") for row in released.to_pylist()).values()) >= 3
