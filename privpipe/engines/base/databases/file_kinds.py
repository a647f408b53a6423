"""Databases in files, told by their first bytes: a name says nothing for sure."""

from __future__ import annotations

import os
from typing import Literal

from privpipe.engines.base.unpacking import reading

__all__ = ["DatabaseKind", "database_kind"]

DatabaseKind = Literal["duckdb", "sqlite"]
SQLITE = b"SQLite format 3\0"
DUCKDB = b"DUCK"
HEAD = 16
"""Bytes of a head; DuckDB's mark stands behind a checksum of eight."""


def database_kind(path: str) -> DatabaseKind | None:
    """What database a file is; None for any other file, a folder, or nothing.

    Raises
    ------
    EngineError
        The file cannot be read.

    Examples
    --------
    >>> database_kind(__file__) is None
    True
    """
    if not os.path.isfile(path):
        return None
    with reading(path, "database"), open(path, "rb") as file:
        head = file.read(HEAD)
    if head == SQLITE:
        return "sqlite"
    return "duckdb" if head[8:12] == DUCKDB else None
