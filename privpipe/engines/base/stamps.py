"""Stamps of files, to notice a source that changed between two reads."""

from __future__ import annotations

import os
from collections.abc import Mapping

from privpipe.engines.base.files import elsewhere, list_files
from privpipe.engines.base.objects import is_reached, opened_store, stamp_at
from privpipe.engines.base.source import Source
from privpipe.engines.base.unpacking import changed_error, reading
from privpipe.errors import EngineError

__all__ = ["Stamp", "require_stamp", "require_stamps", "stamp_of", "stamps_of"]

Stamp = tuple[int, int, int]
"""Inode, size, time of the last change in nanoseconds; of what lies in a store, its files, bytes and a hash of them."""


def stamp_of(path: str) -> Stamp:
    """The stamp of a file.

    Raises
    ------
    EngineError
        It cannot be reached.
    """
    if elsewhere(path):
        return stamp_at(opened_store(path))
    with reading(path, "data"):
        found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def require_stamp(path: str, stamp: Stamp | None) -> None:
    """Refuse a file that is no longer the one that was stamped.

    Raises
    ------
    EngineError
    """
    if stamp is not None and stamp_of(path) != stamp:
        raise changed_error(path)


def stamps_of(source: Source) -> dict[str, Stamp]:
    """The stamps of a source's files; nothing for a frame or what only the session of an engine reaches."""
    if not source.is_path or source.resolved_format == "delta":
        return {}
    path = os.fspath(source.data)
    if elsewhere(path):
        try:
            return {path: stamp_of(path)} if is_reached(path) else {}
        except EngineError:
            return {}  # a session may reach it; where it is copied, each copy is of one moment
    return {name: stamp_of(name) for name in list_files(source)}


def require_stamps(stamps: Mapping[str, Stamp]) -> None:
    """Refuse what was learnt from files that changed meanwhile; raises as `require_stamp`."""
    for name, stamp in stamps.items():
        require_stamp(name, stamp)
