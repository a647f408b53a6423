"""Sessions in processes of their own: classic, Connect, a standalone master with two workers; and what they log."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from privpipe.engines import Engine

from .every_primitive import CANARY, NUMBER, SECRET, STREAM, every_primitive

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SCRIPT = Path(__file__).with_name("every_primitive.py")
PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def wanted(embedded: Engine, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the embedded engine answers."""
    return json.loads(json.dumps(every_primitive(embedded, tmp_path_factory.mktemp("embedded")), default=str))


@pytest.fixture(autouse=True)
def _needs_java(spark_engine: Engine) -> None:
    """Skips where Spark cannot run."""


def run(folder: Path, options: dict[str, Any], *words: str) -> tuple[Any, str]:
    """What the script found, and everything it said in addition."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), json.dumps(options), *words],
        cwd=PROJECT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout), done.stderr


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(PROJECT)}


def logged(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    return {
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": False,
        "spark.eventLog.logBlockUpdates.enabled": True,
    }


def assert_nothing_personal(texts: list[str]) -> None:
    for text in texts:
        for word in (CANARY, CANARY.upper(), str(NUMBER), SECRET, STREAM.key.decode(), STREAM.key.hex()):
            assert word not in text


@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_answers_are_those_of_the_embedded_engine_and_logs_hold_no_value(
    mode: str, wanted: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if mode == "connect":
        request.getfixturevalue("connect_port")
        reason = connect_is_missing()
        if reason:
            pytest.skip(f"Spark Connect: {reason}")
    where = {"classic": "master", "connect": "remote"}[mode]
    options = {where: "local[2]", "shuffle_partitions": 4, "driver_bytes": 0, "conf": logged(tmp_path / "events")}
    found, said = run(tmp_path / "data", options, "fail")
    assert found["found"] == wanted
    assert len(found["failures"]) == 9
    events = [path for path in (tmp_path / "events").rglob("*") if path.is_file()]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in events]
    assert sum("SparkListenerJobStart" in text for text in texts) == 1
    assert_nothing_personal([*texts, said, *found["failures"]])
    assert "privpipe.engines.spark" in said  # the level was DEBUG
    assert "Command to send" not in said  # at which py4j would log the functions it sends, keys and all


def connect_is_missing() -> str:
    for module in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        try:
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed"
        except ModuleNotFoundError:
            return f"{module} is not installed"
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return "" if list(jars.glob("spark-connect_*.jar")) else "this pyspark has no spark-connect jar"


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """URL of a standalone master with two worker processes."""
    import pyspark

    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{listening.getsockname()[1]}"
    deploy, port = "org.apache.spark.deploy", url.rpartition(":")[2]
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [[f"{deploy}.master.Master", *here, "--port", port]]
    for number in range(2):
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{number}")]
        commands.append([f"{deploy}.worker.Worker", *here, *limits, url])
    running = []
    try:
        for number, command in enumerate(commands):
            with (tmp_path / f"daemon{number}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        [program, *command],
                        env={**environment(), "PYSPARK_PYTHON": sys.executable},
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        wait_for_workers(tmp_path / "daemon0.log")
        yield url
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)


def wait_for_workers(log: Path) -> None:
    end = time.monotonic() + 120
    while log.read_text().count("Registering worker") < 2:
        assert time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.2)


@pytest.mark.rare
def test_a_standalone_cluster_answers_alike(standalone: str, wanted: Any, tmp_path: Path) -> None:
    options = {
        "master": standalone,
        "shuffle_partitions": 4,
        "driver_bytes": 0,
        "conf": {
            "spark.executor.memory": "600m",
            "spark.driver.memory": "1g",
            "spark.scheduler.minRegisteredResourcesRatio": 1.0,
        },
    }
    found, said = run(tmp_path / "data", options)
    assert found["found"] == wanted
    workers = [path.read_text(errors="replace") for path in tmp_path.glob("work*/**/stderr")]
    assert len(workers) == 2
    assert_nothing_personal([said, *workers])


BROUGHT = """
import sys
import pyarrow as pa
import privpipe
from pyspark.sql import SparkSession
from privpipe.engines.spark import SparkEngine
from privpipe.transforms import RankSwap

def place(batches):
    import privpipe
    for batch in batches:
        if batch.num_rows:
            yield pa.record_batch([[privpipe.__file__]], names=["place"])

spark = SparkSession.builder.getOrCreate()
rows = spark.range(6000).selectExpr("id", "cast(hash(id) % 1000 as double) income").repartition(4)
engine = SparkEngine(spark, driver_bytes=0)
seed = "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a"
swapped = RankSwap(columns=["income"], p=0.05).apply(rows, seed=seed, engine=engine)
same = swapped.join(rows, ["id", "income"]).count()
places = {row.place for row in swapped.mapInArrow(place, "place string").collect()} | {privpipe.__file__}
print(same < 600, all("privpipe.zip" in place for place in places))
"""


@pytest.mark.rare
def test_a_submitted_job_brings_privpipe_along(standalone: str, tmp_path: Path) -> None:
    """The archive of `--py-files` cannot be written, and neither can the place of compiled kernels next to them."""
    import pyspark

    archive, job = tmp_path / "privpipe.zip", tmp_path / "job.py"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in (PROJECT / "privpipe").rglob("*"):
            if path.suffix in {".py", ".pyi", ".typed"}:
                packed.write(path, path.relative_to(PROJECT))
    job.write_text(BROUGHT, encoding="utf-8")
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    limits = [
        "--conf",
        "spark.executor.memory=600m",
        "--driver-memory",
        "1g",
        "--conf",
        "spark.sql.shuffle.partitions=4",
    ]
    kept = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [submit, "--master", standalone, *limits, "--py-files", str(archive), str(job)],
        cwd=tmp_path,
        env={**kept, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "True True"
