"""Two tables as one in the Dask engine: the partitions of both, each distinguished by a tag."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.engines.base.stackable import require_same, stacked_schema
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable

__all__ = ["append", "stack"]


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
    theirs = [runtime.task("append records", in_order, part, names=names) for part in other.parts]
    return DaskTable(table.schema, (*table.parts, *theirs), table.has_record_ids, None)


def in_order(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """One partition with its columns in the order of another table."""
    return batch.select(list(names))


def tagged(batch: pa.RecordBatch, schema: pa.Schema, side: int) -> pa.RecordBatch:
    """One partition in the stacked schema."""
    columns = [batch.column(name) for name in schema.names[:-1]]
    return pa.record_batch([*columns, pa.array(np.full(batch.num_rows, side, dtype=np.int64))], schema=schema)
