"""Files and folders that only their owner can read; those of a run are removed, at the latest by the next one."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import itertools
import os
import platform
import re
import secrets
import shutil
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from privpipe.errors import EngineError, SinkError

__all__ = [
    "Leftover",
    "create_private",
    "flush_new",
    "has_ended",
    "keep_private",
    "leftovers",
    "locked",
    "make_public",
    "new_folder",
    "private_folder",
    "public_modes",
    "remove_folder",
    "remove_leftovers",
    "require_ours",
    "scratch_folder",
    "seal_folder",
    "sync_folder",
    "this_process",
    "write_private",
]


PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
ACL_OF_NEW_FILES = "system.posix_acl_default"
OWNER_ALONE = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in ((1, 7), (4, 0), (32, 0))
)
"""An access list under which owner, group (none) and others (none) get what is made in a folder."""


def require_ours(path: Path, kind: type[EngineError] = SinkError) -> None:
    """Refuse a folder that is a link, is not a directory, or belongs to another user; an absent one belongs to no one.

    Raises
    ------
    SinkError (or `kind`)
        What would be written there could be read, swapped or led elsewhere by another.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise kind(f"{str(path)!r} cannot be looked at: {error.strerror}") from None
    if stat.S_ISLNK(found.st_mode):
        raise kind(f"{str(path)!r} is a link where privpipe keeps its own folder; remove the link")
    if not stat.S_ISDIR(found.st_mode):
        raise kind(f"{str(path)!r} is not a directory, where privpipe keeps one; move it away")
    if found.st_uid != os.geteuid():
        raise kind(
            f"the folder {str(path)!r} belongs to another user (uid {found.st_uid}); run as that user, or move the "
            "folder away"
        )


def private_folder(path: Path) -> Path:
    """The folder, made if it is not there, ours and of mode 0700.

    Raises
    ------
    SinkError
        See `require_ours`; or it cannot be made.
    """
    require_ours(path)
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        require_ours(path)  # another process may have made it in between
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise SinkError(f"the private folder {str(path)!r} cannot be made: {error.strerror}") from None
    return path


def keep_private(folder: Path) -> None:
    """Have what any program makes in a folder readable only by its owner, where the file system can do that."""
    if hasattr(os, "setxattr"):
        with suppress(OSError):  # without access lists the folder's own mode is what keeps others out
            os.setxattr(folder, ACL_OF_NEW_FILES, OWNER_ALONE)


def create_private(path: Path) -> None:
    """An empty new file of mode 0600, for a writer that opens files by name."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE))


def write_private(path: Path, text: str) -> None:
    """A new file of mode 0600, on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def flush_new(path: Path, data: bytes) -> None:
    """A file of mode 0600, written aside, on the disk and moved into its place."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # left by a killed run, or a link that someone put there
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def seal_folder(folder: Path) -> None:
    """Have the files below a folder readable only by their owner, whichever writer made them, and on the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(PRIVATE_FILE)
            sync_folder(path)
    sync_folder(folder)


def public_modes(folder: Path) -> tuple[int, int]:
    """Modes of a file and of a folder that are made in a folder in the usual way: by umask and access lists.

    They are read off a file made for it: a process can ask for its umask only by changing it for all its threads.
    """
    probe = folder / f"probe-{secrets.token_hex(8)}"
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        os.close(handle)
        probe.unlink()
    return mode, mode | (mode & 0o444) >> 2


def make_public(folder: Path, modes: tuple[int, int]) -> None:
    """Give a folder and all below it the modes of published files and folders, whichever writer made them.

    Raises
    ------
    SinkError
        It holds a link, which would publish what is elsewhere.
    """
    of_files, of_folders = modes
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if Path(root, name).is_symlink():
                raise SinkError(f"{name!r} in the staged release is a link; nothing was published")
        for name in files:
            os.chmod(Path(root, name), of_files)
        kept = stat.S_IMODE(os.stat(root).st_mode) & 0o7000  # a group that folders inherit
        os.chmod(root, kept | of_folders)


NAME = re.compile(r"privpipe-(\d+)-(\d+)-(\d+)-\w+")
OWNER = "owner"
YOUNG = 60.0
"""Seconds for which a folder without a locked file is taken for one that is being made."""
_numbers = itertools.count()
_folders: dict[tuple[int, str], tuple[Path, int]] = {}
_users: dict[tuple[int, str], int] = {}
_lock = threading.RLock()


def new_folder(purpose: str, parent: str | os.PathLike[str] | None = None) -> Path:
    """A new private folder below this process's own, which is made when it is not there.

    Who asks for it calls `remove_folder`; otherwise it is removed with the process.

    Parameters
    ----------
    purpose : str
        First part of its name.
    parent : path, optional
        Where the process's folder is; default: where temporary files go (``TMPDIR``).

    Raises
    ------
    EngineError
        It cannot be made.
    """
    place = os.path.abspath(parent if parent is not None else tempfile.gettempdir())
    with _lock:
        key = (os.getpid(), place)  # a forked child has a separate folder
        _users[key] = (
            _users.get(key, 0) + 1
        )  # first, so that a finalizer which runs here does not take the last one away
        try:
            if key not in _folders:
                _folders[key] = _made(place)
            folder = _folders[key][0]
            require_ours(folder, EngineError)
            made = folder / f"{purpose}-{next(_numbers)}"
            made.mkdir(mode=0o700)
        except EngineError:
            _users[key] -= 1
            raise
        except OSError as error:
            _users[key] -= 1
            raise EngineError(
                f"no folder for temporary files can be made in {place!r}: {error.strerror}; set TMPDIR to a folder "
                "with room"
            ) from None
    return made


def remove_folder(folder: Path) -> None:
    """Remove a folder that `new_folder` made, and the process's own with the last; nothing in a forked child."""
    key = (os.getpid(), str(folder.parent.parent))
    with _lock:
        if key not in _folders or _folders[key][0] != folder.parent:
            return
        shutil.rmtree(folder, ignore_errors=True)
        _users[key] -= 1
        if _users[key] <= 0:
            _remove(key)


@contextmanager
def scratch_folder(purpose: str, parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A new private folder, gone at the end of the context."""
    folder = new_folder(purpose, parent)
    try:
        yield folder
    finally:
        remove_folder(folder)


def this_process() -> str:
    """What names this process among all that this machine ran since it started; nothing where that is unknown."""
    home = _machine()
    return f"{home}-{os.getpid()}-{_start(os.getpid())}" if home else ""


def has_ended(process: str) -> bool:
    """Whether a process that `this_process` named was one of this machine and has ended; False where it is unknown.

    Examples
    --------
    >>> has_ended(this_process()), has_ended("")
    (False, False)
    """
    home, _, rest = process.partition("-")
    pid, _, start = rest.partition("-")
    if not home or home != _machine() or not pid.isdigit() or start in ("", "0"):
        return False
    return not _alive(int(pid), start)


def _machine() -> str:
    """The machine, its start and its name (a container has its own), hashed: the name is private."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot}{space}{platform.node()}".encode()).hexdigest()[:16]


def _made(place: str) -> tuple[Path, int]:
    """The process's folder with a handle on its locked file."""
    os.makedirs(place, exist_ok=True)
    mode = os.stat(place).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise EngineError(
            f"any user may rename what is in {place!r}, so no temporary files are kept there; set TMPDIR (or "
            "`temp_directory`) to a folder of yours"
        )
    remove_leftovers([place])
    name = f"privpipe-{os.geteuid()}-{os.getpid()}-{_start(os.getpid())}-"
    folder = Path(tempfile.mkdtemp(prefix=name, dir=place))
    handle = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # where files cannot be locked, number and start of the process decide
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    keep_private(folder)
    return folder, handle


def _remove(key: tuple[int, str]) -> None:
    folder, handle = _folders.pop(key)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)


@atexit.register
def _remove_own() -> None:
    """At the end of the process; a forked child leaves its parent's alone."""
    with _lock:
        for key in [key for key in _folders if key[0] == os.getpid()]:
            _remove(key)


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
    """A handle that holds the folder's lock; None where another process does, or may be about to."""
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
    """Whether the process of this number is there and began then (0: unknown on this system)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return start == "0" or _start(pid) == start


def _start(pid: int) -> str:
    """When a process began, in the system's own ticks; 0 where it is unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def locked(file: Path, what: str) -> int:
    """The descriptor that holds the lock of a file, which is made where it is missing; close it to release the lock.

    Parameters
    ----------
    file : Path
    what : str
        What the lock protects, for messages: "the ledger".

    Raises
    ------
    SinkError
        Another run holds it, or it cannot be written.
    """
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SinkError(f"{what} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise SinkError(f"another run is using {what}; this one did nothing. Try again when it is done") from None
        raise SinkError(f"{what} cannot be locked: {error.strerror}") from None
    return handle
