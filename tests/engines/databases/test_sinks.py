"""A release published into a table of a database (DuckDB, SQLite, a PostgreSQL server), on every engine."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import Refused, SinkError
from tests.engines.databases.conftest import PASSWORD, Server

KINDS = ("duckdb", "sqlite", "postgresql")
CANARY = "Quokkaville"
COMMENT = re.compile(r"privpipe: run (\S+), passed, policy [0-9a-f]{64}")


class Place:
    """A database of one kind, with what a reader does to it by its own driver."""

    def __init__(self, kind: str, folder: Path, server: Server | None = None) -> None:
        self.kind, self.folder, self.server = kind, folder, server
        self.at = server.url if server else str(folder / f"public.{kind}")

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in a transaction that is committed."""
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.at)) as file, file:
                return file.execute(statement, values).fetchall()
        if self.kind == "duckdb":
            with duckdb.connect(self.at) as duck:
                return duck.execute(statement, values).fetchall()
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.at) as session, session.cursor() as cursor:
            cursor.execute(statement, values or None)
            found = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            session.commit()
            return found

    def tables(self) -> list[str]:
        """Names of all tables and views."""
        said = {
            "sqlite": "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')",
            "duckdb": "SELECT table_name FROM information_schema.tables",
            "postgresql": "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "AND relkind IN ('r', 'v')",
        }
        return sorted(row[0] for row in self.ask(said[self.kind]))

    def documents(self, table: str = "visits_public") -> dict[str, Any]:
        """The public documents."""
        return {name: json.loads(text) for name, text in self.ask(f'SELECT name, document FROM "{table}__documents"')}


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """An empty database."""
    if request.param != "postgresql":
        yield Place(request.param, tmp_path)
        return
    server: Server = request.getfixturevalue("postgres")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    found = Place(request.param, tmp_path, server)
    yield found
    found.ask("DROP SCHEMA public CASCADE")
    found.ask("CREATE SCHEMA public")


@pytest.fixture
def release(tmp_path: Path, place: Place, embedded: Engine) -> Callable[..., Any]:
    """Run a release into the place; `k` decides whether it passes, `records` how many there are."""

    def run(
        k: int = 3,
        records: int = 200,
        engine: Engine = embedded,
        note: str = "note",
        dry_run: bool = False,
        **sink: Any,
    ) -> Any:
        made = pa.table(
            {
                "zip": [f"{8000 + n % 4:05}" for n in range(records)],
                "age": [20 + n % 5 * 10 for n in range(records)],
                "note": [f"{note} {n % 7}" for n in range(records)],
            }
        )
        pq.write_table(made, tmp_path / "visits.parquet")
        document = {
            "source": {"path": str(tmp_path / "visits.parquet")},
            "columns": {
                "zip": {"role": "quasi_identifier"},
                "age": {"role": "quasi_identifier"},
                "note": {"role": "insensitive"},
            },
            "guarantees": [{"k_anonymity": {"k": k}}],
            "sink": {"database": place.at, "table": "visits_public", **sink},
            "seed": "7d1c9a3e5b8f2046d1e7c3a95f80b264",
        }
        return pp.release(pp.Policy.from_dict(document, tmp_path), engine=engine, dry_run=dry_run)

    return run


def rows(place: Place, table: str = "visits_public") -> list[tuple[Any, ...]]:
    return place.ask(f'SELECT * FROM "{table}"')


def source(folder: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in pq.read_table(folder / "visits.parquet").to_pylist())


def test_two_releases_in_a_row(place: Place, release: Callable[..., Any], tmp_path: Path, engine: Engine) -> None:
    first = release(engine=engine)
    assert place.tables() == ["visits_public", "visits_public__documents"]
    written = rows(place)
    assert sorted(written) == source(tmp_path)
    assert written != source(tmp_path)
    assert place.documents() == first.public
    assert first.manifest["output"]["table"].endswith("visits_public")
    assert json.loads(Path(first.record, "verdict.json").read_text()) == first.verdict_document

    second = release(records=300, engine=engine)
    assert place.tables() == ["visits_public", "visits_public__documents"]
    assert sorted(rows(place)) == source(tmp_path)
    assert place.documents()["manifest"]["run_id"] == second.run_id
    assert not list(Path(first.record).parent.parent.glob("staging/*"))


def test_every_engine_writes_the_same_rows_in_the_same_order(
    place: Place, release: Callable[..., Any], embedded: Engine, engine: Engine
) -> None:
    release(engine=embedded)
    expected = rows(place)
    release(engine=engine)
    assert rows(place) == expected


def test_the_table_says_its_run(place: Place, release: Callable[..., Any]) -> None:
    if place.kind == "sqlite":
        pytest.skip("SQLite has no comments")
    result = release()
    statement = {
        "duckdb": "SELECT comment FROM duckdb_tables()",
        "postgresql": "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname LIKE 'visits_public%'",
    }
    comments = [row[0] for row in place.ask(statement[place.kind])]
    assert len(comments) == 2
    for comment in comments:
        found = COMMENT.fullmatch(comment)
        assert found is not None
        assert found[1] == result.run_id
        assert comment.endswith(result.public["manifest"]["policy_hash"])


def test_a_refused_release_leaves_nothing(place: Place, release: Callable[..., Any]) -> None:
    with pytest.raises(Refused):
        release(k=50, note=CANARY)
    if place.kind != "postgresql":
        assert not Path(place.at).exists()
    else:
        assert place.tables() == []
    release()
    before, documents = rows(place), place.documents()
    with pytest.raises(Refused):
        release(k=50, note=CANARY)
    assert (rows(place), place.documents()) == (before, documents)
    assert place.tables() == ["visits_public", "visits_public__documents"]
    require_no_bytes(place, CANARY)


def require_no_bytes(place: Place, canary: str) -> None:
    """No file beside the database holds them; a server's own files are nobody's to read."""
    for path in place.folder.rglob("*"):
        if path.is_file() and path.name != "visits.parquet" and "records" not in path.parts:
            assert canary.encode() not in path.read_bytes(), path.name


def test_a_table_of_somebody_else_is_refused(place: Place, release: Callable[..., Any]) -> None:
    place.ask("CREATE TABLE visits_public (a INTEGER)")
    with pytest.raises(SinkError, match="did not publish; rename or drop it"):
        release()
    with pytest.raises(SinkError, match="did not publish; rename or drop it"):
        release(dry_run=True)
    assert place.tables() == ["visits_public"]


def test_a_dry_run_leaves_nothing(place: Place, release: Callable[..., Any]) -> None:
    assert not release(dry_run=True).published
    if place.kind == "postgresql":
        assert place.tables() == []
    else:
        assert not Path(place.at).exists()
