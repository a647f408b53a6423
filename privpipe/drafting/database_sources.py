"""Databases in files, as `init` and `doctor` meet them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from privpipe.engines import Source
from privpipe.errors import DataError, UsageError, did_you_mean

__all__ = ["database_keys", "database_source", "database_tables"]

MOST_NAMED = 20


def database_tables(path: str) -> tuple[str, list[str]] | None:
    """What database a file is, and its tables and views as a policy writes them; None for any other file.

    Raises
    ------
    DataError, EngineError
        It cannot be read.
    """
    from privpipe.engines.base.databases import database_kind
    from privpipe.engines.base.databases.duckdb_files import duckdb_tables
    from privpipe.engines.base.databases.sqlite_files import sqlite_tables

    kind = database_kind(path)
    if kind is None:
        return None
    return ("DuckDB", duckdb_tables(path)) if kind == "duckdb" else ("SQLite", sqlite_tables(path))


def database_source(path: str, table: str | None) -> Source | None:
    """The source of a table in a database file; None for any other file.

    Raises
    ------
    UsageError
        A table of what is no database; a database of several tables and none named.
    DataError
        A database without tables.
    """
    from privpipe.blocks.table_name import TableName
    from privpipe.engines.base.databases import Database

    found = database_tables(path)
    if found is None:
        if table is not None:
            raise UsageError(f"--table is for DuckDB and SQLite files, and {path!r} is none by its first bytes")
        return None
    names = found[1]
    if table is None and len(names) != 1:
        if not names:
            raise DataError(f"{path!r} has no tables")
        shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
        raise UsageError(f"{path!r} has {len(names):,} tables: name one by --table ({shown})")
    if table is not None and table not in names and not any(name.endswith(f".{table}") for name in names):
        raise UsageError(f"{path!r} has no table {table!r}{did_you_mean(table, names)}")
    return Source(data=Database(at=path, table=TableName.parse(table or names[0])))


def database_keys(database: Any, home: Path) -> dict[str, Any]:
    """The keys of `source:` for a table of a database, in a policy that stands in a folder."""
    at = os.path.relpath(database.at, home) if database.is_file else database.at
    return {"database": at, "table": str(database.table)}
