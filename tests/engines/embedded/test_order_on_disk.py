"""Rows dealt to buckets on disk: the rows, the order and the files that DuckDB's own sort gives."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.base import part_files
from privpipe.engines.embedded import EmbeddedEngine, output, row_order, session, sorted_words
from privpipe.engines.embedded.ranks import ordered_rows
from privpipe.engines.embedded.row_order import DealtRows, rows_on_disk
from privpipe.errors import EngineError
from tests.engines.embedded.test_coded_texts import ROWS
from tests.engines.embedded.test_spilling import Flat
from tests.tiers import at_most

SEED = Seed.insecure(4)
STREAM = Stream(bytes(range(16)))
KNOWN = ROWS.drop_columns(["raw", "key"])
"""All cells of a column are equally long, texts by their numbers."""


class Coarse(Stream):
    """A stream in which a few records tie with each other."""

    def order(self, ids: Any) -> Any:
        return super().order(ids) // 2**51 * 2**51


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(session, "CODED_ROWS", 0)
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 1000)
    monkeypatch.setattr(row_order, "BUCKET_ROWS", 400)
    monkeypatch.setattr(row_order, "STRETCH_ROWS", 700)
    with EmbeddedEngine.open({"threads": 2}) as opened:
        yield opened


def with_ids(engine: EmbeddedEngine, rows: pa.Table = KNOWN) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=rows)), None, SEED)


@contextlib.contextmanager
def dealt(engine: EmbeddedEngine, table: Any, stream: Stream = STREAM) -> Iterator[DealtRows]:
    with rows_on_disk(engine.session, table, stream) as rows:
        assert rows is not None
        yield rows


def of_database(engine: EmbeddedEngine, table: Any, stream: Stream) -> list[dict[str, Any]]:
    rows = pa.Table.from_batches(ordered_rows(engine.session, table, stream))
    return rows.select(table.schema.names).to_pylist()


def as_they_come(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.mark.parametrize("stream", [STREAM, Coarse(bytes(16)), Flat(bytes(16))], ids=["apart", "some tie", "all tie"])
@pytest.mark.parametrize("bucket", [100, 5000, 10**6])
def test_rows_and_their_order_are_those_of_the_database(
    engine: EmbeddedEngine, stream: Stream, bucket: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_order, "BUCKET_ROWS", bucket)
    table = with_ids(engine)
    with dealt(engine, table, stream) as rows:
        assert len(rows) == KNOWN.num_rows
        found = list(rows.each(0, len(rows), as_they_come, 2))
    assert {len(each) for each in found} == {1000}
    assert repr(pa.Table.from_batches(found).to_pylist()) == repr(of_database(engine, table, stream))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=at_most(25))
@given(st.integers(0, 6), st.integers(0, 6000))
def test_any_stretch_is_that_of_the_whole(engine: EmbeddedEngine, begin: int, stop: int) -> None:
    start = min(begin * 1000, stop)
    with dealt(engine, with_ids(engine, KNOWN.select(["zip", "age", "yes"]))) as rows:
        whole = pa.Table.from_batches(rows.each(0, len(rows), as_they_come, 1)).to_pylist()
        found = list(rows.each(start, stop, as_they_come, 1))
    assert [row for each in found for row in each.to_pylist()] == whole[start:stop]
    assert all(len(each) == 1000 for each in found[:-1])


@pytest.mark.parametrize("names", [KNOWN.schema.names, ["age", "far", "income", "yes"]], ids=["texts", "no texts"])
@pytest.mark.parametrize("size", [10**7, 700, 2048, 5999])
def test_files_do_not_tell_who_sorted(
    engine: EmbeddedEngine, size: int, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 2048)
    monkeypatch.setattr(session.Session.stream, "__defaults__", (None, 2048))
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", size)
    table = with_ids(engine, KNOWN.select(names))
    found = []
    monkeypatch.setattr(output, "rows_in_memory", lambda *_: None)
    for name, gives in (("disk", rows_on_disk), ("database", lambda *_: contextlib.nullcontext())):
        monkeypatch.setattr(output, "rows_on_disk", gives)
        (tmp_path / name).mkdir()
        written = engine.write(table, str(tmp_path / name), "parquet", STREAM)
        assert written.records == KNOWN.num_rows
        found.append([(tmp_path / name / each).read_bytes() for each in written.files])
    assert found[0] == found[1]
    assert len(found[0]) == -(-KNOWN.num_rows // size)


def test_rows_without_room_are_dealt_on_disk(
    engine: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_ids(engine)
    held = engine.session.hold(engine.session.room() - 10_000)
    seen = []

    @contextlib.contextmanager
    def watched(*given: Any) -> Iterator[DealtRows | None]:
        with rows_on_disk(*given) as rows:
            seen.append(rows)
            yield rows

    monkeypatch.setattr(output, "rows_on_disk", watched)
    engine.write(table, str(tmp_path), "parquet", STREAM)
    assert [len(rows) for rows in seen] == [KNOWN.num_rows]
    assert seen[0].items._file.closed
    del held


def test_a_column_may_have_any_name(engine: EmbeddedEngine) -> None:
    rows = KNOWN.select(["zip", "age", "far"]).rename_columns(["word", "cell 0", "missing 0"])
    table = with_ids(engine, rows)
    with dealt(engine, table, Coarse(bytes(16))) as made:
        found = pa.Table.from_batches(made.each(0, len(made), as_they_come, 2)).to_pylist()
    assert found == of_database(engine, table, Coarse(bytes(16)))


@pytest.mark.parametrize("held", [0, 10**12])
def test_stretches_do_not_shrink_to_nothing(engine: EmbeddedEngine, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others hold all the room there is, and where rows are very many."""
    monkeypatch.setattr(row_order, "STRETCH_ROWS", 1)
    monkeypatch.setattr(row_order, "MOST_STRETCHES", 8)
    table = with_ids(engine)
    kept = engine.session.hold(held)
    with dealt(engine, table) as rows:
        assert 8 <= len(rows.items.counts) - 1 <= 9
        assert int(rows.items.counts.sum(axis=1).max()) == KNOWN.num_rows // 8
    del kept


def test_a_column_that_is_missing_everywhere_stays_so(engine: EmbeddedEngine) -> None:
    rows = pa.table({"town": ["Ash", "Birch"] * 900, "age": pa.array([None] * 1800, pa.int64())})
    table = with_ids(engine, rows)
    with dealt(engine, table) as made:
        found = pa.Table.from_batches(made.each(0, 1800, as_they_come, 2))
    assert found.column("age").null_count == 1800
    assert found.to_pylist() == of_database(engine, table, STREAM)


@pytest.mark.parametrize("column", ["raw", "key"])
def test_cells_of_many_lengths_are_left_to_the_database(engine: EmbeddedEngine, column: str, tmp_path: Path) -> None:
    table = with_ids(engine, ROWS.select(["zip", column]))
    with rows_on_disk(engine.session, table, STREAM) as rows:
        assert rows is None
    held = engine.session.hold(engine.session.room() - 10_000)
    assert engine.write(table, str(tmp_path), "parquet", STREAM).records == ROWS.num_rows
    del held


def test_no_rows_are_left_to_the_database(engine: EmbeddedEngine) -> None:
    with rows_on_disk(engine.session, with_ids(engine, KNOWN.slice(0, 0)), STREAM) as rows:
        assert rows is None


def test_what_is_dealt_has_no_name_in_the_folder(engine: EmbeddedEngine) -> None:
    """A process that is killed leaves nothing of it."""
    table = with_ids(engine)
    before = sorted(path for path in engine.session.folder.rglob("*") if path.parent.name != "spill")
    with dealt(engine, table):
        assert sorted(path for path in engine.session.folder.rglob("*") if path.parent.name != "spill") == before


def test_a_full_disk_ends_the_run_and_says_where(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_ids(engine)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(engine.session.folder))

    monkeypatch.setattr(sorted_words.os, "write", full)
    with (
        pytest.raises(EngineError, match="temp_directory: No space left on device$"),
        rows_on_disk(engine.session, table, STREAM),
    ):
        pass


def test_a_file_that_lost_rows_ends_the_run(engine: EmbeddedEngine) -> None:
    with dealt(engine, with_ids(engine)) as rows:
        rows.items._file.truncate(1000)
        with pytest.raises(EngineError, match="not whole any more"):
            list(rows.each(0, len(rows), as_they_come, 2))


def test_other_rows_than_were_counted_end_the_run(engine: EmbeddedEngine) -> None:
    table = with_ids(engine)
    table.tell_records(KNOWN.num_rows + 1)
    with pytest.raises(EngineError, match="has other ones now"), rows_on_disk(engine.session, table, STREAM):
        pass


def test_words_of_both_signs_are_dealt_in_their_order(engine: EmbeddedEngine) -> None:
    with dealt(engine, with_ids(engine)) as rows:
        words = [rows.items.read(bucket)[row_order.WORD] for bucket in range(len(rows.items.sizes))]
    ends = [(each.min(), each.max()) for each in words if len(each)]
    assert len(ends) > 4
    assert ends[0][0] < 0 < ends[-1][1]
    assert all(np.array(ends)[1:, 0] > np.array(ends)[:-1, 1])
