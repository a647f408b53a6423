"""Every known gap in the ways of counting is refused when the policy is read, with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.testing import GAPS

SEARCH = [{"generalize": {"search": "optimal"}}]
K_MAP = {"guarantees": [{"k_map": {"k": 2}}]}
ASKED: dict[str, dict[str, Any]] = {
    "generalized population search": {**K_MAP, "population": {"path": "census.parquet", "generalized": True}},
    "population in persons": {**K_MAP, "population": {"path": "census.parquet"}, "person_id": "who"},
    "wildcard in persons": {"guarantees": [{"k_anonymity": {"k": 2}}], "nulls": "wildcard", "person_id": "who"},
}
WHATEVER_STAGE = ("population in persons", "wildcard in persons")
COLUMNS = {
    "who": {"role": "identifier"},
    "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
}


@pytest.mark.parametrize("what", ASKED)
def test_a_gap_is_refused_not_passed_over(what: str, tmp_path: Path) -> None:
    document = {"version": 1, "source": {"path": "a.csv"}, "columns": COLUMNS, "transform": SEARCH, **ASKED[what]}
    with pytest.raises(GAPS["*", what].raises):
        pp.Policy.from_dict(document)
    path = tmp_path / "release.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    ended = CliRunner().invoke(app, ["plan", str(path), "--out", str(tmp_path / "plan.json")])
    assert ended.exit_code == 2
    document["transform"] = [{"generalize": {"levels": {"zip": 1}}}]
    if what in WHATEVER_STAGE:
        return
    assert pp.Policy.from_dict(document).transform


def test_a_guarantee_without_its_population_is_a_usage_error(tmp_path: Path) -> None:
    document = {"version": 1, "source": {"path": "a.csv"}, "columns": COLUMNS, "guarantees": [{"k_map": {"k": 2}}]}
    path = tmp_path / "release.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert CliRunner().invoke(app, ["assess", str(path)]).exit_code == 2


def test_a_sample_of_another_population_ends_with_3_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,zip\np,08001\nq,08002\n", encoding="utf-8")
    (tmp_path / "census.csv").write_text("zip\n08001\n", encoding="utf-8")
    document = {
        "version": 1,
        "source": {"path": "a.csv"},
        "columns": COLUMNS,
        "guarantees": [{"k_map": {"k": 1}}],
        "population": {"path": "census.csv"},
    }
    path = tmp_path / "release.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    ended = CliRunner().invoke(app, ["assess", str(path)])
    assert ended.exit_code == 3
    assert "not a sample of this population" in ended.stderr
    assert "08002" not in ended.output
