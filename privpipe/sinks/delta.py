"""Publishing into a Delta table on a local file system: files judged next to it, then one commit of its log.

::

    lake/visits/_delta_log/00000000000000000007.json   the commit of a release: run id, verdict, policy hash
    lake/visits/20260102T030405Z-1a2b3c4d/             its part files, moved in as they were judged
    lake/visits/_privpipe/20260102T030405Z-1a2b3c4d/   its public documents; VACUUM passes names with an underscore by
    lake/.visits.privpipe/                             the work area, as next to a folder (see `local`)
        pending-<run>                                  a run that moves its files in
        commit-<run>, commit-back-<run>                its commit, and the one that would take it back

A commit shows what the next version holds, so a reader of the log sees the old version or the new one. Earlier versions
can still be read by their number until VACUUM removes their files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from privpipe.errors import SinkError
from privpipe.private_files import flush_new, make_public, public_modes, sync_folder
from privpipe.sinks.delta_log import (
    LOG,
    Snapshot,
    commits,
    link_commit,
    require_deltalake,
    snapshot,
    sum_up,
    write_aside,
)
from privpipe.sinks.delta_releases import (
    DeltaReleases,
    DeltaTable,
    Evolution,
    Mode,
    require_takes_releases,
    staged_files,
)
from privpipe.sinks.local import METADATA, LocalTarget, flush_below, public_properties, sink_faults

if TYPE_CHECKING:
    pass

__all__ = ["DeltaTarget", "local_target"]

ATTEMPTS = 5
PENDING = "pending-"


def local_target(path: Path) -> LocalTarget:
    """What publishes at a path of this machine, by what is there."""
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
        """See `Target.publish`; when it raises, `withdraw` sees to what had been done."""
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
                f"another writer changed the Delta table {self.name!r} while this run was at work, so what was judged "
                "is not what would be there; nothing was published: run again"
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
        """Take a table away that holds this release alone; without its log it is none."""
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
                f"the sink {self.name!r} lies within another Delta table, whose VACUUM would remove it; give it a path "
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
        """Remove what a killed run moved in and did not commit, and a table that it was removing."""
        super()._clean()
        for run_id in self._pending():
            if self.changes.committed(run_id):
                self._tidy(run_id)
            else:
                self._forget(run_id, was_there=self._mark(run_id).read_bytes() == b"there")
        for left in self.state.glob("withdrawn-*"):
            shutil.rmtree(left)

    def _tidy(self, run_id: str) -> None:
        """Nothing is pending any more of a run that is in the log, or of which nothing is left."""
        for each in (self._aside(run_id), self._back(run_id), self._mark(run_id)):
            each.unlink(missing_ok=True)
