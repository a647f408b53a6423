"""Delta tables have the same rows on every engine as for the format's own reader, or are refused by name."""

from __future__ import annotations

import datetime
import json
import os
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from packaging.version import Version

from privpipe.engines import Engine, Source
from privpipe.engines.lakes import delta, delta_table, pinned
from privpipe.errors import DataError, EngineError, UnsupportedError, UsageError
from tests.engines.lakes import deltas
from tests.tiers import third_on_spark

pytest.importorskip("deltalake", reason="needs deltalake")


def counted(table: pa.Table) -> Counter[Any]:
    """Rows in no order, columns by name, -0.0 as 0.0."""
    return Counter(
        tuple(sorted((name, value + 0.0 if isinstance(value, float) else value) for name, value in row.items()))
        for row in table.to_pylist()
    )


def rows(engine: Engine, source: Source) -> Counter[Any]:
    return counted(engine.collect(engine.scan(source), like=pa.table({})))


@pytest.mark.parametrize("name", third_on_spark(deltas.TABLES), ids=lambda name: name.replace(" ", "-"))
@pytest.mark.parametrize("format", ["delta", None], ids=["said", "found"])
def test_every_engine_reads_the_rows_of_its_log(engine: Engine, tmp_path: Path, name: str, format: Any) -> None:
    folder = deltas.TABLES[name](tmp_path / "a table")
    assert rows(engine, Source(data=folder, format=format)) == counted(deltas.truth(folder))


@pytest.mark.parametrize("name", ["overwritten", "deleted", "updated", "compacted", "evolved", "partitioned"])
def test_the_rows_are_those_of_its_arrow_reader(engine: Engine, tmp_path: Path, name: str) -> None:
    folder = deltas.TABLES[name](tmp_path / "table")
    assert rows(engine, Source(data=folder)) == counted(deltas.opened(folder).to_pyarrow_table())


def test_an_old_version_is_read(engine: Engine, tmp_path: Path) -> None:
    folder = deltas.deleted(tmp_path / "table")
    assert rows(engine, Source(data=folder, version=0)) == counted(deltas.ROWS)
    assert rows(engine, Source(data=str(folder) + "/", version=1)) == counted(deltas.truth(folder, 1))
    with pytest.raises(DataError, match="not a readable Delta table at version 9"):
        engine.scan(Source(data=folder, version=9))


def test_a_time_means_the_version_that_was_the_newest_then(tmp_path: Path) -> None:
    folder = deltas.deleted(tmp_path / "table")
    for version, day in ((0, 1), (1, 3)):
        log = folder / "_delta_log" / f"{version:020d}.json"
        moment = datetime.datetime(2026, 1, day, tzinfo=datetime.UTC).timestamp()
        found = deltas.actions(folder, version)
        for each in found:
            if "commitInfo" in each:
                each["commitInfo"]["timestamp"] = int(moment * 1000)
        deltas.commit(folder, version, found)
        os.utime(log, (moment, moment))
    times = {"2026-01-02": 0, "2026-01-03T00:00:00Z": 1, "2026-01-03T00:30:00+01:00": 0, "2027-01-01": 1}
    assert {time: pinned(Source(data=folder, timestamp=time)).version for time in times} == times
    with pytest.raises(DataError, match="no version as old"):
        delta_table(str(folder), timestamp="2025-12-31")
    os.utime(folder / "_delta_log" / f"{0:020d}.json")
    os.utime(log)
    with pytest.raises(DataError, match="was the table copied"):
        delta_table(str(folder), timestamp="2026-01-04")
    with pytest.raises(UsageError, match="ISO 8601"):
        delta_table(str(folder), timestamp="yesterday")


def test_a_pinned_table_may_change(engine: Engine, tmp_path: Path) -> None:
    folder = deltas.overwritten(tmp_path / "table")
    source = pinned(Source(data=folder))
    deltas.write(folder, deltas.ROWS, mode="append")
    assert source.version == 2
    assert rows(engine, source) == counted(deltas.ROWS)


def test_declared_types_hold(engine: Engine, tmp_path: Path) -> None:
    deltas.write(tmp_path / "t", pa.table({"pay": ["1.5", "2.25", None], "n": [1, 2, 3]}))
    table = engine.scan(Source(data=tmp_path / "t", types={"pay": "decimal", "n": "text"}))
    assert (table.schema.field("pay").type, table.schema.field("n").type) == (pa.decimal128(38, 2), pa.string())


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda folder: deltas.mapped(folder, 3, "id"), UnsupportedError, "maps its columns by id"),
        (lambda folder: featured(folder, "typeWidening"), UnsupportedError, "needs typeWidening"),
        (lambda folder: featured(folder, "fromTheFuture"), (UnsupportedError, DataError), "(?i)delta table"),
        (lambda folder: binary(folder), UnsupportedError, "partition column 'b' is binary"),
        (lambda folder: lost_file(folder), Exception, "parquet"),
        (lambda folder: longer_file(folder), DataError, "the table's log states another number"),
        (lambda folder: other_case(folder), DataError, "by case"),
        (lambda folder: deltas.vectors(folder, (0, 99)), DataError, "log states another number|Delta table"),
    ],
    ids=["by-id", "widening", "unknown", "binary", "lost", "longer", "case", "beyond"],
)
def test_what_is_not_read_right_is_refused(
    engine: Engine, tmp_path: Path, make: Callable[[Path], Path], error: Any, says: str
) -> None:
    folder = make(tmp_path / "table")
    with pytest.raises(error, match=says):
        rows(engine, Source(data=folder))


def test_a_vector_that_the_protocol_does_not_announce_counts_too(engine: Engine, tmp_path: Path) -> None:
    folder = deltas.vectors(tmp_path / "table")
    found = [each for each in deltas.actions(folder, 1) if "protocol" not in each]
    deltas.commit(folder, 1, found)
    assert sum(rows(engine, Source(data=folder)).values()) == 13


def featured(folder: Path, feature: str) -> Path:
    deltas.write(folder, deltas.ROWS)
    deltas.commit(folder, 1, [deltas.protocol(feature)])
    return folder


def binary(folder: Path) -> Path:
    deltas.write(folder, pa.table({"n": [1, 2], "b": pa.array([b"x", b"\xff"])}), partition_by=["b"])
    return folder


def lost_file(folder: Path) -> Path:
    deltas.write(folder, deltas.ROWS)
    next(folder.glob("*.parquet")).unlink()
    return folder


def longer_file(folder: Path) -> Path:
    deltas.write(folder, deltas.ROWS)
    pq.write_table(pa.concat_tables([deltas.ROWS] * 3), next(folder.glob("*.parquet")))
    return folder


def other_case(folder: Path) -> Path:
    deltas.write(folder, deltas.ROWS)
    file = next(folder.glob("*.parquet"))
    pq.write_table(pq.read_table(file).rename_columns(["N", "sex"]), file)
    return folder


def test_a_folder_within_is_not_a_table(engine: Engine, tmp_path: Path) -> None:
    folder = deltas.partition_deleted(tmp_path / "table")
    with pytest.raises(DataError, match="is in .*Delta table.*deleted or overwritten"):
        engine.scan(Source(data=folder / "sex=m", format="parquet"))
    with pytest.raises(DataError, match="no `_delta_log`; give the table's own folder"):
        engine.scan(Source(data=folder / "sex=m", format="delta"))


@pytest.mark.parametrize("name", ["overwritten", "partitioned", "evolved", "mapped columns, version 2"])
def test_the_reader_of_object_stores_gives_the_same(
    engine: Engine, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where files are not paths of this machine, deltalake's own file system reads them."""
    folder = deltas.TABLES[name](tmp_path / "table")
    monkeypatch.setattr(delta, "_filesystem", lambda table, path: (table.to_pyarrow_dataset().filesystem, None))
    if name.startswith("mapped") and Version(metadata.version("deltalake")) < Version("1.6.4"):
        with pytest.raises(DataError, match="DeltaProtocolError"):  # its own reader takes no mapped columns yet
            rows(engine, Source(data=folder))
        return
    assert rows(engine, Source(data=folder)) == counted(deltas.truth(folder))


def test_a_store_that_gives_nothing_is_not_called_a_damaged_file() -> None:
    away = fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem("memory")))
    piece = delta.DeltaPiece("/away/part.parquet", away, pa.schema({"n": pa.int64()}), ("n",))
    for read in (piece.is_whole, lambda: list(piece.batches())):
        with pytest.raises(EngineError, match="part.parquet: the object store cannot be reached or refuses"):
            read()


def test_no_cell_is_in_an_error(tmp_path: Path) -> None:
    deltas.write(tmp_path / "t", pa.table({"n": ["Ada Lovelace"]}))
    file = next((tmp_path / "t").glob("*.parquet"))
    found = deltas.actions(tmp_path / "t", 0)
    for each in found:
        if "metaData" in each:
            each["metaData"]["schemaString"] = each["metaData"]["schemaString"].replace('"string"', '"long"')
    deltas.commit(tmp_path / "t", 0, found)
    assert file.exists()
    with pytest.raises(DataError) as caught:
        list(delta_table(str(tmp_path / "t")).frame())
    assert "Ada" not in json.dumps(str(caught.value))
