"""Every reader reports a damaged document of a run as such; none of them crashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import UsageError
from privpipe.reporting.export_formats import exported
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.report import report
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.plan import Plan
from privpipe.transforms.base import StagePlan

ROW = {"name": "k_anonymity", "parameters": {"k": 3}, "observed": 4, "outcome": "pass", "failing_records": 0}
VERDICT: dict[str, Any] = {"run_id": "r", "passed": True, "records": 9, "guarantees": [ROW], "measures": []}
MANIFEST: dict[str, Any] = {"plan": {"stages": [{"name": "generalize", "parameters": {}}]}, "output": {"files": []}}


def written(folder: Path, verdict: Any, manifest: Any = MANIFEST) -> str:
    home = folder / "_privpipe"
    home.mkdir(exist_ok=True)
    for name, document in (("verdict", verdict), ("manifest", manifest)):
        text = document if isinstance(document, str) else json.dumps(document)
        (home / f"{name}.json").write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("", "verdict.json"),
        ("[]", "it is not a mapping"),
        ("[" * 5000, "cannot be read"),
        ({"guarantees": None, "measures": []}, "guarantees is not a list"),
        ({"measures": []}, "guarantees is missing"),
        ({**VERDICT, "guarantees": [3]}, r"guarantees\[0\] is not a mapping"),
        ({**VERDICT, "guarantees": [{**ROW, "parameters": [1]}]}, r"guarantees\[0\].parameters is not a mapping"),
        ({**VERDICT, "guarantees": [{**ROW, "failing_records": "2"}]}, "failing_records is not a number"),
        ({**VERDICT, "guarantees": [{**ROW, "observed": 10**400}]}, "observed is a number beyond"),
        ({**VERDICT, "guarantees": [{**ROW, "observed": {"a": [10**400]}}]}, "observed holds a number beyond"),
        ({**VERDICT, "records": -1}, "records is not a number of things"),
        ({**VERDICT, "guarantees": [{**ROW, "observed": json.loads("[" * 200 + "]" * 200)}]}, "nested too deeply"),
        ({**VERDICT, "elsewhere": {"\ud800": 1}}, "a text that is not Unicode"),
        ({**VERDICT, "versions": {"privpipe": 1}}, "versions.privpipe is not text"),
    ],
    ids=range(14),
)
def test_a_damaged_verdict_names_its_place(tmp_path: Path, changed: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RunDocuments.read(written(tmp_path, changed))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"plan": []},
        {"plan": {"stages": [{"name": 1, "parameters": {}}]}},
        {**MANIFEST, "sign_off": {"signatures": [{"name": "Ada"}]}},
        "{",
    ],
)
def test_a_damaged_manifest_is_reported(tmp_path: Path, changed: Any) -> None:
    with pytest.raises(UsageError, match="manifest.json"):
        RunDocuments.read(written(tmp_path, VERDICT, changed))


def test_what_is_said_of_a_damaged_one_names_no_value_deeper_than_its_place(tmp_path: Path) -> None:
    manifest = {**MANIFEST, "policy": {"columns": {"town": {"tree": {"Quokkaville": 10**400}}}}}
    with pytest.raises(UsageError) as told:
        RunDocuments.read(written(tmp_path, VERDICT, manifest))
    assert "policy.columns holds a number beyond" in str(told.value)
    assert "Quokkaville" not in str(told.value)


def test_a_search_of_more_vectors_than_64_bits_count_is_read(tmp_path: Path) -> None:
    detail = {"levels": {"age": 1}, "nodes": 3**41, "nodes_checked": 9, "optimal": False, "lower_bound": None}
    stage = {"name": "generalize", "parameters": {}, "detail": detail}
    run = RunDocuments.read(written(tmp_path, VERDICT, {**MANIFEST, "plan": {"stages": [stage]}}))
    assert f"{3**41:.4g}" in report_page(ReportData.of(run))


@pytest.mark.parametrize("name", ["risk", "loss"])
def test_a_setting_that_was_tried_says_risk_and_loss(name: str, tmp_path: Path) -> None:
    point = {"setting": {"k": 3}, "outcome": "pass", "pareto": True, "risk": None, "loss": 0.5}
    folder = written(tmp_path, VERDICT)
    assert report(folder, format="html", tried={"points": [point]})
    with pytest.raises(UsageError, match=f"{name} is missing"):
        report(folder, format="html", tried={"points": [{each: point[each] for each in point if each != name}]})


@pytest.mark.parametrize("columns", ["yes", 3, {"age": "quasi_identifier"}, None])
def test_an_event_of_a_policy_of_another_shape_is_made(columns: Any, tmp_path: Path) -> None:
    policy = {"source": {"path": "people.csv"}, "columns": columns}
    manifest = {**MANIFEST, "policy": policy, "output": {"columns": ["age"]}}
    event = json.loads(exported(written(tmp_path, VERDICT, manifest), "openlineage"))
    assert set(event["outputs"][0]["facets"]["columnLineage"]["fields"]) == {"age"}


def test_a_sound_one_is_read(tmp_path: Path) -> None:
    assert RunDocuments.read(written(tmp_path, VERDICT)).stages == MANIFEST["plan"]["stages"]


def test_a_plan_of_which_anything_changed_is_refused() -> None:
    stage = StagePlan(name="generalize", parameters={"search": "optimal"}, detail={"levels": {"age": 1}, "loss": 0.1})
    whole = json.loads(Plan(policy_digest="d", records=9, stages=(stage,)).to_json())
    assert Plan.from_json(json.dumps(whole)).levels == {"age": 1}
    changed = json.loads(json.dumps(whole))
    changed["stages"][0]["detail"]["levels"]["age"] = 2
    for damaged in (changed, {**whole, "records": 10}, {name: whole[name] for name in whole if name != "checksum"}):
        with pytest.raises(UsageError, match="damaged or was edited"):
            Plan.from_json(json.dumps(damaged))
    for text in (
        "",
        "[]",
        "{}",
        "null",
        "[" * 5000,
        '{"records": 1e999}',
        '{"stages": "\\ud800"}',
        json.dumps(whole)[:-9],
    ):
        with pytest.raises(UsageError, match="not a privpipe plan"):
            Plan.from_json(text)
