"""Who owns a folder, and who may read what is in it."""

from __future__ import annotations

import os
import secrets
import stat
import struct
from contextlib import suppress
from pathlib import Path

from privpipe.errors import EngineError, SinkError

__all__ = [
    "create_private",
    "flush_new",
    "keep_private",
    "make_public",
    "private_folder",
    "public_modes",
    "require_ours",
    "sync_folder",
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
        raise kind(f"{str(path)!r} is a link where privpipe keeps a folder of its own; remove the link")
    if not stat.S_ISDIR(found.st_mode):
        raise kind(f"{str(path)!r} is no folder, where privpipe keeps one of its own; move it away")
    if found.st_uid != os.geteuid():
        raise kind(
            f"the folder {str(path)!r} belongs to another user (uid {found.st_uid}); run as that user, or move the "
            "folder away"
        )


def private_folder(path: Path, kind: type[EngineError] = SinkError) -> Path:
    """The folder, made if it is not there, ours and of mode 0700.

    Raises
    ------
    SinkError (or `kind`)
        See `require_ours`; or it cannot be made.
    """
    require_ours(path, kind)
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        require_ours(path, kind)  # another process may have made it in between
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise kind(f"the private folder {str(path)!r} cannot be made: {error.strerror}") from None
    return path


def keep_private(folder: Path) -> None:
    """Have what any program makes in a folder readable by its owner alone, where the file system can do that."""
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
