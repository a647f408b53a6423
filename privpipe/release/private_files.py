"""Files for the user's eyes alone, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["flush_folder", "flush_new"]


def flush_new(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 aside, onto the disk, and move it into place."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # left by a killed run, or a link that somebody laid there
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """What a folder lists, onto the disk."""
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
