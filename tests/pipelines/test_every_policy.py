"""Every policy under `pipelines/` is run; a new one says here how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp

PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
POLICIES = {str(file.relative_to(PIPELINES)) for file in PIPELINES.glob("*/*.yaml")}
ENDS = {"adult/release.yaml": 0, "refused/release.yaml": 5, "survey/release.yaml": 0}
TABLES = {"marts/release.yaml", "marts/turnover.yaml", "marts/refused.yaml"}
"""Run by `test_marts.py`."""
RELATED = {"clinic/release.yaml"}
"""Run by `test_clinic.py`."""


def test_every_policy_has_its_end_written_down() -> None:
    assert {*ENDS, *TABLES, *RELATED} == POLICIES


@pytest.mark.parametrize(("policy", "code"), sorted(ENDS.items()))
def test_a_policy_ends_as_it_should_and_leaves_its_folder_alone(
    tmp_path: Path, run: Any, policy: str, code: int
) -> None:
    """As the README says it, with no variable set: without a seed one is drawn."""
    ended = run("privpipe", "release", PIPELINES / policy, "--target", tmp_path / "target", "--json")
    assert ended.returncode == code, ended.stderr
    verdict = json.loads(ended.stdout)
    built_in, *asked = verdict["guarantees"]
    assert (built_in["name"], built_in["outcome"], built_in["observed"]) == ("no_identifiers", "pass", 0)
    assert {entry["outcome"] for entry in asked} == ({"pass"} if code == 0 else {"fail"})
    assert (tmp_path / "target").exists() == (code == 0)
    if (
        policy == "refused/release.yaml"
    ):  # what fails, by a count of the table at these levels that uses none of this package's code
        assert (verdict["records"], verdict["classes"]) == (32_561, 5_343)
        figures = ("name", "observed", "failing_classes", "failing_records")
        assert [[entry[figure] for figure in figures] for entry in asked] == [
            ["k_anonymity", 1, 4_415, 6_520],
            ["distinct_l_diversity", 1, 4_280, 7_021],
        ]


def test_a_refusal_says_what_failed_and_leaves_the_earlier_release_in_place(tmp_path: Path, run: Any) -> None:
    target = tmp_path / "target"
    pp.release(PIPELINES / "adult" / "release.yaml", target=target)
    before = {file: file.stat().st_mtime_ns for file in target.rglob("*")}
    ended = run("privpipe", "release", PIPELINES / "refused" / "release.yaml", "--target", target)
    assert ended.returncode == 5
    told = ended.stdout + ended.stderr
    for part in (
        "KAnonymity(k=5): observed 1",
        "DistinctLDiversity(column='occupation', l=3): observed 1",
        "Nothing was published",
    ):
        assert part in told
    assert {file: file.stat().st_mtime_ns for file in target.rglob("*")} == before
