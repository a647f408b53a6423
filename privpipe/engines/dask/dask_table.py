"""The Dask engine's handle on a table: a schema and one task per partition; and two tables as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.engines.base.paired_schemas import require_same, stacked_schema
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime

__all__ = ["DaskTable", "append", "renamed", "stack", "taken"]


@dataclass(frozen=True, repr=False)
class DaskTable:
    """A table in partitions.

    Parameters
    ----------
    schema : pyarrow.Schema
        Logical schema of the visible columns.
    parts : tuple of Node
        At least one; each a record batch of the visible columns, the hidden id columns after them.
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


def stack(runtime: Runtime, table: DaskTable, other: DaskTable, columns: Sequence[str], tag: str) -> DaskTable:
    """See `Engine.stack`."""
    schema = stacked_schema(table.schema, other.schema, columns, tag)
    parts = [
        runtime.task("stack tables", tagged, part, schema=schema, side=side)
        for side, each in enumerate((table, other))
        for part in (each.holding(columns) if columns else each.parts)
    ]
    return DaskTable(schema, tuple(parts))


def append(runtime: Runtime, table: DaskTable, other: DaskTable) -> DaskTable:
    """See `Engine.append`."""
    require_same(table, other)
    names = [*table.schema.names, *(ID_COLUMNS if table.has_record_ids else ())]
    theirs = [runtime.task("append records", taken, part, columns=names) for part in other.parts]
    return DaskTable(table.schema, (*table.parts, *theirs), table.has_record_ids, None)


def taken(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Some columns of one partition, in this order."""
    return batch.select(list(columns))


def renamed(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """One partition with other names of columns."""
    return pa.record_batch(batch.columns, names=list(names))


def tagged(batch: pa.RecordBatch, schema: pa.Schema, side: int) -> pa.RecordBatch:
    """One partition in the stacked schema."""
    columns = [batch.column(name) for name in schema.names[:-1]]
    return pa.record_batch([*columns, pa.array(np.full(batch.num_rows, side, dtype=np.int64))], schema=schema)
