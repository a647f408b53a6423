"""Publishing into a Delta table on an object store: files copied unseen, then one conditional write of its log.

::

    s3://lake/visits/_delta_log/00000000000000000007.json   the commit of a release
    s3://lake/visits/20260102T030405Z-1a2b3c4d/             its part files, which no reader of the log sees before it
    s3://lake/visits/_privpipe/20260102T030405Z-1a2b3c4d/   its public documents
    s3://lake/.visits.privpipe/_LOCK                        while a run is at work (see `lease`)
    s3://lake/.visits.privpipe/pending/<run>                a run that copies its files

The commit is created only where no other has its version, so a store without conditional writes is refused. Who cannot
know whether its commit arrived takes its version with a commit that changes nothing, so that it cannot arrive later.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from privpipe.engines.stores import OpenedStore, whole_copy
from privpipe.errors import SinkError, UnsupportedError
from privpipe.sinks.conditional_objects import Conditional, Conflict
from privpipe.sinks.delta import (
    DeltaReleases,
    DeltaTable,
    Evolution,
    Mode,
    require_takes_releases,
    staged_files,
)
from privpipe.sinks.delta_log import (
    COMMIT,
    LOG,
    Added,
    Commit,
    Snapshot,
    commit_info,
    require_deltalake,
    snapshot,
)
from privpipe.sinks.remote import RemoteTarget
from privpipe.sinks.target import METADATA, public_properties

if TYPE_CHECKING:
    pass

__all__ = ["RemoteDeltaTarget", "remote_target"]

ATTEMPTS = 5
SCHEMES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")


def remote_target(url: str) -> RemoteTarget:
    """The publisher for a URL, by what is there."""
    if url.partition("://")[0] in SCHEMES:
        place = RemoteDeltaTarget(url)
        if place.is_there():
            return place
        place.__exit__(None, None, None)
    return RemoteTarget(url)


class RemoteDeltaTarget(DeltaTable, RemoteTarget):
    """A Delta table on S3, Google Cloud Storage or Azure.

    Parameters
    ----------
    url : str
        The table's own folder. It may be absent, or a table that an earlier run made.
    mode : {"replace", "append", "replace_partition"}
        See `DeltaReleases`.
    schema : {"same", "evolve"}
        Whether a release may bring columns that the table lacks.

    Raises
    ------
    UnsupportedError
        Another kind of file system; a store without conditional writes.
    SinkError
        Something else is at the URL, or as `RemoteTarget`.
    UsageError
        deltalake is not installed, or as `RemoteTarget`.
    """

    def __init__(self, url: str, mode: Mode = "replace", schema: Evolution = "same") -> None:
        scheme = url.partition("://")[0]
        if scheme not in SCHEMES:
            raise UnsupportedError(
                f"a Delta table is published to folders of this machine, s3, gs and abfs, not to {scheme!r}: its "
                "commits need conditional writes; publish as `format: parquet`"
            )
        super().__init__(url)
        address = self.url.replace("gcs://", "gs://", 1) if scheme == "gcs" else self.url
        self.changes = DeltaReleases(self.url, address, mode, schema, self._found, self._commits)
        self._run_id = ""
        self._left: list[str] = []
        self._done = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._done:
                with suppress(Exception):  # the next run finds it in the log
                    self._settle()
        finally:
            super().__exit__(kind, error, trace)

    def is_there(self) -> bool:
        """Whether a table is at the URL."""
        with self._told("what it publishes is not known"):
            return bool(self._versions())

    def notes(self) -> Sequence[str]:
        with self._told():
            return super().notes()

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` undoes the completed steps."""
        staged = self.rows(run_id)
        with self._told():
            self.files.pipe_file(self._mark(run_id), b"pending")
            added = []
            for file in staged_files(run_id, staged):
                name = posixpath.basename(file.path)
                self._put(staged / name, f"{self.root}/{run_id}/{name}")
                added.append(self._as_stored(file))
            for path in sorted((staged / METADATA).iterdir()):
                self._put(path, f"{self.root}/{METADATA}/{run_id}/{path.name}")
            commit = self.changes.commit(added, public_properties(staged, run_id))
            self._switching = True
            done = self._committed(commit)
        if not done:
            raise SinkError(
                f"another writer changed the Delta table {self.url!r} during this run, so the judged rows are "
                "not those that would be there; nothing was published: run again"
            )
        self._run_id, self._done = run_id, True
        return self.url

    def fetched_of(self, run_id: str) -> tuple[Path, Path]:
        """Copies of the part files and of the public documents of a run, in the private folder of this machine."""
        homes = (self._local / "published", self._local / "published documents")
        with self._told("what it publishes is not known"):
            for home, place in zip(homes, (run_id, f"{METADATA}/{run_id}"), strict=True):
                whole_copy(OpenedStore(self.url, self.files, f"{self.root}/{place}", self.store.kind), home)
        return homes

    def withdraw(self, run_id: str) -> None:
        """Bring back the version before in a separate commit, also where it is unknown whether this one arrived."""
        self._done = False
        with self._told("the release could not be withdrawn; restore the version before by hand"):
            if self._switching:
                self._take_back(run_id)
            self._forget(run_id)

    def current(self) -> str | None:
        with self._told("what it publishes is not known"):
            found = self._found()
            return None if found is None or found.run_id is None else f"{self.url}/{found.run_id}"

    def document(self, name: str) -> bytes | None:
        now = self.current()
        if now is None:
            return None
        with self._told():
            path = f"{self.root}/{METADATA}/{now.rpartition('/')[2]}/{name}.json"
            return bytes(self.files.cat_file(path)) if self.files.exists(path) else None

    @property
    def _log(self) -> str:
        return f"{self.root}/{LOG}"

    def _versions(self) -> list[str]:
        """The files of commits in the log, the newest first."""
        self.files.invalidate_cache()
        names = (name.rstrip("/").rsplit("/", 1)[-1] for name in self._listed(self._log))
        return sorted((name for name in names if COMMIT.fullmatch(name)), reverse=True)

    def _found(self) -> Snapshot | None:
        return snapshot(self.changes.address) if self._versions() else None

    def _commits(self) -> Iterator[Mapping[str, Any]]:
        for name in self._versions():
            yield commit_info(bytes(self.files.cat_file(f"{self._log}/{name}")), self.url)

    def _mark(self, run_id: str) -> str:
        return f"{self.state}/pending/{run_id}"

    def _as_stored(self, file: Added) -> Added:
        """The time at which the store has it, as readers of the log expect."""
        modified = int(self.files.modified(f"{self.root}/{file.path}").timestamp() * 1000)
        return Added(file.path, file.size, modified, file.records)

    def _require_writes(self) -> Conditional:
        if self._writes is None:
            raise UnsupportedError(
                f"the store of {self.url!r} does not honour conditional writes, so two writers of a Delta table "
                "would undo each other; publish as `format: parquet`"
            )
        return self._writes

    def _committed(self, commit: Commit) -> bool:
        """Create a file of the log; False where another commit has its version."""
        writes, path = self._require_writes(), f"{self._log}/{commit.version:020d}.json"
        content = commit.text().encode()
        try:
            writes.create(path, content)
        except Conflict:
            found = writes.read(path)  # the write is repeated where an answer was lost
            return found is not None and found.content == content
        return True

    def _take_back(self, run_id: str) -> None:
        """Have the newest version be one without this run's files, and the version of its commit taken.

        A first release is taken back by a version without rows: were its commit removed, a request that was repeated on
        its way could bring it back.
        """
        own = f"{self.changes.next_version:020d}.json"
        for _ in range(ATTEMPTS):
            versions = self._versions()
            if not self.changes.committed(run_id):
                if versions and versions[0] >= own:
                    return  # another commit has the version, and ours can no longer arrive
                back = self.changes.without(run_id, self._found())
            else:
                back = self.changes.taken_back(run_id, self._found())
            if self._committed(back):
                return
        raise SinkError(
            f"the Delta table {self.url!r} changes faster than the release can be withdrawn; restore the version "
            "before it by hand"
        )

    def _forget(self, run_id: str) -> None:
        """Remove the files of a run that is not in the log and cannot get there."""
        for folder in (f"{self.root}/{run_id}", f"{self.root}/{METADATA}/{run_id}"):
            self._abort_uploads(f"{folder}/")
            if self._listed(folder):
                self.files.rm(folder, recursive=True)
        self._tidy(run_id)

    def _tidy(self, run_id: str) -> None:
        if self.files.exists(self._mark(run_id)):
            self.files.rm_file(self._mark(run_id))

    def _begin(self) -> None:
        self._require_writes()
        self.changes.begin()
        require_takes_releases(self.url, self.changes.now())
        self._left = [name.rsplit("/", 1)[-1] for name in self._listed(posixpath.dirname(self._mark("")))]

    def _settle(self) -> None:
        """Nothing is pending any more: the commit of this run has the version that killed ones before it wanted."""
        self._tidy(self._run_id)
        for run_id in self._left:
            if self.changes.committed(run_id):
                self._tidy(run_id)
            else:
                self._forget(run_id)

    def _require_ours(self) -> None:
        if "%" in self.url or "\\" in self.url:
            raise SinkError(
                f"the sink {self.url!r} has % or a backslash in its path, which readers of Delta tables do not "
                "take as they stand; give it another path"
            )
        require_deltalake()
        above = posixpath.dirname(self.root)
        while above.strip("/"):
            if self._listed(f"{above}/{LOG}"):
                raise SinkError(
                    f"the sink {self.url!r} is within another Delta table, whose VACUUM would remove it; give it a "
                    "path of its own"
                )
            above = posixpath.dirname(above)
        if self._versions():
            return
        pending = {name.rsplit("/", 1)[-1] for name in self._listed(posixpath.dirname(self._mark("")))}
        names = {name.rstrip("/").rsplit("/", 1)[-1] for name in self._listed(self.root)}
        if names - pending - {LOG, METADATA, "", posixpath.basename(self.root)}:
            raise SinkError(f"the sink {self.url!r} holds something privpipe did not publish; move it away")
