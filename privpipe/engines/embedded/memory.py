"""How much memory a run may take: what it is given, or three quarters of what the container or machine offers."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["database_share", "offered_memory"]

OWN_BYTES = 384 << 20
"""What the process takes beside the database: the interpreter, its libraries, compiled code."""
LEAST_BYTES = 2 << 30
"""Limits from which on the process is reckoned in; below, they are the database's alone."""
UNLIMITED = 1 << 60
"""Version 1 of control groups writes a number near 2^63 for no limit."""


def offered_memory(root: Path = Path("/")) -> int:
    """Bytes that the container offers, or the machine where it sets no limit.

    Parameters
    ----------
    root : Path
        Where the file system is seen from.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(root)])


def _limits(root: Path) -> list[int]:
    """Limits of the control groups that this process is in, and of all above them."""
    groups = root / "sys/fs/cgroup"
    files = [groups / "memory.max", groups / "memory/memory.limit_in_bytes"]
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, kinds, path = line.split(":", 2)
        if number != "0" and "memory" not in kinds.split(","):
            continue
        home, name = (groups, "memory.max") if number == "0" else (groups / "memory", "memory.limit_in_bytes")
        own = Path(path.lstrip("/"))
        files += [home / each / name for each in (own, *own.parents)]
    found = [text.strip() for text in map(_text, files)]
    return [int(text) for text in found if text.isdecimal() and 0 < int(text) < UNLIMITED]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def database_share(limit: int, rows: int) -> int:
    """What the database may take of a limit for the whole process, in which so many bytes of rows are kept beside it.

    Examples
    --------
    >>> database_share(4 << 30, 512 << 20) >> 20, database_share(1 << 30, 128 << 20) >> 20
    (3200, 1024)
    """
    return limit if limit < LEAST_BYTES else limit - rows - OWN_BYTES
