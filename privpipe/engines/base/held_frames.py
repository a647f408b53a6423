"""The frames that an engine is given: their own types, and their rows held for a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from privpipe.engines.base.frame_kinds import is_evaluated
from privpipe.engines.base.frames import Held, spooled
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.source_facts import schema_of_source

__all__ = ["Frames"]


class Frames:
    """The frames that an engine is given: their own types, and their rows held.

    An engine with frames of its own kind overrides `hold`, `hold_table` and `schema` for them.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Held]] | None = None

    def schema(self, source: Source) -> pa.Schema:
        """The columns of a source in its own types, none where it has none: see `schema_of_source`."""
        return schema_of_source(source)

    def hold(self, frame: Any, *, lasting: bool = False) -> Held:
        """The rows of a lazy frame, evaluated now; what reads them later reads these, or fails.

        `lasting`: for a caller who uses them when the run is over. A query of DuckDB or a dataset gives a pyarrow
        Table, which the disk holds.

        Raises
        ------
        UnsupportedError
            They cannot be held where they are.
        DataError, EngineError
            They cannot be computed.
        """
        return Held(spooled(frame))

    def hold_table(self, table: Any) -> Held:
        """The rows of a table, evaluated now, for what is judged and then handed over."""
        return Held(table)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Within it a lazy frame is evaluated once, and every scan of it reads those rows; let go of at the end."""
        if self._found is not None:
            yield
            return
        self._found = {}
        try:
            yield
        finally:
            found, self._found = self._found, None
            while found:
                _, (_, held) = found.popitem()
                held.release()

    def held(self, source: Source) -> Source:
        """The source with its frame as it was evaluated, within `holding`; every `scan` begins with it."""
        frame = source.data
        if self._found is None or source.is_path or is_evaluated(frame):
            return source
        if id(frame) not in self._found:
            self._found[id(frame)] = frame, self.hold(frame)  # an id names a frame only while it lives
        return replace(source, data=self._found[id(frame)][1].rows)
