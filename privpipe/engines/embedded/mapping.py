"""Functions of row blocks in the embedded engine: streamed through a few threads, stored as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.draws import Stream
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.storing import fitted, store
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted

__all__ = ["logical", "logical_table", "map_groups", "map_ranked", "map_rows", "ordered_rows"]

KEY, ORDER = "__privpipe_key", "__privpipe_order"
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
    keyed = _with_column(session, table, KEY, lambda rows: np.asarray(key(rows), dtype=np.int64))
    sql = f"SELECT {column_list([*table.all_columns, KEY])} FROM {keyed.source} ORDER BY {KEY}"
    groups = _groups(logical(batch, table.schema) for batch in session.stream(sql, keyed.frames))

    def make(group: pa.RecordBatch) -> pa.RecordBatch:
        value = group.column(KEY)[0].as_py()
        rows = RowBlock(group.select([name for name in group.schema.names if name != KEY]))
        return fitted(function(rows, value).to_batch(), schema)

    return store(session, groups, schema, make, ids=table.has_record_ids)


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whole groups of rows that come sorted by key."""
    open_parts: list[pa.RecordBatch] = []
    open_key: int | None = None
    for batch in batches:
        keys = batch.column(KEY).to_numpy()
        starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if open_key is not None and int(keys[start]) != open_key:
                yield _joined(open_parts)
                open_parts = []
            open_key = int(keys[start])
            open_parts.append(batch.slice(start, stop - start))
    if open_parts:
        yield _joined(open_parts)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def map_ranked(
    session: Session,
    table: EmbeddedTable,
    column: str,
    stream: Stream,
    function: Callable[[RowBlock, NDArray[np.int64]], RowBlock],
    schema: pa.Schema,
) -> EmbeddedTable:
    """See `Engine.map_ranked`: sorted by value and keyed order, a record's place is its rank."""
    table.require([column])
    name = quoted(column)
    # -0.0 equals 0.0, whatever their bits: ties are the keyed order's.
    zero = pa.types.is_floating(table.schema.field(column).type)
    value = f"CASE WHEN {name} = 0 THEN 0 ELSE {name} END" if zero else name
    ranked = _ranked(logical(batch, table.schema) for batch in ordered_rows(session, table, stream, f"{value}"))

    def make(item: tuple[pa.RecordBatch, int]) -> pa.RecordBatch:
        batch, first = item
        ranks = np.arange(first, first + batch.num_rows)
        ranks[np.asarray(batch.column(column).is_null().to_numpy(zero_copy_only=False))] = -1
        return fitted(function(RowBlock(batch), ranks).to_batch(), schema)

    return store(session, ranked, schema, make, ids=table.has_record_ids)


def _ranked(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int]]:
    first = 0
    for batch in batches:
        yield batch, first
        first += batch.num_rows


def ordered_rows(
    session: Session, table: EmbeddedTable, stream: Stream, value: str | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows with their ids by (value with nulls last, keyed order, id)."""
    ordered = _with_column(session, table, ORDER, lambda rows: stream.order(rows.record_ids))
    by = ", ".join([*([f"{value} NULLS LAST"] if value else []), ORDER, *ID_COLUMNS])
    return session.stream(
        f"SELECT {column_list(table.all_columns)} FROM {ordered.source} ORDER BY {by}", ordered.frames
    )


def _with_column(
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
