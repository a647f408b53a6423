"""A table of a DuckDB file as a sink: one transaction replaces it, while no other process has the file open."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from privpipe.engines.databases import Database
from privpipe.errors import PrivpipeError, SinkError, UsageError
from privpipe.private_files import public_modes
from privpipe.sinks.databases.store import NOTHING, FileStore, Release, StagedRows, checked_reader, column_types, quoted

__all__ = ["DuckdbStore"]

PATIENCE: Final = 30.0
"""Seconds to wait until readers close the file."""
PAUSE: Final = 0.02
QUIET: Final = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
FIND: Final = (
    "SELECT table_name, comment, 'table' FROM duckdb_tables() WHERE database_name = current_database() AND "
    "lower(schema_name) = lower($1) AND lower(table_name) = lower($2) UNION ALL "
    "SELECT view_name, comment, 'view' FROM duckdb_views() WHERE database_name = current_database() AND "
    "lower(schema_name) = lower($1) AND lower(view_name) = lower($2)"
)
FILL: Final = "privpipe_fill"
ROWS: Final = "_privpipe_rows"


@dataclass(frozen=True)
class _Kept:
    """A release of the sink: its comment, its documents and the names of its tables."""

    comment: str
    documents: Mapping[str, str]
    names: tuple[str, ...]


class DuckdbStore(FileStore):
    """A table of a DuckDB file, or several.

    Parameters
    ----------
    database : Database
    path : Path
        Of the file, without links.
    members : tuple of str
        See `Store.members`.

    Raises
    ------
    UsageError
        A name of three parts.
    """

    def __init__(self, database: Database, path: Path, members: tuple[str, ...]) -> None:
        parts = database.table.parts if database.table else ()
        if len(parts) > 2:
            raise UsageError(database.located("a table of a DuckDB file is written `schema.table` or `table`"))
        super().__init__(database, path, parts if len(parts) == 2 else ("main", *parts), members)
        self._kept: _Kept | None = None

    def require_ours(self) -> None:
        with self._opened(writing=False) as file:
            self._run(file)

    def _run(self, file: Any) -> str | None:
        """The published run, of tables that are ours; None: there are none."""
        run = self._run_of(file, self.documents)
        old = () if run is None else self.names_in(self._texts(file))
        found = {name: self._run_of(file, name) for name in dict.fromkeys((*self.names, *old))}
        if any(each not in (None, run) for each in found.values()):
            raise self.foreign(f", for {self.documents!r} is not of the same run")
        return run if any(found.values()) else None

    def _run_of(self, file: Any, name: str) -> str | None:
        """The run that published a table; None: there is no table."""
        found = None
        for _, comment, kind in file.execute(FIND, (self.parts[0], name)).fetchall():
            found = Release.run_of(comment)
            if kind != "table" or found is None:
                raise self.foreign("" if name in self.names else f" (nor {name!r})")
        return found

    def fill(self, rows: Mapping[str, StagedRows]) -> None:
        with self._guarded(), duckdb.connect(str(self.loaded), config=dict(QUIET)) as file:
            for name, own in rows.items():
                columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in column_types(own.schema, "duckdb"))
                with checked_reader(own, "duckdb") as reader:
                    file.execute(f"CREATE TABLE main.{quoted(name)} ({columns})")
                    file.register(ROWS, reader)
                    file.execute(f"INSERT INTO main.{quoted(name)} SELECT * FROM temp.main.{ROWS}")
                    file.unregister(ROWS)

    def create(self) -> None:
        """An empty database, whole before it has its name."""
        new = self._work / "new.database"
        with self._guarded():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            duckdb.connect(str(new)).close()
            new.chmod(public_modes(self.path.parent)[0])
            self.path.unlink(missing_ok=True)  # it is empty
            os.link(new, self.path)
            new.unlink()

    def swap(self, release: Release) -> None:
        with self._opened(writing=True) as file, self._guarded():
            self._keep(file)
            old = () if self._kept is None else self._kept.names
            file.execute(f"ATTACH {_text(str(self.loaded))} AS privpipe_loaded (READ_ONLY)")
            file.execute("BEGIN")
            self._drop(file, old, self.names)
            self._fill(file, "privpipe_loaded", _Kept(release.comment, release.documents, self.names))
            file.execute("COMMIT")
            file.execute("DETACH privpipe_loaded")

    def _keep(self, file: Any) -> None:
        """Copy the published rows aside; only this run has the file open meanwhile."""
        if self._run(file) is None:
            self._kept = None
            return
        ((_, comment, _),) = file.execute(FIND, (self.parts[0], self.documents)).fetchall()
        texts = self._texts(file)
        names = tuple(name for name in self.names_in(texts) if self._run_of(file, name) is not None)
        self.before.unlink(missing_ok=True)
        file.execute(f"ATTACH {_text(str(self.before))} AS privpipe_before")
        for name in names:
            rows = self._table(file, name)
            file.execute(f"CREATE TABLE privpipe_before.main.{quoted(name)} AS SELECT * FROM {rows}")
        file.execute("DETACH privpipe_before")
        self._kept = _Kept(comment, texts, names)

    def _fill(self, file: Any, database: str, release: _Kept) -> None:
        texts = self._table(file, self.documents)
        for name in release.names:
            self._fill_one(file, database, name)
        file.execute(f"CREATE OR REPLACE TABLE {texts} (name VARCHAR, document VARCHAR)")
        file.executemany(f"INSERT INTO {texts} VALUES (?, ?)", sorted(release.documents.items()))
        for each in (texts, *(self._table(file, name) for name in release.names)):
            file.execute(f"COMMENT ON TABLE {each} IS {_text(release.comment)}")

    def _fill_one(self, file: Any, database: str, name: str) -> None:
        rows = f"SELECT * FROM {database}.main.{quoted(name)}"
        file.execute(f"CREATE OR REPLACE TABLE {self._table(file, name)} AS {rows}")

    def _drop(self, file: Any, names: Sequence[str], staying: Sequence[str]) -> None:
        """Drop tables that the release which comes does not have."""
        kept = {name.casefold() for name in staying}
        for name in names:
            if name.casefold() not in kept:
                file.execute(f"DROP TABLE IF EXISTS {self._table(file, name)}")

    def _table(self, file: Any, name: str) -> str:
        """The whole name of a table of the sink, which no other attached database has."""
        ((catalogue,),) = file.execute("SELECT current_database()").fetchall()
        return quoted(catalogue, self.parts[0], name)

    def restore(self) -> None:
        with (
            self._opened(writing=True) as file,
            self._guarded("the release could not be withdrawn; drop the table by hand"),
        ):
            if self._kept is not None:
                file.execute(f"ATTACH {_text(str(self.before))} AS privpipe_before (READ_ONLY)")
            file.execute("BEGIN")
            if self._kept is None:
                self._drop(file, (*self.names, self.documents), ())
            else:
                self._drop(file, self.names, self._kept.names)
                self._fill(file, "privpipe_before", self._kept)
            file.execute("COMMIT")

    def current(self) -> str | None:
        if not self.stands:
            return None
        with self._opened(writing=False) as file:
            return self._run(file)

    def texts(self) -> Mapping[str, str]:
        if not self.stands:
            return {}
        with self._opened(writing=False) as file:
            return {} if self._run(file) is None else self._texts(file)

    def _texts(self, file: Any) -> dict[str, str]:
        return dict(file.execute(f"SELECT name, document FROM {self._table(file, self.documents)}").fetchall())

    def is_bare(self) -> bool:
        with self._opened(writing=False) as file:
            found = file.execute("SELECT count(*) FROM duckdb_tables() WHERE database_name = current_database()")
            return bool(found.fetchall()[0][0] == 0)

    def scrub(self) -> None:
        """Write numbers over every free block: DuckDB keeps the bytes of dropped tables until it needs the room."""
        with self._opened(writing=True) as file, self._guarded():
            file.execute("SET force_compression = 'uncompressed'")
            file.execute("CHECKPOINT")
            size, used = file.execute(
                "SELECT block_size, used_blocks FROM pragma_database_size() WHERE database_name = current_database()"
            ).fetchall()[0]
            blocks = os.stat(self.path).st_size // size - used + 2
            fill = self._table(file, FILL)
            file.execute(f"DROP TABLE IF EXISTS {fill}")
            file.execute(f"CREATE TABLE {fill} AS SELECT hash(i) AS n FROM range({blocks * size // 8}) t(i)")
            file.execute("CHECKPOINT")
            file.execute(f"DROP TABLE {fill}")
            file.execute("CHECKPOINT")

    @contextmanager
    def _opened(self, *, writing: bool) -> Iterator[Any]:
        with self._guarded():
            connection = self._connected(writing)
            try:
                yield connection
            finally:
                connection.close()

    def _connected(self, writing: bool) -> Any:
        """The file, once no process holds it that DuckDB does not allow at the same time as this one."""
        until = time.monotonic() + PATIENCE
        config = {**QUIET, "temp_directory": str(self._work)} if writing else {**QUIET, "enable_external_access": False}
        while True:
            try:
                return duckdb.connect(str(self.path), read_only=not writing, config=config)
            except duckdb.IOException as error:
                if "Could not set lock" not in str(error) or time.monotonic() > until:
                    raise
            time.sleep(PAUSE)

    @contextmanager
    def _guarded(self, outcome: str = NOTHING) -> Iterator[None]:
        try:
            yield
            return
        except PrivpipeError:
            raise
        except (duckdb.Error, RuntimeError, pa.ArrowException) as error:
            said = _said(error)
        raise SinkError(self.database.located(f"the sink {self.called!r} cannot be written: {said}; {outcome}"))


def _said(error: Exception) -> str:
    """What DuckDB says, without its text, which quotes cells and paths."""
    text, kind = str(error), type(error).__name__
    if "Could not set lock" in text or "different configuration" in text or "already attached" in text:
        return "it is open elsewhere, and DuckDB lets no one write while others read; close it there"
    if "Schema with name" in text:
        return "there is no such schema; CREATE SCHEMA first"
    if "epend" in text:
        return "something that was built on the table depends on it; drop that"
    if "No space" in text or "could not be written" in text.casefold():
        return "there is no room on the disk"
    if "version number" in text or "storage version" in text:
        return "it was written by another version of DuckDB"
    return f"DuckDB refuses ({kind})"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
