"""What may be known of the persons of related tables, as a query of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from privpipe.blocks.requests import Knowledge, PersonCounts, Related
from privpipe.engines.base.aggregated_cells import (
    SPARK,
    counts_schema,
    counts_sql,
    knowledge_schema,
    knowledge_sql,
    related_schema,
    related_sql,
    rows_sql,
)
from privpipe.engines.distributed.columns import column_name
from privpipe.engines.spark.spark_table import Layout, SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["derived", "related"]


def derived(session: SparkSession, asked: PersonCounts | Knowledge) -> SparkTable:
    """See `PersonCounts` and `Knowledge`; nothing is computed yet."""
    frames: dict[str, DataFrame] = {}
    rows = []
    for at, each in enumerate((asked.root, *asked.others)):
        named = (*each.columns, *(() if each.value is None else (each.value,)))
        frames[f"t{at}"] = _counted(each.table, (*each.key, *named))
        between = [f"{{b{at}_{place}}}" for place in range(len(each.between))]
        for place, step in enumerate(each.between):
            frames[f"b{at}_{place}"] = _counted(step.table, (*step.key, *step.onward))
        rows.append(rows_sql(each, f"{{t{at}}}", between, _name))
    if isinstance(asked, PersonCounts):
        return _table(session.sql(counts_sql(asked, rows), **frames), counts_schema(asked))
    made = session.sql(knowledge_sql(asked, rows, SPARK), **frames)
    return _table(made, knowledge_schema(asked), asked.at_most)


def related(session: SparkSession, asked: Related) -> SparkTable:
    """See `Related`; nothing is computed yet."""
    table: SparkTable = asked.table
    schema = related_schema(asked)
    frames = {"t": table.frame, "u": _counted(asked.to, (*asked.to_key, *asked.columns))}
    layout = Layout(schema, table.has_record_ids)
    made = session.sql(related_sql(asked, ("{t}", "{u}"), _name, column_name), **frames).select(*layout.arrow.names)
    return SparkTable(made, layout, at_most=table.bound)


def _counted(table: SparkTable, columns: Sequence[str]) -> DataFrame:
    """Some columns as their values are distinguished."""
    wanted = list(dict.fromkeys(columns))
    names = table.layout.names(wanted)
    return table.frame.select(*(table.counted(name).alias(new) for name, new in zip(wanted, names, strict=True)))


def _name(schema: pa.Schema, column: str) -> str:
    return column_name(schema.get_field_index(column))


def _table(frame: DataFrame, schema: pa.Schema, at_most: int | None = None) -> SparkTable:
    layout = Layout(schema)
    return SparkTable(frame.toDF(*layout.arrow.names), layout, at_most=at_most)
