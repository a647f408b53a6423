"""The jobs that use stages and checks without a policy end as their README says."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import SEED

pytestmark = pytest.mark.deep
PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"


def require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Spark: no pyspark or no Java 17 on this machine")


def smallest_class(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> int:
    return min(Counter(tuple(row[name] for name in columns) for row in rows).values())


def dense(vector: dict[str, Any]) -> tuple[float, ...]:
    """A vector of Spark as stored in Parquet, all zeros written out."""
    if vector["type"] == 1:
        return tuple(vector["values"])
    held = dict(zip(vector["indices"], vector["values"], strict=True))
    return tuple(held.get(at, 0.0) for at in range(vector["size"]))


@pytest.mark.spark
def test_a_pipeline_of_spark_ml_protects_what_it_makes_features_of(tmp_path: Path, run: Any) -> None:
    require_spark()
    ended = run("spark-submit", "--master", "local[2]", PIPELINES / "spark_ml" / "job.py", "--target", tmp_path)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    found = pq.read_table(tmp_path / "features").to_pylist()
    assert 32_561 * 0.95 <= len(found) <= 32_561
    assert f"{len(found):,} records have features" in ended.stdout
    codes = Counter(dense(row["features"])[:3] for row in found)
    assert min(codes.values()) >= 5
    [plan] = tmp_path.glob("pipeline/stages/1_Generalize*/plan.json")
    assert json.loads(plan.read_text(encoding="utf-8"))["plan"]["stages"][0]["detail"]["optimal"] is True


@pytest.mark.dask
def test_stages_on_a_dask_frame_make_a_table_that_passes(tmp_path: Path, run: Any) -> None:
    if importlib.util.find_spec("dask") is None:
        pytest.skip("dask is not installed")
    ended = run("python", PIPELINES / "dask_stages" / "job.py", "--target", tmp_path / "out")
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert f"{len(rows):,} records" in ended.stdout
    assert smallest_class(rows, ("age", "sex", "education")) >= 5
    assert max(row["hours_per_week"] for row in rows) == 80


@pytest.mark.spark
def test_a_batch_of_a_stream_that_fails_is_held_back_and_joins_the_next(tmp_path: Path, run: Any) -> None:
    require_spark()
    deltalake = pytest.importorskip("deltalake", reason="needs deltalake")
    arriving, target = tmp_path / "arriving", tmp_path / "out"
    arriving.mkdir()
    safe = [{"age": 20 + at % 10, "zip": "08100", "illness": ("flu", "cold")[at % 2]} for at in range(12)]
    alone = [{"age": 70, "zip": "99999", "illness": "gout"}, *safe]
    with_company = [{"age": 66, "zip": "99901", "illness": "flu"}] * 2
    for at, rows in enumerate((safe, alone, [], with_company)):
        pq.write_table(pa.Table.from_pylist(rows, pa.Table.from_pylist(safe).schema), arriving / f"{at}.parquet")
        os.utime(arriving / f"{at}.parquet", (at, at))
    job = PIPELINES / "streaming" / "job.py"
    ended = run("spark-submit", "--master", "local[2]", job, "--source", arriving, "--target", target)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    assert "1 empty, 1 held back, 2 published" in ended.stdout
    rows = deltalake.DeltaTable(target).to_pyarrow_table().to_pylist()
    assert len(rows) == 12 + 13 + 2
    assert smallest_class(rows, ("age", "zip")) >= 3
    assert not any((tmp_path / ".out.privpipe" / "stream" / "rows").iterdir())


def test_a_model_is_trained_on_masked_records_that_passed(tmp_path: Path, run: Any) -> None:
    pytest.importorskip("sklearn")
    ended = run("python", PIPELINES / "sklearn" / "job.py", "--target", tmp_path / "out")
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    rows = pq.read_table(tmp_path / "out" / "masked.parquet").to_pylist()
    assert f"{len(rows):,} masked records" in ended.stdout
    assert smallest_class(rows, ("age", "sex", "education")) >= 5
    commonest = max(Counter(row["income"] for row in rows).values()) / len(rows)
    assert json.loads((tmp_path / "out" / "score.json").read_text())["accuracy"] > commonest + 0.02
    saved = tmp_path / "out" / "model.joblib"
    assert SEED.encode() not in saved.read_bytes()
    later = {"age": [30, 61], "sex": ["Male", "Female"], "education": ["10th", "Masters"], "hours_per_week": [40, 99]}
    code = f"import joblib, pandas as pd; print(*joblib.load({str(saved)!r}).predict(pd.DataFrame({later!r})))"
    predicted = run("python", "-c", code)
    assert predicted.returncode == 0, predicted.stderr[-1000:]
    assert set(predicted.stdout.split()) <= {"<=50K", ">50K"}


def test_no_model_is_trained_on_masked_records_that_fail(tmp_path: Path, run: Any) -> None:
    pytest.importorskip("sklearn")
    ended = run("python", PIPELINES / "sklearn" / "job.py", "--target", tmp_path / "out", "--age-level", "3")
    assert ended.returncode == 5, ended.stderr[-1000:]
    assert "KAnonymity(k=5): observed 1" in ended.stderr
    assert not (tmp_path / "out").exists()
