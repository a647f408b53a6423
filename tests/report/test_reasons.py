"""Why a column has its role: shown to those responsible for the release, escaped, and to no one else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.errors import PolicyError
from privpipe.policy import Policy
from privpipe.policy.grammar import LONGEST_REASON
from privpipe.policy.schema import json_schema
from tests.report.accessibility import faults_of, read
from tests.report.conftest import document

MARK = "REASONED"
REASON = f"{MARK} by <script>alert(1)</script> & a {{lines}}\n  of two"


def reasoned(home: Path, **changes: Any) -> dict[str, Any]:
    given = document(home, **changes)
    for name in ("town", "name"):
        given["columns"] = {**given["columns"], name: {**given["columns"][name], "reason": REASON}}
    return given


@pytest.fixture(scope="module")
def released(home: Path) -> Any:
    return pp.release(reasoned(home, sink={"path": str(home / "reasoned" / "people")}))


def test_the_internal_report_shows_it_as_text(released: Any) -> None:
    for lang, said in (("en", "The policy says"), ("de", "Die Richtlinie sagt")):
        page = pp.report(released.record, format="html", lang=lang)  # type: ignore[arg-type]
        assert read(page).text.count(f"{said}: {MARK} by <script>alert(1)</script> & a {{lines}} of two") == 2
        assert "<script" not in page
        assert faults_of(page) == []


def test_nothing_public_holds_it(released: Any) -> None:
    told = [path for path in Path(released.path).rglob("*") if path.is_file()]
    assert any(path.name == "report.html" for path in told)
    assert not [path for path in told if MARK.encode() in path.read_bytes()]
    record = Path(released.record)
    assert MARK not in (record / "manifest.json").read_text(encoding="utf-8")
    assert MARK in json.loads((record / "report.json").read_text(encoding="utf-8"))["reasons"]["town"]


def test_it_changes_no_hash_and_stays_in_the_document(home: Path) -> None:
    plain, told = (Policy.from_dict(each) for each in (document(home), reasoned(home)))
    assert (plain.digest(), plain.run_digest()) == (told.digest(), told.run_digest())
    assert plain.public_document() == told.public_document()
    assert told.document["columns"]["town"]["reason"] == REASON
    assert MARK in told.to_yaml()
    assert told.columns["town"].role == plain.columns["town"].role


@pytest.mark.parametrize("wrong", [5, "", ["a"], {"why": "a"}, "a" * (LONGEST_REASON + 1)])
def test_a_wrong_reason_is_refused_and_not_repeated(home: Path, wrong: Any) -> None:
    given = document(home)
    given["columns"]["town"]["reason"] = wrong
    with pytest.raises(PolicyError, match=r"columns\.town\.reason") as refused:
        Policy.from_dict(given)
    assert "aaa" not in str(refused.value)


def test_the_schema_knows_it() -> None:
    assert json_schema()["$defs"]["column"]["properties"]["reason"]["maxLength"] == LONGEST_REASON


def test_a_reason_tightens_and_loosens_nothing(home: Path, tmp_path: Path) -> None:
    officer = tmp_path / "officer.yaml"
    rules: dict[str, Any] = {"columns": {"town": {"role": "sensitive"}}, "allow_insecure_seed": True}
    officer.write_text(json.dumps(rules))
    (tmp_path / "job.yaml").write_text(json.dumps(reasoned(home, policy=str(officer))))
    with pytest.raises(PolicyError, match="town"):
        Policy.load(tmp_path / "job.yaml")
