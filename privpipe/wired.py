"""Late binding: how a method of an entry reaches the packages that run it, which are above its own."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["room_above"]

ROOMS = (
    "checks",
    "running",
    "running.related_frames",
    "running.related_release",
    "running.table_frames",
    "running.table_release",
    "running.table_validation",
    "stages",
)


def room_above(name: str) -> Any:
    """A room above the catalogues, imported when one of its functions is first called.

    Parameters
    ----------
    name : one of `ROOMS`

    Examples
    --------
    >>> room_above("stages").__name__
    'privpipe.stages'
    """
    if name not in ROOMS:
        raise LookupError(f"{name!r} is not a room that entries reach: {', '.join(ROOMS)}")
    return importlib.import_module(f"privpipe.{name}")
