"""A transformer of a third party is a stage of Spark ML without a line of its own."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Runner = Callable[..., subprocess.CompletedProcess[str]]
PARAMS = """
import sys
import privpipe.spark as pps
from privpipe.errors import UsageError

assert "KeepPrefix" in dir(pps) and "KeepPrefixModel" in dir(pps) and "privpipe_sample" not in sys.modules
keep = pps.KeepPrefix(inputCols=["zip"], characters=2)
assert (keep.getInputCols(), keep.getCharacters(), keep.__module__) == (["zip"], 2, "privpipe.spark")
assert "how many are kept" in keep.explainParams()
try:
    keep.setCharacters(0)
except UsageError as error:
    assert str(error).startswith("KeepPrefix: characters must be"), error
else:
    raise AssertionError("taken")
"""
FITTED = """
import sys
from pyspark.ml import Pipeline, PipelineModel
from pyspark.sql import SparkSession
import privpipe.spark as pps

made = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = made.config("spark.sql.shuffle.partitions", "1").getOrCreate()
frame = session.createDataFrame([("08100",), ("17300",), (None,)], "zip string")
model = Pipeline(stages=[pps.KeepPrefix(inputCols=["zip"], characters=2)]).fit(frame)
model.write().overwrite().save(sys.argv[1])
[stage] = PipelineModel.load(sys.argv[1]).stages
assert type(stage) is pps.KeepPrefixModel, stage
assert {row[0] for row in stage.transform(frame).collect()} == {"08", "17", None}
"""


def test_its_parameters_are_params(python: Runner) -> None:
    pytest.importorskip("pyspark")
    python("-c", PARAMS)


@pytest.mark.spark
def test_it_is_fitted_saved_and_loaded(python: Runner, tmp_path: Path) -> None:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Spark: no pyspark or no Java 17 on this machine")
    python("-c", FITTED, (tmp_path / "model").as_uri())
