"""What may be known of the persons of related tables, as a query of DuckDB."""

from __future__ import annotations

import pyarrow as pa

from privpipe.blocks.requests import Knowledge, PersonCounts, Related
from privpipe.engines.base.knowledge_query import (
    DUCKDB,
    counts_schema,
    counts_sql,
    knowledge_schema,
    knowledge_sql,
    related_schema,
    related_sql,
    rows_sql,
)
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, quoted

__all__ = ["derived", "related"]


def derived(asked: PersonCounts | Knowledge) -> EmbeddedTable:
    """See `PersonCounts` and `Knowledge`; nothing is computed yet."""
    tables: tuple[EmbeddedTable, ...] = asked.tables
    rows = [
        rows_sql(each, each.table.source, [step.table.source for step in each.between], _name)
        for each in (asked.root, *asked.others)
    ]
    frames = {name: frame for table in tables for name, frame in table.frames.items()}
    holds = tuple(each for table in tables for each in table.holds)
    if isinstance(asked, PersonCounts):
        return EmbeddedTable(counts_sql(asked, rows), counts_schema(asked), False, frames, holds)
    sql, schema = knowledge_sql(asked, rows, DUCKDB), knowledge_schema(asked)
    return EmbeddedTable(sql, schema, False, frames, holds, at_most=asked.at_most)


def related(asked: Related) -> EmbeddedTable:
    """See `Related`; nothing is computed yet."""
    table, other = asked.table, asked.to
    names = [*asked.columns.values()]
    if not names:
        sql = related_sql(asked, (table.source, other.source), _name, str)
        return table.derived(sql, frames=other.frames, holds=other.holds)
    schema = related_schema(asked)
    sql = related_sql(asked, (table.source, other.source), _name, lambda at: quoted(schema.names[at]))
    return table.derived(sql, schema, frames=other.frames, holds=other.holds)


def _name(schema: pa.Schema, column: str) -> str:
    return quoted(column)
