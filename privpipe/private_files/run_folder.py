"""The one folder in which a process keeps what it spills: private, removed at its end, known to the next run.

Its name tells who made it, ``privpipe-<uid>-<pid>-<start>-<random>``, and the file ``owner`` in it is locked while that
process lives. What a killed process left is removed by the next run of the same user: its lock is free, and no
process of that number and start is there. Either alone may err (a container sees no process of another, a network file
system may not lock), both together err towards keeping.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from privpipe.errors import EngineError
from privpipe.private_files.owned import keep_private, require_ours

__all__ = ["Leftover", "leftovers", "new_folder", "remove_leftovers", "run_folder", "scratch_folder"]

NAME = re.compile(r"privpipe-(\d+)-(\d+)-(\d+)-\w+")
OWNER = "owner"
YOUNG = 60.0
"""Seconds for which a folder without a locked file is taken for one that is being made."""
_numbers = itertools.count()
_folders: dict[tuple[int, str], tuple[Path, int]] = {}


def run_folder(parent: str | os.PathLike[str] | None = None) -> Path:
    """This process's folder below `parent` (default: where temporary files go), made and cleaned up before when new.

    Raises
    ------
    EngineError
        It cannot be made.
    """
    place = os.path.abspath(parent if parent is not None else tempfile.gettempdir())
    key = (os.getpid(), place)  # a forked child has a folder of its own
    if key not in _folders or not _folders[key][0].is_dir():
        try:
            os.makedirs(place, exist_ok=True)
            remove_leftovers([place])
            folder = Path(
                tempfile.mkdtemp(prefix=f"privpipe-{os.geteuid()}-{os.getpid()}-{_start(os.getpid())}-", dir=place)
            )
            handle = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EngineError(
                f"no folder for temporary files can be made in {place!r}: {error.strerror}; set TMPDIR to "
                "a folder with room"
            ) from None
        keep_private(folder)
        if not any(pid == os.getpid() for pid, _ in _folders):
            atexit.register(_remove_own, os.getpid())
        _folders[key] = (folder, handle)
    folder = _folders[key][0]
    require_ours(folder, EngineError)
    return folder


@contextmanager
def scratch_folder(purpose: str, parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A new folder below the run's, gone at the end of the context."""
    folder = new_folder(purpose, parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_folder(purpose: str, parent: str | os.PathLike[str] | None = None) -> Path:
    """A new folder below the run's; who asks removes it, else the end of the process does.

    Raises
    ------
    EngineError
        It cannot be made.
    """
    folder = run_folder(parent) / f"{purpose}-{next(_numbers)}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise EngineError(
            f"no folder for temporary files can be made in {str(folder.parent)!r}: {error.strerror}"
        ) from None
    return folder


@dataclass(frozen=True)
class Leftover:
    """A folder that a process left behind when it was killed.

    Parameters
    ----------
    path : Path
    pid : int
        The process's number.
    bytes : int
        Of the files in it.
    """

    path: Path
    pid: int
    bytes: int


def leftovers(places: Sequence[str | os.PathLike[str]] | None = None) -> list[Leftover]:
    """Folders of this user's that no living process owns, below `places` (default: where temporary files go)."""
    return [
        Leftover(path, pid, sum(file.lstat().st_size for file in path.rglob("*") if file.is_file()))
        for place in dict.fromkeys(map(os.path.abspath, places or [tempfile.gettempdir()]))
        for path, pid in _abandoned(place)
    ]


def remove_leftovers(places: Sequence[str | os.PathLike[str]] | None = None) -> list[Path]:
    """Remove what `leftovers` finds; returns what is gone."""
    gone = []
    for place in dict.fromkeys(map(os.path.abspath, places or [tempfile.gettempdir()])):
        for path, _ in _abandoned(place):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                gone.append(path)
    return gone


def _abandoned(place: str) -> Iterator[tuple[Path, int]]:
    """Folders whose process is gone, each locked against other cleaners while it is looked at."""
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return
    for name in names:
        found = NAME.fullmatch(name)
        if found is None or int(found[1]) != os.geteuid():
            continue
        path, pid = Path(place, name), int(found[2])
        try:
            require_ours(path, EngineError)
        except EngineError:
            continue
        if not _alive(pid, found[3]) and (handle := _locked(path)) is not None:
            try:
                yield path, pid
            finally:
                os.close(handle)


def _locked(folder: Path) -> int | None:
    """A handle that holds the folder's lock; None where somebody else does, or may be about to."""
    handle: int | None = None
    try:
        handle = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        try:
            old = time.time() - folder.lstat().st_mtime > YOUNG
        except OSError:
            return None
        return os.open(folder, os.O_RDONLY) if old else None
    except OSError:
        if handle is not None:
            os.close(handle)
        return None
    return handle


def _alive(pid: int, start: str) -> bool:
    """Whether the process of this number is there and began then (0: not told on this system)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return start == "0" or _start(pid) == start


def _start(pid: int) -> str:
    """When a process began, in the system's own ticks; 0 where it is not told."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _remove_own(pid: int) -> None:
    """At the end of the process that made them; a forked child leaves them alone."""
    if os.getpid() == pid:
        for (owner, _), (folder, handle) in list(_folders.items()):
            if owner == pid:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)
        _folders.clear()
