"""A missing cell stays missing below the root, reads as its `null_label` by choice, and as the root at the root."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from privpipe.models import KAnonymity
from privpipe.roles import Roles
from privpipe.transforms import Generalize, LocalRecoding, Mondrian
from privpipe.transforms.base import StagePlan

ROWS = {"town": ["Ashford", "Crewe", "Crewe", None, None, "Ashford", None]}
TREE: dict[str, Any] = {"tree": {"North": {"N1": ["Ashford"]}, "South": {"S1": ["Barrow", "Crewe"]}}}
GIVEN: dict[str, Any] = {"roles": Roles(quasi_identifiers=["town"]), "guarantees": [KAnonymity(k=2)]}


class Planned:
    """A stage whose plan is at hand."""

    def __init__(self, stage: Any, plan: StagePlan) -> None:
        self.stage, self.plan = stage, plan

    def learn(self, *_: Any) -> StagePlan:
        return self.plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)


@pytest.mark.parametrize(("label", "level", "written"), [(None, 1, None), ("missing", 1, "missing"), (None, 3, "*")])
def test_what_a_missing_cell_becomes(run: Any, label: str | None, level: int, written: str | None) -> None:
    said = {} if label is None else {"null_label": label}
    found = run(Generalize(levels={"town": level}), ROWS, hierarchies={"town": {**TREE, **said}}, **GIVEN)
    assert Counter(found["town"])[written] == (7 if level == 3 else 3)
    assert "null" not in found["town"]


@pytest.mark.parametrize("stage", [LocalRecoding(), Mondrian(k=2)], ids=repr)
@pytest.mark.parametrize("label", [None, "missing"])
def test_cells_of_several_levels(run: Any, stage: Any, label: str | None) -> None:
    """Two missing cells are too few for a class under k = 3 and a third value joins them at the root alone."""
    said = {"min_level": 1} if label is None else {"null_label": label, "min_level": 1}
    found = run(stage, ROWS, hierarchies={"town": {**TREE, **said}}, **GIVEN)
    assert Counter(found["town"])[label] == 3
    joined = run(stage, {"town": ["Ashford", "Ashford", None]}, hierarchies={"town": {**TREE, **said}}, **GIVEN)
    assert Counter(joined["town"]) == {"*": 3}


def test_a_plan_made_before_null_label_writes_what_it_wrote(run: Any) -> None:
    stage, hierarchies = Generalize(levels={"town": 1}), {"town": {"redact": {"keep": "left", "length": 7}}}
    found = run(stage, ROWS, hierarchies=hierarchies, **GIVEN)
    assert Counter(found["town"])[None] == 3
    definition = json.dumps([hierarchies["town"], {}, "text"], sort_keys=True)
    former = hashlib.sha256(definition.encode()).hexdigest()
    plan = replace(found.plan, detail={**found.plan.detail, "hierarchies": {"town": former}})
    again = run(Planned(stage, plan), ROWS, hierarchies=hierarchies, **GIVEN)
    assert Counter(again["town"])["null"] == 3
    assert None not in again["town"]


@pytest.mark.parametrize("stage", [LocalRecoding(), Mondrian(k=2)], ids=repr)
def test_cells_of_a_plan_made_before_null_label(run: Any, stage: Any) -> None:
    labelled = {"town": {**TREE, "null_label": "null", "min_level": 1}}
    former = run(stage, ROWS, hierarchies=labelled, **GIVEN)
    again = run(Planned(stage, former.plan), ROWS, hierarchies={"town": {**TREE, "min_level": 1}}, **GIVEN)
    assert Counter(again["town"]) == Counter(former["town"])
    assert Counter(again["town"])["null"] == 3


def test_the_label_null_is_not_merged_with_missing_cells(run: Any) -> None:
    rows = {"town": ["a", "a", "b", None, None]}
    hierarchies = {"town": {"rows": [["a", "null", "x", "*"], ["b", "null", "x", "*"]]}}
    found = run(Generalize(levels={"town": 1}), rows, hierarchies=hierarchies, **GIVEN)
    assert Counter(found["town"]) == {"null": 3, None: 2}


def test_a_class_of_missing_cells_is_judged_as_one(run: Any) -> None:
    """One missing cell among five records: below the root it is a class of one, so it goes to the root."""
    rows = {"town": ["Ashford", "Ashford", "Crewe", "Crewe", None]}
    found = run(Generalize(), rows, hierarchies={"town": TREE}, **GIVEN)
    assert found.plan.detail["levels"] == {"town": 3}
    assert Counter(found["town"]) == {"*": 5}
