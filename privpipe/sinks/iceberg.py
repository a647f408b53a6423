"""Publishing into an Iceberg table: files judged in a private folder, then one commit of the table's catalogue.

::

    lake/db/visits/data/20260102T030405Z-1a2b3c4d/         part files of a release, as they were judged
    lake/db/visits/_privpipe/20260102T030405Z-1a2b3c4d/    its public documents
    .lake.db.visits.privpipe/                              the work area, next to the policy (see `local`)
        pending-<run>                                      a run that is about to commit

A commit makes one snapshot the current one, or the table with its first, so a reader sees the old release or the new
one. Earlier snapshots can still be read by their number until they are expired.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import quote

from privpipe.engines import Source
from privpipe.engines.base.part_files import partitions_among, replaced_among
from privpipe.engines.lakes import IcebergFolder, IcebergName, iceberg_catalogue
from privpipe.engines.readers.files import partition_in
from privpipe.errors import PrivpipeError, SinkError, UsageError
from privpipe.private_files import flush_new, private_folder
from privpipe.sinks.iceberg_files import (
    MARK,
    RUN,
    Commit,
    Leftovers,
    Withdrawal,
    arrow_type,
    copied,
    data_files,
    ids_of,
    local_place,
    released_run,
    require_fitting,
    said_of,
    written_under,
)
from privpipe.sinks.target import METADATA, OTHER_PARTITIONS, Rows, WholeReleases, public_properties

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["IcebergTarget"]

log = logging.getLogger("privpipe.release")
PENDING = "pending-"
UNFIT = "#?;%/\\"
"""Characters of a name that would lead to another place in the table's storage."""
KEEPS_SNAPSHOTS = (
    "releases before this one can still be read from the Iceberg table by their snapshots, until these are expired"
)
JOINS = (
    "the rows join those of earlier releases in one table: who is in several of them has several rows there, and "
    "unless a ledger follows persons nothing judges what these reveal together"
)
CHANGED = "another writer changed the Iceberg table after the last release"


class IcebergTarget(WholeReleases):
    """A table of an Iceberg catalogue.

    Parameters
    ----------
    table : IcebergName
        Nothing has the name, or a table that an earlier run made.
    home : Path
        The folder in which the work area is.
    mode : {"replace", "append", "replace_partition"}
        Whether a release replaces the rows that are there, joins them or replaces its partitions.
    schema : {"same", "evolve"}
        Whether a release may bring columns that the table lacks.

    Raises
    ------
    UsageError
        pyiceberg is not installed, its configuration has no such catalogue, or the name is unfit for a folder.
    SinkError
        Something else has the name, a step fails, or another run holds the lock.
    """

    def __init__(
        self,
        table: IcebergName,
        home: Path,
        mode: Literal["replace", "append", "replace_partition"] = "replace",
        schema: Literal["same", "evolve"] = "same",
    ) -> None:
        if unfit := [sign for sign in UNFIT if sign in table.name]:
            raise UsageError(
                f"sink: an Iceberg table that is published holds no {' '.join(unfit)} in its name, got {table.name!r}"
            )
        self.table, self.mode, self.schema = table, mode, schema
        self.name = f"{table.catalog}.{table.name}"
        self.area = Path(os.path.abspath(home)) / f".{quote(self.name, safe=' ')}.privpipe"
        self._opened: Any = None
        self._before: Any = None
        self._seen = False
        self._columns: dict[str, pa.DataType] = {}
        self._batch: frozenset[str] = frozenset()
        self._stays = False
        self._snapshot: int | None = None
        self._location = ""
        self._committed: str | None = None
        self._held: int | None = None

    def __enter__(self) -> Self:
        try:
            with self._told():
                self._take_lock()
                self._seen = False
                self.require_free()
                self._clean()
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            shutil.rmtree(self.area / "staging", ignore_errors=True)
            if self._committed is not None:  # by it a release that is taken back is removed
                with suppress(OSError):  # the next run finds that it is in the table
                    self._pending(self._committed).unlink(missing_ok=True)
        finally:
            if self._held is not None:
                os.close(self._held)
                self._held = None
            self.close()

    def close(self) -> None:
        """Close the catalogue."""
        opened, self._opened = self._opened, None
        if opened is not None:
            with suppress(Exception):  # its exceptions have their own classes, and texts that may hold credentials
                opened.close()

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """The work area, and the warehouse where it is on this machine."""
        home = str(self._catalogue().properties.get("warehouse", "://")).removeprefix("file://")
        return (("the work area of the sink", self.area), *([] if "://" in home else [("the sink", Path(home))]))

    @property
    def marks(self) -> Mapping[str, str]:
        """None: files are staged."""
        return {}

    def stage(self, run_id: str) -> Path:
        return private_folder(self.rows(run_id))

    def rows(self, run_id: str) -> Path:
        """The staged folder."""
        return self.area / "staging" / run_id

    def fits(self, schema: pa.Schema) -> None:
        """Refuse rows whose columns are not those of the table.

        Raises
        ------
        DataError
            A column is missing or of another type; there is one more and `schema: evolve` was not said.
        UnsupportedError
            Iceberg has no such type.
        """
        new = {field.name: arrow_type(field, self.name) for field in schema}
        self._columns = new
        table = self._now()
        if table is None:
            return
        with self._told():
            old = {field.name: field.type for field in table.schema().as_arrow()}
        require_fitting(new, old, self.name, evolve=self.schema == "evolve")

    def landed(self, run_id: str) -> Path:
        """The staged files, now of the types and with the field ids of the table."""
        table = self._now()
        ids = ids_of(table, self._columns)
        with self._told():
            written_under(self.rows(run_id), ids, self.name)
        return self.rows(run_id)

    def kept(self, rows: Rows) -> Source | None:
        """The rows of the table at the snapshot that it has that stay next to those of a release."""
        if self.mode == "replace_partition" and isinstance(rows, Path):
            self._batch = partitions_among(rows)
        table = self._now()
        before = None if table is None else table.current_snapshot()
        with self._told():
            files = [file.file_path for file in data_files(table)]
        self._stays = before is not None and self.mode != "replace"
        if self.mode == "replace_partition":
            self._stays = len(replaced_among(files, self._batch, self.name)) < len(files)
        if before is None or not self._stays:
            return None
        if self.mode == "append":
            return self._at(before.snapshot_id)
        return Source(data=IcebergFolder(self._named(before.snapshot_id), without=self._batch))

    def whole(self, run_id: str) -> Source | None:
        """The table at the snapshot of this run."""
        return self._at(self._snapshot) if self._stays and self._snapshot is not None else None

    def notes(self) -> Sequence[str]:
        """That earlier rows stay readable, and that another writer changed the table."""
        table = self._now()
        if table is None:
            return ()
        now = table.current_snapshot()
        foreign = [] if now is not None and said_of(now).get(RUN) == released_run(table) else [CHANGED]
        said = {
            "replace": (KEEPS_SNAPSHOTS,),
            "append": (JOINS,),
            "replace_partition": (KEEPS_SNAPSHOTS, OTHER_PARTITIONS),
        }
        return (*said[self.mode], *foreign)

    def described(self, run_id: str) -> Mapping[str, Any]:
        """The table, and how the release relates to earlier ones."""
        return {"table": self.name, "mode": self.mode}

    def require_free(self) -> None:
        """Refuse a name that could not be published to now.

        Raises
        ------
        SinkError
        """
        table = self._now()
        if table is None:
            namespace = self.table.name.rpartition(".")[0]
            with self._told():
                there = self._catalogue().namespace_exists(namespace)
            if not there:
                raise SinkError(
                    f"the Iceberg catalogue {self.table.catalog!r} has no namespace {namespace!r}; create it"
                )
            return
        if table.properties.get(MARK) != self.table.name:
            raise SinkError(
                f"the sink {self.name!r} is an Iceberg table that privpipe did not publish, and nothing was changed in "
                "it; give the sink another name, or rename or drop the table"
            )
        if not table.spec().is_unpartitioned():
            raise SinkError(
                f"the sink {self.name!r} has been partitioned since it was published; give the sink another name, or "
                "drop the table"
            )

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` undoes the completed steps."""
        staged = self.rows(run_id)
        with self._told():
            said = {f"privpipe.{key}": word for key, word in public_properties(staged, run_id).items()}
            commit = Commit(self._catalogue(), self.table.name, self._now(), uuid.uuid4(), self._columns)
            self._location = commit.location
            self._mark(run_id, commit)
            files = []
            for path in sorted(path for path in staged.iterdir() if path.is_file()):
                files.append(f"{self._folder(run_id)}/{path.name}")
                copied(commit.io, path, files[-1])
            documents = f"{self._location}/{METADATA}/{run_id}"
            for path in sorted((staged / METADATA).iterdir()):
                copied(commit.io, path, f"{documents}/{path.name}")
            replaces = None if self.mode == "append" else self._replaces
            self._snapshot = commit.prepare({**said, "privpipe.documents": documents}, files, replaces=replaces)
            done = commit.done()
        if not done:
            raise SinkError(
                f"another writer changed the Iceberg table {self.name!r} during this run, so the judged rows "
                "are not those that would be there; nothing was published: run again"
            )
        self._committed = run_id
        return self.name

    def published(self, run_id: str) -> Rows:
        """The rows of this run as the catalogue has them: the whole snapshot, or its part of it."""
        if self._snapshot is None:
            raise SinkError(f"nothing of this run was published into {self.name!r}")
        if not self._stays:
            return self._at(self._snapshot)
        return Source(data=IcebergFolder(self._named(self._snapshot), self._folder(run_id)))

    def withdraw(self, run_id: str) -> None:
        """Bring back the snapshot before in one commit, or drop a table that holds nothing else."""
        self._committed = None
        with self._told("the release could not be withdrawn; set the table back to the snapshot before it by hand"):
            Withdrawal(self._catalogue(), self.table.name, self._now(), run_id, replaces=self._replaces).done()
            self._forget(run_id)

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self.rows(run_id), ignore_errors=True)

    def current(self) -> str | None:
        with self._told():
            table = self._load()
        run_id = None if table is None else released_run(table)
        return None if run_id is None else f"{self.name}/{run_id}"

    def document(self, name: str) -> bytes | None:
        with self._told():
            table = self._load()
            run_id = None if table is None else released_run(table)
            if table is None or run_id is None:
                return None
            file = table.io.new_input(f"{table.location()}/{METADATA}/{run_id}/{name}.json")
            if not file.exists():
                return None
            with file.open() as stream:
                return bytes(stream.read())

    def recall(self) -> bytes | None:
        """Nothing: a ledger and a table do not go together."""
        return None

    def remember(self, data: bytes) -> None:
        raise SinkError("a table keeps no record of a ledger")

    def _replaces(self, place: str) -> bool:
        """Whether a release replaces a file."""
        return self.mode == "replace" or partition_in(place) in self._batch

    @contextmanager
    def _told(self, outcome: str = "nothing was published") -> Iterator[None]:
        """Each catalogue and storage raises its own classes, whose texts may hold credentials: only kinds are shown."""
        try:
            yield
        except PrivpipeError:
            raise
        except Exception as error:  # noqa: BLE001
            reason = getattr(error, "strerror", None) or type(error).__name__
            problem = SinkError(f"the sink {self.name!r} cannot be written: {reason}; {outcome}")
        else:
            return
        raise problem

    def _catalogue(self) -> Any:
        if self._opened is None:
            self._opened = iceberg_catalogue(self.table.catalog)
        return self._opened

    def _load(self) -> Any:
        """The current table; None: there is none."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalogue().load_table(self.table.name)
        except NoSuchTableError:
            return None

    def _now(self) -> Any:
        """The table when it was first read: a run judges it together with its own rows, and changes it."""
        if not self._seen:
            with self._told():
                self._catalogue()
                self._before = self._load()
            self._seen = True
        return self._before

    def _named(self, snapshot: int) -> IcebergName:
        return IcebergName(name=self.table.name, catalog=self.table.catalog, snapshot=snapshot)

    def _at(self, snapshot: int) -> Source:
        return Source(data=self._named(snapshot))

    def _folder(self, run_id: str) -> str:
        return f"{self._location}/data/{run_id}"

    def _pending(self, run_id: str) -> Path:
        return self.area / f"{PENDING}{run_id}"

    def _mark(self, run_id: str, commit: Commit) -> None:
        """Note what this run is about to create, so that the next one can remove it."""
        made: list[str] = []
        local = local_place(self._location)
        if local is not None:
            below = [local / "data" / run_id, local / METADATA / run_id, local / "metadata"]
            above = {folder for each in below for folder in (each, *each.parents)}
            made = sorted(str(folder) for folder in above if not folder.exists())
        told = {"location": self._location, "commit": str(commit.uuid), "made": made}
        flush_new(self._pending(run_id), json.dumps(told).encode())

    def _forget(self, run_id: str) -> None:
        """Remove the files of a run that is not in the table."""
        mark = self._pending(run_id)
        try:
            told = json.loads(mark.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            mark.unlink(missing_ok=True)
            return
        try:
            table = self._load()
            referenced = (
                []
                if table is None
                else [table.metadata_location, *(str(each.metadata_file) for each in table.metadata.metadata_log)]
            )
            io = self._catalogue()._load_file_io(location=told["location"]) if table is None else table.io
            Leftovers(io, told["location"], run_id, told["commit"]).remove(referenced, told["made"])
        except Exception as problem:  # noqa: BLE001 no pointer leads to the remains
            log.warning("files of %s could not be removed (%s); the next run does it", run_id, type(problem).__name__)
        else:
            mark.unlink(missing_ok=True)

    def _clean(self) -> None:
        """Remove the remains of killed runs: staged files, and files in the table's storage that it does not list."""
        shutil.rmtree(self.area / "staging", ignore_errors=True)
        for mark in self.area.glob(f"{PENDING}*.new"):
            mark.unlink()
        for mark in self.area.glob(f"{PENDING}*"):
            run_id = mark.name.removeprefix(PENDING)
            table = self._now()
            if table is not None and any(said_of(each).get(RUN) == run_id for each in table.snapshots()):
                mark.unlink()
            else:
                self._forget(run_id)

    def _take_lock(self) -> None:
        private_folder(self.area)
        self._held = os.open(self.area / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SinkError(
                f"another run is writing the sink {self.name!r}; this one did nothing. Try again when it is done"
            ) from None
