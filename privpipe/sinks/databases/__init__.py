"""Publishing to a table of a database: a DuckDB or SQLite file, or a PostgreSQL server."""

from __future__ import annotations

from privpipe.sinks.databases.target import DatabaseTarget

__all__ = ["DatabaseTarget"]
