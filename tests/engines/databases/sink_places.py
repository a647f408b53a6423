"""Databases that releases are published into, as readers see them by the drivers of their own."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from tests.engines.databases.conftest import Server

KINDS = ("duckdb", "sqlite", "postgresql")
CANARY = "Quokkaville"


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

    def comment(self, table: str = "visits_public") -> str | None:
        """What is written at a table; SQLite has nothing of the kind."""
        said = {
            "sqlite": "SELECT NULL WHERE ?1 = ?1",
            "duckdb": "SELECT comment FROM duckdb_tables() WHERE table_name = $1",
            "postgresql": "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname = $1",
        }
        found: str | None = self.ask(said[self.kind], table)[0][0]
        return found

    def documents(self, table: str = "visits_public") -> dict[str, Any]:
        """The public documents."""
        return {name: json.loads(text) for name, text in self.ask(f'SELECT name, document FROM "{table}__documents"')}


def rows(place: Place, table: str = "visits_public") -> list[tuple[Any, ...]]:
    return place.ask(f'SELECT * FROM "{table}"')


def require_no_bytes(place: Place, canary: str, *sources: str) -> None:
    """No file next to the database holds them; no one may read a server's own files."""
    for path in place.folder.rglob("*"):
        if path.is_file() and path.name not in ("visits.parquet", *sources) and "records" not in path.parts:
            assert canary.encode() not in path.read_bytes(), path.name
