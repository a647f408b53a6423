"""Spark Connect serves the same: fitted, saved, overwritten, loaded, among Spark's own stages."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

SCRIPT = """
import sys
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import StringIndexer
import privpipe.spark as pps
from privpipe.engines import open_engine
from privpipe.errors import Refused, UsageError

with open_engine("spark", {"remote": "local[2]", "shuffle_partitions": 2}) as engine:
    rows = [(at % 7, "flu" if at % 2 else "cold") for at in range(30)]
    people = engine.session.createDataFrame(rows, "income long, illness string")
    swap = pps.RankSwap(inputCols=["income"], p=0.2, seed={"from_env": "PRIVPIPE_TEST_SEED"})
    roles = {"quasi_identifiers": ["illness"], "insensitive": ["income"]}
    gate = pps.ReleaseGate(guarantees=[{"k_anonymity": {"k": 2}}], roles=roles)
    model = Pipeline(stages=[swap, gate, StringIndexer(inputCol="illness", outputCol="code")]).fit(people)
    for _ in range(2):
        model.write().overwrite().save(sys.argv[1])
    again = PipelineModel.load(sys.argv[1]).transform(people)
    assert again.columns == ["income", "illness", "code"]
    assert sorted(map(tuple, again.collect())) == sorted(map(tuple, model.transform(people).collect()))
    try:
        gate.copy({gate.guarantees: [{"k_anonymity": {"k": 20}}]}).fit(people)
    except Refused:
        print("refused")
    try:
        model.stages[0].save(sys.argv[1])
    except UsageError as error:
        print("there already" if "is there already" in str(error) else error)
"""

CATALOGUE = """
import sys
from pathlib import Path
import privpipe as pp
from privpipe.engines import open_engine
from privpipe.errors import DataError, Refused

home = Path(sys.argv[1])
with open_engine("spark", {"remote": "local[2]", "shuffle_partitions": 2}) as engine:
    session = engine.session
    session.sql(f"CREATE DATABASE lake LOCATION '{home}/lake'")
    session.sql("CREATE TABLE lake.visits USING parquet AS SELECT id % 5 AS age FROM range(100)")
    def run(k, table="lake.visits"):
        document = {
            "source": {"table": table},
            "columns": {"age": {"role": "quasi_identifier"}},
            "guarantees": [{"k_anonymity": {"k": k}}],
            "sink": {"table": "lake.public"},
        }
        return pp.release(pp.Policy.from_dict(document, home), engine=engine)
    run(5), run(5)
    for k, table in ((50, "lake.visits"), (5, "lake.vists")):
        try:
            run(k, table)
        except (Refused, DataError) as error:
            print(type(error).__name__)
    print(session.table("lake.public").count(), session.sql("SHOW TABLES IN lake").count())
"""


def connect_is_missing() -> str:
    """Why Connect cannot run here, or nothing."""
    import pyspark

    for module in ("grpc", "grpc_status", "zstandard"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    if shutil.which("java") is None:
        return "no Java 17 on this machine"
    jars = Path(pyspark.__file__).parent / "jars"
    return "" if list(jars.glob("spark-connect_*.jar")) else "this pyspark has no spark-connect jar"


def lines_of(script: str, argument: str, project: Path) -> list[str]:
    """What a script prints in a process of its own."""
    if reason := connect_is_missing():
        pytest.skip(f"Spark Connect: {reason}")
    environment = {**os.environ, "PYTHONPATH": str(project)}
    command = [sys.executable, "-W", "ignore", "-c", script, argument]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout.splitlines()


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.usefixtures("connect_port")
def test_connect_serves_what_classic_spark_does(tmp_path: Path, project: Path) -> None:
    assert lines_of(SCRIPT, (tmp_path / "model").as_uri(), project)[-2:] == ["refused", "there already"]


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.usefixtures("connect_port")
def test_connect_reads_and_publishes_tables(tmp_path: Path, project: Path) -> None:
    # The source, the view, a table and its documents; nothing of the run that was refused, nor of the first release.
    assert lines_of(CATALOGUE, str(tmp_path), project)[-3:] == ["Refused", "DataError", "100 4"]
