"""Which files a source means, and the errors of unreadable ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from privpipe.engines.base.logical_types import check_names
from privpipe.engines.readers.files import csv_columns, list_files
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_records import json_batches, json_columns
from privpipe.errors import DataError


def test_a_folder_and_a_file(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "_SUCCESS", ".hidden.csv", "readme.md", "x.parquet", "deep/c.csv", ".git/d.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("h\n")
    found = list_files(Source(data=tmp_path, format="csv"))
    assert [Path(name).name for name in found] == ["a.csv", "b.csv", "c.csv"]
    with pytest.raises(DataError, match="no pattern: give the folder"):
        list_files(Source(data=str(tmp_path / "*.csv")))
    assert list_files(Source(data=f"file://{tmp_path}/a.csv")) == [str(tmp_path / "a.csv")]
    with pytest.raises(DataError, match="no csv file"):
        list_files(Source(data=tmp_path / "missing.csv"))
    (tmp_path / "year=2024").mkdir()
    with pytest.raises(DataError, match="Hive"):
        list_files(Source(data=tmp_path, format="csv"))


def test_csv_headers_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfx,"y,z"\n1,2\n')
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b'x,"y,z"\n'))
    (tmp_path / "c.csv").write_text("")
    source = Source(data=tmp_path, format="csv")
    assert csv_columns(source, list_files(source)) == ["x", "y,z"]
    (tmp_path / "d.csv").write_text("y,x\n")
    with pytest.raises(DataError, match=r"d\.csv: its header differs"):
        csv_columns(source, list_files(source))
    with pytest.raises(DataError, match="empty"):
        csv_columns(source, [str(tmp_path / "c.csv")])
    (tmp_path / "e.csv").write_bytes("größe\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        csv_columns(source, [str(tmp_path / "e.csv")])
    with pytest.raises(DataError, match="under `columns`"):
        csv_columns(Source(data=tmp_path, format="csv", header=False), [])


@pytest.mark.parametrize("names", [[], [""], ["a", "a"], ["a", "A"], ["__PRIVPIPE_x"], ["straße", "STRASSE"]], ids=str)
def test_names_that_are_refused(names: list[str]) -> None:
    with pytest.raises(DataError):
        check_names(names)


LINES = '{"a": 1, "b": "x"}\n\n{"b": null, "c": 1.50}\n{"a": 1e2, "c": true}\n'
ARRAY = '[{"a": 1, "b": "x"}, {"b": null, "c": 1.50}, {"a": 1e2, "c": true}]'


@pytest.mark.parametrize("text", [LINES, ARRAY, "  " + ARRAY.replace(", {", ",\n{")], ids=["lines", "array", "ragged"])
def test_json_records_are_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    files = [str(tmp_path / "a.json")]
    names = json_columns(files)
    assert names == ["a", "b", "c"]
    rows = pa.Table.from_batches(json_batches(files, names)).to_pylist()
    assert rows == [
        {"a": "1", "b": "x", "c": None},
        {"a": None, "b": None, "c": "1.5"},
        {"a": "100", "b": None, "c": "true"},
    ]


@pytest.mark.parametrize(
    "text", ['{"a": 1', "[1, 2]", '{"a": [1]}', '{"a": 1, "a": 2}', "nonsense", '[{"a": 1}'], ids=str
)
def test_json_that_is_not_a_table_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=r"a\.json|twice"):
        json_columns([str(tmp_path / "a.json")])
