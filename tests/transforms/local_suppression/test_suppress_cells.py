"""Local suppression: every record is like k others by the reading asked for, on every engine alike."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, NoSolutionError, UnsupportedError, UsageError
from privpipe.models import KAnonymity
from privpipe.transforms import SuppressCells
from privpipe.transforms.base import StageContext
from privpipe.transforms.local_suppression.suppress_cells_stage import CellBudget
from tests.tiers import at_most

KEYS = ("a", "b", "c")
FEW = settings(max_examples=at_most(30), suppress_health_check=[HealthCheck.function_scoped_fixture])


def suppressed(
    engine: Engine, stage: SuppressCells, rows: pa.Table, nulls: Any, guarantees: Any = (), seed: int = 3, **roles: Any
) -> tuple[Any, pa.Table]:
    """The plan, and the released rows."""
    keys = roles.pop("quasi_identifiers", [name for name in rows.column_names if name in KEYS])
    table = engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(seed))
    context = StageContext(
        roles=pp.Roles(quasi_identifiers=keys, insensitive=[n for n in rows.column_names if n not in keys]),
        schema=table.schema,
        nulls=nulls,
        guarantees=tuple(guarantees),
        place="transform[0].suppress_cells",
        **roles,
    )
    plan = stage.learn(engine, table, context)
    made = stage.run(engine, table, plan, Draws(Seed.insecure(seed), 0, stage.name()), context)
    return plan, engine.collect(made)


def like(rows: pa.Table, keys: Any, nulls: str) -> list[int]:
    """Of each record, how many it is like: the definition, record by record."""
    cells = list(zip(*(rows[name].to_pylist() for name in keys), strict=True))
    if nulls == "own_value":
        return [Counter(cells)[row] for row in cells]
    return [
        sum(all(x is None or y is None or x == y for x, y in zip(one, two, strict=True)) for two in cells)
        for one in cells
    ]


def blanks_in(rows: pa.Table, keys: Any) -> int:
    return sum(rows[name].null_count for name in keys)


@st.composite
def small_tables(draw: Any) -> pa.Table:
    n = draw(st.integers(1, 30))
    cells = st.sampled_from(["x", "x", "y", "z", None])
    return pa.table({name: pa.array(draw(st.lists(cells, min_size=n, max_size=n)), pa.string()) for name in KEYS})


@FEW
@given(rows=small_tables(), k=st.integers(2, 4), nulls=st.sampled_from(["own_value", "wildcard"]))
def test_every_record_is_like_k(embedded: Engine, rows: pa.Table, k: int, nulls: str) -> None:
    rows = rows.append_column("row", pa.array(range(len(rows))))
    stage = SuppressCells(k=k, suppress_at_most=0.9)
    try:
        plan, found = suppressed(embedded, stage, rows, nulls)
    except NoSolutionError:
        assert len(rows) < k
        return
    assert min(like(found, KEYS, nulls)) >= k
    assert plan.detail["failing_after"][nulls] == 0
    assert len(found) == len(rows)
    assert blanks_in(found, KEYS) - blanks_in(rows, KEYS) == plan.detail["blanked_cells"] == plan.detail["loss"]
    # What stays is the record's own.
    before = {row["row"]: row for row in rows.to_pylist()}
    assert all(row[name] in (None, before[row["row"]][name]) for row in found.to_pylist() for name in KEYS)
    assert json.loads(json.dumps(plan.detail)) == plan.detail


def make_people(n: int = 400, seed: int = 5) -> pa.Table:
    rng = np.random.default_rng(seed)
    skewed = [[int(6 * value**2.5) for value in rng.random(n)] for _ in range(3)]
    mask = rng.random(n) < 0.04
    # Nine alike, and one that is like them in all but a column: it takes some of them along.
    for cells, value in zip(skewed, (90, 90, 0), strict=True):
        cells[:10] = [value] * 10
    skewed[2][0], mask[:10] = 1, False
    return pa.table(
        {
            "a": pa.array([f"value {cell}" for cell in skewed[0]], mask=mask),
            "b": pa.array([cell + 0.5 for cell in skewed[1]], pa.float64()),
            "c": pa.array(skewed[2], pa.int32()),
            "region": [f"r{at % 3}" for at in range(n)],
            "row": range(n),
        }
    )


@pytest.mark.parametrize("nulls", ["own_value", "wildcard"])
def test_the_same_cells_on_every_engine(engine: Engine, embedded: Engine, nulls: str) -> None:
    people = make_people()
    shuffled = people.take(np.random.default_rng(1).permutation(len(people)))
    stage = SuppressCells(k=4, weights={"a": 9.0})
    plan, wanted = suppressed(embedded, stage, people, nulls)
    other, found = suppressed(engine, stage, shuffled, nulls)
    assert other.detail == plan.detail
    assert found.schema.equals(wanted.schema)
    rows = [sorted(map(repr, released.to_pylist())) for released in (wanted, found)]
    assert rows[0] == rows[1]
    assert min(like(found, KEYS, nulls)) >= 4
    assert not any(isinstance(leaf, str) and leaf.startswith("value") for leaf in map(str, plan.detail["blanks"]))
    if nulls == "own_value":
        split = Counter(at for at, _, _ in plan.detail["blanks"])
        counts = embedded.distinct(embedded.scan(Source(data=people)), list(KEYS))["__count"].to_pylist()
        taken = {at: sum(r for place, _, r in plan.detail["blanks"] if place == at) for at in split}
        assert any(taken[at] < counts[at] for at in taken), "some records of a combination alone are blanked"


@pytest.mark.parametrize("weights", [{}, {"a": 0.1, "b": 0.3}])
def test_classes_that_are_compared_one_by_one_get_the_same_blanks(
    embedded: Engine, monkeypatch: pytest.MonkeyPatch, weights: dict[str, float]
) -> None:
    """Rings hold the classes of the cheapest sets of columns; where memory allows fewer of them, nothing differs."""
    draw = np.random.default_rng(len(weights))
    rows = pa.table({name: pa.array([[*"uvwx", None][at] for at in draw.zipf(1.5, 300) % 5]) for name in KEYS})
    made = set()
    for room in (2**28, 5_000, 0):
        monkeypatch.setattr("privpipe.transforms.local_suppression.blank_matching.RING_BYTES", room)
        plan, _ = suppressed(embedded, SuppressCells(k=4, weights=weights), rows, "own_value")
        made.add(json.dumps(plan.detail["blanks"]))
    assert len(made) == 1


def test_strata_each_meet_k_and_fixed_columns_must_match(embedded: Engine) -> None:
    people = make_people(150)
    _, found = suppressed(embedded, SuppressCells(k=3, by=("region",)), people, "wildcard")
    for region in ("r0", "r1", "r2"):
        part = found.filter(pa.compute.equal(found["region"], region))
        assert min(like(part, KEYS, "wildcard")) >= 3
    plan, found = suppressed(embedded, SuppressCells(columns=("a", "b")), people, "own_value", [KAnonymity(k=3)])
    assert plan.detail["columns"] == ["a", "b"]
    assert found["c"].null_count == 0
    assert min(like(found, KEYS, "own_value")) >= 3
    lone = pa.table({"a": ["x"] * 6, "b": ["y"] * 6, "c": ["u"] * 5 + ["v"]})
    with pytest.raises(NoSolutionError, match="1 of 6 records match fewer than k = 2"):
        suppressed(embedded, SuppressCells(columns=("a", "b"), k=2), lone, "wildcard", [KAnonymity(k=2)])
    with pytest.raises(NoSolutionError, match="need 1 of 6 records suppressed, the limit allows 0"):
        suppressed(embedded, SuppressCells(columns=("a", "b")), lone, "own_value", [KAnonymity(k=2)])
    stage = SuppressCells(columns=("a", "b"), suppress_at_most=0.2)
    assert len(suppressed(embedded, stage, lone, "own_value", [KAnonymity(k=2)])[1]) == 5


def test_weights_and_order_say_what_goes_first(embedded: Engine) -> None:
    rows = pa.table({"a": ["x", "x", "x", "x", "x"], "b": ["u", "u", "u", "v", "w"]})
    for options in ({"weights": {"a": 5.0}}, {"order": ("a", "b")}):
        _, found = suppressed(embedded, SuppressCells(k=2, **options), rows, "own_value")
        assert found["a"].null_count == 0
    crossed = pa.table({"a": ["x", "x", "x", "y", "y"], "b": ["u", "u", "v", "v", "v"]})
    for heavy, light in (("a", "b"), ("b", "a")):
        _, found = suppressed(embedded, SuppressCells(k=2, weights={heavy: 9.0}), crossed, "wildcard")
        assert (found[heavy].null_count, found[light].null_count) == (0, 1)


def test_the_stage_takes_its_k_from_the_guarantees_and_may_only_be_stricter(embedded: Engine) -> None:
    people = make_people(80)
    assert suppressed(embedded, SuppressCells(), people, "wildcard", [KAnonymity(k=4)])[0].detail["k"] == 4
    assert suppressed(embedded, SuppressCells(k=2), people, "wildcard", [KAnonymity(k=4)])[0].detail["k"] == 4
    assert suppressed(embedded, SuppressCells(k=6), people, "wildcard", [KAnonymity(k=4)])[0].detail["k"] == 6
    own = [KAnonymity(k=3, quasi_identifiers=("a", "b"))]
    plan, found = suppressed(embedded, SuppressCells(), people, "own_value", own)
    assert plan.detail["columns"] == ["a", "b"]
    assert min(like(found, ("a", "b"), "own_value")) >= 3


def test_records_of_nothing_but_marks_are_left_alone(embedded: Engine) -> None:
    rows = pa.table({"a": ["*", "x", "x", "y"], "b": ["*", "u", "u", "u"]})
    columns = {name: {"role": "quasi_identifier"} for name in ("a", "b")}
    cells, asked = {"suppress_cells": {"k": 2}}, [{"k_anonymity": {"k": 2}}]
    document = {"version": 1, "columns": columns, "nulls": "wildcard", "transform": [cells], "guarantees": asked}
    plan = pp.plan(rows, document, engine=embedded)
    assert plan.stages[0].detail["blanked_cells"] == 1
    found = pp.transform(rows, plan, engine=embedded)
    assert ("*", "*") in set(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True))


def test_what_the_policy_alone_shows(embedded: Engine) -> None:
    people = make_people(20)
    with pytest.raises(UsageError, match="nulls: refuse"):
        suppressed(embedded, SuppressCells(k=2), people, "refuse")
    with pytest.raises(UsageError, match="give `k:`"):
        suppressed(embedded, SuppressCells(), people, "own_value")
    with pytest.raises(UsageError, match="'row' is not a quasi-identifier"):
        suppressed(embedded, SuppressCells(columns=("row",), k=2), people, "own_value")
    with pytest.raises(UnsupportedError, match="not persons"):
        suppressed(embedded, SuppressCells(k=2), people, "own_value", person="row")
    with pytest.raises(UsageError, match="order must list every column"):
        suppressed(embedded, SuppressCells(k=2, order=("a",)), people, "own_value")
    with pytest.raises(UsageError, match="did you mean 'a'"):
        suppressed(embedded, SuppressCells(k=2, weights={"aa": 1.0}), people, "own_value")
    with pytest.raises(DataError, match="`by` names"):
        suppressed(embedded, SuppressCells(k=2, by=("regio",)), people, "own_value")
    many = pa.table({f"q{at}": ["x"] for at in range(21)})
    with pytest.raises(UnsupportedError, match="21 columns"):
        suppressed(embedded, SuppressCells(k=2), many, "own_value", quasi_identifiers=many.column_names)


def test_a_plan_of_another_table_is_refused(embedded: Engine) -> None:
    people = make_people(60)
    plan, _ = suppressed(embedded, SuppressCells(k=3), people, "wildcard")
    table = embedded.with_record_ids(embedded.scan(Source(data=people.slice(1))), None, Seed.insecure(1))
    context = StageContext(roles=pp.Roles(), schema=table.schema, place="transform[0]")
    with pytest.raises(DataError, match="make a new plan"):
        SuppressCells(k=3).run(embedded, table, plan, Draws(Seed.insecure(1), 0, "x"), context)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 1}, "k must be an integer >= 2"),
        ({"method": "fast"}, "method must be one of greedy, optimal"),
        ({"weights": {"a": 0.0}}, "weights.a must be a number > 0"),
        ({"weights": {"a": 1.0}, "order": ("a",)}, "weights or an order, not both"),
        ({"columns": ("a",), "weights": {"b": 1.0}}, "weights names 'b'"),
        ({"columns": ("a",), "by": ("a",)}, "by names 'a'"),
        ({"suppress_at_most": 2.0}, "suppress_at_most must be"),
    ],
)
def test_wrong_parameters(parameters: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SuppressCells(**parameters)
    with pytest.raises(UsageError, match="budget.neighbourhoods"):
        CellBudget(neighbourhoods=-1)


@pytest.mark.parametrize("nulls", ["wildcard", "own_value"])
def test_a_policy_releases_through_the_stage(tmp_path: Any, nulls: str) -> None:
    people = make_people(200)
    pa.parquet.write_table(people, tmp_path / "people.parquet")
    policy = {
        "version": 1,
        "source": {"path": str(tmp_path / "people.parquet"), "format": "parquet"},
        "columns": {
            **{name: {"role": "quasi_identifier"} for name in KEYS},
            "region": {"role": "insensitive"},
            "row": {"role": "identifier"},
        },
        "nulls": nulls,
        "transform": [{"suppress_cells": {"k": 4, "weights": {"a": 2}}}],
        "guarantees": [{"k_anonymity": {"k": 3}}],
        "sink": {"path": str(tmp_path / "out"), "format": "parquet"},
        "seed": {"insecure": 1},
        "allow_insecure_seed": True,
    }
    result = pp.release(policy)
    assert result.assessment.passed
    assert result.assessment.verdicts[0].observed >= 4


@pytest.mark.parametrize("nulls", ["own_value", "wildcard"])
def test_values_that_are_equal_in_two_writings(embedded: Engine, nulls: str) -> None:
    """-0.0 is 0.0, NaN is a missing value, and each record of such a combination is found again."""
    rows = pa.table(
        {
            "a": ["x", "x", "x", "x", "y", "y"],
            "b": pa.array([0.0, -0.0, float("nan"), None, -0.0, 7.25], pa.float64()),
        }
    )
    plan, found = suppressed(embedded, SuppressCells(k=2), rows, nulls)
    numbers = [None if b is None or b != b else b + 0.0 for b in found["b"].to_pylist()]
    table = pa.table({"a": found["a"], "b": pa.array(numbers, pa.float64())})
    assert min(like(table, ("a", "b"), nulls)) >= 2
    assert blanks_in(table, ("a", "b")) == 2 + plan.detail["blanked_cells"]
