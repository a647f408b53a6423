"""pyspark 3.5, in a folder of its own before the installed one: every primitive, a stage of Spark ML, a release.

`make test-spark35` runs all of Spark's tests in an environment with it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from privpipe.engines import Engine
from privpipe.engines.spark import versions
from privpipe.errors import UnsupportedError

from .every_primitive import every_primitive

pytestmark = [pytest.mark.spark, pytest.mark.rare, pytest.mark.timeout(900)]
PROJECT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("every_primitive.py")
NO_NETWORK = re.compile(r"NewConnectionError|Name or service not known|Temporary failure|No matching distribution")
MACHINE_LEARNING = """
import sys
from pyspark.ml import Pipeline, PipelineModel
import pyspark
from privpipe.engines import open_engine
from privpipe.spark import RankSwap, TopCode

assert pyspark.__version__.startswith("3.5."), pyspark.__version__
with open_engine("spark", {"master": "local[2]", "shuffle_partitions": 2}) as engine:
    frame = engine.session.createDataFrame([(at, float(at % 17)) for at in range(90)], "age long, income double")
    seed = {"from_env": "PRIVPIPE_TEST_SEED"}
    stages = [TopCode(columns=["age"], at=80), RankSwap(columns=["income"], p=0.2, seed=seed)]
    model = Pipeline(stages=stages).fit(frame)
    wanted = sorted(map(tuple, model.transform(frame).collect()))
    model.write().overwrite().save(sys.argv[1])
    assert sorted(map(tuple, PipelineModel.load(sys.argv[1]).transform(frame).collect())) == wanted
    assert max(age for age, _ in wanted) == 80
"""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory, spark_engine: Engine) -> Path:
    """A folder with pyspark 3.5 and the py4j it asks for."""
    folder: Path = tmp_path_factory.mktemp("pyspark-3.5")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "pyspark>=3.5.3,<3.6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode and NO_NETWORK.search(done.stderr):
        pytest.skip("pyspark 3.5 cannot be fetched here")
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def run(older: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        cwd=older.parent,
        env={
            **kept,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join([str(older), str(PROJECT)]),
            "PRIVPIPE_TEST_SEED": "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_every_primitive_answers_as_on_the_embedded_engine(older: Path, embedded: Engine, tmp_path: Path) -> None:
    wanted = json.loads(json.dumps(every_primitive(embedded, tmp_path / "embedded"), default=str))
    options = json.dumps({"master": "local[2]", "shuffle_partitions": 4, "driver_bytes": 0})
    found = json.loads(run(older, str(SCRIPT), str(tmp_path / "spark"), options, "fail"))
    assert found["found"] == wanted
    assert len(found["failures"]) == 9


def test_a_pipeline_of_spark_ml_is_fitted_saved_and_loaded(older: Path, tmp_path: Path) -> None:
    run(older, "-c", MACHINE_LEARNING, str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("version", "refused"),
    [("3.4.4", True), ("2.4.8", True), ("3.5.0", False), ("4.1.4", False), ("4.2.0.dev1", False)],
)
def test_a_version_below_is_refused_by_name(monkeypatch: Any, version: str, refused: bool) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", version)
    if not refused:
        versions.require_version()
        return
    with pytest.raises(UnsupportedError, match=re.escape(f"pyspark {version} is too old: privpipe needs 3.5")):
        versions.require_version()


def test_connect_before_4_is_refused_by_name(monkeypatch: Any) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    with pytest.raises(UnsupportedError, match=r"Spark Connect needs pyspark 4\.0 or later, and this is 3\.5\.9"):
        versions.require_connect()
