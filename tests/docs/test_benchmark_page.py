"""`docs/benchmarks.md` is what the kept run measured, and runs are compared by ratios."""

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


def test_the_page_is_the_kept_run(runner: Any) -> None:
    kept = json.loads((BENCHMARKS / "kept_run.json").read_text())
    assert kept["figures"]
    assert (BENCHMARKS.parents[1] / "docs" / "benchmarks.md").read_text() == runner["page"](kept)


def test_every_benchmark_has_a_plan(runner: Any) -> None:
    assert {path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py")} == set(runner["PLANS"])


def test_runs_are_compared_by_ratios_of_what_both_measured(runner: Any) -> None:
    def run(**took: float) -> dict[str, Any]:
        return {"figures": [{"name": name, "took": value, "baseline": 2.0} for name, value in took.items()]}

    assert list(runner["changes"](run(a=2.0, b=1.0), run(a=6.0, c=1.0))) == [("a", 1.0, 3.0)]
