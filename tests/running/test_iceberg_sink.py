"""A release published into an Iceberg table: one commit, read by pyiceberg as any reader does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import Refused
from tests.engines.lakes import icebergs

pytest.importorskip("pyiceberg", reason="needs pyiceberg")
pytest.importorskip("sqlalchemy", reason="the catalogue of these tests is SQLite")

import pyiceberg.catalog

TABLE = "db.visits_public"
NAMES = ["age", "town", "cost", "day"]


def rows(records: int = 200, start: int = 20, kinds: int = 10) -> pa.Table:
    at = range(records)
    return pa.table(
        {
            "age": [start + each % kinds for each in at],
            "town": [f"town {each % 2}" for each in at],
            "cost": [each % 7 + 0.25 for each in at],
            "day": pa.array([20_000 + each % 5 for each in at], pa.date32()),
        }
    )


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a catalogue with an empty namespace, which pyiceberg knows by its environment."""
    folder = tmp_path / "lake"
    for name, value in icebergs.environment(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", type(pyiceberg.catalog._ENV_CONFIG)())
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
        pq.write_table(found, tmp_path / "source.parquet")
        document = {
            "source": {"path": str(tmp_path / "source.parquet")},
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


def standing(lake: Path, table: Callable[[], Any]) -> tuple[Any, ...]:
    """What a reader of the catalogue and of the warehouse's folder can see."""
    files = sorted(str(path) for path in (lake / "warehouse").rglob("*"))
    try:
        found = table()
    except pyiceberg.exceptions.NoSuchTableError:
        return (files,)
    snapshots = [each.snapshot_id for each in found.snapshots()]
    return files, snapshots, found.refs(), found.metadata_location, dict(found.properties)


def content(found: pa.Table) -> list[Any]:
    return sorted(map(str, found.select(NAMES).to_pylist()))


def test_two_releases_in_a_row(release: Callable[..., Any], table: Callable[[], Any], tmp_path: Path) -> None:
    first = release()
    assert first.path == f"lake.{TABLE}"
    found = table()
    assert content(found.scan().to_arrow()) == content(rows())
    (snapshot,) = found.snapshots()
    said = snapshot.summary.additional_properties
    assert said["privpipe.run_id"] == first.run_id
    assert said["privpipe.verdict"] == "passed"
    assert said["privpipe.policy_hash"] == first.public["manifest"]["policy_hash"]
    documents = Path(found.properties["privpipe.documents"].removeprefix("file://"))
    for name, document in first.public.items():
        assert json.loads((documents / f"{name}.json").read_text()) == document
    (file,) = list(found.scan().plan_files())
    listed = first.public["manifest"]["output"]
    assert Path(file.file.file_path).name == listed["files"][0]["name"]
    assert Path(file.file.file_path.removeprefix("file://")).stat().st_size == listed["files"][0]["bytes"]
    assert (listed["table"], listed["mode"]) == (f"lake.{TABLE}", "replace")
    assert json.loads(Path(first.record, "verdict.json").read_text()) == first.verdict_document

    second = release(rows(300))
    found = table()
    assert content(found.scan().to_arrow()) == content(rows(300))
    assert len(found.snapshots()) == 2
    assert content(found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == content(rows())
    assert any("snapshots" in note for note in second.assessment.notes)
    assert not list(tmp_path.rglob("*pending-*"))


def test_a_refused_release_leaves_nothing(release: Callable[..., Any], table: Callable[[], Any], lake: Path) -> None:
    empty = standing(lake, table)
    with pytest.raises(Refused):
        release(k=50)
    assert standing(lake, table) == empty
    release()
    before = standing(lake, table)
    with pytest.raises(Refused):
        release(rows(300), k=50)
    with pytest.raises(Refused):
        release(rows(300), k=50, sink={"mode": "append"})
    assert standing(lake, table) == before
