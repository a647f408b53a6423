"""Generalization as it is applied: labels, types, nulls and values that a hierarchy lacks."""

from __future__ import annotations

import dataclasses
import datetime
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, HierarchyError, NoSolutionError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.models import AverageRisk, KAnonymity
from privpipe.roles import Roles
from privpipe.transforms import Generalize
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.labelling import LossSpec, OwnUnitLoss, own_loss, unit_losses

ROLES = Roles(quasi_identifiers=["age", "town"])
HIERARCHIES = {
    "age": {"intervals": {"start": 0, "widths": [10, 20]}},
    "town": {"tree": {"North": ["Ashford"], "South": ["Barrow", "Crewe"]}},
}
ROWS = {"age": [7, 31, 35, None], "town": ["Ashford", "Crewe", None, "Barrow"]}


def test_values_become_labels_of_their_level(run: Any) -> None:
    found = run(Generalize(levels={"age": 1, "town": 1}), ROWS, roles=ROLES, hierarchies=HIERARCHIES)
    rows = Counter(zip(found["age"], found["town"], strict=True))
    assert rows == Counter([("0-9", "North"), ("30-39", "South"), ("30-39", None), (None, "South")])
    assert found.plan.detail["recoded"] == ["age", "town"]


def test_raw_columns_keep_their_type_and_their_nulls(run: Any) -> None:
    found = run(Generalize(levels={"town": 2, "age": 0}), ROWS, roles=ROLES, hierarchies=HIERARCHIES)
    assert found.rows.schema.field("age").type == pa.int64()
    assert Counter(found["age"]) == Counter([7, 31, 35, None])
    assert set(found["town"]) == {"*"}


def test_an_unknown_value_is_never_released_raw(run: Any) -> None:
    rows = {"town": ["Ashford", "Dover", None, "Crewe"]}
    options: dict[str, Any] = {"roles": Roles(quasi_identifiers=["town"])}
    with pytest.raises(HierarchyError, match="'town'") as raised:
        run(Generalize(levels={}), rows, hierarchies={"town": HIERARCHIES["town"]}, **options)
    assert "Dover" not in str(raised.value)
    rooted = {"town": {**HIERARCHIES["town"], "unknown": "root"}}
    for level, labels in enumerate(
        (["Ashford", "*", None, "Crewe"], ["North", "*", None, "South"], ["*", "*", "*", "*"])
    ):
        found = run(Generalize(levels={"town": level}), rows, hierarchies=rooted, **options)
        assert Counter(found["town"]) == Counter(labels)
        assert found.plan.detail["recoded"] == ["town"]
    left_out = {"town": {**HIERARCHIES["town"], "unknown": "suppress"}}
    with pytest.raises(NoSolutionError, match="1 of 4 records suppressed, the limit allows 0"):
        run(Generalize(levels={"town": 1}), rows, hierarchies=left_out, **options)
    kept = run(Generalize(levels={"town": 1}, suppress_at_most=0.25), rows, hierarchies=left_out, **options)
    assert Counter(kept["town"]) == Counter(["North", None, "South"])


def test_unknown_values_eat_the_budget_first(run: Any) -> None:
    rows = {"town": ["Ashford"] * 3 + ["Dover"] * 2 + ["Crewe"] * 5}
    options: dict[str, Any] = {
        "roles": Roles(quasi_identifiers=["town"]),
        "hierarchies": {"town": {**HIERARCHIES["town"], "unknown": "suppress"}},
        "guarantees": [KAnonymity(k=3)],
    }
    found = run(Generalize(suppress_at_most=0.2), rows, **options)
    assert Counter(found["town"]) == {"Ashford": 3, "Crewe": 5}
    with pytest.raises(NoSolutionError):
        run(Generalize(suppress_at_most=0.1), rows, **options)


def test_a_number_with_an_unknown_value_becomes_text(run: Any) -> None:
    tree = {"age": {"tree": {"young": ["7"], "old": ["80"]}, "unknown": "root"}}
    found = run(Generalize(levels={}), {"age": [7, 80, 3]}, roles=Roles(quasi_identifiers=["age"]), hierarchies=tree)
    assert found.rows.schema.field("age").type == pa.string()
    assert Counter(found["age"]) == Counter(["7", "80", "*"])


def context_of(table: Any, specs: dict[str, Any], *guarantees: Any) -> StageContext:
    return StageContext(
        roles=ROLES,
        schema=table.schema,
        hierarchies={name: HierarchySpec.from_mapping(spec, ".", column=name) for name, spec in specs.items()},
        guarantees=guarantees,
        place="transform[0]",
    )


def test_another_hierarchy_than_the_plan_s_is_refused(embedded: Engine) -> None:
    table = embedded.with_record_ids(embedded.scan(Source(data=pa.table(ROWS))), None, Seed.insecure(1))
    stage = Generalize(levels={"age": 1})
    made = plan(embedded, table, stage, context_of(table, HIERARCHIES))
    other = {**HIERARCHIES, "age": {"intervals": {"start": 0, "widths": [5, 20]}}}
    with pytest.raises(DataError, match="hierarchy of 'age' is not the one the plan was made with"):
        stage.run(embedded, table, made, Draws(Seed.insecure(1), 0, "generalize"), context_of(table, other))


def test_a_plan_read_back_with_its_keys_sorted_does_the_same(embedded: Engine) -> None:
    rows = {"town": ["Ashford", "Barrow", "Crewe"] * 5, "age": [int(at) for at in range(15)]}
    table = embedded.with_record_ids(embedded.scan(Source(data=pa.table(rows))), None, Seed.insecure(1))
    context = context_of(table, HIERARCHIES, AverageRisk(at_most=0.2))
    loss = LossSpec(gs_factor=0.2, weights={"town": 3.0})
    stage = Generalize(levels={"town": 1, "age": 1}, suppress_at_most=0.9, loss=loss)
    made = plan(embedded, table, stage, context)
    shuffled = dataclasses.replace(
        made, detail={key: dict(sorted(v.items())) if isinstance(v, dict) else v for key, v in made.detail.items()}
    )
    found = [
        embedded.collect(stage.run(embedded, table, each, Draws(Seed.insecure(1), 0, "generalize"), context))
        for each in (made, shuffled)
    ]
    assert found[0].equals(found[1])
    assert len(found[0]) < 15


def test_own_loss_reads_released_values_of_every_type() -> None:
    """Level 0 keeps the column's type: its values meet the hierarchy as canonical text, missing ones too."""
    values: dict[str, list[Any]] = {
        "age": [7, 8],
        "weight": [70.0, 0.5],
        "day": [datetime.date(2020, 1, 2), datetime.date(2021, 1, 2)],
        "smokes": [True, None],
    }
    table = pa.table(values)
    texts = {"age": ["7", "8"], "weight": ["70", "0.5"], "day": ["2020-01-02", "2021-01-02"], "smokes": ["true", "no"]}
    units = {}
    for name, (one, other) in texts.items():
        hierarchy = Hierarchy.from_rows([[one, "*"], [other, "*"], ["z", "*"]]).cover([one, None])
        units[name] = unit_losses(hierarchy, 0, LossSpec())
    found = OwnUnitLoss(units, LossSpec(aggregate="sum"))(table)
    assert found.tolist() == [[0.0], [0.0]]
    labels = pa.table({"age": ["*", "*"]})
    whole = {"age": unit_losses(Hierarchy.from_rows([["7", "*"], ["8", "*"]]), 1, LossSpec())}
    assert OwnUnitLoss(whole, LossSpec())(labels).tolist() == [[1.0], [1.0]]


def test_own_loss_is_the_same_for_one_class_and_for_many() -> None:
    each = np.random.default_rng(0).random((1000, 5))
    for aggregate in ("geometric_mean", "arithmetic_mean", "sum", "max", "rank"):
        spec = LossSpec(aggregate=aggregate)  # type: ignore[arg-type]
        many = own_loss(each, list("abcde"), spec)
        assert (own_loss(each[7:8], list("abcde"), spec) == many[7:8]).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"search": "optimal", "levels": {}}, "not both"),
        ({"search": "optimall"}, "did you mean 'optimal'"),
        ({"levels": {"age": -1}}, "levels.age must be an integer >= 0"),
        ({"levels": {"age": True}}, "levels.age must be an integer"),
        ({"columns": ["age"], "levels": {"agee": 1}}, "levels.agee is not among columns; did you mean 'age'"),
        ({"columns": []}, "at least one column"),
        ({"suppress_at_most": 1.1}, "suppress_at_most must be"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Generalize(**parameters)


@pytest.mark.parametrize(
    "parameters", [{"name": "precise"}, {"aggregate": "mean"}, {"gs_factor": 2}, {"weights": {"age": -1}}]
)
def test_a_wrong_quality_model(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="loss"):
        LossSpec(**parameters)
    assert Generalize.problems({"loss": parameters})
