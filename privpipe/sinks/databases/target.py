"""A table of a database as a place to publish.

Its store is opened, rows are staged where readers do not look, judged, and switched.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from privpipe.engines.databases import SERVER, Database, DatabaseKind, database_kind
from privpipe.errors import SinkError, UnsupportedError, UsageError
from privpipe.private_files import private_folder
from privpipe.sinks.databases.duckdb_store import DuckdbStore
from privpipe.sinks.databases.postgresql_store import PostgresqlStore
from privpipe.sinks.databases.sqlite_store import SqliteStore
from privpipe.sinks.databases.store import ONE, Release, StagedRows, Store
from privpipe.sinks.target import METADATA, WholeReleases, sink_faults

__all__ = ["DatabaseTarget", "store_of"]


ENDINGS: Final[dict[str, DatabaseKind]] = {
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db3": "sqlite",
}


def store_of(database: Database, members: tuple[str, ...] = ONE) -> Store:
    """The store of a sink.

    Parameters
    ----------
    members : tuple of str
        See `Store.members`.

    Raises
    ------
    UsageError
        A file that is not there and whose ending says no kind; a name that the database cannot have; no URL.
    UnsupportedError
        A server other than PostgreSQL.
    SinkError
        A file that is not a database, or a folder.

    Examples
    --------
    >>> from privpipe.blocks.table_name import TableName
    >>> store_of(Database(at="new.sqlite", table=TableName(("visits",)))).table
    TableName(parts=('visits',))
    """
    if database.is_file:
        return _of_file(database, members)
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
    return PostgresqlStore(database, members)


def _of_file(database: Database, members: tuple[str, ...]) -> Store:
    path = Path(os.path.realpath(database.at.removeprefix("file://")))
    if path.is_dir():
        raise SinkError(database.located(f"{database.called()} is a folder; a database is one file"))
    kind = database_kind(str(path))
    if kind is None and path.exists() and path.stat().st_size:
        raise SinkError(
            database.located(
                f"{database.called()} is neither a DuckDB nor a SQLite file (by its first bytes); name another file"
            )
        )
    kind = kind or ENDINGS.get(path.suffix.casefold())
    if kind is None:
        raise UsageError(
            database.located(
                f"{database.called()} does not exist, and its suffix does not show its kind: end it in .duckdb or "
                ".sqlite"
            )
        )
    store = DuckdbStore if kind == "duckdb" else SqliteStore
    return store(database, path, members)


ROWS = "rows"


class DatabaseTarget(WholeReleases):
    """A table of a DuckDB or SQLite file, or of a PostgreSQL server.

    Parameters
    ----------
    database : Database
        With a table, which nothing has or an earlier run published; a path is seen from where the program runs.
    home : Path
        The folder in which the work area of a server's sink is; that of a file is next to the file.
    members : tuple of str
        For related tables, their names: each is published as a separate table, all in one transaction.

    Raises
    ------
    SinkError
        Something else has the name, a step fails, or another run holds the lock.
    UsageError, UnsupportedError
        No driver, no URL, a database or a name that nothing can be published to.
    """

    def __init__(self, database: Database, home: Path, members: tuple[str, ...] = ONE) -> None:
        self._store = store_of(database, members)
        self.name = self._store.called
        said = re.sub(r"[^A-Za-z0-9_.]", "_", self.name.rsplit("/", 1)[-1])[:100]
        tag = hashlib.sha256(self._store.identity.encode()).hexdigest()[:8]
        self.area = (self._store.folder or Path(home).absolute()) / f".{said}-{tag}.privpipe"

    def __enter__(self) -> Self:
        try:
            with sink_faults(self.name):
                private_folder(self.area)
                self._store.take(self.area)
                shutil.rmtree(self.area / "staging", ignore_errors=True)
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self._store.leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.leave()
        shutil.rmtree(self.area / "staging", ignore_errors=True)

    def close(self) -> None:
        """End the session of a server."""
        self._store.leave()

    def require_free(self) -> None:
        """Refuse a target that could not be published to now, without making or locking anything.

        Raises
        ------
        SinkError
        """
        self._store.require_free()

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """The file of the database, if it is one, and the work area."""
        database, area = self._store.database, ("the work area of the sink", self.area)
        return (("the sink", Path(database.at)), area) if database.is_file else (area,)

    @property
    def marks(self) -> Mapping[str, str]:
        """None: the tables say themselves whose they are."""
        return {}

    def stage(self, run_id: str) -> Path:
        """An empty private folder for the public documents of this run."""
        return private_folder(self.area / "staging" / run_id)

    def rows(self, run_id: str) -> Path:
        """Where the engine writes part files."""
        return private_folder(self.stage(run_id) / ROWS)

    def landed(self, run_id: str) -> Database:
        """Load the part files into the database, and remove them."""
        [loaded] = self.landed_tables(run_id).values()
        return loaded

    def landed_tables(self, run_id: str) -> Mapping[str, Database]:
        """The same for related tables, each of which has its folder of part files."""
        parts = self.rows(run_id)
        with sink_faults(self.name):
            rows = {member: StagedRows(parts / member) for member in self._store.members}
            loaded = self._store.load(rows, private_folder(self.stage(run_id) / "database"))
            shutil.rmtree(parts)
        return loaded

    def described(self, run_id: str) -> Mapping[str, str]:
        """The table that readers read."""
        return {"table": str(self._store.table)}

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` undoes the completed steps."""
        with sink_faults(self.name):
            home = self.stage(run_id) / METADATA
            texts = {path.stem: path.read_text(encoding="utf-8") for path in home.glob("*.json")}
            self._store.publish(Release(run_id=run_id, documents=texts))
        return self.name

    def published(self, run_id: str) -> Database:
        """What a reader of the sink reads."""
        [found] = self.published_tables(run_id).values()
        return found

    def published_tables(self, run_id: str) -> Mapping[str, Database]:
        """The same of related tables."""
        return self._store.published()

    def withdraw(self, run_id: str) -> None:
        with sink_faults(self.name, "the release could not be withdrawn; drop the table by hand"):
            self._store.withdraw(run_id)

    def refuse(self, run_id: str) -> None:
        self._store.drop_loaded()
        shutil.rmtree(self.area / "staging" / run_id, ignore_errors=True)

    def current(self) -> str | None:
        found = self._store.current()
        return None if found is None else f"{self.name}/{found}"

    def document(self, name: str) -> bytes | None:
        found = self._store.texts().get(name)
        return None if found is None else found.encode()

    def recall(self) -> bytes | None:
        """Nothing: a ledger and a table do not go together."""
        return None

    def remember(self, data: bytes) -> None:
        raise SinkError("a table keeps no record of a ledger")
