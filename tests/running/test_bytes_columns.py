"""Columns of bytes pass through a release as they are, are left out, or are refused before anything is learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError

ROWS = [{"zip": code, "scan": scan} for code in ("1", "2") for scan in (b"\x00\xff", None, b"", b"a")] * 3


def policy(folder: Path, role: str, written: str = "parquet", **column: Any) -> pp.Policy:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "scans.parquet")
    return pp.Policy.from_dict(
        {
            "source": {"path": str(folder / "scans.parquet")},
            "columns": {"zip": {"role": "quasi_identifier"}, "scan": {"role": role, **column}},
            "guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": ["zip"]}}],
            "measures": [{"average_risk": {}}],
            "sink": {"path": str(folder / "published"), "format": written},
        }
    )


def published(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted((folder / "published").glob("*.parquet")))


def ordered(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted(map(repr, rows))


def test_an_insensitive_column_is_carried_through(engine: Engine, tmp_path: Path) -> None:
    pp.release(policy(tmp_path, "insensitive"), engine=engine)
    found = published(tmp_path)
    assert found.schema.field("scan").type == pa.binary()
    assert ordered(found.to_pylist()) == ordered(ROWS)


def test_an_identifier_is_left_out(engine: Engine, tmp_path: Path) -> None:
    pp.release(policy(tmp_path, "identifier"), engine=engine)
    assert published(tmp_path).schema.names == ["zip"]


def test_what_would_judge_bytes_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=r"columns of bytes are neither quasi-identifiers nor sensitive \('scan'\)"
    ):
        pp.release(policy(tmp_path, "quasi_identifier"), engine=engine)
    with pytest.raises(DataError, match="holds it as binary; leave `type:` out"):
        pp.release(policy(tmp_path, "insensitive", type="text"), engine=engine)
    assert not (tmp_path / "published").exists()


@pytest.mark.parametrize("written", ["csv", "json"])
def test_a_sink_of_texts_is_refused(engine: Engine, tmp_path: Path, written: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"{written} holds no bytes \('scan'\): publish as `format: parquet`"):
        pp.release(policy(tmp_path, "insensitive", written), engine=engine)
    assert not (tmp_path / "published").exists()
