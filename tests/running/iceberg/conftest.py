"""An Iceberg catalogue with nothing in it, and releases into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from tests.engines.lakes import icebergs
from tests.running.iceberg.tables import TABLE, read_again, rows

pytest.importorskip("pyiceberg", reason="needs pyiceberg")
pytest.importorskip("sqlalchemy", reason="the catalogue of these tests is SQLite")

import pyiceberg.catalog


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a catalogue with an empty namespace, which pyiceberg knows by its environment."""
    folder = tmp_path / "lake"
    for name, value in icebergs.environment(folder).items():
        monkeypatch.setenv(name, value)
    read_again(monkeypatch)
    icebergs.catalogue(folder).close()
    return folder


@pytest.fixture
def table(lake: Path) -> Iterator[Callable[[], Any]]:
    """The published table, as a reader with a catalogue of its own loads it."""
    opened: list[Any] = []

    def load(name: str = TABLE) -> Any:
        opened.append(pyiceberg.catalog.load_catalog(icebergs.CATALOG, **icebergs.settings(lake)))
        return opened[-1].load_table(name)

    yield load
    for each in opened:
        each.close()


@pytest.fixture
def release(lake: Path, tmp_path: Path) -> Callable[..., Any]:
    """Publish rows; `k` decides whether they pass."""

    def run(data: pa.Table | None = None, k: int = 5, engine: Any = None, sink: Any = None, **changes: Any) -> Any:
        found = rows() if data is None else data
        path = tmp_path / "source.parquet"
        if not path.exists() or not pq.read_table(path).equals(found):
            pq.write_table(found, path)
        document = {
            "source": {"path": str(path)},
            "columns": {
                name: {"role": "quasi_identifier" if name in ("age", "town") else "insensitive"}
                for name in found.schema.names
            },
            "guarantees": [{"k_anonymity": {"k": k}}],
            "sink": {"iceberg": TABLE, "catalog": icebergs.CATALOG, **(sink or {})},
            "seed": "7d1c9a3e5b8f2046d1e7c3a95f80b264",
            **changes,
        }
        options = {name: document.pop(name) for name in ("dry_run", "progress") if name in document}
        return pp.release(pp.Policy.from_dict(document, tmp_path), engine=engine, **options)

    return run
