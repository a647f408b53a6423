"""On two worker processes: a worker is killed in exchange and write, and stages run as on the embedded engine.

`make soak` kills one in each kind of stage, and runs every entry of the catalogues there.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.at_work import driven, killing_problems, other_than_embedded

pytestmark = pytest.mark.deep


@pytest.fixture(
    scope="module",
    params=[pytest.param("dask", marks=pytest.mark.dask), pytest.param("spark", marks=pytest.mark.spark)],
)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One cluster an engine."""
    if request.param == "dask" and importlib.util.find_spec("distributed") is None:
        pytest.skip("distributed is not installed")
    java = shutil.which("java") or Path(os.environ.get("JAVA_HOME", ""), "bin", "java").exists()
    if request.param == "spark" and (importlib.util.find_spec("pyspark") is None or not java):
        pytest.skip("Spark: no pyspark or no Java 17 on this machine")
    return driven(tmp_path_factory.mktemp(request.param), request.param, "few_staged", "processes", "few_killed")


def test_a_killed_worker_costs_a_retry_or_the_run_and_never_half_a_release(found: dict[str, Any]) -> None:
    problems = dict(killing_problems(found["few_killed"]))
    assert list(problems) == ["none", "exchange", "write"]
    assert not any(problems.values()), problems


def test_the_engine_shows_how_many_processes_work(found: dict[str, Any]) -> None:
    assert found["processes"] == 2


def test_stages_make_what_they_make_on_the_embedded_engine(found: dict[str, Any]) -> None:
    assert len(found["few_staged"]) == 2
    assert other_than_embedded(found["few_staged"]) == {}
