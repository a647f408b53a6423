"""Alarms of a run: said first, kept in private, and where the policy says so a refusal before publication."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine
from privpipe.errors import ColumnsLost, Refused

BLANK = "`town` is blank from top to bottom; it had 4 labels"
Write = Callable[[Mapping[str, Any]], Path]


@pytest.fixture
def blanking(document: dict[str, Any]) -> dict[str, Any]:
    """The release with one column at the root of its hierarchy, whose label is the suppression mark."""
    document["measures"] = []
    del document["guarantees"][1:]
    document["columns"]["illness"]["role"] = "insensitive"
    document["transform"] = [{"generalize": {"levels": {"town": 2, "age": 2}}}]
    return document


@pytest.fixture
def refusing(blanking: dict[str, Any]) -> dict[str, Any]:
    """Which refuses such a release."""
    return {**blanking, "utility": {"column_loss": {"on_alarm": "refuse"}}}


def test_an_alarm_is_a_warning_unless_the_policy_says_more(engine: Engine, blanking: dict[str, Any]) -> None:
    result = pp.release(blanking, engine=engine)
    assert result.assessment.passed
    assert result.assessment.alarms == (BLANK,)
    assert result.verdict_document["alarms"] == [BLANK]
    rows = {row["column"]: row for row in result.verdict_document["column_loss"]["columns"]}
    assert rows["town"]["alarm"] == "blank"
    assert rows["illness"]["loss"] == 0.0
    assert BLANK not in result.assessment.notes


def test_the_loss_of_levels_is_that_of_the_search(blanking: dict[str, Any]) -> None:
    """Where no record is suppressed and no value is missing, both are Iyengar's."""
    made = pp.plan(None, pp.Policy.from_dict(blanking))
    assert made.lost is not None
    expected = made.stages[0].detail["column_losses"]
    assert {name: made.lost.of(name).loss for name in expected} == pytest.approx(expected)


def test_refuse_publishes_nothing(engine: Engine, refusing: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ColumnsLost, match="`town` is blank from top to bottom") as refusal:
        pp.release(refusing, engine=engine)
    assert isinstance(refusal.value, Refused)
    assert refusal.value.exit_code == 5
    assert refusal.value.assessment.alarms == (BLANK,)
    assert refusal.value.assessment.holds
    assert not (tmp_path / "published" / "people").exists()


def test_what_was_published_before_stays(document: dict[str, Any], refusing: dict[str, Any], tmp_path: Path) -> None:
    pp.release(document)
    published = tmp_path / "published" / "people"
    before = published.resolve()
    with pytest.raises(ColumnsLost):
        pp.release(refusing)
    assert published.resolve() == before


def test_refuse_lets_a_release_without_alarms_pass(document: dict[str, Any]) -> None:
    document["utility"] = {"column_loss": {"on_alarm": "refuse", "at_most": 1}}
    assert pp.release(document).assessment.passed


def test_apply_gives_nothing_back_that_the_policy_refuses(refusing: dict[str, Any], people: Path) -> None:
    policy = pp.Policy.from_dict(refusing)
    with pytest.raises(ColumnsLost, match="Nothing was given back"):
        policy.apply(pd.read_csv(people, sep=";"))


def test_a_guarantee_that_fails_is_told_first(refusing: dict[str, Any]) -> None:
    refusing["guarantees"] = [{"k_anonymity": {"k": 300}}]
    with pytest.raises(Refused, match="KAnonymity") as refusal:
        pp.release(refusing)
    assert not isinstance(refusal.value, ColumnsLost)
    assert refusal.value.assessment.alarms == (BLANK,)


def test_the_warning_changes_no_row(blanking: dict[str, Any], tmp_path: Path) -> None:
    names = []
    for at_most in (0.1, 0.9):
        blanking["utility"] = {"column_loss": {"at_most": at_most}}
        result = pp.release(blanking, target=tmp_path / f"at-{at_most}")
        names.append(sorted((each["name"], each["sha256"]) for each in result.manifest["output"]["files"]))
    assert names[0] == names[1]


def test_the_public_edition_holds_none_of_it(blanking: dict[str, Any]) -> None:
    result = pp.release(blanking)
    files = list(Path(result.path).rglob("*"))
    texts = [path.read_text(encoding="utf-8") for path in files if path.suffix == ".json"]
    assert len(texts) == 3
    for text in texts:
        assert "alarms" not in text
        assert "blank from top" not in text
        assert "labels_before" not in text
        assert "measured_by" not in text
    report = CliRunner().invoke(app, ["report", result.path]).stdout
    assert "What was lost" not in report
    assert "ALARM" not in report


def test_the_command_says_alarms_first(blanking: dict[str, Any], policy_file: Write) -> None:
    done = CliRunner().invoke(app, ["release", str(policy_file(blanking))])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == f"ALARM: {BLANK}"
    assert "what was lost" in done.stdout
    assert "generalize (level 2)" in done.stdout


def test_the_command_refuses(refusing: dict[str, Any], policy_file: Write, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["release", str(policy_file(refusing))])
    assert done.exit_code == 5
    assert done.stdout.splitlines()[0] == f"ALARM: {BLANK}"
    assert "REFUSED: a column lost too much. Nothing was published." in done.stderr
    assert not (tmp_path / "published" / "people").exists()
    [verdict] = tmp_path.rglob("verdict.json")
    document = json.loads(verdict.read_text())
    assert (document["passed"], document["alarms"]) == (False, [BLANK])
    report = CliRunner().invoke(app, ["report", str(verdict)])
    assert "Every guarantee holds, but a column lost too much: nothing was published." in report.stdout


def test_plan_and_transform_say_it_too(blanking: dict[str, Any], policy_file: Write, tmp_path: Path) -> None:
    policy, plan, run = str(policy_file(blanking)), tmp_path / "plan.json", CliRunner().invoke
    made = run(app, ["plan", policy, "--out", str(plan)])
    assert made.stdout.splitlines()[0] == f"ALARM: {BLANK}"
    assert "what was lost" in made.stdout
    assert "measured_by" not in plan.read_text(encoding="utf-8")
    applied = run(app, ["transform", policy, "--plan", str(plan), "--target", str(tmp_path / "a")])
    assert applied.stdout.splitlines()[0] == f"ALARM: {BLANK}"
    told = run(app, ["transform", policy, "--plan", str(plan), "--target", str(tmp_path / "b"), "--json"])
    document = json.loads(told.stdout)
    assert document["alarms"] == [BLANK]
    printed = json.loads(run(app, ["plan", policy, "--json"]).stdout)
    assert printed["column_loss"] == document["column_loss"]
    plan.write_text(json.dumps(printed), encoding="utf-8")
    again = run(app, ["transform", policy, "--plan", str(plan), "--target", str(tmp_path / "c"), "--json"])
    assert again.exit_code == 0, again.stderr


def test_the_report_of_the_private_record_shows_it(blanking: dict[str, Any]) -> None:
    result = pp.release(blanking)
    text = CliRunner().invoke(app, ["report", result.record]).stdout
    assert f"**ALARM: {BLANK}**" in text.split("Every guarantee holds.")[0]
    assert "## What was lost" in text
    page = CliRunner().invoke(app, ["report", result.record, "--format", "html"]).stdout
    assert '<p class="alarm">ALARM: ' in page
    assert "blank from top to bottom" in page


def test_nothing_of_the_data_is_said(
    blanking: dict[str, Any], policy_file: Write, assert_silent: Callable[[str], None]
) -> None:
    for arguments in (["release", str(policy_file(blanking))], ["plan", str(policy_file(blanking)), "--json"]):
        done = CliRunner().invoke(app, arguments)
        assert_silent(done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"column_loss": {"at_most": 2}}, "utility.column_loss.at_most: must be a number from 0 to 1"),
        ({"column_loss": {"at_most": True}}, "utility.column_loss.at_most: must be a number from 0 to 1"),
        ({"column_loss": {"on_alarm": "refse"}}, "did you mean 'refuse'"),
        ({"column_los": {}}, "did you mean 'column_loss'"),
        ({"column_loss": 0.9}, "utility.column_loss: must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_by_its_place(given: dict[str, Any], said: str, document: dict[str, Any]) -> None:
    document["utility"] = given
    with pytest.raises(pp.errors.PolicyError, match=said):
        pp.Policy.from_dict(document)
