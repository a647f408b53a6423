"""Tables of databases: read in one statement that cannot write, and staged in a private Parquet file."""

from __future__ import annotations

from privpipe.engines.base.databases.file_kinds import DatabaseKind, database_kind
from privpipe.engines.base.databases.named import SERVER, Database, password_fault

__all__ = ["SERVER", "Database", "DatabaseKind", "database_kind", "password_fault"]
