"""Releases written by the workers: the rows and order of one written by the driver, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.base import part_files
from privpipe.engines.spark import SparkEngine
from privpipe.errors import SinkError

pytestmark = pytest.mark.spark
STREAM = Stream(bytes(range(16)))


def table_of(engine: SparkEngine, rows: int = 500) -> Any:
    table = engine.scan(Source(data=pa.table({"n": list(range(rows)), "t": [f"x{n % 7}" for n in range(rows)]})))
    return engine.with_record_ids(table, "n", Seed.insecure(1))


@pytest.mark.parametrize("format", ["csv", "parquet", "json"])
def test_workers_write_what_the_driver_would(
    spark_engine: SparkEngine, format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(spark_engine)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    assert spark_engine.write(table, str(here), format, STREAM).files == (f"part-00000.{format}",)
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", 60)
    report = spark_engine.write(table, str(there), format, STREAM)
    assert report.records == 500
    assert report.files == tuple(f"part-{part:05d}.{format}" for part in range(9))
    assert sorted(path.name for path in there.iterdir()) == list(report.files)
    assert content(there, format) == content(here, format)


def content(folder: Path, format: str) -> Any:
    paths = sorted(folder.iterdir())
    if format == "parquet":
        found = [pq.read_table(path) for path in paths]
        assert all(table.schema.metadata is None for table in found)
        return pa.concat_tables(found).to_pylist()
    lines = [path.read_text().splitlines(keepends=True) for path in paths]
    return [line for part in lines for line in part[1 if format == "csv" else 0 :]]


def test_an_empty_table_keeps_its_types(spark_engine: SparkEngine, tmp_path: Path) -> None:
    table = table_of(spark_engine, 0)
    assert spark_engine.write(table, str(tmp_path), "parquet", STREAM).records == 0
    assert pq.read_table(tmp_path / "part-00000.parquet").schema.equals(table.schema)


def test_a_folder_that_the_workers_lack(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", 60)
    with pytest.raises(SinkError, match="the driver and all workers share"):
        spark_engine.write(table_of(spark_engine), str(tmp_path / "nowhere"), "csv", STREAM)


def test_rows_without_ids_are_sorted(spark_engine: SparkEngine, tmp_path: Path) -> None:
    table = spark_engine.scan(Source(data=pa.table({"b": [True, None, False, True], "n": [2, 0, 5, 1]})))
    spark_engine.write(table, str(tmp_path), "csv", STREAM)
    assert (tmp_path / "part-00000.csv").read_text() == "b,n\nfalse,5\ntrue,1\ntrue,2\n,0\n"
    back = spark_engine.collect(table, like=table.frame)
    assert [tuple(row) for row in back.collect()] == [(None, 0), (False, 5), (True, 1), (True, 2)]
