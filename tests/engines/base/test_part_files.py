"""Bytes of a release: canonical, quoted where needed, cut into files, and refused when they cannot be written."""

from __future__ import annotations

import csv
import datetime as dt
import io
import itertools
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.engines.base import part_files
from privpipe.engines.base.part_files import csv_bytes, csv_header, in_groups, json_bytes, write_part
from privpipe.errors import SinkError, UnsupportedError

TEXTS = st.lists(st.tuples(st.text() | st.none(), st.text()), min_size=1)


@settings(deadline=None)
@given(TEXTS)
def test_csv_reads_back(rows: list[tuple[str | None, str]]) -> None:
    batch = pa.record_batch({"a": pa.array([a for a, _ in rows], pa.string()), "b": [b for _, b in rows]})
    text = (csv_header(["a", "b"]) + csv_bytes(batch)).decode()
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert found == [["a", "b"], *([a or "", b] for a, b in rows)]


@settings(deadline=None)
@given(TEXTS)
def test_json_reads_back(rows: list[tuple[str | None, str]]) -> None:
    batch = pa.record_batch({"a": pa.array([a for a, _ in rows], pa.string()), 'b "q"': [b for _, b in rows]})
    found = [json.loads(line) for line in json_bytes(batch).decode().split("\n")[:-1]]
    assert found == [{"a": a, 'b "q"': b} for a, b in rows]


BATCH = pa.record_batch(
    {
        "i": pa.array([2**53 + 1, None]),
        "x": pa.array([0.1, float("inf")]),
        "d": pa.array([Decimal("1.50"), None]),
        "t": pa.array([dt.datetime(2024, 5, 1, 8, 0, 0, 500000), None]),
        "b": pa.array([True, None]),
    }
)


def test_values_are_canonical() -> None:
    assert csv_bytes(BATCH) == b"9007199254740993,0.1,1.5,2024-05-01T08:00:00.5,true\n,inf,,,\n"
    assert json_bytes(BATCH) == (
        b'{"i":9007199254740993,"x":0.1,"d":1.5,"t":"2024-05-01T08:00:00.5","b":true}\n'
        b'{"i":null,"x":"inf","d":null,"t":null,"b":null}\n'
    )
    assert csv_bytes(BATCH.slice(1, 1)) == csv_bytes(BATCH).split(b"\n", 1)[1]
    assert csv_bytes(BATCH.slice(0, 0)) == b""


def test_a_lone_null_is_still_a_record() -> None:
    assert csv_bytes(pa.record_batch({"a": pa.array(["x", None])})) == b'x\n""\n'


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
@pytest.mark.parametrize("size", [1, 7, 10, 25])
def test_the_bytes_of_a_file_do_not_tell_how_its_rows_came(
    format: Any, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 10)
    rows = pa.table({"n": range(25), "t": [f"text {at % 3}" for at in range(25)]})
    found = []
    for name, batches in (("whole", rows.to_batches()), ("cut", rows.to_batches(max_chunksize=size))):
        (tmp_path / name).mkdir()
        report = write_part(batches, rows.schema, str(tmp_path / name), format, number=4)
        assert (report.records, report.files) == (25, (f"part-00004.{format}",))
        found.append((tmp_path / name / report.files[0]).read_bytes())
    assert found[0] == found[1]
    if format == "parquet":
        told = pq.ParquetFile(tmp_path / "cut" / "part-00004.parquet").metadata
        assert [told.row_group(at).num_rows for at in range(told.num_row_groups)] == [10, 10, 5]
        assert pq.read_schema(tmp_path / "cut" / "part-00004.parquet").metadata is None
    else:
        assert len(found[0].splitlines()) == 25 + (format == "csv")


@given(st.lists(st.integers(0, 25), max_size=8), st.integers(1, 30))
def test_batches_are_put_together_to_groups(sizes: list[int], group: int) -> None:
    ends = np.cumsum([0, *sizes])
    batches = [pa.record_batch({"n": range(first, last)}) for first, last in itertools.pairwise(ends.tolist())]
    with mock.patch.object(part_files, "ROWS_PER_GROUP", group):
        found = list(in_groups(batches))
    assert [row for each in found for row in each.column("n").to_pylist()] == list(range(ends[-1]))
    assert all(len(each) == group for each in found[:-1])
    assert all(0 < len(each) <= group for each in found[-1:])


@pytest.mark.parametrize(("values", "coded"), [(3, True), (16_000, True), (50_000, False)])
def test_texts_and_numbers_of_texts_make_the_same_file(values: int, coded: bool, tmp_path: Path) -> None:
    """Also where most of them come after the first page, and what is read first hardly repeats."""
    codes = np.concatenate([np.arange(20_000) % min(values, 15_000), np.arange(60_000) % values])
    texts = pa.array([None if code == 1 else f"town {code}" for code in codes.tolist()])
    found = []
    for name, column in (("texts", texts), ("numbers", texts.dictionary_encode())):
        rows = pa.record_batch({"town": column})
        (tmp_path / name).mkdir()
        write_part([rows], rows.schema, str(tmp_path / name), "parquet")
        found.append((tmp_path / name / "part-00000.parquet").read_bytes())
        told = pq.read_metadata(tmp_path / name / "part-00000.parquet").row_group(0).column(0)
        assert told.has_dictionary_page is coded
    assert found[0] == found[1]


def test_no_rows_are_one_file(tmp_path: Path) -> None:
    assert write_part([], pa.schema([("a", pa.string())]), str(tmp_path), "csv").files == ("part-00000.csv",)
    assert (tmp_path / "part-00000.csv").read_bytes() == b"a\n"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be written"):
        write_part([BATCH], BATCH.schema, str(tmp_path / "missing"), "csv")
    with pytest.raises(UnsupportedError):
        write_part([BATCH], BATCH.schema, str(tmp_path), "delta")


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_files_are_the_same_whether_or_not_they_are_encoded_aside(
    format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 7)
    batches = [pa.record_batch({"n": list(range(7 * at, 7 * at + 7))}) for at in range(5)]
    found = []
    for large in (1, 100):
        monkeypatch.setattr(part_files, "LARGE_BATCH", large)
        folder = tmp_path / str(large)
        folder.mkdir()
        written = write_part(iter(batches), batches[0].schema, str(folder), format)
        assert written.records == 35
        found.append([(folder / name).read_bytes() for name in written.files])
    assert found[0] == found[1]
    assert len(found[0]) == 1


@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_fails_aside_fails_the_writing(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "LARGE_BATCH", 1)
    monkeypatch.setattr(part_files, "ROWS_PER_GROUP", 1)
    added: list[int] = []

    def add(self: Any, batch: pa.RecordBatch) -> None:
        added.append(batch.num_rows)
        if len(added) == at + 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(part_files._ParquetPart, "add", add)
    batches = [pa.record_batch({"n": [1]})] * 3
    with pytest.raises(SinkError, match="No space left on device"):
        write_part(iter(batches), batches[0].schema, str(tmp_path), "parquet")
    assert len(added) == at + 1


def test_rows_that_cannot_be_made_end_what_is_written_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "LARGE_BATCH", 1)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_part(rows(), pa.schema([("n", pa.int64())]), str(tmp_path), "parquet")
    assert not any("privpipe-writing" in thread.name for thread in threading.enumerate())


def test_columns_that_hardly_repeat_have_no_dictionary(tmp_path: Path) -> None:
    rows = pa.table({"near": [at / 7 for at in range(900)], "few": ["a", "b", None] * 300, "none": pa.nulls(900)})
    [name] = write_part(rows.to_batches(), rows.schema, str(tmp_path), "parquet").files
    group = pq.read_metadata(tmp_path / name).row_group(0)
    assert [group.column(at).has_dictionary_page for at in range(2)] == [False, True]
    assert pq.read_table(tmp_path / name).to_pydict() == rows.to_pydict()


def test_texts_have_no_bounds_in_the_metadata(tmp_path: Path) -> None:
    """In keyed order they would let no reader skip rows; those of numbers stay."""
    rows = pa.record_batch(
        {
            "zip.code": pa.array(["a", "b"]),
            "ward": pa.array(["x", "x"]).dictionary_encode(),
            "age": pa.array([3, 4]),
            "born": pa.array([1, 2], pa.timestamp("us")),
        }
    )
    written = write_part(iter([rows]), rows.schema, str(tmp_path), "parquet")
    group = pq.ParquetFile(tmp_path / written.files[0]).metadata.row_group(0)
    bounded = {group.column(at).path_in_schema for at in range(4) if group.column(at).is_stats_set}
    assert bounded == {"age", "born"}
