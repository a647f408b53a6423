"""Two tables as one in the embedded engine: a union of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from privpipe.engines.base.stackable import require_same, stacked_schema
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted

__all__ = ["append", "stack"]


def stack(table: EmbeddedTable, other: EmbeddedTable, columns: Sequence[str], tag: str) -> EmbeddedTable:
    """See `Engine.stack`."""
    schema = stacked_schema(table.schema, other.schema, columns, tag)
    sides = [
        f"SELECT {column_list(columns)}{', ' if columns else ''}{side}::BIGINT AS {quoted(tag)} FROM {each.source}"
        for side, each in enumerate((table, other))
    ]
    return EmbeddedTable(
        " UNION ALL ".join(sides),
        schema,
        False,
        {**table.frames, **other.frames},
        (*table.holds, *other.holds),
    )


def append(table: EmbeddedTable, other: EmbeddedTable) -> EmbeddedTable:
    """See `Engine.append`."""
    require_same(table, other)
    columns = column_list(table.all_columns)
    return EmbeddedTable(
        " UNION ALL ".join(f"SELECT {columns} FROM {each.source}" for each in (table, other)),
        table.schema,
        table.has_record_ids,
        {**table.frames, **other.frames},
        (*table.holds, *other.holds),
    )
