"""Where a release is published on a local file system: staged beside the target, switched by one rename.

The published path is a symbolic link to a folder of its own for each release::

    published/adult -> .adult.privpipe/releases/20260102T030405Z-1a2b3c4d
    published/.adult.privpipe/
        lock                 held while a run is at work
        ledger.json          which ledger the release is remembered in, and how far that had come
        staging/<run>/       being written and judged
        releases/<run>/      judged; part files and _privpipe/{verdict,manifest,plan}.json, the public editions
        records/<run>/       private: the whole documents of runs that published or were refused (see `records`)

Replacing a link is one atomic rename, so a reader sees the old release or the new one and never a part.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from privpipe.errors import SinkError
from privpipe.release.private_files import flush_new

__all__ = ["MEMORY", "METADATA", "LocalTarget", "Target"]

MEMORY = "ledger.json"
METADATA = "_privpipe"
"""Folder inside a release for its public documents; data tools skip names with a leading underscore."""


class Target(Protocol):
    """A place a release can be published to."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def stage(self, run_id: str) -> Path:
        """An empty local folder for this run's files."""

    def publish(self, run_id: str) -> str:
        """Make the staged folder the published release, in one step; returns where it is read."""

    def published(self, run_id: str) -> Path:
        """A local folder that holds what a reader of the target would read now."""

    def withdraw(self, run_id: str) -> None:
        """Put back what was published before this run."""

    def refuse(self, run_id: str) -> None:
        """Throw the files of a refused run away."""

    def current(self) -> str | None:
        """What names the published release (its run id is part of it); None: nothing is published."""

    def recall(self) -> bytes | None:
        """What the target was told to remember, beside what readers see; None: nothing."""

    def remember(self, data: bytes) -> None:
        """Keep this instead, whole or not at all."""


class LocalTarget:
    """A folder on a local (or mounted) file system.

    Parameters
    ----------
    path : Path
        The published path. It may be absent, an empty folder, or a link that an earlier run made.

    Raises
    ------
    SinkError
        Something else stands at the path, the place cannot be written, or another run holds the lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self.state = self.path.parent / f".{self.path.name}.privpipe"
        self._lock: int | None = None
        self._before: str | None = None

    def __enter__(self) -> Self:
        try:
            for folder in ("staging", "releases"):
                (self.state / folder).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SinkError(f"the sink {str(self.path)!r} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            self._lock = None
            raise SinkError(
                f"another run is writing the sink {str(self.path)!r}; this one did nothing. Try again when it is done"
            ) from None
        try:
            self._require_ours()
            self._clean()
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self._unlock()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in (self.state / "staging").glob("*"):  # what a run that ended early wrote and nobody judged
            shutil.rmtree(folder, ignore_errors=True)
        self._unlock()

    def stage(self, run_id: str) -> Path:
        folder = self.state / "staging" / run_id
        folder.mkdir(mode=0o700)
        return folder

    def publish(self, run_id: str) -> str:
        staged, home = self.state / "staging" / run_id, self.state / "releases" / run_id
        _flush(staged)
        self._before = self.current()
        os.rename(staged, home)
        _flush_folder(home.parent)
        if self.path.is_dir() and not self.path.is_symlink():
            self.path.rmdir()
        self._point(os.path.relpath(home, self.path.parent), run_id)
        return str(self.path)

    def published(self, run_id: str) -> Path:
        return Path(os.path.realpath(self.path))

    def withdraw(self, run_id: str) -> None:
        if self._before is None:
            self.path.unlink(missing_ok=True)
        else:
            self._point(self._before, run_id)
        shutil.rmtree(self.state / "releases" / run_id, ignore_errors=True)

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self.state / "staging" / run_id, ignore_errors=True)

    def current(self) -> str | None:
        return os.readlink(self.path) if self.path.is_symlink() else None

    def recall(self) -> bytes | None:
        try:
            with os.fdopen(os.open(self.state / MEMORY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SinkError(f"what the sink {str(self.path)!r} remembers cannot be read: {error.strerror}") from None

    def remember(self, data: bytes) -> None:
        try:
            flush_new(self.state / MEMORY, data)
        except OSError as error:
            raise SinkError(f"the sink {str(self.path)!r} cannot be written: {error.strerror}") from None

    def _point(self, destination: str, run_id: str) -> None:
        pointer = self.state / f"pointer-{run_id}"
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(destination)
        # The link's own text is relative to where it will lie; a rename moves it there in one step.
        os.replace(pointer, self.path)
        _flush_folder(self.path.parent)

    def _require_ours(self) -> None:
        if self.path.is_symlink():
            if Path(os.path.realpath(self.path)).parent != (self.state / "releases").resolve():
                raise SinkError(f"the sink {str(self.path)!r} is a link that privpipe did not make; move it away")
        elif self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
            raise SinkError(f"the sink {str(self.path)!r} holds something privpipe did not publish; move it away")
        if not os.access(self.path.parent, os.W_OK):
            raise SinkError(f"the sink {str(self.path)!r} cannot be written: its folder is read-only")

    def _clean(self) -> None:
        """Throw away what a killed run left: staged files, releases nobody points at, pointers not yet in place."""
        current = Path(os.path.realpath(self.path)) if self.path.is_symlink() else None
        for folder in (self.state / "staging").iterdir():
            shutil.rmtree(folder)
        for folder in (self.state / "releases").iterdir():
            if folder.resolve() != current:
                shutil.rmtree(folder)
        for pointer in self.state.glob("pointer-*"):
            pointer.unlink()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _flush(folder: Path) -> None:
    """Everything below on the disk before anybody is pointed at it."""
    for root, _, files in os.walk(folder):
        for name in files:
            handle = os.open(Path(root, name), os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        _flush_folder(Path(root))


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
