"""`release_batches` in Spark's `foreachBatch`: the number of a batch is that of its query."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake", reason="needs deltalake")

import privpipe as pp
import privpipe.spark as pps
from privpipe.errors import UnsupportedError, UsageError
from privpipe.spark.batches import QUERY as PROPERTY
from privpipe.testing import GAPS
from tests.running.stream_kills import QUERY, Stream, policy_of, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark_engine: Any) -> Iterator[Any]:
    found = spark_engine.session
    found.sparkContext.setLocalProperty(PROPERTY, QUERY)
    yield found
    found.sparkContext.setLocalProperty(PROPERTY, None)


def released_by(home: Path, **options: Any) -> Any:
    return pps.release_batches(pp.Policy.from_dict(policy_of(home), home), **options)


def arrive(rows: pa.Table, path: Path, at: int) -> None:
    """A file of a stream, which takes them by the time of their last change."""
    pq.write_table(rows, path)
    os.utime(path, (at, at))


@pytest.mark.parametrize(
    "driver_bytes", [pytest.param(1 << 26, marks=pytest.mark.usual), pytest.param(0, marks=pytest.mark.deep)]
)
def test_batches_of_spark_are_released_once(session: Any, tmp_path: Path, driver_bytes: int) -> None:
    engines = {"spark": {"driver_bytes": driver_bytes}}
    publish = pps.release_batches(pp.Policy.from_dict(policy_of(tmp_path, engines=engines), tmp_path))
    batches = [rows_of([1, 1, None, None]), rows_of([1, None], 4)]
    for at, batch in enumerate(batches):
        frame = session.createDataFrame(batch.to_pylist(), '`a``ge, of "life"` long, number long, who string')
        publish(frame, at)
        assert Stream(tmp_path).problems(batches[: at + 1]) == []
    publish(frame.repartition(3), 1)
    assert publish.counts == {"held back": 1, "published": 1, "repeated": 1}
    assert publish.state == str(Stream(tmp_path).folder)
    assert Stream(tmp_path).problems(batches) == []
    session.sparkContext.setLocalProperty(PROPERTY, "another-query")
    with pytest.raises(UsageError, match="comes batch 0 of query another-query"):
        publish(frame, 0)


def test_anything_but_a_batch_is_refused(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = released_by(tmp_path)
    with pytest.raises(UsageError, match="a batch is a Spark DataFrame, not Table"):
        publish(rows_of([1]), 0)
    with pytest.raises(UnsupportedError, match="foreachBatch"):
        publish(session.readStream.format("rate").load(), 0)
    session.sparkContext.setLocalProperty(PROPERTY, None)
    with pytest.raises(UsageError, match="no streaming query is running"):
        publish(session.range(3), 0)
    monkeypatch.setattr("privpipe.engines.spark.session.is_connect", lambda session: True)
    with pytest.raises(GAPS["spark", "batches of a stream over Spark Connect"].raises, match="use a classic session"):
        publish(session.range(3), 0)
    assert not Stream(tmp_path).folder.exists()


@pytest.mark.deep
def test_a_query_that_breaks_and_starts_again_releases_each_row_once(spark_engine: Any, tmp_path: Path) -> None:
    arriving = tmp_path / "arriving"
    arriving.mkdir()
    batches = [rows_of([1, 1, 1]), rows_of([2, 1], 3), rows_of([]), rows_of([2, 2, 1, 1], 5)]
    for at, batch in enumerate(batches):
        arrive(batch, arriving / f"{at}.parquet", at)
    broken: list[str] = []

    def breaks(step: str) -> None:
        if step in ("note", "settle") and broken.count(step) == len(broken) // 2 and len(broken) < 4:
            broken.append(step)
            raise ConnectionError("the machine is gone")

    def run(publish: Any, checkpoint: str) -> Exception | None:
        stream = spark_engine.session.readStream.schema('`a``ge, of "life"` long, number long, who string')
        rows = stream.option("maxFilesPerTrigger", 1).parquet(str(arriving))
        writer = rows.writeStream.foreachBatch(publish).option("checkpointLocation", str(tmp_path / checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001 Spark's own, of several classes
            return error
        return None

    publish = released_by(tmp_path, progress=breaks)
    failures = 0
    while run(publish, "checkpoint") is not None:
        failures += 1
        assert Stream(tmp_path).problems_midway() == []
    assert failures == len(broken) == 4
    assert publish.counts["published"] == 2
    assert publish.counts["held back"] == 1
    assert Stream(tmp_path).problems(batches) == []

    error = run(released_by(tmp_path), "a-new-checkpoint")
    assert "a checkpoint or a state folder was deleted" in str(error)
    assert Stream(tmp_path).problems(batches) == []

    arrive(rows_of([2], 9), arriving / "4.parquet", 4)  # a late row of the class that is released
    late = released_by(tmp_path)
    assert run(late, "checkpoint") is None
    assert late.counts == {"held back": 1}
    assert Stream(tmp_path).problems([*batches, rows_of([2], 9)]) == []
    assert Stream(tmp_path).held() == [9]
