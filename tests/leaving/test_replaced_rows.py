"""Rows that a release replaced are gone from the bytes of the database file that readers open."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp


def document(tmp_path: Path, word: str, sink: Path, records: int = 400) -> dict[str, Any]:
    rows = pa.table({"zip": ["a", "b"] * (records // 2), "note": [f"{word}{at:07}" for at in range(records)]})
    pq.write_table(rows, tmp_path / "in.parquet")
    return {
        "source": {"path": str(tmp_path / "in.parquet")},
        "columns": {"zip": {"role": "quasi_identifier"}, "note": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 5}}],
        "sink": {"database": str(sink), "table": "visits"},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }


def bytes_of(sink: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sink.parent.glob(f"{sink.name}*") if path.is_file())


@pytest.mark.parametrize("name", ["visits.duckdb", "visits.sqlite"])
@pytest.mark.parametrize("fewer", [400, 20])
def test_nothing_of_the_release_before_is_left_in_the_file(name: str, fewer: int, tmp_path: Path) -> None:
    sink = tmp_path / "out" / name
    sink.parent.mkdir()
    pp.release(document(tmp_path, "quokka", sink, 20_000))
    assert b"quokka" in bytes_of(sink)
    pp.release(document(tmp_path, "wombat", sink, fewer))
    assert b"quokka" not in bytes_of(sink)
    assert b"wombat" in bytes_of(sink)
    found = pp.validate(sink, document(tmp_path, "wombat", sink, fewer), table="visits")
    assert (found.passed, found.records) == (True, fewer)


def test_a_log_of_sqlite_is_written_back(tmp_path: Path) -> None:
    sink = tmp_path / "out" / "visits.sqlite"
    sink.parent.mkdir()
    pp.release(document(tmp_path, "quokka", sink))
    reader = sqlite3.connect(sink)
    reader.execute("PRAGMA journal_mode = WAL")
    pp.release(document(tmp_path, "wombat", sink))
    assert b"quokka" not in bytes_of(sink)
    reader.close()
