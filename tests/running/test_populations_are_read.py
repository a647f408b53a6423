"""A population that a policy names is compared with, or said to be of no use; a wrong path is never passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine
from privpipe.errors import DataError, PolicyError
from privpipe.measures import MarketerRisk

COLUMNS = {"zip": {"role": "quasi_identifier"}}
RELEASED = pd.DataFrame({"zip": ["a", "a", "b", "b"]})


def policy(home: Path, *guarantees: dict[str, Any], **more: Any) -> dict[str, Any]:
    place = str(home / "census.csv")
    return {
        "version": 1,
        "columns": COLUMNS,
        "population": {"path": place, "generalized": True},
        "guarantees": [*guarantees],
        **more,
    }


@pytest.mark.parametrize("given", [{}, {"population": True}])
@pytest.mark.parametrize("register", ["zip\nq\nq\n", "zip\na\na\nb\n"])
def test_marketer_risk_refuses_a_register_without_the_released_persons(
    tmp_path: Path, engine: Engine, given: dict[str, Any], register: str
) -> None:
    (tmp_path / "census.csv").write_text(register, encoding="utf-8")
    with pytest.raises(DataError, match="not a sample of this population"):
        pp.assess(RELEASED, policy(tmp_path, {"marketer_risk": {"at_most": 1.0, **given}}), engine=engine)


def test_marketer_risk_links_to_the_population_of_its_policy(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "census.csv").write_text("zip\n" + "a\n" * 8 + "b\n" * 4, encoding="utf-8")
    found = pp.assess(RELEASED, policy(tmp_path, {"marketer_risk": {"at_most": 0.4}}), engine=engine).verdicts[0]
    assert (found.outcome, found.observed, found.parameters["population"]) == ("pass", 0.1875, True)


def test_a_check_of_a_frame_links_to_the_population_that_is_given() -> None:
    register = pd.DataFrame({"zip": ["a"] * 8 + ["b"] * 4})
    measure = MarketerRisk(at_most=0.4)
    assert pp.assess(RELEASED, measure, quasi_identifiers=["zip"], population=register).verdicts[0].observed == 0.1875
    with pytest.raises(DataError, match="not a sample of this population"):
        pp.assess(RELEASED, measure, quasi_identifiers=["zip"], population=register.replace("a", "q"))


def test_no_job_lowers_the_risk_that_an_officer_asks_for_by_a_register_of_its_own(tmp_path: Path) -> None:
    officer = tmp_path / "officer.yaml"
    officer.write_text("version: 1\nguarantees:\n- marketer_risk: {at_most: 0.4}\n", encoding="utf-8")
    job = policy(tmp_path, {"marketer_risk": {"at_most": 0.4}}, policy=str(officer))
    with pytest.raises(PolicyError, match="population: is True"):
        pp.Policy.from_dict(job)
    officer.write_text("version: 1\nguarantees:\n- marketer_risk: {at_most: 0.4, population: true}\n", encoding="utf-8")
    assert pp.Policy.from_dict(job).guarantees == (MarketerRisk(at_most=0.4, population=True),)


def test_a_population_that_nothing_compares_with_is_warned_of(tmp_path: Path) -> None:
    alone = pp.Policy.from_dict(policy(tmp_path, {"k_anonymity": {"k": 2}}))
    assert [warning for warning in alone.warnings if "population" in warning and "compares with it" in warning]
    asked = pp.Policy.from_dict(policy(tmp_path, {"k_anonymity": {"k": 2}}, measures=[{"journalist_risk": {}}]))
    assert asked.warnings == ()


RUNS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "assess": lambda document: pp.assess(RELEASED, document),
    "plan": lambda document: pp.plan(RELEASED, document),
    "validate": lambda document: pp.validate(RELEASED, document),
    "apply": lambda document: pp.Policy.from_dict(document).apply(RELEASED),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("guarantee", [{"k_anonymity": {"k": 2}}, {"k_map": {"k": 2}}])
def test_a_population_that_is_not_there_ends_every_run(tmp_path: Path, run: str, guarantee: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="no csv file"):
        RUNS[run](policy(tmp_path, guarantee))


@pytest.mark.parametrize("asked", [["assess"], ["plan", "--out", "plan.json"], ["release"]])
def test_the_command_line_says_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    RELEASED.to_csv(tmp_path / "a.csv", index=False)
    document = policy(tmp_path, {"k_anonymity": {"k": 2}}, source={"path": "a.csv"}, sink={"path": "out"})
    (tmp_path / "release.yaml").write_text(json.dumps(document), encoding="utf-8")
    ended = CliRunner().invoke(app, [asked[0], "release.yaml", *asked[1:]])
    assert ended.exit_code == 3
    assert "no guarantee and no measure compares with it" in ended.stderr
    assert "no csv file" in ended.stderr
    assert not (tmp_path / "out").exists()
