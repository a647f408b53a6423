"""A table of a SQLite file as a sink: rows are replaced in place, so that indexes and views of readers stay."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.engines.databases import Database
from privpipe.errors import DataError, PrivpipeError, SinkError, UsageError
from privpipe.sinks.databases.store import NOTHING, FileStore, Release, StagedRows, check_cells, column_types, quoted

__all__ = ["SqliteStore"]

PATIENCE: Final = 30.0
"""Seconds to wait for readers and writers."""
MARK: Final = "/* published by privpipe */"
MOST_COLUMNS: Final = 2000
FAULTS: Final = {
    "SQLITE_BUSY": "others read or write it without a pause; try again",
    "SQLITE_LOCKED": "others read or write it without a pause; try again",
    "SQLITE_FULL": "there is no room (on the disk, or within its `max_page_count`)",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_CANTOPEN": "it cannot be opened to write",
    "SQLITE_PERM": "permission denied",
    "SQLITE_IOERR": "the disk fails or is full",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_NOTADB": "it is damaged or encrypted",
    "SQLITE_CONSTRAINT": "an index or a constraint on the table forbids the rows; drop it",
}


class SqliteStore(FileStore):
    """A table of a SQLite file, or several.

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
        A name that no table of SQLite has.
    """

    def __init__(self, database: Database, path: Path, members: tuple[str, ...]) -> None:
        parts = database.table.parts if database.table else ()
        *schema, name = parts
        if [part.casefold() for part in schema] not in ([], ["main"]) or name.casefold().startswith("sqlite_"):
            raise UsageError(
                database.located(
                    f"{'.'.join(parts)!r} is not a name for a table of SQLite: write it without a schema, and not with "
                    "sqlite_ before it"
                )
            )
        super().__init__(database, path, (name,), members)
        self._kept: tuple[dict[str, str], dict[str, str]] | None = None

    def require_ours(self) -> None:
        with self._reading() as file:
            self._require_ours(file)

    def _require_ours(self, file: sqlite3.Connection) -> dict[str, str]:
        """The names and the texts of the published tables; nothing: there are none."""
        found: dict[str, tuple[str, str]] = {}
        texts = self._text_of(file, self.documents)
        old = () if texts is None else self.names_in(self._texts(file))
        for name in dict.fromkeys((*self.names, *old)):
            own = self._text_of(file, name)
            if own is not None:
                found.setdefault(name.casefold(), (name, own))
        if found and texts is None:
            raise self.foreign(f", for {self.documents!r} is not there")
        triggers = sum(
            file.execute(
                "SELECT count(*) FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
                (name,),
            ).fetchone()[0]
            for name in (*(name for name, _ in found.values()), self.documents)
        )
        if triggers:
            raise SinkError(
                self.database.located(
                    f"the sink {str(self.table)!r} has {triggers} trigger(s), which would act on each release; drop "
                    f"them ({NOTHING})"
                )
            )
        return dict(found.values())

    def _text_of(self, file: sqlite3.Connection, name: str) -> str | None:
        """The definition of a table of ours; None: there is no table."""
        row = file.execute(
            "SELECT type, name, sql FROM main.sqlite_master WHERE name = ? COLLATE NOCASE AND type <> 'trigger'",
            (name,),
        ).fetchone()
        if row is None:
            return None
        kind, own, text = row
        if kind != "table" or not str(text).startswith(f"CREATE TABLE {quoted(own)} ({MARK}"):
            raise self.foreign("" if name in self.names else f" (nor {name!r})")
        return str(text)

    def fill(self, rows: Mapping[str, StagedRows]) -> None:
        with self._guarded(), closing(sqlite3.connect(self.loaded, isolation_level=None)) as file:
            file.execute("PRAGMA journal_mode = OFF")
            file.execute("BEGIN")
            for name, own in rows.items():
                schema = own.schema
                if len(schema) > MOST_COLUMNS:
                    raise DataError(
                        f"the release has {len(schema):,} columns, a table of SQLite at most {MOST_COLUMNS:,}"
                    )
                file.execute(f"CREATE TABLE {quoted(name)} ({self._definition(schema)}")
                insert = f"INSERT INTO {quoted(name)} VALUES ({', '.join('?' * len(schema))})"
                for batch in own.batches():
                    check_cells(batch, "sqlite")
                    file.executemany(insert, zip(*map(_cells, batch.columns), strict=True))
            file.execute("COMMIT")

    def _definition(self, schema: pa.Schema) -> str:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in column_types(schema, "sqlite"))
        return f"{MARK} {columns})"

    def create(self) -> None:
        """An empty file: SQLite takes it for an empty database."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666))

    def swap(self, release: Release) -> None:
        with self._writing() as file, self._guarded():
            file.execute("ATTACH ? AS privpipe_loaded", (str(self.loaded),))
            self.before.unlink(missing_ok=True)
            file.execute("ATTACH ? AS privpipe_before", (str(self.before),))
            file.execute("BEGIN IMMEDIATE")
            old = self._require_ours(file)
            new = dict(
                file.execute("SELECT name, sql FROM privpipe_loaded.sqlite_master WHERE type = 'table'").fetchall()
            )
            self._keep(file, old)
            self._drop(file, old, new)
            self._fill(file, "privpipe_loaded", new, release.documents)
            file.execute("COMMIT")

    def _keep(self, file: sqlite3.Connection, old: Mapping[str, str]) -> None:
        if not old:
            self._kept = None
            return
        for name in old:
            file.execute(f"CREATE TABLE privpipe_before.{quoted(name)} AS SELECT * FROM main.{quoted(name)}")
        self._kept = (dict(old), self._texts(file))

    def _fill(
        self, file: sqlite3.Connection, database: str, tables: Mapping[str, str], documents: Mapping[str, str]
    ) -> None:
        """The published tables with rows in their order, each of its definition, and the documents next to them."""
        texts = f"main.{quoted(self.documents)}"
        for name, text in tables.items():
            self._fill_one(file, database, name, text)
        file.execute(f"CREATE TABLE IF NOT EXISTS {texts} ({MARK} name TEXT, document TEXT)")
        file.execute(f"DELETE FROM {texts}")
        file.executemany(f"INSERT INTO {texts} VALUES (?, ?)", sorted(documents.items()))

    def _fill_one(self, file: sqlite3.Connection, database: str, name: str, text: str) -> None:
        table = f"main.{quoted(name)}"
        found = file.execute("SELECT sql FROM main.sqlite_master WHERE name = ? COLLATE NOCASE", (name,)).fetchone()
        if found is not None and _columns(found[0]) != _columns(text):
            file.execute(f"DROP TABLE {table}")
            found = None
        if found is None:
            file.execute(f"CREATE TABLE {table} ({MARK}{_columns(text)}")
        else:
            file.execute(f"DELETE FROM {table}")
        # A table without indexes is read in the order of its rows.
        file.execute(f"INSERT INTO {table} SELECT * FROM {database}.{quoted(name)}")

    def _drop(self, file: sqlite3.Connection, names: Iterable[str], staying: Iterable[str]) -> None:
        """Drop tables that the release which comes does not have."""
        kept = {name.casefold() for name in staying}
        for name in names:
            if name.casefold() not in kept:
                file.execute(f"DROP TABLE IF EXISTS main.{quoted(name)}")

    def restore(self) -> None:
        with self._writing() as file, self._guarded("the release could not be withdrawn; drop the table by hand"):
            if self._kept is not None:
                file.execute("ATTACH ? AS privpipe_before", (str(self.before),))
            file.execute("BEGIN IMMEDIATE")
            if self._kept is None:
                self._drop(file, (*self.names, self.documents), ())
            else:
                tables, documents = self._kept
                self._drop(file, self.names, tables)
                self._fill(file, "privpipe_before", tables, documents)
            file.execute("COMMIT")

    def current(self) -> str | None:
        if not self.stands:
            return None
        with self._reading() as file:
            if not self._require_ours(file):
                return None
            row = file.execute(f"SELECT document FROM main.{quoted(self.documents)} WHERE name = 'manifest'").fetchone()
        try:
            return str(json.loads(row[0])["run_id"])
        except (TypeError, ValueError, KeyError, RecursionError):
            raise self.foreign(f", for {self.documents!r} holds something else") from None

    def texts(self) -> Mapping[str, str]:
        if not self.stands:
            return {}
        with self._reading() as file:
            return self._texts(file) if self._require_ours(file) else {}

    def _texts(self, file: sqlite3.Connection) -> dict[str, str]:
        return dict(file.execute(f"SELECT name, document FROM main.{quoted(self.documents)}"))

    def is_bare(self) -> bool:
        with self._reading() as file:
            return bool(file.execute("SELECT count(*) FROM main.sqlite_master").fetchone()[0] == 0)

    def scrub(self) -> None:
        """Pages were overwritten as they were freed; a log is written back and cut."""
        with self._writing() as file, self._guarded():
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._guarded(), closing(self._connected("rw" if os.access(self.path, os.W_OK) else "ro")) as file:
            yield file

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._guarded(), closing(self._connected("rw")) as file:
            file.execute("PRAGMA secure_delete = ON")  # else freed pages keep their bytes
            yield file

    def _connected(self, mode: str) -> sqlite3.Connection:
        file = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None
        )
        file.execute("PRAGMA trusted_schema = OFF")
        file.execute("PRAGMA temp_store = MEMORY")
        return file

    @contextmanager
    def _guarded(self, outcome: str = NOTHING) -> Iterator[None]:
        try:
            yield
            return
        except PrivpipeError:
            raise
        except (sqlite3.Error, sqlite3.Warning) as error:
            kind = str(getattr(error, "sqlite_errorname", None) or type(error).__name__)
        said = next((said for name, said in FAULTS.items() if kind.startswith(name)), "SQLite refuses")
        raise SinkError(
            self.database.located(f"the sink {self.called!r} cannot be written: {said} ({kind}); {outcome}")
        )


def _columns(text: str) -> str:
    """What a definition of ours says behind its mark."""
    return text.partition(f" ({MARK}")[2]


def _cells(column: pa.Array) -> list[Any]:
    """Cells as SQLite takes them: days and instants as texts, decimals as texts that it makes numbers of."""
    kind = column.type
    if pt.is_date(kind) or pt.is_timestamp(kind) or pt.is_decimal(kind):
        return list(pc.cast(column, pa.string()).to_pylist())
    return list(column.to_pylist())
