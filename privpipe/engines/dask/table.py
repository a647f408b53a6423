"""The Dask engine's handle on a table: a schema, and one task a partition that yields an Arrow record batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from privpipe.engines.dask.graph import Node

__all__ = ["DaskTable"]


@dataclass(frozen=True, repr=False)
class DaskTable:
    """A table in partitions.

    Parameters
    ----------
    schema : pyarrow.Schema
        Logical schema of the visible columns.
    parts : tuple of Node
        At least one; each a record batch of the visible columns, the hidden id columns behind them.
    has_record_ids : bool
    narrow : callable, optional
        For a table straight from columnar files: tasks that read only some columns; asked for `coded` ones, with
        texts as dictionaries.
    """

    schema: pa.Schema
    parts: tuple[Node, ...]
    has_record_ids: bool = False
    narrow: Callable[..., list[Node]] | None = field(default=None)

    def __repr__(self) -> str:
        return f"DaskTable({len(self.schema)} columns, {len(self.parts)} partitions)"

    def holding(self, columns: Sequence[str]) -> list[Node]:
        """Tasks whose batches hold at least these columns, read without the others where that is cheaper."""
        if self.narrow is not None and columns and len(set(columns)) < len(self.schema):
            return self.narrow(list(dict.fromkeys(columns)))
        return list(self.parts)

    def coded(self, columns: Sequence[str]) -> list[Node]:
        """As `holding`, for who only counts values: texts may come as dictionaries."""
        if self.narrow is None or not columns:
            return self.holding(columns)
        return self.narrow(list(dict.fromkeys(columns)), coded=True)

    def derived(self, parts: Sequence[Node], schema: pa.Schema | None = None) -> DaskTable:
        """A table of no more records, computed from this one; ids travelled along."""
        return DaskTable(self.schema if schema is None else schema, tuple(parts), self.has_record_ids)
