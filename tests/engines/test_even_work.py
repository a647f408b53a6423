"""No task of a release has more than three times the rows of the median task, whatever the classes are like."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.spark import SparkEngine

RECORDS = 300_000
MOST = 3.0
QUERY = ClassQuery(keys=("zip", "age"))


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Half of the records are one class, and in the first file they are one after the other."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(4)
    half = np.arange(RECORDS) < RECORDS // 2
    rows = pa.table(
        {
            "zip": pa.array(np.where(half, 0, rng.integers(0, 500, RECORDS)).astype(str)),
            "age": pa.array(np.where(half, 40, rng.integers(20, 90, RECORDS))),
            **{f"pay{at}": pa.array(rng.random(RECORDS)) for at in range(5)},
        }
    )
    for at in range(2):
        part = rows.slice(at * RECORDS // 2, RECORDS // 2)
        pq.write_table(part, folder / f"part-{at}.parquet", row_group_size=30_000)
    return str(folder)


def most_uneven(rows: list[int]) -> float:
    """The rows of the largest task next to those of the median one."""
    assert len(rows) > 1, "one task has all of them"
    return max(rows) / statistics.median(rows)


def spread(engine: Engine, people: str, place: Path, rows_of: Any) -> dict[str, list[int]]:
    """Rows of each task that reads the source, the table with ids, the one without failing classes, and the release."""
    source = engine.scan(Source(data=people))
    table = engine.with_record_ids(source, None, Seed.insecure(1))
    book = {"age": (pa.array(range(20, 90), pa.int64()), pa.array([str(age // 10) for age in range(20, 90)]))}
    kept = engine.keep_classes(engine.recode(table, book), QUERY, lambda block: block.sizes > 40)
    place.mkdir()
    written = engine.write(kept, str(place), "parquet", Stream(b"sixteen bytes..."))
    assert 0 < written.records < RECORDS
    release = engine.scan(Source(data=str(place)))
    return {name: rows_of(each) for name, each in zip(TABLES, (source, table, kept, release), strict=True)}


TABLES = ("source", "with ids", "kept", "release")


@pytest.mark.deep
@pytest.mark.spark
def test_tasks_of_spark_have_alike_many_rows(spark_engine: SparkEngine, people: str, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    def rows_of(table: Any) -> list[int]:
        found = table.frame.groupBy(sf.spark_partition_id().alias("task")).count().collect()
        return [row["count"] for row in found]

    with SparkEngine(spark_engine.session, driver_bytes=0) as engine:
        for name, rows in spread(engine, people, tmp_path / "out", rows_of).items():
            assert most_uneven(rows) <= MOST, (name, rows)


def test_tasks_of_dask_have_alike_many_rows(people: str, tmp_path: Path) -> None:
    pytest.importorskip("dask")
    with open_engine("dask", {"scheduler": "threads", "workers": 2}) as engine:
        runtime = engine._runtime  # type: ignore[attr-defined]

        def rows_of(table: Any) -> list[int]:
            return list(runtime.compute("count", [runtime.task("count", len, part) for part in table.parts]))

        for name, rows in spread(engine, people, tmp_path / "out", rows_of).items():
            if name != "release" or len(rows) > 1:  # files of up to 500,000 rows are one piece each
                assert most_uneven(rows) <= MOST, (name, rows)
