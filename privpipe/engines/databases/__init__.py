"""Tables of databases: read in one statement that cannot write, and staged in a private Parquet file."""

from __future__ import annotations

from privpipe.engines.databases.locations import SERVER, Database, DatabaseKind, database_kind, password_fault

__all__ = ["SERVER", "Database", "DatabaseKind", "database_kind", "password_fault"]
