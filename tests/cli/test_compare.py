"""`privpipe compare` and `privpipe report`: settings and runs side by side, and what may be shown of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MEASURES = """\
measures:
  - prosecutor_risk: {}
  - information_loss: {measure: ncp}
"""


@pytest.fixture
def policy(place: Path) -> Path:
    path = place / "release.yaml"
    path.write_text(path.read_text().replace("measures:\n  - average_risk: {}\n", MEASURES))
    return path


def test_a_grid_on_the_command_line(run: Any, place: Path, policy: Path) -> None:
    grid = place / "grid.yaml"
    grid.write_text('"guarantees[0].k_anonymity.k": [2, 10]\n')
    done = run("compare", policy, "--grid", grid, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert [point["setting"] for point in document["points"]] == [
        {"guarantees[0].k_anonymity.k": 2},
        {"guarantees[0].k_anonymity.k": 10},
    ]
    assert [point["outcome"] for point in document["points"]] == ["pass", "pass"]
    assert not (place / "published").exists()
    table = run("compare", policy, "--grid", grid)
    assert table.exit_code == 0
    assert "guarantees[0].k_anonymity.k" in table.stdout
    assert "risk = 1 prosecutor_risk; loss = 1 information_loss.ncp; score = (loss + risk) / 2" in table.stdout
    assert "smallest loss under all guarantees: guarantees[0].k_anonymity.k = 2" in table.stdout
    assert "Nothing was published." in table.stderr
    grid.write_text('"guarantees[0].k_anonymity.k": [500]\n')
    assert run("compare", policy, "--grid", grid).exit_code == 6


def test_two_runs_side_by_side_and_a_report_of_one(run: Any, place: Path, policy: Path) -> None:
    assert run("release", policy, "--target", place / "one").exit_code == 0
    policy.write_text(
        policy.read_text().replace("{k: 3}", "{k: 10}").replace("suppress_at_most: 0.2", "suppress_at_most: 0.1")
    )
    assert run("release", policy, "--target", place / "two").exit_code == 0
    done = run("compare", place / "one", place / "two", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["settings"] == {"transform[0].generalize.suppress_at_most": [0.2, 0.1]}
    rows = {row["entry"]: row for row in document["figures"]}
    assert set(rows) == {
        "no_identifiers",
        "k_anonymity",
        "distinct_l_diversity column=illness",
        "prosecutor_risk",
        "information_loss measure=ncp",
    }
    anonymity = rows["k_anonymity"]
    assert anonymity["difference"] == anonymity["right"] - anonymity["left"] > 0
    assert anonymity["left_outcome"] == anonymity["right_outcome"] == "pass"
    table = run("compare", place / "one", place / "two")
    assert "transform[0].generalize.suppress_at_most" in table.stdout

    report = run("report", place / "one")
    assert report.exit_code == 0
    assert "| k_anonymity | k: 3 |" in report.stdout
    assert "| 1 | generalize | search: optimal" not in report.stdout  # optimal is the default, which is not repeated
    page = place / "report.html"
    assert run("report", place / "one", "--out", page).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert "k-anonymity" in page.read_text()


def test_a_report_of_a_refused_run_shows_no_small_counts(run: Any, place: Path) -> None:
    lines = (place / "data.csv").read_text()
    (place / "data.csv").write_text(lines + "99;99999;gout\n98;99999;flu\n")
    policy = place / "release.yaml"
    text = policy.read_text()
    start, end = text.index("transform:"), text.index("guarantees:")
    policy.write_text(text[:start] + text[end:].replace("{k: 3}", "{k: 2}"))
    assert run("release", policy).exit_code == 5
    [verdict] = (place / "published").glob(".small.privpipe/records/*/verdict.json")
    done = run("report", verdict)
    assert done.exit_code == 0, done.stderr
    assert "A guarantee does not hold" in done.stdout
    assert "| fail |" in done.stdout
    assert "99999" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "one"],
        ["compare", "one", "two", "three"],
        ["compare", "a", "b", "--grid", "g.yaml"],
        ["compare", "nowhere", "neither"],
        ["compare", "a", "b", "--risk", "record_linkage"],
        ["report", "nowhere"],
        ["report", "nowhere", "--format", "pdf"],
    ],
)
def test_wrong_arguments_end_with_2(run: Any, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""


def test_malformed_documents_are_reported(run: Any, tmp_path: Path) -> None:
    for text in ("{", "[]", '{"guarantees": []}'):
        (tmp_path / "verdict.json").write_text(text)
        done = run("report", tmp_path / "verdict.json")
        assert done.exit_code == 2
        assert "verdict.json" in done.stderr


def test_any_measure_is_an_axis(run: Any, place: Path) -> None:
    grid, policy = place / "grid.yaml", place / "release.yaml"  # which has a model under `measures:` alone
    grid.write_text('"guarantees[0].k_anonymity.k": [2, 10]\n')
    asked = ("--risk", "marketer_risk", "--risk", "risky_cells:threshold=2", "--loss", "cell_loss")
    done = run("compare", policy, "--grid", grid, *asked)
    assert done.exit_code == 0, done.stderr
    assert "risk = 0.5 marketer_risk + 0.5 risky_cells:threshold=2; loss = 1 cell_loss;" in done.stdout
    wrong = run("compare", policy, "--grid", grid, "--risk", "marketer_rsik")
    assert wrong.exit_code == 2
    assert "did you mean 'marketer_risk'" in wrong.stderr
