"""Writing tables of the embedded engine, in an order that is independent of the original one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Stream
from privpipe.engines.base import Format, Written
from privpipe.engines.base.part_files import write_parts
from privpipe.engines.embedded.mapping import logical
from privpipe.engines.embedded.order_in_memory import rows_in_memory
from privpipe.engines.embedded.ranking import ordered_rows
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.small_rows import SmallRows
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted

__all__ = ["sorted_rows", "write"]


def write(session: Session, table: EmbeddedTable, folder: str, format: Format, stream: Stream, escape: bool) -> Written:
    """See `Engine.write`."""
    batches = _by_key(session, table, stream) if table.has_record_ids else _by_value(session, table)
    visible = (batch.select(table.schema.names) for batch in batches)
    if format != "parquet":
        return write_parts((logical(b, table.schema) for b in visible), table.schema, folder, format, escape=escape)
    made = (_with_used_texts(batch, table.schema) for batch in visible)
    first = next(made, None)
    found = () if first is None else (first,)
    schema = table.schema if first is None else first.schema
    return write_parts(itertools.chain(found, made), schema, folder, format, escape=escape)


def _with_used_texts(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in logical types, but for texts that have a dictionary: they keep what their cells use of it.

    The file shows a whole dictionary; in order of their first cells, its values are where they would be without one.
    """
    texts = {name for name in schema.names if pa.types.is_dictionary(batch.schema.field(name).type)}
    others = logical(batch.select([name for name in schema.names if name not in texts]), schema)
    columns = [_used(batch.column(name)) if name in texts else others.column(name) for name in schema.names]
    return pa.record_batch(columns, names=schema.names)


def _used(column: pa.DictionaryArray) -> pa.DictionaryArray:
    from privpipe.kernels.columns.used_values import in_order_of_appearance

    codes = column.indices.cast(pa.int32())
    codes = codes.fill_null(-1) if codes.null_count else codes
    places, used = in_order_of_appearance(codes.to_numpy(), len(column.dictionary))
    indices = pa.array(places, mask=places < 0) if column.null_count else pa.array(places)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)))


def _by_key(session: Session, table: EmbeddedTable, stream: Stream) -> Iterator[pa.RecordBatch]:
    held = rows_in_memory(session, table, stream)
    return ordered_rows(session, table, stream) if held is None else held


def _by_value(session: Session, table: EmbeddedTable) -> Iterator[pa.RecordBatch]:
    return session.stream(_sorted(table, table.schema.names), table.frames)


def _sorted(table: EmbeddedTable, by: list[str]) -> str:
    order = ", ".join(f"{quoted(name)} NULLS LAST" for name in by)
    return f"SELECT {column_list(table.schema.names)} FROM {table.source} ORDER BY {order}"


def sorted_rows(session: Session, table: EmbeddedTable) -> pa.Table:
    """The visible rows, by record id (a keyed hash) or, without ids, by their values."""
    small = SmallRows.of(session, table) if table.has_record_ids else None
    if small is not None:
        return small.ordered()
    by = list(ID_COLUMNS) if table.has_record_ids else table.schema.names
    batches = [logical(batch, table.schema) for batch in session.stream(_sorted(table, by), table.frames)]
    return pa.Table.from_batches(batches, table.schema)
