"""`pp.validate` judges what ``privpipe validate`` judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import UsageError

POLICY = """\
version: 1
columns:
  zip: {role: quasi_identifier}
  ill: {role: insensitive}
guarantees:
  - k_anonymity: {k: 2}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def figures(document: dict[str, Any]) -> Any:
    return document["records"], document["classes"], document["guarantees"], document["passed"]


@pytest.mark.parametrize(("zips", "code"), [(["08*"] * 4, 0), (["08*", "08*", "09*", "10*"], 5)])
def test_the_command_line_and_python_say_the_same(policy: Path, tmp_path: Path, zips: list[str], code: int) -> None:
    frame = pd.DataFrame({"zip": zips, "ill": ["a", "b", "a", "b"]})
    path = tmp_path / "finished.txt"
    frame.to_csv(path, sep=";", index=False)
    arguments = ["validate", str(path), str(policy), "--format", "csv", "--delimiter", ";", "--json"]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == code
    of_file = pp.validate(path, policy, format="csv", delimiter=";")
    assert figures(of_file.to_dict()) == figures(json.loads(run.stdout))
    assert figures(pp.validate(frame, policy).to_dict()) == figures(of_file.to_dict())


def test_the_original_of_the_policy_is_taken(tmp_path: Path) -> None:
    first = pd.DataFrame({"id": [1, 2, 3, 4], "zip": ["081", "082", "091", "092"]})
    first.to_csv(tmp_path / "first.csv", index=False)
    finished = pd.DataFrame({"id": [1, 2, 3, 4], "zip": ["08*", "08*", "09*", "09*"]})
    document: dict[str, Any] = {
        "version": 1,
        "columns": {"id": {"role": "insensitive", "type": "integer"}, "zip": {"role": "quasi_identifier"}},
        "record_id": "id",
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "measures": [{"record_linkage": {}}],
    }
    named = {**document, "original": {"path": str(tmp_path / "first.csv")}}
    by_policy = pp.validate(finished, named).measures[0].observed
    assert by_policy == pp.validate(finished, document, original=first).measures[0].observed
    assert by_policy is not None


def test_wrong_calls_are_refused(policy: Path) -> None:
    frame = pd.DataFrame({"zip": ["1"], "ill": ["a"]})
    with pytest.raises(UsageError, match="give a finished table"):
        pp.validate(None, policy)
    with pytest.raises(UsageError, match="delimiter say how a file is written"):
        pp.validate(frame, policy, delimiter=";")
    with pytest.raises(UsageError, match="format must be one of"):
        pp.validate("x.csv", policy, format="cvs")
