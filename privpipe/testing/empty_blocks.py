"""An engine that hands every function of a stage a block without rows first, as a partition may be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privpipe.blocks import RowBlock
from privpipe.blocks.row_block import ID_COLUMNS

__all__ = ["EmptyBlocks"]


class EmptyBlocks:
    """Everything is the engine's, but functions of blocks are tried on nothing before they run.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    problems : list of str
        What went wrong so far.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.problems: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def map_rows(self, table: Any, function: Callable[[RowBlock], RowBlock], schema: Any) -> Any:
        """As the engine's."""
        self._try(lambda: function(_nothing(table)), schema)
        return self._engine.map_rows(table, function, schema)

    def map_groups(self, table: Any, key: Callable[[RowBlock], Any], function: Any, schema: Any) -> Any:
        """As the engine's; a group has a row at the least, its key is asked of any block."""
        self._try(lambda: key(_nothing(table)), None)
        return self._engine.map_groups(table, key, function, schema)

    def map_ranked(self, table: Any, column: str, stream: Any, function: Any, schema: Any) -> Any:
        """As the engine's."""
        self._try(lambda: function(_nothing(table), np.zeros(0, dtype=np.int64)), schema)
        return self._engine.map_ranked(table, column, stream, function, schema)

    def _try(self, call: Callable[[], Any], schema: Any) -> None:
        try:
            found = call()
        except Exception as error:  # noqa: BLE001 - whatever breaks is the finding
            self.problems.append(f"a block without rows breaks it: {type(error).__name__}")
            return
        if len(found):
            self.problems.append("a block without rows comes out with rows")
        elif schema is not None and list(found.schema.names) != list(schema.names):
            self.problems.append("a block without rows comes out with other columns")


def _nothing(table: Any) -> RowBlock:
    import pyarrow as pa

    fields = [*table.schema, *(pa.field(name, pa.int64()) for name in ID_COLUMNS if table.has_record_ids)]
    return RowBlock(pa.RecordBatch.from_pylist([], schema=pa.schema(fields)))
