"""Which store the database of a sink is: of a file, by its first bytes or the ending of a new one; else of a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from privpipe.engines.base.databases import SERVER, Database, DatabaseKind, database_kind
from privpipe.errors import SinkError, UnsupportedError, UsageError
from privpipe.sinks.databases.duckdb_store import DuckdbStore
from privpipe.sinks.databases.postgresql_store import PostgresqlStore
from privpipe.sinks.databases.sqlite_store import SqliteStore
from privpipe.sinks.databases.store import Store

__all__ = ["store_of"]

ENDINGS: Final[dict[str, DatabaseKind]] = {
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db3": "sqlite",
}


def store_of(database: Database) -> Store:
    """The store of a sink.

    Raises
    ------
    UsageError
        A file that is not there and whose ending says no kind; a name that the database cannot have; no URL.
    UnsupportedError
        A server other than PostgreSQL.
    SinkError
        A file that is no database, or a folder.

    Examples
    --------
    >>> from privpipe.blocks.table_name import TableName
    >>> store_of(Database(at="new.sqlite", table=TableName(("visits",)))).table
    TableName(parts=('visits',))
    """
    if database.is_file:
        return _of_file(database)
    scheme = SERVER if database.at == SERVER else database.url().partition("://")[0]
    if scheme in ("sqlite", "duckdb"):
        raise UsageError(database.located("a DuckDB or SQLite database is a file: write its path under `database:`"))
    if scheme not in ("postgresql", "postgres"):
        raise UnsupportedError(
            database.located(
                "a release is published into PostgreSQL (postgresql://...), DuckDB or SQLite; of other servers and "
                "drivers it is not known that one transaction replaces a table: publish files, and load them there"
            )
        )
    return PostgresqlStore(database)


def _of_file(database: Database) -> Store:
    path = Path(os.path.realpath(database.at.removeprefix("file://")))
    if path.is_dir():
        raise SinkError(database.located(f"{database.called()} is a folder; a database is one file"))
    kind = database_kind(str(path))
    if kind is None and path.exists() and path.stat().st_size:
        raise SinkError(
            database.located(
                f"{database.called()} is neither a DuckDB nor a SQLite file (its first bytes say so); name another file"
            )
        )
    kind = kind or ENDINGS.get(path.suffix.casefold())
    if kind is None:
        raise UsageError(
            database.located(
                f"{database.called()} is not there yet, and its ending does not say what to make: end it in .duckdb or "
                ".sqlite"
            )
        )
    return DuckdbStore(database, path) if kind == "duckdb" else SqliteStore(database, path)
