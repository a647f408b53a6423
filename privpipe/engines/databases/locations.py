"""Databases of a policy: where each is, the table or the query, and the kind of a database file by its first bytes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self
from urllib.parse import parse_qsl, urlsplit

from privpipe.blocks.table_name import TableName
from privpipe.engines.readers.unpacking import reading
from privpipe.errors import UsageError

__all__ = ["SERVER", "Database", "DatabaseKind", "database_kind", "password_fault"]


DatabaseKind = Literal["duckdb", "sqlite"]
SQLITE = b"SQLite format 3\0"
DUCKDB = b"DUCK"
HEAD = 16
"""Bytes of a head; DuckDB's mark follows a checksum of eight."""


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


SERVER = "postgresql"
"""Instead of a URL: the server that libpq's own variables name (``PGHOST``, ``PGUSER``, ``PGPASSWORD``, ...)."""
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
SECRETS = re.compile(r"pass|pwd|secret|token|credential|key", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Database:
    """A table or a query of a database.

    Parameters
    ----------
    at : str
        A DuckDB or SQLite file, a URL without a password, or ``postgresql`` for what libpq's variables name.
    env : str
        Instead: the environment variable that holds the URL.
    table : TableName, optional
    query : str, optional
        One SELECT, in the database's own words; instead of a table.
    place : str
        Where the policy says so, for errors.

    Examples
    --------
    >>> Database(at="visits.sqlite", table=TableName.parse("visits"))
    Database(at='visits.sqlite', env='', table=TableName(parts=('visits',)))
    """

    at: str = ""
    env: str = ""
    table: TableName | None = None
    query: str | None = field(default=None, repr=False)
    place: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if bool(self.at) == bool(self.env):
            raise UsageError("a database is a file, a URL or an environment variable: give one of them")
        if (self.table is None) == (self.query is None):
            raise UsageError(self.located("give `table:` or `query:`, one of the two"))
        if self.at and (fault := password_fault(self.at)):
            raise UsageError(self.located(fault))

    @property
    def is_file(self) -> bool:
        """Whether it is a file of this machine.

        Examples
        --------
        >>> Database(at="postgresql", query="select 1").is_file, Database(at="./postgresql", query="select 1").is_file
        (False, True)
        """
        return not self.env and self.at != SERVER and URL.match(self.at) is None

    def within(self, folder: Path) -> Self:
        """The same, a relative path of a file seen from the folder of a policy.

        Examples
        --------
        >>> Database(at="visits.sqlite", query="select 1").within(Path("/policies")).at
        '/policies/visits.sqlite'
        """
        return replace(self, at=os.path.normpath(folder / self.at)) if self.is_file else self

    def url(self) -> str:
        """The URL of a server; it may hold a password and is never printed.

        Raises
        ------
        UsageError
            The environment has none.
        """
        if self.at == SERVER:
            return f"{SERVER}://"
        if not self.env:
            return self.at
        found = os.environ.get(self.env, "").strip()
        if not found:
            raise UsageError(
                self.located(f"the environment variable {self.env} is not set; it holds the database's URL")
            )
        if URL.match(found) is None:
            raise UsageError(
                self.located(f"the environment variable {self.env} holds no URL, as in postgresql://host/name")
            )
        return found

    def called(self) -> str:
        """How an error calls it: never by its URL.

        Examples
        --------
        >>> Database(at="data/visits.sqlite", query="select 1").called()
        'visits.sqlite'
        >>> Database(env="VISITS", query="select 1").called()
        'the database of VISITS'
        """
        if self.env:
            return f"the database of {self.env}"
        if self.is_file:
            return os.path.basename(self.at.rstrip("/"))
        return "the database" if self.at != SERVER else "the PostgreSQL server of the PG* variables"

    def located(self, message: str) -> str:
        """A sentence with the place in the policy before it."""
        return f"{self.place}: {message}" if self.place else message


def password_fault(at: str) -> str:
    """What is wrong with a URL that holds a password, which is not repeated; nothing for any other.

    Examples
    --------
    >>> password_fault("postgresql://me@db.example/visits"), password_fault("visits.sqlite")
    ('', '')
    >>> password_fault("postgresql://me:pw@db.example/visits")[:29]
    'holds a password; a policy is'
    """
    if URL.match(at) is None:
        return ""
    said = (
        "holds a password; a policy is read by many: write `database: {env: NAME}` and give the URL in that "
        "environment variable, or leave the password to PGPASSWORD or ~/.pgpass"
    )
    try:
        parts = urlsplit(at)
        written = "@" in parts.netloc and ":" in parts.netloc.rpartition("@")[0]
        keys = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError:
        return "is not a URL that can be read; give it in an environment variable: `database: {env: NAME}`"
    return said if written or any(map(SECRETS.search, keys)) else ""
