"""The notice next to the pointer of a sink: a file that is no table, on which readers of the sink itself fail."""

from __future__ import annotations

from typing import Any

__all__ = ["NOTICE", "give_notice"]

NOTICE = "read_CURRENT_first.md"
NOTICE_TEXT = (
    b"This is no part of a table. The table is not in this folder: the object _CURRENT next to this one names the "
    b"folder of the release, relative to this folder, in its key `release`. Read that folder.\n"
)


def give_notice(files: Any, root: str) -> None:
    """Put the notice into a sink, where it is not there yet.

    Parameters
    ----------
    files : fsspec file system
    root : str
        The sink, as `files` takes it.
    """
    name = f"{root}/{NOTICE}"
    if not files.exists(name) or files.cat_file(name) != NOTICE_TEXT:
        files.pipe_file(name, NOTICE_TEXT)
