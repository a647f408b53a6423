"""A folder's readers see every data file, the same on every engine, or are shown the names of those left out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.errors import DataError

POLICY: dict[str, Any] = {
    "columns": {"n": {"role": "quasi_identifier"}},
    "guarantees": [{"k_anonymity": {"k": 1}}],
}


def part(path: Path, *numbers: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), path)


def numbers(engine: Engine, folder: Path) -> list[int]:
    return sorted(engine.collect(engine.scan(Source(data=folder, format="parquet")))["n"].to_pylist())


def test_deep_folders_and_links_are_read(engine: Engine, tmp_path: Path) -> None:
    part(tmp_path / "lake" / "a.parquet", 1)
    part(tmp_path / "lake" / "deep" / "er" / "b.parquet", 2)
    part(tmp_path / "else" / "c.parquet", 3)
    part(tmp_path / "d.parquet", 4)
    (tmp_path / "lake" / "linked").symlink_to(tmp_path / "else")
    (tmp_path / "lake" / "e.parquet").symlink_to(tmp_path / "d.parquet")
    part(tmp_path / "lake" / "empty.parquet")
    assert numbers(engine, tmp_path / "lake") == [1, 2, 3, 4]


def test_what_is_left_out_is_counted(engine: Engine, tmp_path: Path) -> None:
    for name in ("a", "_hidden", ".hidden", "deep/_too", "_folder/x"):
        part(tmp_path / f"{name}.parquet", 1)
    (tmp_path / "other.csv").write_text("n\n7\n")
    for furniture in ("_SUCCESS", ".b.parquet.crc", "_metadata", "_committed_1", ".DS_Store"):
        (tmp_path / furniture).write_text("")
    found = pp.assess(tmp_path, POLICY, engine=engine)
    assert found.records == 1
    (note,) = [note for note in found.notes if "not judged" in note]
    assert note == "readers get 5 files with the table that were not judged: 4 hidden, 1 of other formats"


def test_a_release_notes_what_its_source_left_out(engine: Engine, tmp_path: Path) -> None:
    part(tmp_path / "in" / "a.parquet", 1, 1)
    part(tmp_path / "in" / "_b.parquet", 2, 2)
    policy = POLICY | {
        "source": {"path": str(tmp_path / "in")},
        "sink": {"path": str(tmp_path / "out")},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }
    result = pp.release(policy, engine=engine)
    assert "source: 1 name in the folder was left out: '_b.parquet'" in result.assessment.source_notes
    again = pp.assess(result.path, POLICY, engine=engine)
    assert not [note for note in again.notes if "left out" in note]


def test_what_cannot_be_a_table_is_refused(engine: Engine, tmp_path: Path) -> None:
    part(tmp_path / "year=2024" / "a.parquet", 1)
    with pytest.raises(DataError, match="year=") as caught:
        numbers(engine, tmp_path)
    assert "2024" not in str(caught.value).replace(str(tmp_path), "")
    part(tmp_path / "dangling" / "a.parquet", 1)
    (tmp_path / "dangling" / "b.parquet").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"b\.parquet.*neither a file nor a folder"):
        numbers(engine, tmp_path / "dangling")
    part(tmp_path / "circle" / "a.parquet", 1)
    (tmp_path / "circle" / "again").symlink_to(tmp_path / "circle")
    with pytest.raises(DataError, match="a link to a folder above it"):
        numbers(engine, tmp_path / "circle")
    part(tmp_path / "pipe" / "a.parquet", 1)
    os.mkfifo(tmp_path / "pipe" / "b.parquet")
    with pytest.raises(DataError, match="neither"):
        numbers(engine, tmp_path / "pipe")
    part(tmp_path / "mixed" / "a.parquet", 1)
    (tmp_path / "mixed" / "b.docx").write_text("no table")
    with pytest.raises(DataError, match=r"b\.docx: not a readable Parquet"):
        numbers(engine, tmp_path / "mixed")
    (tmp_path / "void").mkdir()
    with pytest.raises(DataError, match="no parquet file"):
        numbers(engine, tmp_path / "void")


def test_a_folder_that_cannot_be_listed_is_an_error(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part(tmp_path / "a.parquet", 1)
    part(tmp_path / "locked" / "b.parquet", 2)
    scandir = os.scandir

    def denied(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("privpipe.engines.readers.source.os.scandir", denied)
    with pytest.raises(DataError, match="locked.*cannot be listed: Permission denied"):
        numbers(engine, tmp_path)
