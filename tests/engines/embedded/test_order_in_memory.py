"""Rows ordered in memory: the rows, the order and the files that DuckDB's own sort gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.base import part_files
from privpipe.engines.embedded import EmbeddedEngine, output, row_order, session
from privpipe.engines.embedded.ranks import ordered_rows
from privpipe.engines.embedded.row_order import places_in_order, rows_in_memory
from privpipe.errors import SinkError
from tests.engines.embedded.test_coded_texts import ROWS
from tests.engines.embedded.test_spilling import Flat

SEED = Seed.insecure(4)
STREAM = Stream(bytes(range(16)))
ENDS = [-(2**63), -1, 0, 1, 2**63 - 1]


@given(
    hnp.arrays(np.int64, st.integers(0, 70), elements=st.sampled_from(ENDS) | st.integers(-9, 9)),
    st.lists(st.integers(0, 70), max_size=4).map(sorted),
    st.integers(1, 80),
)
def test_places_are_those_of_a_sort(words: Any, cuts: list[int], some: int) -> None:
    """Words that lie close together agree in all the bits that are sorted first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_order, "SOME", some)
        places = places_in_order(np.split(words, cuts))
    if len(np.unique(words)) < len(words):
        assert places is None
    else:
        assert places is not None
        np.testing.assert_array_equal(places, np.argsort(words))


@pytest.fixture(params=[0, 10**9], ids=["enumerations", "texts"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(session, "CODED_ROWS", request.param)
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 1000)
    with EmbeddedEngine.open({"threads": 2}) as opened:
        yield opened


def of_database(engine: EmbeddedEngine, table: Any, stream: Stream) -> list[dict[str, Any]]:
    rows = pa.Table.from_batches(ordered_rows(engine.session, table, stream))
    return rows.select(table.schema.names).to_pylist()


def test_rows_and_their_order_are_those_of_the_database(engine: EmbeddedEngine) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, SEED)
    before = engine.session.room()
    rows = rows_in_memory(engine.session, table, STREAM)
    assert rows is not None
    assert engine.session.room() < before
    found = pa.Table.from_batches([rows.batch(start, start + 1000) for start in range(0, len(rows), 1000)])
    assert repr(found.to_pylist()) == repr(of_database(engine, table, STREAM))  # NaN is no NaN's equal
    assert found.num_rows == ROWS.num_rows
    del rows, found
    assert engine.session.room() == before


@pytest.mark.parametrize("size", [10**7, 700, 2048, 5999])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_files_do_not_tell_who_sorted(
    engine: EmbeddedEngine, format: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor whether one was written after the other."""
    rows = ROWS if format == "parquet" else ROWS.drop_columns(["raw"])  # CSV has no form of bytes
    table = engine.with_record_ids(engine.scan(Source(data=rows)), None, SEED)
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 2048)
    monkeypatch.setattr(session, "BATCH_ROWS", 2048)
    monkeypatch.setattr(session.Session.stream, "__defaults__", (None, 2048))
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", size)
    found = []
    for name, gives in (("memory", rows_in_memory), ("database", lambda *_: None)):
        monkeypatch.setattr(output, "rows_in_memory", gives)
        (tmp_path / name).mkdir()
        written = engine.write(table, str(tmp_path / name), format, STREAM)
        assert written.records == len(rows)
        assert list(written.files) == sorted(path.name for path in (tmp_path / name).iterdir())
        found.append([(tmp_path / name / each).read_bytes() for each in written.files])
    assert found[0] == found[1]
    assert len(found[0]) == -(-len(rows) // size)


def test_equal_words_are_left_to_the_database(engine: EmbeddedEngine, tmp_path: Path) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, SEED)
    room = engine.session.room()
    assert rows_in_memory(engine.session, table, Flat(bytes(16))) is None
    assert engine.session.room() == room
    engine.write(table, str(tmp_path), "parquet", Flat(bytes(16)))


def test_rows_without_room_are_left_to_the_database(engine: EmbeddedEngine) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, SEED)
    held = engine.session.hold(engine.session.room() - 1000)
    assert rows_in_memory(engine.session, table, STREAM) is None
    del held


def test_texts_that_turn_out_large_are_left_to_the_database(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = pa.table({"key": [f"{at:06d}" * 500 for at in range(3000)], "age": pa.array(np.arange(3000))})
    table = engine.with_record_ids(engine.scan(Source(data=long)), None, SEED)
    room = engine.session.room()
    assert rows_in_memory(engine.session, table, STREAM) is not None
    monkeypatch.setattr(row_order, "MOST_TEXT", 1 << 20)
    assert rows_in_memory(engine.session, table, STREAM) is None
    assert engine.session.room() == room


def test_no_rows_are_in_order(engine: EmbeddedEngine) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=ROWS.slice(0, 0))), None, SEED)
    rows = rows_in_memory(engine.session, table, STREAM)
    assert rows is not None
    assert len(rows) == 0


def test_a_file_that_cannot_be_written_ends_the_others(
    engine: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, SEED)
    monkeypatch.setattr(part_files, "ROWS_PER_FILE", 1000)
    (tmp_path / "part-00003.parquet").mkdir()
    with pytest.raises(SinkError, match="cannot be written"):
        engine.write(table, str(tmp_path), "parquet", STREAM)
