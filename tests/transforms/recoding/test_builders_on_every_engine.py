"""Every builder of labels gives one plan and one table on each engine; plans of former labels are still applied."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.roles import Roles
from privpipe.transforms import Generalize, LocalRecoding, Mondrian

ROLES = Roles(quasi_identifiers=["age", "town", "income", "rent", "admitted"])
HIERARCHIES: dict[str, Any] = {
    "age": {"bands": {}},
    "income": {"log": {"per_decade": 3, "lowest": 1}},
    "rent": {"quantiles": {"counts": [8, 4], "round": "auto"}},
    "town": {"frequency_groups": {"keep": [1]}},
    "admitted": {"dates": {"levels": ["month", "quarter", "year", "decade"]}},
}
LEVELS = {"age": 1, "income": 1, "rent": 2, "town": 1, "admitted": 2}


def test_one_table_everywhere(engine: Engine, run_on: Any, embedded: Engine, people: pa.Table) -> None:
    stage = Generalize(levels=LEVELS)
    here = run_on(embedded, stage, people, roles=ROLES, hierarchies=HIERARCHIES)
    there = run_on(engine, stage, people, roles=ROLES, hierarchies=HIERARCHIES, parts=3, shuffled=True)
    rows = [Counter(tuple(map(repr, row.values())) for row in found.rows.to_pylist()) for found in (here, there)]
    assert rows[0] == rows[1]
    assert here.plan.detail["hierarchies"] == there.plan.detail["hierarchies"]


def test_equal_counts_everywhere(engine: Engine, run_on: Any, embedded: Engine, people: pa.Table) -> None:
    given: dict[str, Any] = {"roles": ROLES, "hierarchies": {"age": {"equal_count": {"sizes": [5]}}}}
    here, there = (run_on(each, Generalize(levels={"age": 1}), people, **given) for each in (embedded, engine))
    assert Counter(here["age"]) == Counter(there["age"])
    assert here.plan.detail["data_dependent"] == ["age"]


ROWS = {"age": [7, 31, 35, 38, 39, 12]}
INTERVALS = {"intervals": {"start": 0, "widths": [10, 20]}}


def test_a_plan_of_former_labels_keeps_them(run: Any) -> None:
    """Before labels had a choice the definition was the mapping, the options and the type."""
    given: dict[str, Any] = {"roles": Roles(quasi_identifiers=["age"]), "hierarchies": {"age": INTERVALS}}
    found = run(Generalize(levels={"age": 1}), ROWS, **given)
    assert set(found["age"]) == {"0-9", "10-19", "30-39"}
    former = hashlib.sha256(json.dumps([INTERVALS, {}, "integer"], sort_keys=True).encode()).hexdigest()
    plan = replace(found.plan, detail={**found.plan.detail, "hierarchies": {"age": former}})
    again = run(Planned(stage=Generalize(levels={"age": 1}), plan=plan), ROWS, **given)
    assert set(again["age"]) == {"[0, 10[", "[10, 20[", "[30, 40["}


@pytest.mark.parametrize("stage", [LocalRecoding(), Mondrian(k=2)], ids=repr)
def test_cells_of_a_plan_of_former_labels_keep_them(run: Any, stage: Any) -> None:
    from privpipe.models import KAnonymity

    given: dict[str, Any] = {"roles": Roles(quasi_identifiers=["age"]), "guarantees": [KAnonymity(k=2)]}
    opened = {"age": {"intervals": {**INTERVALS["intervals"], "labels": "open"}}}
    former = run(stage, ROWS, hierarchies=opened, **given)
    again = run(Planned(stage=stage, plan=former.plan), ROWS, hierarchies={"age": INTERVALS}, **given)
    assert Counter(again["age"]) == Counter(former["age"])
    assert any("[" in label for label in again["age"])


class Planned:
    """A stage whose plan is at hand."""

    def __init__(self, stage: Any, plan: Any) -> None:
        self.stage, self.plan = stage, plan

    def learn(self, *_: Any) -> Any:
        return self.plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)
