"""Risks of single records go to a file of their own, on request, and never into a release."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.errors import DataError, UsageError
from privpipe.running.kept_records import write_record_risks

LINES = ["id,a,b,w,home", "4,x,1,2,p", "3,x,1,4,q", "2,y,1,5,q", "1,,2,8,", "5,y,,3,p"]


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "rows.csv").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "rows.csv"), "format": "csv"},
        "sink": {"path": str(tmp_path / "published"), "format": "parquet"},
        "columns": {
            "id": {"role": "identifier", "type": "integer"},
            "a": {"role": "quasi_identifier"},
            "b": {"role": "quasi_identifier"},
            "w": {"role": "identifier", "type": "number"},
            "home": {"role": "identifier"},
        },
        "record_id": "id",
        "guarantees": [{"individual_risk": {"weight": "w", "at_most": 1}}, {"k_anonymity": {"k": 1}}],
        "measures": [{"individual_risk": {"weight": "w", "household": "home"}}, {"special_uniques": {}}],
    }


def written(document: dict[str, Any], path: Path) -> dict[str, list[Any]]:
    assert write_record_risks(pp.Policy.from_dict(document), str(path)) == 5
    assert path.stat().st_mode & 0o077 == 0
    table = pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    found: dict[str, list[Any]] = table.to_pydict()
    return found


def alone(weight: float) -> float:
    return math.log(weight) / (weight - 1)


def test_one_line_a_record(document: dict[str, Any], tmp_path: Path) -> None:
    found = written(document, tmp_path / "risks.csv")
    assert found["id"] == [1, 2, 3, 4, 5]
    pair = 0.5 - 0.25 * math.log(3)  # f = 2, F = 6: p/q - (p/q)^2 ln(1/p) with p/q = 1/2
    own = [alone(8), alone(5), pair, pair, alone(3)]
    assert found["individual_risk"] == pytest.approx(own)
    q, p = 1 - (1 - pair) * (1 - own[1]), 1 - (1 - pair) * (1 - own[4])
    assert found["individual_risk_2"] == pytest.approx([own[0], q, q, p, p])
    # Alone: 1 on b=2 (score 1); 2 on a=y and b=1 (score 1); 5 has a blank in b and shares a=y.
    assert found["special_uniques_score"] == [1, 1, 0, 0, 0]
    assert [each > 0 for each in found["special_uniques_dis"]] == [True, True, False, False, False]
    document["nulls"] = "wildcard"
    blanks = written(document, tmp_path / "blanks.parquet")
    # Record 5 matches 2, which is complete; record 1 matches 5 alone, both by blanks.
    assert blanks["individual_risk"][4] < own[4]
    assert blanks["special_uniques_score"] == found["special_uniques_score"]


def test_what_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    def refused(path: Path, said: str, **changed: Any) -> None:
        with pytest.raises((UsageError, DataError), match=said):
            write_record_risks(pp.Policy.from_dict(document | changed), str(path))
        assert not path.exists() or path.read_text() == "kept"

    (tmp_path / "there.csv").write_text("kept")
    refused(tmp_path / "there.csv", "exists already")
    refused(tmp_path / "risks.txt", "csv or .parquet")
    refused(tmp_path / "published" / "risks.csv", "must not be in the release")
    refused(tmp_path / "risks.csv", "no entry", guarantees=[{"k_anonymity": {"k": 1}}], measures=[])
    document.pop("record_id")
    refused(tmp_path / "risks.csv", "names none")
    refused(tmp_path / "risks.csv", "does not distinguish records", record_id="home")


def test_on_the_command_line(document: dict[str, Any], tmp_path: Path) -> None:
    policy = tmp_path / "release.yaml"
    policy.write_text(json.dumps(document), encoding="utf-8")
    result = CliRunner().invoke(app, ["assess", str(policy), "--show-records", str(tmp_path / "risks.csv")])
    assert result.exit_code == 0
    assert "5 single records" in result.output
    assert (tmp_path / "risks.csv").is_file()
