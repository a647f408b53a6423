"""A table of a database as a place to publish: staged where readers do not look, judged there, then one transaction.

::

    visits_public               readers look here: rows of one release, and a comment with its run
    visits_public__documents    its public verdict, manifest and plan
    _privpipe_<sink><random>    PostgreSQL: being judged, nobody else may read it
    .<file>.<table>-<sink>.privpipe/
        staging/<run>/          part files, and for DuckDB and SQLite a private database that is judged
        records/<run>/          private records

The part files are written by the engine in keyed order; loading them is the work of this process, block by block.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from privpipe.engines.base.databases import Database
from privpipe.errors import SinkError
from privpipe.private_files import private_folder
from privpipe.sinks.databases.loading import StagedRows
from privpipe.sinks.databases.opening import store_of
from privpipe.sinks.databases.store import Release
from privpipe.sinks.local import METADATA, sink_faults
from privpipe.sinks.target import WholeReleases

__all__ = ["DatabaseTarget"]

ROWS = "rows"


class DatabaseTarget(WholeReleases):
    """A table of a DuckDB or SQLite file, or of a PostgreSQL server.

    Parameters
    ----------
    database : Database
        With a table, which nothing has or an earlier run published; a path is seen from where the program runs.
    home : Path
        The folder in which the work area of a server's sink lies; that of a file lies beside the file.

    Raises
    ------
    SinkError
        Something else has the name, a step fails, or another run holds the lock.
    UsageError, UnsupportedError
        No driver, no URL, a database or a name that nothing can be published to.
    """

    def __init__(self, database: Database, home: Path) -> None:
        self._store = store_of(database)
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
        """Refuse what could not be published to now, without making or locking anything.

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
        parts = self.rows(run_id)
        with sink_faults(self.name):
            loaded = self._store.load(StagedRows(parts), private_folder(self.stage(run_id) / "database"))
            shutil.rmtree(parts)
        return loaded

    def described(self, run_id: str) -> Mapping[str, str]:
        """The table that readers read."""
        return {"table": str(self._store.table)}

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` sees to what had been done."""
        with sink_faults(self.name):
            home = self.stage(run_id) / METADATA
            texts = {path.stem: path.read_text(encoding="utf-8") for path in home.glob("*.json")}
            self._store.publish(Release(run_id=run_id, documents=texts))
        return self.name

    def published(self, run_id: str) -> Database:
        """What a reader of the sink reads."""
        return self._store.database

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
