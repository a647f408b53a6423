"""What one process may take of the workers' results, which are measured where they are, before they are collected."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from privpipe.errors import EngineError

__all__ = ["FEWER", "Room", "byte_text", "of_columns", "too_large"]


FEWER = "coarsen near-unique columns before, or take fewer columns"
"""What helps wherever distinct values are collected."""


@dataclass
class Room:
    """What the results of one action may take together in the process that collects them.

    Parameters
    ----------
    engine : str
    what : str
        The results, with their columns.
    limit : int
        Bytes.
    remedy : str
        What helps.
    """

    engine: str
    what: str
    limit: int
    remedy: str
    taken: int = field(default=0, init=False)
    _lock: Any = field(default_factory=threading.Lock, init=False, repr=False)

    def take(self, size: int) -> None:
        """Add the bytes of a result.

        Raises
        ------
        EngineError
            The results so far exceed the limit.
        """
        with self._lock:
            self.taken += size
        if self.taken > self.limit:
            raise too_large(self.engine, self.what, self.taken, self.limit, self.remedy)


def too_large(
    engine: str, what: str, needed: float, limit: float, remedy: str, taker: str = "the driver"
) -> EngineError:
    """The refusal to collect results that the collecting process cannot hold.

    Parameters
    ----------
    engine : str
    what : str
        The results, with their columns.
    needed, limit : float
        Bytes of the results, or of as many as were measured, and bytes that are collected at a time.
    remedy : str
        What helps: settings of the engine that raise the limit, other columns.
    taker : str
        Whose limit it is.

    Examples
    --------
    >>> str(too_large("dask", "the records", 3 << 30, 1 << 20, "raise the limit"))[:82]
    'dask engine: the records are some 3,072 MiB, and the driver takes 1 MiB at a time;'
    """
    return EngineError(
        f"{engine} engine: {what} are some {byte_text(needed)}, and {taker} takes {byte_text(limit)} at a time; "
        f"{remedy}. Nothing was collected"
    )


def of_columns(what: str, columns: Iterable[str]) -> str:
    """Results and the columns they are of.

    Examples
    --------
    >>> of_columns("distinct combinations", ["zip", "age", "zip"]), of_columns("classes", [])
    ("distinct combinations of 'zip', 'age'", 'classes')
    """
    names = ", ".join(map(repr, dict.fromkeys(columns)))
    return f"{what} of {names}" if names else what


def byte_text(number: float) -> str:
    """Bytes for people.

    Examples
    --------
    >>> byte_text(3 * 2**20), byte_text(10)
    ('3 MiB', '1 KiB')
    """
    if number < 2**20:
        return f"{max(round(number / 2**10), 1):,} KiB"
    return f"{round(number / 2**20):,} MiB"
