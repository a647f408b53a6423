"""Where a release is published on a local file system: staged next to the target, switched by one rename."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from privpipe.errors import SinkError
from privpipe.private_files import flush_new, make_public, private_folder, public_modes, require_ours, sync_folder
from privpipe.sinks.target import Rows, WholeReleases

__all__ = ["MEMORY", "METADATA", "LocalTarget", "flush_below", "public_properties", "sink_faults"]


if TYPE_CHECKING:
    pass


MEMORY = "ledger.json"
METADATA = "_privpipe"
"""Folder inside a release for its public documents; data tools skip names with a leading underscore."""


class LocalTarget(WholeReleases):
    """A folder on a local (or mounted) file system.

    Parameters
    ----------
    path : Path
        The published path. It may be absent, an empty folder, or a link that an earlier run made.

    Raises
    ------
    SinkError
        Something else is at the path, the work area belongs to another user or holds links, the place cannot be
        written, or another run holds the lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self.state = self.path.parent / f".{self.path.name}.privpipe"
        self._lock: int | None = None
        self._before: str | None = None

    def __enter__(self) -> Self:
        with sink_faults(self.path):
            self._open()
        try:
            fcntl.flock(self._lock or -1, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._unlock()
            raise SinkError(
                f"another run is writing the sink {str(self.path)!r}; this one did nothing. Try again when it is done"
            ) from None
        try:
            with sink_faults(self.path):
                self._require_ours()
                self._clean()
        except BaseException:  # __exit__ is not called when entering fails, and the lock must not outlive it
            self._unlock()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for folder in (self.state / "staging").glob("*"):  # what a run that ended early wrote and no one judged
                shutil.rmtree(folder, ignore_errors=True)
            for pointer in self.state.glob("pointer-*"):
                with suppress(OSError):  # the next run removes what cannot be removed now
                    pointer.unlink()
        finally:
            self._unlock()

    def require_free(self) -> None:
        """Refuse a path that could not be published to now, without making or locking anything.

        Raises
        ------
        SinkError
        """
        with sink_faults(self.path):
            if self.path.parent.is_dir():
                self._require_ours()

    def private(self, name: str) -> Path:
        """A folder of the work area that only its owner can read, made if it is not there.

        Raises
        ------
        SinkError
            It is a link, or belongs to another user.
        """
        return private_folder(self.state / name)

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """The path, and the work area next to it."""
        return (("the sink", self.path), ("the work area of the sink", self.state))

    @property
    def publishes_files(self) -> bool:
        """They are moved."""
        return True

    def stage(self, run_id: str) -> Path:
        return private_folder(self.state / "staging" / run_id)

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def area(self) -> Path | None:
        """The work area."""
        return self.state

    @property
    def marks(self) -> Mapping[str, str]:
        """None: files are known by where they are."""
        return {}

    def rows(self, run_id: str) -> Path:
        """The staged folder."""
        return self.state / "staging" / run_id

    def landed(self, run_id: str) -> Path:
        """The staged folder."""
        return self.rows(run_id)

    def publish(self, run_id: str) -> str:
        """See `Target.publish`; when it raises, `withdraw` sees to what had been done."""
        staged, home = self.state / "staging" / run_id, self.state / "releases" / run_id
        with sink_faults(self.path):
            make_public(staged, public_modes(self.state / "releases"))
            flush_below(staged)
            self._before = self.current()
            if self._before is not None:  # made while there is room, so that going back takes none
                self._link(self._before, self._pointer_back(run_id))
            os.rename(staged, home)
            sync_folder(home.parent)
            if self.path.is_dir() and not self.path.is_symlink():
                self.path.rmdir()
            pointer = self.state / f"pointer-{run_id}"
            # The link's own text is relative to where it will be; a rename moves it there in one step.
            self._link(os.path.relpath(home, self.path.parent), pointer)
            os.replace(pointer, self.path)
            sync_folder(self.path.parent)
        return str(self.path)

    def published(self, run_id: str) -> Rows:
        return Path(os.path.realpath(self.path))

    def withdraw(self, run_id: str) -> None:
        home = self.state / "releases" / run_id
        with sink_faults(self.path, "the release could not be withdrawn; remove the link by hand"):
            if self.path.is_symlink() and os.path.realpath(self.path) == os.path.realpath(home):
                if self._before is None:
                    self.path.unlink()
                else:
                    os.replace(self._pointer_back(run_id), self.path)
                sync_folder(self.path.parent)
        shutil.rmtree(home, ignore_errors=True)

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self.state / "staging" / run_id, ignore_errors=True)

    def current(self) -> str | None:
        return os.readlink(self.path) if self.path.is_symlink() else None

    def document(self, name: str) -> bytes | None:
        try:
            return (self.path / METADATA / f"{name}.json").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SinkError(f"the {name} at {str(self.path)!r} cannot be read: {error.strerror}") from None

    def recall(self) -> bytes | None:
        try:
            with os.fdopen(os.open(self.state / MEMORY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SinkError(f"what the sink {str(self.path)!r} remembers cannot be read: {error.strerror}") from None

    def remember(self, data: bytes) -> None:
        with sink_faults(self.path):
            flush_new(self.state / MEMORY, data)

    def _open(self) -> None:
        """The work area's folders, and the file that is locked while a run is at work."""
        if not self.path.parent.is_dir():
            self.path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.state, self.state / "releases"):
            require_ours(folder)
            folder.mkdir(exist_ok=True)
            require_ours(folder)  # another process may have made it in between
        self.private("staging")
        for folder in (self.state, self.state / "staging", self.state / "releases"):
            for entry in folder.iterdir():
                if entry.is_symlink() and not entry.name.startswith("pointer-"):
                    raise SinkError(
                        f"the work area holds a link, {str(entry)!r}, which privpipe did not make; remove it"
                    )
        self._lock = os.open(self.state / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def _pointer_back(self, run_id: str) -> Path:
        return self.state / f"pointer-back-{run_id}"

    def _link(self, destination: str, pointer: Path) -> None:
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(destination)

    def _require_ours(self) -> None:
        if self.path.is_symlink():
            if Path(os.path.realpath(self.path)).parent != (self.state / "releases").resolve():
                raise SinkError(f"the sink {str(self.path)!r} is a link that privpipe did not make; move it away")
        elif self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
            raise SinkError(f"the sink {str(self.path)!r} holds something privpipe did not publish; move it away")
        if not os.access(self.path.parent, os.W_OK):
            raise SinkError(f"the sink {str(self.path)!r} cannot be written: its folder is read-only")

    def _clean(self) -> None:
        """Remove what a killed run left: staged files, releases that no pointer leads to, pointers not yet in place."""
        current = Path(os.path.realpath(self.path)) if self.path.is_symlink() else None
        for folder in (self.state / "staging").iterdir():
            shutil.rmtree(folder)
        for folder in (self.state / "releases").iterdir():
            if folder.resolve() == current:
                continue
            if folder.is_dir():
                shutil.rmtree(folder)
            else:
                folder.unlink()
        for pointer in self.state.glob("pointer-*"):
            pointer.unlink()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def sink_faults(sink: Path | str, outcome: str = "nothing was published") -> Iterator[None]:
    """What the file system refuses at a step of publishing, as an error of the sink.

    Raises
    ------
    SinkError
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SinkError(f"the sink {str(sink)!r} cannot be written: {reason}; {outcome}") from None


def flush_below(folder: Path) -> None:
    """Everything below on the disk before anybody is pointed at it."""
    for root, _, files in os.walk(folder):
        for name in files:
            handle = os.open(Path(root, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(root))


def public_properties(staged: Path, run_id: str) -> dict[str, str]:
    """``run_id``, ``verdict`` (``passed`` or ``refused``), ``policy_hash`` and ``batch`` of a staged release."""
    verdict, manifest = (
        json.loads((staged / METADATA / f"{name}.json").read_text(encoding="utf-8")) for name in ("verdict", "manifest")
    )
    word = "passed" if verdict["passed"] is True else "refused"
    batch = {} if manifest.get("batch") is None else {"batch": str(manifest["batch"])}
    return {"run_id": run_id, "verdict": word, "policy_hash": str(verdict["policy_hash"]), **batch}
