"""What a command prints: a document on stdout with --json, a readable account without."""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privpipe.blocks import Verdict
from privpipe.cli.gate import show_assessment
from privpipe.errors import NoSolutionError, Refused
from privpipe.judging import Assessment
from privpipe.judging.column_loss import ColumnLoss, ColumnLossRule, LossTable
from privpipe.models import AverageRisk, DistinctLDiversity, KAnonymity
from privpipe.policy import Policy
from privpipe.running import Plan
from privpipe.running.release_result import ReleaseResult
from privpipe.transforms.base import StagePlan


def assessment(outcome: Any = "pass") -> Assessment:
    """Two guarantees, the second of this outcome, and a measure."""
    good = Verdict(KAnonymity(k=5), 7, "pass", 5, 0, 0, 0.0, "observed 7, required at least 5.")
    second = DistinctLDiversity(column="illness", l=3)
    other = Verdict(
        second, 2, outcome, 3, 1, 7, 0.07, "observed 2, required at least 3; 1 of 9 classes, 7 of 100 fail."
    )
    measured = Verdict(AverageRisk(), 0.0625, "pass", None, reason="observed 0.0625.")
    return Assessment(
        verdicts=(good, other), measures=(measured,), records=100, suppressed_records=4, classes=9, run={"engine": "x"}
    )


def facade(monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> None:
    """Put a function instead of one of the facade's."""
    # Both are imported before either is changed: what is imported later would keep the function for good.
    modules = [importlib.import_module(f"privpipe.running.{room}") for room in ("verbs",)]
    for module in modules[: 2 if name == "assess" else 1]:
        monkeypatch.setattr(module, name, function)


def published(judged: Assessment) -> Any:
    """A result as the runner returns it."""
    plan = Plan(policy_digest="", records=100, stages=())
    made = ReleaseResult(path="there", run_id="r1", assessment=judged, plan=plan, manifest={}, record="kept")
    return lambda *_, **__: made


def refused(judged: Assessment) -> Any:
    """A run that is refused."""

    def run(*_: Any, **__: Any) -> Any:
        raise Refused("refused", judged)

    return run


def test_a_release_prints_its_verdict_document_alone(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facade(monkeypatch, "release", published(assessment()))
    done = run("release", place / "release.yaml", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == assessment().to_dict()
    assert "PUBLISHED: there (run r1)" in done.stderr


def test_a_refusal_prints_its_verdict_document_and_ends_with_5(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facade(monkeypatch, "release", refused(assessment("fail")))
    done = run("release", place / "release.yaml", "--json")
    assert done.exit_code == 5
    assert [row["outcome"] for row in json.loads(done.stdout)["guarantees"]] == ["pass", "fail"]
    assert done.stderr.splitlines() == [
        f"{place}/release.yaml:12: guarantees[1].distinct_l_diversity: "
        "DistinctLDiversity(column='illness', l=3) does not hold",
        "REFUSED: a guarantee does not hold. Nothing was published.",
    ]


def test_without_a_terminal_a_refusal_is_a_line_a_guarantee(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facade(monkeypatch, "release", refused(assessment("fail")))
    done = run("release", place / "release.yaml")
    assert done.stdout.splitlines() == [
        "100 records judged, 9 classes, 4 suppressed (engine: x)",
        "PASS  KAnonymity(k=5): observed 7, required at least 5.",
        "FAIL  DistinctLDiversity(column='illness', l=3): observed 2, required at least 3; 1 of 9 classes, 7 of 100 "
        "fail.",
        "      AverageRisk(): observed 0.0625.",
    ]


def test_on_a_terminal_it_is_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    show_assessment(assessment("fail"), json=False)
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).replace("┃", "│")
    header = next(line for line in out.splitlines() if "guarantee" in line)
    assert [name.strip() for name in header.split("│")] == [
        "guarantee",
        "observed",
        "required",
        "outcome",
        "failing records",
    ]
    row = next(line for line in out.splitlines() if line.startswith("distinct_l_diversity column=illness"))
    assert [cell.strip() for cell in row.split("│")][1:] == ["2", ">= 3", "FAIL", "7 (7.00%)"]
    assert out.rstrip().endswith("7 of 100 fail.")


@pytest.mark.parametrize(("outcome", "code"), [("pass", 0), ("fail", 5), ("error", 5)])
def test_assess_and_validate_end_with_5_unless_all_pass(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, code: int
) -> None:
    facade(monkeypatch, "assess", lambda *_, **__: assessment(outcome))
    for arguments in (("assess", place / "release.yaml"), ("validate", place / "data.csv", place / "release.yaml")):
        done = run(*arguments, "--json")
        assert done.exit_code == code
        assert json.loads(done.stdout)["passed"] is (code == 0)
        said = {"pass": "", "fail": "does not hold", "error": "was not judged"}[outcome]
        assert ("release.yaml:12: guarantees[1].distinct_l_diversity: " in done.stderr) is (code == 5)
        assert said in done.stderr


BLANK = ColumnLoss(column="town", role="sensitive", labels_before=7, labels_after=0, alarm="blank")
LOST = LossTable(columns=(BLANK,), rule=ColumnLossRule(on_alarm="refuse"))


@pytest.mark.parametrize(
    "more",
    [{"whole": assessment("fail")}, {"lost": LOST}, {"verdicts": ()}],
    ids=["the whole table fails", "a column is lost", "nothing was judged"],
)
def test_they_end_with_5_too_where_no_verdict_fails_and_the_table_does_not_pass(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    facade(monkeypatch, "assess", lambda *_, **__: replace(assessment(), **more))
    for arguments in (("assess", place / "release.yaml"), ("validate", place / "data.csv", place / "release.yaml")):
        done = run(*arguments)
        assert (done.exit_code, "FAILED" in done.stderr) == (5, True), done.output


def test_of_two_guarantees_of_one_name_the_one_that_fails_is_named(run: Any, place: Path) -> None:
    text = (place / "release.yaml").read_text()
    asked = "  - k_anonymity: {k: 2, quasi_identifiers: [age]}\n  - k_anonymity: {k: 50}\n"
    (place / "release.yaml").write_text(text.replace("  - k_anonymity: {k: 3}\n", asked))
    done = run("assess", place / "release.yaml")
    assert done.exit_code == 5
    assert "release.yaml:12: guarantees[1].k_anonymity: KAnonymity(k=50) does not hold" in done.stderr
    assert "guarantees[0]" not in done.stderr


def test_validate_hands_over_what_it_was_told(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    def judge(data: Any, policy: Policy, **options: Any) -> Assessment:
        told.update(options, data=data)
        return assessment()

    facade(monkeypatch, "assess", judge)
    policy = place / "release.yaml"
    run("validate", "out.csv", policy, "--original", "in.csv", "--align", "position", "--engine", "dask")
    assert (told["original"], told["align"], told["engine"]) == ("in.csv", "position", "dask")
    assert (told["data"].data, told["data"].delimiter, told["data"].types) == ("out.csv", ";", {})
    run("validate", place / "published" / "small", policy)
    assert told["data"].format == "parquet"
    assert told["data"].delimiter == ","
    run("validate", "out.txt", policy, "--format", "csv", "--delimiter", "|")
    assert (told["data"].format, told["data"].delimiter) == ("csv", "|")
    assert run("validate", "x", policy, "--align", "somehow").exit_code == 2
    assert run("validate", "x", policy, "--format", "cvs").exit_code == 2


def test_release_hands_over_engine_and_target(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    def release(policy: Policy, **options: Any) -> Any:
        told.update(options)
        options["progress"]("scan")
        return published(assessment())()

    facade(monkeypatch, "release", release)
    assert run("release", place / "release.yaml", "--engine", "spark", "--target", "x").exit_code == 0
    assert (told["engine"], told["target"]) == ("spark", "x")


def made_plan(place: Path) -> Plan:
    """A plan of the policy with one stage."""
    policy = Policy.load(place / "release.yaml")
    detail = {"levels": {"age": 1, "zip": 0}, "loss": 0.25, "optimal": True, "nodes_checked": 12}
    return Plan(
        policy_digest=policy.digest(), records=60, stages=(StagePlan(name="generalize", detail=detail),), policy=policy
    )


def test_a_plan_is_written_and_summarised(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facade(monkeypatch, "plan", lambda *_, **__: made_plan(place))
    done = run("plan", place / "release.yaml", "--out", place / "plan.json")
    assert done.exit_code == 0
    assert Plan.from_json((place / "plan.json").read_text()).levels == {"age": 1, "zip": 0}
    assert "age: level 1" in done.stdout
    assert "nodes checked: 12" in done.stdout
    done = run("plan", place / "release.yaml", "--json")
    assert json.loads(done.stdout) == made_plan(place).to_dict()
    assert run("plan", place / "release.yaml").exit_code == 0
    assert run("plan", place / "release.yaml", "--out", place / "none" / "plan.json").exit_code == 4


def test_no_solution_ends_with_6(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(*_: Any, **__: Any) -> Any:
        raise NoSolutionError("nothing within the limits; k = 12 would be attainable")

    facade(monkeypatch, "plan", decide)
    done = run("plan", place / "release.yaml", "--out", place / "plan.json")
    assert done.exit_code == 6
    assert "attainable" in done.stderr
    assert not (place / "plan.json").exists()


@pytest.mark.parametrize("target", ["published/small", "published", "published/small/x", "full", "s3://bucket/x"])
def test_unjudged_data_goes_to_no_sink_and_to_no_full_folder(run: Any, place: Path, target: str) -> None:
    (place / "full").mkdir()
    (place / "full" / "file").touch()
    (place / "plan.json").write_text(made_plan(place).to_json())
    path = target if "://" in target else place / target
    done = run("transform", place / "release.yaml", "--plan", place / "plan.json", "--target", path)
    assert done.exit_code == 2
    assert "--target" in done.stderr
    assert not (place / "published").exists()


def test_a_sink_behind_a_link_is_the_sink_all_the_same(run: Any, place: Path) -> None:
    (place / "published").mkdir()
    (place / "link").symlink_to(place / "published")
    (place / "plan.json").write_text(made_plan(place).to_json())
    target = place / "link" / "small"
    assert run("transform", place / "release.yaml", "--plan", place / "plan.json", "--target", target).exit_code == 2


@pytest.mark.parametrize("text", ["{}", "not json", None])
def test_anything_but_a_plan_is_a_usage_error(run: Any, place: Path, text: str | None) -> None:
    if text is not None:
        (place / "plan.json").write_text(text)
    done = run("transform", place / "release.yaml", "--plan", place / "plan.json", "--target", place / "new")
    assert done.exit_code == 2
    assert "plan" in done.stderr
    assert not (place / "new").exists()


def test_a_plan_of_another_policy_or_seed_is_refused(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "plan.json").write_text(made_plan(place).to_json())
    arguments = ("transform", place / "release.yaml", "--plan", place / "plan.json", "--target", place / "new")
    text = (place / "release.yaml").read_text()
    (place / "release.yaml").write_text(text.replace("k: 3", "k: 4"))
    assert "another policy" in run(*arguments).stderr
    (place / "release.yaml").write_text(text + "seed: {from_env: A_SEED}\n")
    monkeypatch.setenv("A_SEED", "7d1c9a3e5b8f2046d1e7c3a95f80b264")
    (place / "plan.json").write_text(made_plan(place).to_json())
    assert "another seed" in run(*arguments).stderr


def test_warnings_of_the_policy_are_reported_on_stderr(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facade(monkeypatch, "assess", lambda *_, **__: assessment())
    (place / "release.yaml").write_text(
        (place / "release.yaml").read_text() + "seed: 7d1c9a3e5b8f2046d1e7c3a95f80b264\n"
    )
    done = run("assess", place / "release.yaml", "--json")
    assert done.stderr.startswith(f"warning: {place / 'release.yaml'}:16: seed: the secret is in the policy")
    assert "7d1c9a3e5b8f2046d1e7c3a95f80b264" not in done.output
    json.loads(done.stdout)


def test_progress_is_a_bar_on_a_terminal_and_a_log_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    from privpipe.cli.console import progress

    with caplog.at_level("INFO", "privpipe.cli"), progress(2) as tell:
        tell("scan")
    assert caplog.messages == ["scan"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(2) as tell:
        tell("judge [bold]")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "judge [bold]" in captured.err
