"""`privpipe plan` alone prints the plan; `release --dry-run` rehearses; `--progress` prints lines when asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Run = Callable[..., Result]


def test_the_plan_is_printed_and_not_written(run: Run, place: Path) -> None:
    before = sorted(path.name for path in place.iterdir())
    result = run("plan", place / "release.yaml")
    assert result.exit_code == 0, result.stderr
    assert "60 records, 1 stages: generalize" in result.stdout
    assert "1. generalize (search: optimal, suppress_at_most: 0.2)" in result.stdout
    assert "  age: level " in result.stdout
    assert "nodes checked: " in result.stdout
    assert "what was lost" in result.stdout
    assert "PLANNED, not written" in result.stderr
    assert sorted(path.name for path in place.iterdir()) == before


def test_a_search_without_a_proof_says_how_far_the_best_may_be(run: Run, place: Path) -> None:
    policy = place / "release.yaml"
    asked = "search: optimal, suppress_at_most: 0.2"
    policy.write_text(policy.read_text().replace(asked, "search: top_down, suppress_at_most: 0.2"))
    result = run("plan", policy)
    assert result.exit_code == 0, result.stderr
    plan = json.loads(run("plan", policy, "--json").stdout)
    detail = plan["stages"][0]["detail"]
    assert not detail["optimal"]
    assert "not proved optimal: no choice loses less than " in result.stdout
    assert f"a gap of {detail['gap']:.4g}" in result.stdout
    policy.write_text(policy.read_text().replace("search: top_down", "search: optimal"))
    assert "not proved" not in run("plan", policy).stdout


def test_losses_are_left_out_where_no_one_wants_them(run: Run, place: Path) -> None:
    result = run("plan", place / "release.yaml", "--no-losses", "--out", place / "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "was not counted" in result.stdout
    assert "what was lost" not in result.stdout
    assert json.loads((place / "plan.json").read_text())["records"] == 60
    assert "column_loss" not in json.loads(run("plan", place / "release.yaml", "--no-losses", "--json").stdout)


def test_a_dry_run_says_what_it_would_publish(run: Run, place: Path) -> None:
    before = sorted(path.name for path in place.rglob("*"))
    result = run("release", place / "release.yaml", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "would publish:" in result.stdout
    assert f"target: {place / 'published' / 'small'}" in result.stdout
    assert "columns: age, zip, illness" in result.stdout
    assert "DRY RUN: nothing was published" in result.stderr
    assert "PUBLISHED" not in result.stderr
    assert sorted(path.name for path in place.rglob("*")) == before
    document = json.loads(run("release", place / "release.yaml", "--dry-run", "--json").stdout)
    assert (document["published"], document["passed"]) == (False, True)
    assert {"target", "columns", "files", "guarantees", "warnings", "schema_version"} <= set(document)


def test_a_dry_run_of_tables_says_how_many_cells_it_would_publish(run: Run, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("region\n" + "N\n" * 6 + "S\n" * 5)
    policy = {
        "version": 1,
        "columns": {"region": {"role": "quasi_identifier"}},
        "source": {"path": "people.csv"},
        "sink": {"path": "published"},
        "transform": [{"aggregate": {"by": ["region"], "responses": ["count"]}}],
        "guarantees": [{"minimum_frequency": {"at_least": 3}}],
    }
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    result = run("release", tmp_path / "policy.json", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "3 cells in 1 table" in result.stdout
    assert "columns: region, count" in result.stdout
    assert "could be written" not in result.stderr
    assert not (tmp_path / "published").exists()


def test_a_dry_run_ends_as_the_release_would(run: Run, place: Path) -> None:
    policy = place / "release.yaml"
    policy.write_text(policy.read_text().replace("search: optimal, suppress_at_most: 0.2", "levels: {age: 0, zip: 0}"))
    dry, real = run("release", policy, "--dry-run"), run("release", policy)
    assert (dry.exit_code, real.exit_code) == (5, 5)
    assert dry.stdout == real.stdout
    policy.write_text(policy.read_text().replace("{k: 3}", "{kk: 3}"))
    assert run("release", policy, "--dry-run").exit_code == 2


def test_progress_is_reported_where_it_is_asked_for(run: Run, place: Path) -> None:
    quiet = run("release", place / "release.yaml", "--dry-run")
    assert "progress:" not in quiet.stderr
    told = run("release", place / "release.yaml", "--dry-run", "--progress", "--json")
    assert "progress: stage 1 of 1: generalize" in told.stderr
    assert "progress: " not in told.stdout
    assert "8033" not in told.stderr
