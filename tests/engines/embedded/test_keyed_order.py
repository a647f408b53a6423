"""Rows are written in the keyed order of their ids, cut into files by it, whatever the texts, batches and threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.base import part_files
from privpipe.engines.embedded import EmbeddedEngine, session
from privpipe.errors import EngineError, SinkError
from tests.engines.embedded.test_coded_texts import ROWS
from tests.engines.embedded.test_spilling import Flat

SEED = Seed.insecure(4)
STREAM = Stream(bytes(range(16)))


class Coarse(Stream):
    """A stream in which a few records tie with each other."""

    def order(self, ids: Any) -> Any:
        return super().order(ids) // 2**51 * 2**51


@pytest.fixture(params=[0, 10**9], ids=["enumerations", "texts"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(session, "CODED_ROWS", request.param)
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 1000)
    monkeypatch.setattr(session.Session.stream, "__defaults__", (None, 2048))
    with EmbeddedEngine.open({"threads": 2}) as opened:
        yield opened


def with_ids(engine: EmbeddedEngine, rows: pa.Table = ROWS) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, SEED)


def expected(engine: EmbeddedEngine, table: Any, stream: Stream) -> tuple[list[dict[str, Any]], np.ndarray]:
    """All rows by their order words and then their ids, and these words."""
    whole = engine.session.table(f"SELECT * FROM {table.source}", table.frames)
    high, low = (whole.column(name).to_numpy() for name in ID_COLUMNS)
    words = stream.order(np.column_stack([high, low]))
    order = np.lexsort((low, high, words))
    return whole.select(table.schema.names).cast(table.schema).take(pa.array(order)).to_pylist(), words[order]


@pytest.mark.parametrize("stream", [STREAM, Coarse(bytes(16)), Flat(bytes(16))], ids=["apart", "some tie", "all tie"])
@pytest.mark.parametrize("size", [10**7, 700, 2048])
def test_rows_their_order_and_their_files_follow_from_the_order_words(
    engine: EmbeddedEngine, stream: Stream, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", size)
    table = with_ids(engine)
    rows, words = expected(engine, table, stream)
    written = engine.write(table, str(tmp_path), "parquet", stream)
    assert written.records == len(rows)
    assert list(written.files) == sorted(path.name for path in tmp_path.iterdir())
    parts = [pq.read_table(tmp_path / name) for name in written.files]
    found = [row for part in parts for row in part.to_pylist()]
    assert repr(found) == repr(rows)  # NaN is no NaN's equal
    files = -(-len(rows) // size)
    shares = [(int(word) + 2**63) * files >> 64 for word in words]
    assert [len(part) for part in parts] == [n for n in np.bincount(shares, minlength=files).tolist() if n]


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_files_show_neither_batches_nor_threads(
    engine: EmbeddedEngine, format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ROWS if format == "parquet" else ROWS.drop_columns(["raw"])  # CSV has no form of bytes
    table = with_ids(engine, rows)
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", 2500)
    found = []
    for batch, threads in ((700, 1), (2048, 2), (10**6, 2)):
        monkeypatch.setattr(session.Session.stream, "__defaults__", (None, batch))
        monkeypatch.setattr(engine.session, "threads", threads)
        folder = tmp_path / str(batch)
        folder.mkdir()
        found.append([(folder / each).read_bytes() for each in engine.write(table, str(folder), format, STREAM).files])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 3


def test_no_rows_make_one_file(engine: EmbeddedEngine, tmp_path: Path) -> None:
    written = engine.write(with_ids(engine, ROWS.slice(0, 0)), str(tmp_path), "parquet", STREAM)
    assert (written.records, len(written.files)) == (0, 1)
    assert pq.read_table(tmp_path / written.files[0]).schema.names == ROWS.schema.names


def test_a_column_that_is_missing_everywhere_stays_so(engine: EmbeddedEngine, tmp_path: Path) -> None:
    rows = pa.table({"town": ["Ash", "Birch"] * 900, "age": pa.array([None] * 1800, pa.int64())})
    written = engine.write(with_ids(engine, rows), str(tmp_path), "parquet", STREAM)
    assert pq.read_table(tmp_path / written.files[0]).column("age").null_count == 1800


def test_a_file_that_cannot_be_written_ends_the_run(
    engine: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", 1000)
    (tmp_path / "part-00003.parquet").mkdir()
    with pytest.raises(SinkError, match="cannot be written"):
        engine.write(with_ids(engine), str(tmp_path), "parquet", STREAM)


def test_other_rows_than_were_counted_end_the_run(engine: EmbeddedEngine, tmp_path: Path) -> None:
    table = with_ids(engine)
    table.tell_records(ROWS.num_rows + 1)
    with pytest.raises(EngineError, match="has other ones now"):
        engine.write(table, str(tmp_path), "parquet", STREAM)


def test_rows_beyond_the_memory_limit_are_sorted_on_disk(tmp_path: Path) -> None:
    """Half of the rows' bytes are less than the limit."""
    count = 600_000
    rows = pa.table({"n": np.arange(count), "m": np.arange(count) * 7, "text": [f"{at:060d}" for at in range(count)]})
    with EmbeddedEngine.open(
        {"memory_limit": "60MB", "threads": 2, "temp_directory": str(tmp_path / "temp")}
    ) as engine:
        written = engine.write(with_ids(engine, rows), str(tmp_path), "parquet", STREAM)
    assert written.records == count
    found = pa.concat_tables([pq.read_table(tmp_path / name) for name in written.files]).column("n").to_numpy()
    assert not np.array_equal(found, np.arange(count))
    assert np.array_equal(np.sort(found), np.arange(count))
