"""Functions of row blocks in the embedded engine: streamed through a few threads, stored as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.engines.embedded import storing
from privpipe.engines.embedded.session import BATCH_ROWS, Session
from privpipe.engines.embedded.storing import fitted, store
from privpipe.engines.embedded.table import EmbeddedTable, column_list

__all__ = ["brought", "logical", "logical_table", "map_rows", "rows_of", "with_column"]

A = TypeVar("A", pa.RecordBatch, pa.Table)
TEXT_BYTES = 32
"""What a text is reckoned to take."""


def logical(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of DuckDB's in the table's logical types (it names time zones and decimals its own way)."""
    columns = [_as(column, name, schema) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.record_batch(columns, names=batch.schema.names)


def logical_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """As `logical`, of a whole table."""
    columns = [_as(column, name, schema) for name, column in zip(table.column_names, table.columns, strict=True)]
    return pa.table(columns, names=table.column_names)


def _as(column: pa.Array, name: str, schema: pa.Schema) -> pa.Array:
    at = schema.get_field_index(name)
    return column if at < 0 or column.type == schema.field(at).type else column.cast(schema.field(at).type)


def rows_of(session: Session, table: EmbeddedTable, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Some columns of a table (default: all, ids too), in no promised order."""
    names = table.all_columns if columns is None else columns
    # Without a column a batch would forget how many rows it has.
    if table.rows is not None and names:
        return (batch for batch in table.rows.select(names).to_batches(BATCH_ROWS) if batch.num_rows)
    sql = f"SELECT {column_list(names)} FROM {table.source}"
    return (logical(batch, table.schema) for batch in session.stream(sql, table.frames))


def brought(session: Session, table: EmbeddedTable) -> EmbeddedTable:
    """The table with its rows in memory, if there is likely to be room for them and a copy; else as it is."""
    if table.rows is not None:
        return table
    width = sum(TEXT_BYTES if _has_no_width(field.type) else field.type.bit_width / 8 for field in table.schema)
    width += 8 * len(ID_COLUMNS) if table.has_record_ids else 0
    if 2 * width * table.records(session) > min(storing.MEMORY_BYTES, session.room()):
        return table
    return store(session, rows_of(session, table), table.schema, lambda batch: batch, ids=table.has_record_ids)


def _has_no_width(found: pa.DataType) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_binary(found))


def map_rows(
    session: Session, table: EmbeddedTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema
) -> EmbeddedTable:
    """See `Engine.map_rows`."""

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        return fitted(function(RowBlock(batch)).to_batch(), schema)

    return store(session, rows_of(session, table), schema, make, ids=table.has_record_ids)


def with_column(
    session: Session, table: EmbeddedTable, name: str, compute: Callable[[RowBlock], NDArray[np.int64]]
) -> EmbeddedTable:
    """The table with one more hidden integer column."""
    schema = pa.schema([*table.schema, pa.field(name, pa.int64())])

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = RowBlock(batch)
        more = pa.array(compute(rows), pa.int64())
        ids = [batch.column(column) for column in ID_COLUMNS] if table.has_record_ids else []
        names = [*table.schema.names, name, *(ID_COLUMNS if ids else ())]
        return pa.record_batch([*rows.batch.columns, more, *ids], names=names)

    return store(session, rows_of(session, table), schema, make, ids=table.has_record_ids)
