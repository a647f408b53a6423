"""A guarantee that only warns: the release goes on, and every document says what was asked and what was reached."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.errors import PolicyError, Refused, UsageError
from privpipe.models import DistinctLDiversity, KAnonymity, NoIdentifiers
from privpipe.policy import Policy
from privpipe.reporting.report import report
from privpipe.roles import Roles
from privpipe.sinks.target import METADATA

Writer = Callable[[Mapping[str, Any]], Path]
UNMET = {"k_anonymity": {"k": 300, "severity": "warn"}}
SENTENCE = "k_anonymity: required 300, achieved "


@pytest.fixture
def warned(document: dict[str, Any]) -> dict[str, Any]:
    """The policy that can be met, with a warning that no table of its kind meets."""
    changed = copy.deepcopy(document)
    changed["guarantees"].append(UNMET)
    return changed


def test_the_release_goes_on_and_every_document_says_so(warned: dict[str, Any]) -> None:
    result = pp.release(warned)
    assert result.assessment.passed
    assert [verdict.outcome for verdict in result.assessment.warned] == ["fail"]
    assert not result.assessment.warned[0].passed
    public = json.loads((Path(result.path) / METADATA / "verdict.json").read_text())
    for document in (public, result.verdict_document):
        assert document["schema_version"] == 2
        assert document["passed"]
        assert [text.startswith(SENTENCE) for text in document["warnings"]] == [True]
        row = document["guarantees"][-1]
        assert (row["outcome"], row["severity"], row["threshold"]) == ("fail", "warn", 300)
        assert {row["severity"] for row in document["guarantees"][:-1]} == {"fail"}
    for form, said in (("markdown", "WARNING k_anonymity"), ("html", "Warning: k-anonymity requires at least 300")):
        text = report(result, format=form)  # type: ignore[arg-type]
        assert said in text
        assert "Every guarantee holds." not in text


def test_a_search_looks_for_the_others_alone(document: dict[str, Any], warned: dict[str, Any]) -> None:
    assert pp.plan(None, warned).levels == pp.plan(None, document).levels
    assert Policy.from_dict(warned).digest() != Policy.from_dict(document).digest()


def test_an_unmet_guarantee_still_refuses_next_to_a_warning(raw_document: dict[str, Any]) -> None:
    changed = {**raw_document, "guarantees": [*raw_document["guarantees"], UNMET]}
    with pytest.raises(Refused) as caught:
        pp.release(changed)
    assert "300" not in str(caught.value)
    assert [verdict.name for verdict in caught.value.assessment.warned] == ["k_anonymity"]
    assert not Path(changed["sink"]["path"]).exists()


def test_a_warning_that_is_met_is_none(document: dict[str, Any]) -> None:
    met = {**document, "guarantees": [*document["guarantees"], {"k_anonymity": {"k": 2, "severity": "warn"}}]}
    found = pp.release(met)
    assert found.verdict_document["warnings"] == []
    assert "WARNING" not in report(found)


def test_what_cannot_be_judged_warns_as_well(document: dict[str, Any]) -> None:
    asked = [
        {"k_anonymity": {"k": 1, "quasi_identifiers": ["town"]}},
        {"distinct_l_diversity": {"column": "illness", "l": 1}},
        {"record_linkage": {"columns": ["income"], "at_most": 0.5, "severity": "warn"}},
    ]
    judged = pp.assess(None, {**document, "guarantees": asked})  # no original: pairs cannot be formed
    assert judged.passed
    assert judged.warnings == ("record_linkage: required 0.5, not judged",)
    assert judged.warned[0].outcome == "error"


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ([{"k_anonymity": {"k": 2, "severity": "warn"}}], "guarantees[0].k_anonymity.severity"),
        ([{"k_anonymity": {"k": 2, "severity": "wran"}}], "guarantees[0].k_anonymity.severity"),
        ([{"k_anonymity": {"k": 2}}, {"no_identifiers": {"severity": "warn"}}], "guarantees[1].no_identifiers"),
        ([{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "s", "l": 2, "severity": "warn"}}], "columns"),
    ],
)
def test_nothing_rests_on_warnings_alone(asked: list[Any], place: str, tmp_path: Path) -> None:
    columns: dict[str, Any] = {"zip": {"role": "quasi_identifier"}}
    if place == "columns":
        columns["s"] = {"role": "sensitive"}
    path = tmp_path / "policy.yaml"
    lines = ["version: 1", f"columns: {json.dumps(columns)}", "guarantees:", *(f"- {json.dumps(e)}" for e in asked)]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(PolicyError) as caught:
        Policy.load(path)
    [problem] = caught.value.problems
    assert problem.path.startswith(place)
    assert f"{path.name}:" in str(caught.value)


def test_a_measure_has_no_severity() -> None:
    document = {
        "columns": {"zip": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "measures": [{"average_risk": {"severity": "warn"}}],
    }
    with pytest.raises(PolicyError, match="never judged"):
        Policy.from_dict(document)


def test_objects_and_yaml_keep_it(tmp_path: Path) -> None:
    guarantees = [KAnonymity(k=2), KAnonymity(k=9, severity="warn")]
    policy = Policy(roles=Roles(quasi_identifiers=["zip"]), guarantees=guarantees)
    path = tmp_path / "policy.yaml"
    path.write_text(policy.to_yaml())
    again = Policy.load(path)
    assert again.guarantees == policy.guarantees == tuple(guarantees)
    assert again.binding == (KAnonymity(k=2),)
    assert again.digest() == policy.digest()
    assert policy.warnings == ()


def test_checks_of_frames_know_it() -> None:
    import pandas as pd

    frame = pd.DataFrame({"zip": ["081", "081", "082", "082"], "ill": ["a", "b", "a", "b"]})
    entries = [KAnonymity(k=2), KAnonymity(k=3, severity="warn")]
    found = pp.check(frame, entries, quasi_identifiers=["zip"])
    assert found.warnings == ("k_anonymity: required 3, achieved 2",)
    with pytest.raises(UsageError, match="only warns"):
        pp.check(frame, entries[1:], quasi_identifiers=["zip"])
    assert not pp.assess(frame, entries[1:], quasi_identifiers=["zip"]).passed
    alone = DistinctLDiversity(column="ill", l=3, severity="warn").assess(frame, quasi_identifiers=["zip"])
    assert (alone.outcome, alone.passed, alone.warns, alone.blocks) == ("fail", False, True, False)
    assert str(alone).startswith("WARNING (FAIL) ")
    with pytest.raises(UsageError, match="built in"):
        NoIdentifiers(severity="warn")
