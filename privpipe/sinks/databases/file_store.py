"""What DuckDB and SQLite files share: a lock next to the file, and a private database in which rows are judged.

Dropped tables leave bytes in a file that readers open, so rows get there once they were judged and not before.
"""

from __future__ import annotations

import fcntl
import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from privpipe.blocks.table_name import TableName
from privpipe.engines.databases import Database
from privpipe.errors import SinkError
from privpipe.private_files import flush_new
from privpipe.sinks.databases.store import DOCUMENTS, Release, StagedRows, Store

__all__ = ["FileStore"]

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
        """Refuse a file or a folder that is read-only, before anything is worked out."""
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
        """Keep what is published aside, and replace it by what was loaded in one transaction."""

    @abstractmethod
    def restore(self) -> None:
        """Put back what was kept."""

    @abstractmethod
    def is_bare(self) -> bool:
        """Whether the database has no table."""

    @abstractmethod
    def scrub(self) -> None:
        """Overwrite what replaced rows, dropped tables and broken transactions left in the file."""
