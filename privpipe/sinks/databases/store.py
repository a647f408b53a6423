"""What a sink requires of a database.

Part files are loaded block by block into a staged table, and one transaction publishes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from privpipe.blocks.table_name import TableName
from privpipe.engines.base.logical_types import kind_of, logical_schema
from privpipe.engines.databases import Database
from privpipe.errors import DataError, PrivpipeError, SinkError
from privpipe.private_files import flush_new

__all__ = [
    "DOCUMENTS",
    "NOTHING",
    "ONE",
    "FileStore",
    "Kind",
    "Release",
    "StagedRows",
    "Store",
    "check_cells",
    "checked_reader",
    "column_types",
    "quoted",
]


Kind = Literal["duckdb", "sqlite", "postgresql"]
ROWS: Final = 32_768
TYPES: Final[Mapping[Kind, Mapping[str, str]]] = {
    "duckdb": {
        "text": "VARCHAR",
        "integer": "BIGINT",
        "number": "DOUBLE",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
        "zoned": "TIMESTAMP WITH TIME ZONE",
        "boolean": "BOOLEAN",
        "decimal": "DECIMAL(38,{scale})",
        "binary": "BLOB",
    },
    "sqlite": {
        "text": "TEXT",
        "integer": "INTEGER",
        "number": "REAL",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
        "zoned": "TIMESTAMP",
        "boolean": "BOOLEAN",
        "decimal": "DECIMAL(38,{scale})",
        "binary": "BLOB",
    },
    "postgresql": {
        "text": "text",
        "integer": "bigint",
        "number": "double precision",
        "date": "date",
        "timestamp": "timestamp without time zone",
        "zoned": "timestamp with time zone",
        "boolean": "boolean",
        "decimal": "numeric(38,{scale})",
        "binary": "bytea",
    },
}
MOST_EXACT: Final = 15
"""Digits of a decimal that a 64-bit number reproduces."""


@dataclass(frozen=True)
class StagedRows:
    """Part files of one release in a folder.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """In the keyed order, which their names follow."""
        return tuple(sorted(self.folder.glob("*.parquet"), key=lambda path: (len(path.name), path.name)))

    @property
    def schema(self) -> pa.Schema:
        """The logical schema.

        Raises
        ------
        DataError
            No file was written.
        """
        if not self.files:
            raise DataError("no rows were staged; run again")
        return logical_schema(pq.read_schema(self.files[0]))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a block at a time."""
        schema = self.schema
        for path in self.files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(ROWS):
                    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
                    yield pa.record_batch(columns, schema=schema)


@contextmanager
def checked_reader(rows: StagedRows, kind: Kind) -> Iterator[pa.RecordBatchReader]:
    """All rows as an Arrow stream, each block checked; the error of a block is raised unchanged.

    Raises
    ------
    DataError
        See `check_cells`.
    OSError
    """
    wrong: list[Exception] = []

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            for batch in rows.batches():
                check_cells(batch, kind)
                yield batch
        except (PrivpipeError, OSError) as error:  # a driver would report it as its own error
            wrong.append(error)
            raise

    try:
        yield pa.RecordBatchReader.from_batches(rows.schema, checked())
    except Exception:  # drivers wrap the reader's exceptions in their own classes; all others are raised unchanged
        if wrong:
            raise wrong[0] from None
        raise


def column_types(schema: pa.Schema, kind: Kind) -> tuple[tuple[str, str], ...]:
    """The columns of a table of a database, with their types in its words.

    Examples
    --------
    >>> column_types(pa.schema([("age", pa.int64()), ("cost", pa.decimal128(38, 2))]), "postgresql")
    (('age', 'bigint'), ('cost', 'numeric(38,2)'))
    """
    words = TYPES[kind]
    found = []
    for field in schema:
        said = "zoned" if pt.is_timestamp(field.type) and field.type.tz else kind_of(field.type)
        scale = field.type.scale if pt.is_decimal(field.type) else 0
        found.append((field.name, words[said].format(scale=scale)))
    return tuple(found)


def quoted(*parts: str) -> str:
    """A name as all these databases take it, whatever it holds.

    Examples
    --------
    >>> quoted("main", 'we"ird')
    '"main"."we""ird"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def check_cells(batch: pa.RecordBatch, kind: Kind) -> None:
    """Refuse cells that a database would change.

    Raises
    ------
    DataError

    Examples
    --------
    >>> check_cells(pa.record_batch({"x": [1.5, None]}), "sqlite")
    >>> check_cells(pa.record_batch({"x": [float("nan")]}), "sqlite")
    Traceback (most recent call last):
    privpipe.errors.DataError: column 'x': 1 cells are not a number (NaN), which SQLite keeps as missing; ...
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        wrong, said = _changed(column, kind)
        if wrong:
            raise DataError(
                f"column {field.name!r}: {wrong:,} cells {said}; nothing was published. Change the column, or publish "
                f"{_elsewhere(kind)}"
            )


def _elsewhere(kind: Kind) -> str:
    return "into DuckDB or into files" if kind == "postgresql" else "into DuckDB, PostgreSQL or files"


def _changed(column: pa.Array, kind: Kind) -> tuple[int, str]:
    """How many cells a database would change, and how."""
    if kind == "sqlite" and pt.is_floating(column.type):
        return _many(pc.is_nan(column)), "are not a number (NaN), which SQLite keeps as missing"
    if kind == "sqlite" and pt.is_decimal(column.type):
        most = pa.scalar(Decimal(10**MOST_EXACT).scaleb(-column.type.scale), column.type)
        return _many(pc.greater_equal(pc.abs(column), most)), f"have more than {MOST_EXACT} digits, which SQLite rounds"
    if kind == "postgresql" and pt.is_string(column.type):
        return _many(pc.match_substring(column, "\0")), "hold NUL, which no text of PostgreSQL can"
    return 0, ""


def _many(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)


ONE: Final = ("",)
"""The members of a sink that is one table: it has the name of the sink."""
DOCUMENTS: Final = "__documents"
"""Ends the name of the table of public documents."""
NOTHING: Final = "nothing was published"
MARK: Final = re.compile(r"privpipe: run (?P<run>\d{8}T\d{6}Z-[0-9a-f]{8}), (?:passed|failed), policy [0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a run publishes with its rows.

    Parameters
    ----------
    run_id : str
    documents : mapping of text to text
        The public verdict, manifest and plan.
    """

    run_id: str
    documents: Mapping[str, str]

    @property
    def comment(self) -> str:
        """The comment on the table: only what the public documents state.

        Examples
        --------
        >>> documents = {"verdict": '{"passed": true}', "manifest": '{"policy_hash": "' + "ab" * 32 + '"}'}
        >>> Release(run_id="20260102T030405Z-1a2b3c4d", documents=documents).comment[:56]
        'privpipe: run 20260102T030405Z-1a2b3c4d, passed, policy '
        """
        word = "passed" if json.loads(self.documents["verdict"])["passed"] else "failed"
        return f"privpipe: run {self.run_id}, {word}, policy {json.loads(self.documents['manifest'])['policy_hash']}"

    @staticmethod
    def run_of(comment: str | None) -> str | None:
        """The run that a comment of ours names.

        Examples
        --------
        >>> Release.run_of("visits of 2026") is None
        True
        """
        found = MARK.fullmatch(comment or "")
        return found["run"] if found else None


class Store(ABC):
    """One table of one database, or several that are published together, on their way from release to release.

    Every method that talks to the database raises `SinkError` where the database fails or refuses; its texts are never
    passed on, since they quote cells, URLs and passwords.
    """

    database: Database
    """With the table of the sink."""
    members: tuple[str, ...] = ONE
    """For several tables, the part after the name of the sink: `visits` in `clinic_visits`."""

    @abstractmethod
    def take(self, area: Path) -> None:
        """Take the lock, refuse foreign tables, and clean up after killed runs.

        Parameters
        ----------
        area : Path
            A private folder of this sink.
        """

    @abstractmethod
    def require_free(self) -> None:
        """Refuse whatever a release would be refused for, without a lock or a change."""

    @abstractmethod
    def leave(self) -> None:
        """Remove everything this run staged or kept, and release the lock."""

    @abstractmethod
    def load(self, rows: Mapping[str, StagedRows], folder: Path) -> Mapping[str, Database]:
        """Load the rows of each member into a private table; returns where they are read, as sources would be."""

    @abstractmethod
    def published(self) -> Mapping[str, Database]:
        """Where readers read each member."""

    @abstractmethod
    def drop_loaded(self) -> None:
        """Take these tables away."""

    @abstractmethod
    def publish(self, release: Release) -> None:
        """Replace the published rows, documents and comments by the loaded ones, in one transaction."""

    @abstractmethod
    def withdraw(self, run_id: str) -> None:
        """Restore the previous release, in one transaction; nothing where another run is published."""

    @abstractmethod
    def current(self) -> str | None:
        """The run whose release is published."""

    @abstractmethod
    def texts(self) -> Mapping[str, str]:
        """The public documents of that release, by name; none where nothing is published."""

    @property
    @abstractmethod
    def called(self) -> str:
        """How people call it: never by a URL."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What distinguishes it from other sinks; it is never printed."""

    @property
    @abstractmethod
    def folder(self) -> Path | None:
        """The folder in which its work area is; None: it has none."""

    @property
    def table(self) -> TableName:
        """The name of the sink."""
        if self.database.table is None:
            raise TypeError("a sink is a table")
        return self.database.table

    def name_of(self, member: str) -> str:
        """The last part of the name of a member's table."""
        return f"{self.table.parts[-1]}_{member}" if member else self.table.parts[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """The last parts of the names of all tables of rows."""
        return tuple(map(self.name_of, self.members))

    def names_in(self, documents: Mapping[str, str]) -> tuple[str, ...]:
        """The same of a release that is published, by its documents.

        Raises
        ------
        SinkError
            They say nothing of it.
        """
        try:
            output = json.loads(documents["manifest"])["output"]
            members = output.get("tables") or ONE
            return tuple(self.name_of(str(member)) for member in members)
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
            raise self.foreign(f", for {self.name_of('') + DOCUMENTS!r} holds something else") from None

    def foreign(self, what: str = "") -> SinkError:
        """What is reported of a table that is not ours."""
        return SinkError(
            self.database.located(
                f"the sink {str(self.table)!r} is a table that privpipe did not publish{what}; rename or drop it, or "
                f"give the sink another name ({NOTHING})"
            )
        )

    def busy(self) -> SinkError:
        """What is reported where another run holds the lock."""
        return SinkError(
            f"another run is writing the sink {str(self.table)!r}; this one did nothing. Try again when it is done"
        )


UNSETTLED: Final = "unsettled"
LOADED: Final = "rows.database"
BEFORE: Final = "before.database"


class FileStore(Store):
    """A table of a file, or several.

    Parameters
    ----------
    database : Database
        As the policy has it.
    path : Path
        Of the file, without links.
    parts : tuple of str
        The whole name of the table.
    members : tuple of str
        See `Store.members`.
    """

    def __init__(self, database: Database, path: Path, parts: tuple[str, ...], members: tuple[str, ...]) -> None:
        self.path, self.parts, self.members = path, parts, members
        self.database = replace(database, at=str(path), table=TableName(parts, database.place))
        self.area = Path()
        self._work = Path()
        self._held: int | None = None
        self._created = False
        self._settled = True

    @property
    def called(self) -> str:
        """The file and the table."""
        return f"{self.path}: {self.table}"

    @property
    def identity(self) -> str:
        """What two names of the same table share."""
        return "\0".join((str(self.path), *(part.casefold() for part in self.parts)))

    @property
    def folder(self) -> Path:
        """Where the work area is: next to the file."""
        return self.path.parent

    @property
    def documents(self) -> str:
        """The last part of the name of the documents' table."""
        return self.parts[-1] + DOCUMENTS

    @property
    def loaded(self) -> Path:
        """The private database of the rows to be published."""
        return self._work / LOADED

    @property
    def before(self) -> Path:
        """The private database of the rows published before."""
        return self._work / BEFORE

    @property
    def stands(self) -> bool:
        """Whether there is a database."""
        return self.path.exists() and self.path.stat().st_size > 0

    def take(self, area: Path) -> None:
        self.area = area
        self._held = os.open(area / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise self.busy() from None
        self.require_free()
        if (area / UNSETTLED).exists():
            if self.stands:
                self.scrub()
            (area / UNSETTLED).unlink()

    def require_free(self) -> None:
        self.require_writable()
        if self.stands:
            self.require_ours()

    def require_writable(self) -> None:
        """Refuse a read-only file or folder, before any work."""
        folder = next(each for each in self.path.parents if each.is_dir())
        for place in (self.path, folder):
            if place.exists() and not os.access(place, os.W_OK):
                raise SinkError(
                    self.database.located(f"the sink {self.called!r} cannot be written: {place.name!r} is read-only")
                )

    def leave(self) -> None:
        try:
            if self._settled and self._held is not None:
                (self.area / UNSETTLED).unlink(missing_ok=True)
        finally:
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def load(self, rows: Mapping[str, StagedRows], folder: Path) -> Mapping[str, Database]:
        self._work = folder
        self.loaded.unlink(missing_ok=True)
        self.fill({self.name_of(member): own for member, own in rows.items()})
        return {
            member: Database(at=str(self.loaded), table=TableName((self.name_of(member),))) for member in self.members
        }

    def published(self) -> Mapping[str, Database]:
        return {
            member: replace(
                self.database, table=TableName((*self.parts[:-1], self.name_of(member)), self.database.place)
            )
            for member in self.members
        }

    def drop_loaded(self) -> None:
        self.loaded.unlink(missing_ok=True)

    def publish(self, release: Release) -> None:
        self._settled = False
        flush_new(self.area / UNSETTLED, release.run_id.encode())
        if not self.stands:
            self.create()
            self._created = True
        self.swap(release)
        if not self._created:
            self.scrub()  # of the rows that were replaced
        self._settled = True

    def withdraw(self, run_id: str) -> None:
        self._settled = False
        if self.current() == run_id:
            self.restore()
            if self._created and self.is_bare():
                self.remove()
        if self.stands:
            self.scrub()
        self._settled = True

    def remove(self) -> None:
        """Remove a file that this run made and in which nothing is left."""
        for ending in ("", "-wal", "-shm", "-journal", ".wal"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)

    @abstractmethod
    def require_ours(self) -> None:
        """Refuse a table that we did not publish."""

    @abstractmethod
    def fill(self, rows: Mapping[str, StagedRows]) -> None:
        """Make the private database, with the rows in tables of the last names of those that are published."""

    @abstractmethod
    def create(self) -> None:
        """Make an empty database where there is none."""

    @abstractmethod
    def swap(self, release: Release) -> None:
        """Put the published rows aside, and replace them by the loaded ones in one transaction."""

    @abstractmethod
    def restore(self) -> None:
        """Restore the kept rows."""

    @abstractmethod
    def is_bare(self) -> bool:
        """Whether the database has no table."""

    @abstractmethod
    def scrub(self) -> None:
        """Overwrite remains of replaced rows, dropped tables and broken transactions in the file."""
