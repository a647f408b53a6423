"""A table of a DuckDB file as a sink: one transaction replaces it, while no other process has the file open."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from privpipe.engines.databases import Database
from privpipe.errors import PrivpipeError, SinkError, UsageError
from privpipe.private_files import public_modes
from privpipe.sinks.databases.file_store import FileStore
from privpipe.sinks.databases.store import NOTHING, Release, StagedRows, checked_reader, column_types, quoted

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


class DuckdbStore(FileStore):
    """A table of a DuckDB file.

    Parameters
    ----------
    database : Database
    path : Path
        Of the file, without links.

    Raises
    ------
    UsageError
        A name of three parts.
    """

    def __init__(self, database: Database, path: Path) -> None:
        parts = database.table.parts if database.table else ()
        if len(parts) > 2:
            raise UsageError(database.located("a table of a DuckDB file is written `schema.table` or `table`"))
        super().__init__(database, path, parts if len(parts) == 2 else ("main", *parts))
        self._kept: tuple[str, dict[str, str]] | None = None

    def require_ours(self) -> None:
        with self._opened(writing=False) as file:
            self._run(file)

    def _run(self, file: Any) -> str | None:
        """The published run, of tables that are ours; None: there are none."""
        runs: dict[str, str] = {}
        for name in (self.parts[-1], self.documents):
            for _, comment, kind in file.execute(FIND, (self.parts[0], name)).fetchall():
                run = Release.run_of(comment)
                if kind != "table" or run is None:
                    raise self.foreign("" if name == self.parts[-1] else f" (nor {self.documents!r})")
                runs[name] = run
        run = runs.get(self.parts[-1])
        if run is not None and runs.get(self.documents) != run:
            raise self.foreign(f", for {self.documents!r} is not of the same run")
        return run

    def fill(self, rows: StagedRows) -> None:
        schema = rows.schema
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in column_types(schema, "duckdb"))
        self.loaded.unlink(missing_ok=True)

        with (
            checked_reader(rows, "duckdb") as reader,
            self._guarded(),
            duckdb.connect(str(self.loaded), config=dict(QUIET)) as file,
        ):
            file.execute(f"CREATE TABLE main.{quoted(self.parts[-1])} ({columns})")
            file.register(ROWS, reader)
            file.execute(f"INSERT INTO main.{quoted(self.parts[-1])} SELECT * FROM temp.main.{ROWS}")
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
            file.execute(f"ATTACH {_text(str(self.loaded))} AS privpipe_loaded (READ_ONLY)")
            file.execute("BEGIN")
            self._fill(file, f"privpipe_loaded.main.{quoted(self.parts[-1])}", release.comment, release.documents)
            file.execute("COMMIT")
            file.execute("DETACH privpipe_loaded")

    def _keep(self, file: Any) -> None:
        """Copy what is published aside; the open file is ours alone meanwhile."""
        if self._run(file) is None:
            self._kept = None
            return
        ((_, comment, _),) = file.execute(FIND, self.parts).fetchall()
        self.before.unlink(missing_ok=True)
        file.execute(f"ATTACH {_text(str(self.before))} AS privpipe_before")
        file.execute(f"CREATE TABLE privpipe_before.main.old AS SELECT * FROM {self._table(file)}")
        file.execute("DETACH privpipe_before")
        self._kept = (comment, self._texts(file))

    def _fill(self, file: Any, rows: str, comment: str, documents: Mapping[str, str]) -> None:
        table, texts = self._table(file), self._table(file, self.documents)
        file.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM {rows}")
        file.execute(f"CREATE OR REPLACE TABLE {texts} (name VARCHAR, document VARCHAR)")
        file.executemany(f"INSERT INTO {texts} VALUES (?, ?)", sorted(documents.items()))
        for each in (table, texts):
            file.execute(f"COMMENT ON TABLE {each} IS {_text(comment)}")

    def _table(self, file: Any, name: str = "") -> str:
        """The whole name of a table of the sink, which no other attached database has."""
        ((catalogue,),) = file.execute("SELECT current_database()").fetchall()
        return quoted(catalogue, self.parts[0], name or self.parts[-1])

    def restore(self) -> None:
        with (
            self._opened(writing=True) as file,
            self._guarded("the release could not be withdrawn; drop the table by hand"),
        ):
            if self._kept is not None:
                file.execute(f"ATTACH {_text(str(self.before))} AS privpipe_before (READ_ONLY)")
            file.execute("BEGIN")
            if self._kept is None:
                file.execute(f"DROP TABLE {self._table(file)}")
                file.execute(f"DROP TABLE {self._table(file, self.documents)}")
            else:
                self._fill(file, "privpipe_before.main.old", *self._kept)
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
