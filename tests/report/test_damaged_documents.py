"""A damaged document of a run is told as such, by every reader of it; none of them crashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import UsageError
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
        ("[]", "it is no mapping"),
        ("[" * 5000, "cannot be read"),
        ({"guarantees": None, "measures": []}, "guarantees is no list"),
        ({"measures": []}, "guarantees is missing"),
        ({**VERDICT, "guarantees": [3]}, r"guarantees\[0\] is no mapping"),
        ({**VERDICT, "guarantees": [{**ROW, "parameters": [1]}]}, r"guarantees\[0\].parameters is no mapping"),
        ({**VERDICT, "guarantees": [{**ROW, "failing_records": "2"}]}, "failing_records is no number"),
        ({**VERDICT, "guarantees": [{**ROW, "observed": 10**400}]}, "observed is a number beyond"),
        ({**VERDICT, "records": -1}, "records is no number of things"),
        ({**VERDICT, "versions": {"privpipe": 1}}, "versions.privpipe is no text"),
    ],
    ids=range(11),
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
def test_a_damaged_manifest_is_told(tmp_path: Path, changed: Any) -> None:
    with pytest.raises(UsageError, match="manifest.json"):
        RunDocuments.read(written(tmp_path, VERDICT, changed))


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
