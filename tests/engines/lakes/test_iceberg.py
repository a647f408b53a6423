"""Iceberg tables have the same rows on every engine as for pyiceberg, or are refused by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.engines.lakes import IcebergName, pinned
from privpipe.errors import DataError, EngineError, UnsupportedError, UsageError
from tests.engines.lakes import icebergs

pytest.importorskip("pyiceberg", reason="needs pyiceberg")
pytest.importorskip("sqlalchemy", reason="the catalogue of these tests is SQLite")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a lake"
    for name, value in icebergs.environment(folder).items():
        monkeypatch.setenv(name, value)
    import pyiceberg.catalog

    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", type(pyiceberg.catalog._ENV_CONFIG)())
    return folder


def people(**at: Any) -> Source:
    return Source(data=IcebergName(name="db.people", catalog=icebergs.CATALOG, **at))


def counted(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.items()) for row in table.to_pylist())


def rows(engine: Engine, source: Source) -> Counter[Any]:
    return counted(engine.collect(engine.scan(source), like=pa.table({})))


@pytest.mark.parametrize("name", icebergs.TABLES, ids=lambda name: name.replace(" ", "-"))
def test_every_engine_reads_the_live_rows(engine: Engine, lake: Path, name: str) -> None:
    table = icebergs.quietly(icebergs.TABLES[name], lake)
    assert rows(engine, people()) == counted(table.scan().to_arrow())


def test_deletes_by_position_are_gone(engine: Engine, lake: Path) -> None:
    icebergs.quietly(icebergs.with_position_deletes, lake)
    table = engine.collect(engine.scan(people()), like=pa.table({}))
    assert sorted(table.column("n").to_pylist()) == [1, 2, 4, *range(6, 16)]


def test_deletes_by_equality_are_refused(engine: Engine, lake: Path) -> None:
    icebergs.quietly(icebergs.with_equality_deletes, lake)
    with pytest.raises(UnsupportedError, match=r"equality deletes.*compact it"):
        engine.scan(people())


def test_snapshots_branches_and_tags(engine: Engine, lake: Path) -> None:
    table = icebergs.quietly(icebergs.deleted, lake)
    first, second = (each.snapshot_id for each in table.snapshots())
    table.manage_snapshots().create_tag(first, "audited").create_branch(first, "before").commit()
    whole, now = counted(icebergs.ROWS), counted(table.scan().to_arrow())
    for at in ({"snapshot": first}, {"tag": "audited"}, {"branch": "before"}):
        assert rows(engine, people(**at)) == whole
    for at in ({}, {"snapshot": second}, {"branch": "main"}):
        assert rows(engine, people(**at)) == now


def test_a_pinned_table_may_change(engine: Engine, lake: Path) -> None:
    table = icebergs.made(lake)
    source = pinned(people())
    table.append(icebergs.ROWS)
    assert rows(engine, source) == counted(icebergs.ROWS)


def test_what_is_not_there_is_named(lake: Path) -> None:
    from privpipe.engines.lakes import lake_of

    icebergs.made(lake)
    for at, says in (
        ({"snapshot": 7}, "no snapshot 7"),
        ({"branch": "b"}, "no branch 'b'"),
        ({"tag": "main"}, "no tag 'main'"),
    ):
        with pytest.raises(DataError, match=says):
            lake_of(people(**at))
    with pytest.raises(DataError, match=r"no Iceberg table 'db\.other'"):
        lake_of(Source(data=IcebergName(name="db.other", catalog=icebergs.CATALOG)))
    with pytest.raises(UsageError, match="catalogue 'nowhere' does not open"):
        lake_of(Source(data=IcebergName(name="db.people", catalog="nowhere")))
    with pytest.raises(UsageError, match="exclude one another"):
        people(branch="a", tag="b")
    with pytest.raises(UsageError, match="with its namespace"):
        IcebergName(name="people")


def test_a_lost_file_is_an_error_without_its_address(engine: Engine, lake: Path) -> None:
    icebergs.made(lake)
    for file in lake.rglob("*.parquet"):
        file.unlink()
    with pytest.raises((EngineError, DataError)) as caught:
        rows(engine, people())
    assert "sqlite" not in str(caught.value)


def test_its_folders_are_refused_by_name(engine: Engine, lake: Path) -> None:
    icebergs.made(lake)
    table = next(lake.rglob("metadata")).parent
    for place in (table, table / "data", next(table.rglob("*.parquet")), lake):
        with pytest.raises(DataError, match=r"Iceberg table.*source: \{iceberg: db\.table"):
            engine.scan(Source(data=place, format="parquet"))
