"""Frames that are computed whenever they are looked at, evaluated once and held."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from privpipe.engines.base.frames import arrow_of
from privpipe.engines.base.lazy_frames import is_evaluated
from privpipe.errors import DataError, EngineError
from privpipe.private_files import scratch_folder

__all__ = ["Held", "HeldFrames", "spooled"]


def _nothing() -> None:
    """What was held lives as long as the frame."""


@dataclass(frozen=True)
class Held:
    """A frame, or a table of an engine, whose rows are there and stay what they are.

    Parameters
    ----------
    rows : frame or Table
        Of the kind of what was evaluated.
    release : callable
        Lets go of the rows, which cannot be read afterwards.
    """

    rows: Any = field(repr=False)
    release: Callable[[], None] = field(default=_nothing, repr=False)

    @contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Rows that are not handed over, since what is done within raises, are let go of."""
        try:
            yield
        except BaseException:
            self.release()
            raise


class HeldFrames:
    """The frames that one run meets, each evaluated once.

    Parameters
    ----------
    hold : callable
        Evaluates a frame.
    """

    def __init__(self, hold: Callable[[Any], Held]) -> None:
        self._hold = hold
        self._found: dict[int, tuple[Any, Held]] = {}

    def of(self, frame: Any) -> Any:
        """The frame as it was when it was first asked for; one that is not lazy, or held already, as it is."""
        if is_evaluated(frame):
            return frame
        if id(frame) not in self._found:
            self._found[id(frame)] = frame, self._hold(frame)  # an id names a frame only while it lives
        return self._found[id(frame)][1].rows

    def close(self) -> None:
        """Let go of all rows."""
        while self._found:
            _, (_, held) = self._found.popitem()
            held.release()


def spooled(frame: Any) -> pa.Table:
    """The rows of a query or a dataset, read once: on the disk, from where memory gets what is looked at.

    The file has no name any more when this returns, and is gone with the table.

    Raises
    ------
    DataError
        A file of the dataset is not readable, or the query fails.
    EngineError
        The disk has no room for them.
    """
    found = arrow_of(frame)
    batches = found if isinstance(found, pa.RecordBatchReader) else found.to_batches()
    try:
        with scratch_folder("held") as folder:
            path = str(folder / "rows.arrow")
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, found.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            return pa.ipc.open_stream(pa.memory_map(path)).read_all()
    except (OSError, pa.ArrowException) as error:  # the text of either may quote cells
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else type(error).__name__
        kind = EngineError if number == errno.ENOSPC else DataError
        problem = kind(f"the rows of the {type(frame).__name__} cannot be read and held ({reason})")
    raise problem
