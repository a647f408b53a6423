"""Publishing into a Delta table on a local file system: files judged next to it, then one commit of its log.

::

    lake/visits/_delta_log/00000000000000000007.json   the commit of a release: run id, verdict, policy hash
    lake/visits/20260102T030405Z-1a2b3c4d/             its part files, moved in as they were judged
    lake/visits/_privpipe/20260102T030405Z-1a2b3c4d/   its public documents; VACUUM passes names with an underscore by
    lake/.visits.privpipe/                             the work area, as next to a folder (see `target`)
        pending-<run>                                  a run that moves its files in
        commit-<run>, commit-back-<run>                its commit, and the one that would take it back

A commit shows what the next version holds, so a reader of the log sees the old version or the new one. Earlier versions
can still be read by their number until VACUUM removes their files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from privpipe.engines import Source
from privpipe.engines.base.part_files import partitions_among, replaced_among
from privpipe.engines.lakes import DeltaFolder
from privpipe.errors import DataError, SinkError
from privpipe.private_files import flush_new, make_public, public_modes, sync_folder
from privpipe.sinks.delta_log import (
    LOG,
    Added,
    Commit,
    Snapshot,
    commits,
    fields_of,
    link_commit,
    require_deltalake,
    snapshot,
    sum_up,
    write_aside,
)
from privpipe.sinks.target import (
    METADATA,
    OTHER_PARTITIONS,
    LocalTarget,
    Rows,
    flush_below,
    public_properties,
    sink_faults,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DeltaReleases",
    "DeltaTable",
    "DeltaTarget",
    "Evolution",
    "Mode",
    "local_target",
    "require_takes_releases",
    "staged_files",
]


Mode = Literal["replace", "append", "replace_partition"]
Evolution = Literal["same", "evolve"]
KEEPS_VERSIONS = (
    "releases before this one can still be read from the Delta table by their version, until its files are vacuumed"
)
JOINS = (
    "the rows join those of earlier releases in one table: who is in several of them has several rows there, and "
    "unless a ledger follows persons nothing judges what these reveal together"
)
CHANGED = "another writer changed the Delta table after the last release"


@dataclass
class DeltaReleases:
    """A Delta table as one run finds it and changes it.

    Parameters
    ----------
    name : str
        For people.
    address : str
        As deltalake takes it.
    mode : {"replace", "append", "replace_partition"}
        Whether a release replaces the rows that are there, joins them or replaces its partitions.
    schema : {"same", "evolve"}
        Whether a release may bring columns that the table lacks.
    found : callable
        The newest version; None where there is no table.
    commits : callable
        What the commits of the log say of themselves, the newest first.
    """

    name: str
    address: str
    mode: Mode
    schema: Evolution
    found: Callable[[], Snapshot | None]
    commits: Callable[[], Iterable[Mapping[str, Any]]]
    fields: tuple[Mapping[str, Any], ...] = ()
    _table: Snapshot | None = None
    _seen: bool = False
    _batch: frozenset[str] = frozenset()

    def begin(self) -> None:
        """A run begins: the table is as it finds it now."""
        self._seen = False

    def now(self) -> Snapshot | None:
        """The table when it was first read: a run judges it together with its own rows, and changes it."""
        if not self._seen:
            self._table = self.found()
            self._seen = True
        return self._table

    @property
    def next_version(self) -> int:
        """That the run makes."""
        table = self.now()
        return 0 if table is None else table.version + 1

    def fits(self, schema: pa.Schema) -> None:
        """Refuse rows whose columns are not those of the table.

        Raises
        ------
        DataError
            A column is missing or of another type; there is one more and `schema: evolve` was not said.
        UnsupportedError
            Delta has no such type.
        """
        fields, table = fields_of(schema), self.now()
        self.fields = fields
        if table is None:
            return
        new, old = ({field["name"]: field["type"] for field in each} for each in (fields, table.fields))
        said = f"the release does not fit the Delta table {self.name!r}"
        missing = [name for name in old if name not in new]
        if missing:
            raise DataError(f"{said}: it lacks {_listed(missing)}; release them, or publish into a table of its own")
        for name, kind in old.items():
            if new[name] != kind:
                raise DataError(
                    f"{said}: column {name!r} is {new[name]} and the table has {kind}; no type is ever changed: "
                    "declare its `type:`, or publish into a table of its own"
                )
        added = [name for name in new if name not in old]
        if added and self.schema == "same":
            raise DataError(f"{said}: it lacks {_listed(added)}; write `schema: evolve` in the sink to add them")
        self.fields = (*table.fields, *(field for field in fields if field["name"] in added))

    def kept(self, rows: Rows) -> Source | None:
        """The rows of the table at the version that it has that stay next to those of a release."""
        if self.mode == "replace_partition" and isinstance(rows, Path):
            self._batch = partitions_among(rows)
        table = self.now()
        if table is None or len(self._removed(table)) == len(table.files):
            return None
        if self.mode == "append":
            return self.at(table.version)
        return Source(data=DeltaFolder(self.address, table.version, without=self._batch))

    def whole(self) -> Source | None:
        """The table at the version of this run, where rows stay next to those of a release."""
        table = self.now()
        stays = table is not None and len(self._removed(table)) < len(table.files)
        return self.at(self.next_version) if stays else None

    def _removed(self, table: Snapshot) -> tuple[Added, ...]:
        """The files whose place this release takes."""
        if self.mode == "append":
            return ()
        if self.mode == "replace":
            return table.files
        gone = replaced_among((file.path for file in table.files), self._batch, self.name)
        return tuple(file for file in table.files if file.path in gone)

    def notes(self) -> Sequence[str]:
        """That earlier rows stay readable, and that another writer changed the table."""
        table = self.now()
        if table is None:
            return ()
        last: Mapping[str, Any] = next(iter(self.commits()), {})
        foreign = [] if last.get("privpipe.run_id") == table.run_id else [CHANGED]
        said = {
            "replace": (KEEPS_VERSIONS,),
            "append": (JOINS,),
            "replace_partition": (KEEPS_VERSIONS, OTHER_PARTITIONS),
        }
        return (*said[self.mode], *foreign)

    def published(self, run_id: str) -> Source:
        """The rows of this run as the log has them: the whole version, or its part of it."""
        if self.mode == "replace":
            return self.at(self.next_version)
        return Source(data=DeltaFolder(self.address, self.next_version, run_id))

    def at(self, version: int) -> Source:
        """The table at a version."""
        return Source(data=self.address, format="delta", version=version)

    def commit(self, files: Sequence[Added], said: Mapping[str, str]) -> Commit:
        """The entries that make files the release; only their public verdict is recorded."""
        table = self.now()
        return Commit(
            before=table,
            fields=self.fields,
            said=said,
            added=tuple(files),
            removed=() if table is None else self._removed(table),
            mode="Append" if self.mode == "append" else "Overwrite",
        )

    def undoing(self, commit: Commit, run_id: str) -> Commit:
        """The commit that would follow this one to take it back."""
        before = commit.before
        assert before is not None
        return Commit(
            before=replace(before, version=commit.version),
            fields=before.fields,
            said={**_said(before), "withdrawn": run_id},
            added=commit.removed,
            removed=commit.added,
        )

    def without(self, run_id: str, now: Snapshot | None) -> Commit:
        """The commit that follows a version and leaves the files of a run out; of no table: one without rows."""
        before = self.now()
        mine = () if now is None else tuple(file for file in now.files if file.path.startswith(f"{run_id}/"))
        said = {**({} if before is None else _said(before)), "withdrawn": run_id}
        return Commit(before=now, fields=self.fields if now is None else now.fields, said=said, removed=mine)

    def taken_back(self, run_id: str, now: Snapshot | None) -> Commit:
        """The commit that follows a version and restores what the run replaced, if no one has changed it since."""
        before, back = self.now(), self.without(run_id, now)
        if before is None or now is None or now.version != before.version + 1 or self.mode == "append":
            return back
        return replace(back, fields=before.fields, added=self._removed(before))

    def committed(self, run_id: str) -> bool:
        """Whether the log shows that this run published, and nothing later that it was withdrawn."""
        for commit in self.commits():
            if commit.get("privpipe.withdrawn") == run_id:
                return False
            if commit.get("privpipe.run_id") == run_id:
                return True
        return False


class DeltaTable:
    """What a target that publishes into a Delta table answers from the changes of its run."""

    changes: DeltaReleases

    @property
    def publishes_files(self) -> bool:
        """A table holds them."""
        return False

    def fits(self, schema: pa.Schema) -> None:
        """See `DeltaReleases.fits`."""
        self.changes.fits(schema)

    def kept(self, rows: Rows) -> Source | None:
        """See `DeltaReleases.kept`."""
        return self.changes.kept(rows)

    def whole(self, run_id: str) -> Source | None:
        """The table at the version of this run."""
        return self.changes.whole()

    def notes(self) -> Sequence[str]:
        """That earlier rows stay readable, and that another writer changed the table."""
        return self.changes.notes()

    def described(self, run_id: str) -> Mapping[str, Any]:
        """The folder in the table, and how the release relates to earlier ones."""
        return {"folder": run_id, "mode": self.changes.mode}

    def published(self, run_id: str) -> Rows:
        """See `DeltaReleases.published`."""
        return self.changes.published(run_id)


def require_takes_releases(name: str, table: Snapshot | None) -> None:
    """Refuse a table that no release can be published into.

    Raises
    ------
    SinkError
    """
    if table is not None and table.fault:
        raise SinkError(
            f"the sink {name!r} {table.fault}, and nothing was published into it; give the sink another path, "
            "or move the table away"
        )


def staged_files(run_id: str, staged: Path) -> Sequence[Added]:
    """The staged files as the log will name them."""
    import pyarrow.parquet as pq

    files = []
    for path in sorted(path for path in staged.iterdir() if path.is_file()):
        found = path.stat()
        rows = pq.ParquetFile(path).metadata.num_rows
        files.append(Added(f"{run_id}/{path.name}", found.st_size, int(found.st_mtime * 1000), rows))
    return files


def _said(table: Snapshot) -> dict[str, str]:
    """What the table states about the release before."""
    names = ("run_id", "verdict", "policy_hash", "batch")
    return {name: found for name in names if (found := table.configuration.get(f"privpipe.{name}")) is not None}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


ATTEMPTS = 5
PENDING = "pending-"


def local_target(path: Path) -> LocalTarget:
    """The publisher for a path of this machine, by what is there."""
    return DeltaTarget(path) if (path / LOG).is_dir() else LocalTarget(path)


class DeltaTarget(DeltaTable, LocalTarget):
    """A Delta table on a local (or mounted) file system.

    Parameters
    ----------
    path : Path
        The table's folder. It may be absent, empty, or a table that an earlier run made.
    mode : {"replace", "append", "replace_partition"}
        See `DeltaReleases`.
    schema : {"same", "evolve"}
        Whether a release may bring columns that the table lacks.

    Raises
    ------
    SinkError
        Something else is at the path, or as `LocalTarget`.
    UsageError
        deltalake is not installed.
    """

    def __init__(self, path: Path, mode: Mode = "replace", schema: Evolution = "same") -> None:
        super().__init__(path)
        self.changes = DeltaReleases(
            str(self.path), str(self.path), mode, schema, self._found, lambda: commits(self.path)
        )
        self._was_there = False
        self._done: str | None = None
        self._version = 0

    def __enter__(self) -> Self:
        super().__enter__()
        self.changes.begin()
        self._was_there = self.path.is_dir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._done is not None:
                with suppress(OSError):  # the next run finds that it is in the log
                    self._tidy(self._done)
                sum_up(self.path, self._version)
        finally:
            super().__exit__(kind, error, trace)

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` undoes the completed steps."""
        staged, home = self.rows(run_id), self.path / run_id
        with sink_faults(self.path):
            modes = public_modes(self.state / "releases")
            make_public(staged, modes)
            flush_below(staged)
            commit = self.changes.commit(staged_files(run_id, staged), public_properties(staged, run_id))
            flush_new(self._mark(run_id), b"there" if self._was_there else b"")
            aside, back = self._aside(run_id), self._back(run_id)
            write_aside(aside, commit.text(), modes[0])
            if commit.before is not None:  # made while there is room, so that going back takes none
                write_aside(back, self.changes.undoing(commit, run_id).text(), modes[0])
            for folder in (self.path, self.path / LOG, self.path / METADATA):
                folder.mkdir(exist_ok=True)
            os.rename(staged / METADATA, self.path / METADATA / run_id)
            os.rename(staged, home)
            for folder in (self.path / METADATA, home, self.path, self.path.parent):
                sync_folder(folder)
            done = link_commit(self.path, commit.version, aside)
        if not done:
            raise SinkError(
                f"another writer changed the Delta table {self.name!r} during this run, so the judged rows are "
                "not those that would be there; nothing was published: run again"
            )
        self._done, self._version = run_id, commit.version
        return str(self.path)

    def withdraw(self, run_id: str) -> None:
        """Bring back the version before in a separate commit, or drop a table that holds nothing else."""
        self._done = None
        with sink_faults(self.path, "the release could not be withdrawn; restore the version before by hand"):
            if self.changes.committed(run_id) and not self._dropped(run_id):
                self._restore(run_id)
            self._forget(run_id, was_there=self._was_there)

    def current(self) -> str | None:
        if not (self.path / LOG).is_dir() or not any((self.path / LOG).iterdir()):
            return None
        run_id = snapshot(self.path).run_id
        return None if run_id is None else f"{self.path}/{run_id}"

    def document(self, name: str) -> bytes | None:
        now = self.current()
        path = None if now is None else self.path / METADATA / now.rpartition("/")[2] / f"{name}.json"
        with sink_faults(self.path):
            return path.read_bytes() if path is not None and path.is_file() else None

    def _found(self) -> Snapshot | None:
        return snapshot(self.path) if (self.path / LOG).is_dir() and any((self.path / LOG).iterdir()) else None

    def _mark(self, run_id: str) -> Path:
        return self.state / f"{PENDING}{run_id}"

    def _aside(self, run_id: str) -> Path:
        return self.state / f"commit-{run_id}"

    def _back(self, run_id: str) -> Path:
        return self.state / f"commit-back-{run_id}"

    def _dropped(self, run_id: str) -> bool:
        """Remove a table that holds only this release; without its log it is not a table."""
        if self.changes.now() is not None or len([*commits(self.path)]) > 1:
            return False
        gone = self.state / f"withdrawn-{run_id}"
        os.rename(self.path / LOG, gone)
        sync_folder(self.path)
        shutil.rmtree(gone, ignore_errors=True)
        return True

    def _restore(self, run_id: str) -> None:
        """The files of before in one commit; where others have changed the table since, this run's are taken out."""
        before = self.changes.now()
        if before is not None and link_commit(self.path, before.version + 2, self._back(run_id)):
            return
        for _ in range(ATTEMPTS):
            commit = self.changes.without(run_id, snapshot(self.path))
            write_aside(self._aside(run_id), commit.text(), public_modes(self.state / "releases")[0])
            if link_commit(self.path, commit.version, self._aside(run_id)):
                return
        raise SinkError(
            f"the Delta table {self.name!r} changes faster than the release can be withdrawn; restore the version "
            "before it by hand"
        )

    def _forget(self, run_id: str, *, was_there: bool) -> None:
        """Remove the files of a run that is not in the log."""
        own = (self.path / run_id, self.path / METADATA / run_id)
        for folder in own:
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.path / METADATA, self.path / LOG, *(() if was_there else (self.path,))):
            with suppress(OSError):  # others are in it
                folder.rmdir()
        if not any(folder.exists() for folder in own):  # else the next run tries again
            self._tidy(run_id)

    def _pending(self) -> Iterable[str]:
        return [path.name.removeprefix(PENDING) for path in self.state.glob(f"{PENDING}*")]

    def _require_ours(self) -> None:
        if self.path.is_symlink():
            raise SinkError(
                f"the sink {self.name!r} is a link, as releases of files are published; give the Delta table another "
                "path, or remove the link"
            )
        above = next((folder for folder in self.path.parents if (folder / LOG).is_dir()), None)
        if above is not None:
            raise SinkError(
                f"the sink {self.name!r} is within another Delta table, whose VACUUM would remove it; give it a path "
                "of its own"
            )
        if "%" in self.name or "\\" in self.name:
            raise SinkError(
                f"the sink {self.name!r} has % or a backslash in its path, which readers of Delta tables do not "
                "take as they stand; give it another path"
            )
        require_deltalake()
        table = self._found()
        require_takes_releases(self.name, table)
        left = {LOG, METADATA, *self._pending()}
        if (
            table is None
            and self.path.exists()
            and (not self.path.is_dir() or any(path.name not in left for path in self.path.iterdir()))
        ):
            raise SinkError(f"the sink {self.name!r} holds something privpipe did not publish; move it away")
        if not os.access(self.path if self.path.exists() else self.path.parent, os.W_OK):
            raise SinkError(f"the sink {self.name!r} cannot be written: its folder is read-only")

    def _clean(self) -> None:
        """Remove files that a killed run moved in without a commit, and a table that it was removing."""
        super()._clean()
        for run_id in self._pending():
            if self.changes.committed(run_id):
                self._tidy(run_id)
            else:
                self._forget(run_id, was_there=self._mark(run_id).read_bytes() == b"there")
        for left in self.state.glob("withdrawn-*"):
            shutil.rmtree(left)

    def _tidy(self, run_id: str) -> None:
        """A run that is in the log, or of which nothing is left, is no longer pending."""
        for each in (self._aside(run_id), self._back(run_id), self._mark(run_id)):
            each.unlink(missing_ok=True)
