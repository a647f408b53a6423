"""On two worker processes: a worker is killed in each kind of stage, and stages run as on the embedded engine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def driven(folder: Path, engine: str) -> dict[str, Any]:
    """What a driver in a process of its own found on a cluster."""
    sys.path.insert(0, str(HERE))
    try:
        from started import dask_cluster, environment, spark_cluster
    finally:
        sys.path.remove(str(HERE))
    place = folder / "driver"
    place.mkdir()
    with (spark_cluster if engine == "spark" else dask_cluster)(folder) as url:
        words = [sys.executable, str(HERE / "driver.py"), str(place), engine, url, "killed", "few_staged"]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads((place / "found.json").read_text(encoding="utf-8"))
    return found


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
    return driven(tmp_path_factory.mktemp(request.param), request.param)


def test_a_killed_worker_costs_a_retry_or_the_run_and_never_half_a_release(found: dict[str, Any]) -> None:
    whole = found["killed"].pop("none")
    assert (whole["code"], whole["died"]) == (0, False)
    assert sum(row[-1] for row in whole["rows"]) == whole["judged"]["records"]
    assert list(found["killed"]) == ["map", "exchange", "collect", "write"]
    for kind, ended in found["killed"].items():
        assert ended["died"], f"nobody was killed in {kind}"
        if ended["published"]:
            assert (ended["code"], ended["left"], ended["documents"]) == (0, whole["left"], whole["documents"]), kind
            assert (ended["rows"], ended["judged"]) == (whole["rows"], whole["judged"]), kind
        else:
            assert ended["code"] == 4, ended["said"]
            assert ended["said"].startswith("EngineError: "), ended["said"]


def test_stages_make_what_they_make_on_the_embedded_engine(found: dict[str, Any]) -> None:
    assert len(found["few_staged"]) == 5
    assert {each["entry"]: each["problems"] for each in found["few_staged"] if each["problems"]} == {}
