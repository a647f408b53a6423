"""Scan a source; what is wrong with its content is said with the name of the file or folder it lies in."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from privpipe.engines import Engine, Source
from privpipe.errors import DataError

__all__ = ["scanned"]


def scanned(engine: Engine, source: Source) -> Any:
    """The table of a source.

    Raises
    ------
    DataError
        As `Engine.scan`, with the source's own name in front where the message lacks it.
    """
    try:
        return engine.scan(source)
    except DataError as error:
        name = PurePath(str(source.data)).name if source.is_path else ""
        if not name or name in str(error):
            raise
        error.args = (f"{name}: {error}",)
        raise
