"""Runs of the benchmarks: figures have names and units, and runs are compared by ratios."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def runner() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield run_path(str(BENCHMARKS / "__main__.py"), run_name="benchmarks")
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_figures_of_the_kept_run_have_names_of_their_own() -> None:
    names = [figure["name"] for figure in json.loads((BENCHMARKS / "kept_run.json").read_text())["figures"]]
    assert len(set(names)) == len(names)


def test_the_page_gives_figures_in_their_units(runner: Any) -> None:
    figure = {"benchmark": "cost_model", "took": 143.0, "baseline": 130.0, "beside": "counted"}
    figures = [figure | {"name": "read", "unit": "MB"}, figure | {"name": "seconds"}]
    page = runner["page"](kept_run("2026-11-28") | {"figures": figures})
    assert "| read | 143 MB | 130 MB | counted | 1.10 |" in page
    assert "| seconds | 143 s | 130 s | counted | 1.10 |" in page


def test_every_benchmark_has_a_plan(runner: Any) -> None:
    assert {path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py")} == set(runner["PLANS"])


def test_runs_are_compared_by_ratios_of_what_both_measured(runner: Any) -> None:
    def run(**took: float) -> dict[str, Any]:
        return {"figures": [{"name": name, "took": value, "baseline": 2.0} for name, value in took.items()]}

    assert list(runner["changes"](run(a=2.0, b=1.0), run(a=6.0, c=1.0))) == [("a", 1.0, 3.0)]


def kept_run(day: str, **took: float) -> dict[str, Any]:
    figures = [
        {"benchmark": name, "name": name, "took": value, "baseline": 2.0, "beside": "x"} for name, value in took.items()
    ]
    machine = {"processors": 2, "memory_gib": 24, "system": "Linux", "architecture": "x86_64", "python": "3.11"}
    return {
        "date": day,
        "size": "usual",
        "machine": machine | {"libraries": {}},
        "skipped": {"dask": "failed with exit code 1"},
        "figures": figures,
    }


def test_benchmarks_that_are_measured_again_take_the_place_of_their_figures(runner: Any) -> None:
    before = kept_run("2026-11-01", embedded=1.0, spark=4.0)
    after = {**kept_run("2026-11-02", dask=3.0, embedded=2.0), "skipped": {}}
    found = runner["merged"](before, after)
    assert [(each["name"], each["took"]) for each in found["figures"]] == [
        ("embedded", 2.0),
        ("dask", 3.0),
        ("spark", 4.0),
    ]
    assert (found["date"], found["dates"], found["skipped"]) == ("2026-11-02", {"spark": "2026-11-01"}, {})
    assert "## spark, 2026-11-01" in runner["page"](found)
    third = runner["merged"](found, {**kept_run("2026-11-03", dask=1.0), "skipped": {}})
    assert third["dates"] == {"spark": "2026-11-01", "embedded": "2026-11-02"}


@pytest.mark.parametrize("change", [{"size": "quick"}, {"machine": {"processors": 64}}], ids=str)
def test_figures_of_another_machine_or_size_do_not_stand_next_to_these(runner: Any, change: dict[str, Any]) -> None:
    before = kept_run("2026-11-01", embedded=1.0)
    with pytest.raises(SystemExit, match="another size, machine or versions"):
        runner["require_alike"](before, {**before, **change})
