"""Writing tables of the embedded engine, in an order that is independent of the original one."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Stream
from privpipe.engines.base import Format, Written
from privpipe.engines.base.part_files import write_parts
from privpipe.engines.embedded.mapping import logical
from privpipe.engines.embedded.ranking import ordered_rows
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.small_rows import SmallRows
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted

__all__ = ["sorted_rows", "write"]


def write(session: Session, table: EmbeddedTable, folder: str, format: Format, stream: Stream, escape: bool) -> Written:
    """See `Engine.write`."""
    batches = ordered_rows(session, table, stream) if table.has_record_ids else _by_value(session, table)
    visible = (logical(batch.select(table.schema.names), table.schema) for batch in batches)
    return write_parts(visible, table.schema, folder, format, escape=escape)


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
