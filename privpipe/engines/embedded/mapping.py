"""Functions of row blocks in the embedded engine: streamed through a few threads, stored as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.engines.embedded.session import BATCH_ROWS, Session
from privpipe.engines.embedded.storing import fitted, store
from privpipe.engines.embedded.table import EmbeddedTable, column_list

__all__ = ["joined", "logical", "logical_table", "map_groups", "map_rows", "rows_of", "with_column"]

KEY = "__privpipe_key"
A = TypeVar("A", pa.RecordBatch, pa.Table)


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


def rows_of(session: Session, table: EmbeddedTable) -> Iterator[pa.RecordBatch]:
    """All columns of a table, ids too, in no promised order."""
    sql = f"SELECT {column_list(table.all_columns)} FROM {table.source}"
    return (logical(batch, table.schema) for batch in session.stream(sql, table.frames))


def map_rows(
    session: Session, table: EmbeddedTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema
) -> EmbeddedTable:
    """See `Engine.map_rows`."""

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        return fitted(function(RowBlock(batch)).to_batch(), schema)

    return store(session, rows_of(session, table), schema, make, ids=table.has_record_ids)


def map_groups(
    session: Session,
    table: EmbeddedTable,
    key: Callable[[RowBlock], NDArray[np.int64]],
    function: Callable[[RowBlock, int], RowBlock],
    schema: pa.Schema,
) -> EmbeddedTable:
    """See `Engine.map_groups`: keys are stored beside the rows, and the rows read back in their order."""
    keyed = with_column(session, table, KEY, lambda rows: np.asarray(key(rows), dtype=np.int64))
    sql = f"SELECT {column_list([*table.all_columns, KEY])} FROM {keyed.source} ORDER BY {KEY}"
    batches = (logical(batch, table.schema) for batch in session.stream(sql, keyed.frames))

    names = [*table.all_columns]

    def make(groups: list[pa.RecordBatch]) -> pa.RecordBatch:
        made = [function(RowBlock(group.select(names)), group.column(KEY)[0].as_py()).to_batch() for group in groups]
        # A column that one group left without any value may have come back without a type.
        if any(not batch.schema.equals(made[0].schema) for batch in made):
            made = [fitted(batch, schema) for batch in made]
        return fitted(joined(made), schema)

    return store(session, _many(_groups(batches)), schema, make, ids=table.has_record_ids)


def _many(groups: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Groups by the handful, so that small ones do not each make a task and a file."""
    found: list[pa.RecordBatch] = []
    rows = 0
    for group in groups:
        found.append(group)
        rows += group.num_rows
        if rows >= BATCH_ROWS // 2:
            yield found
            found, rows = [], 0
    if found:
        yield found


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whole groups of rows that come sorted by key."""
    open_parts: list[pa.RecordBatch] = []
    open_key: int | None = None
    for batch in batches:
        keys = batch.column(KEY).to_numpy()
        starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if open_key is not None and int(keys[start]) != open_key:
                yield joined(open_parts)
                open_parts = []
            open_key = int(keys[start])
            open_parts.append(batch.slice(start, stop - start))
    if open_parts:
        yield joined(open_parts)


def joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several."""
    if len(parts) == 1:
        return parts[0]
    columns = [pa.concat_arrays([part.column(at) for part in parts]) for at in range(parts[0].num_columns)]
    return pa.record_batch(columns, schema=parts[0].schema)


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
