"""Two tables as one in the Spark engine: a union of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from privpipe.engines.base.stackable import require_same, stacked_schema
from privpipe.engines.spark.layout import Layout, physical
from privpipe.engines.spark.table import SparkTable

__all__ = ["append", "stack"]


def stack(table: SparkTable, other: SparkTable, columns: Sequence[str], tag: str) -> SparkTable:
    """See `Engine.stack`."""
    from pyspark.sql import functions as sf

    schema = stacked_schema(table.schema, other.schema, columns, tag)
    frames = []
    for side, each in enumerate((table, other)):
        chosen = [each.column(name).alias(physical(at)) for at, name in enumerate(columns)]
        frames.append(each.frame.select(*chosen, sf.lit(side).cast("long").alias(physical(len(columns)))))
    return SparkTable(frames[0].unionAll(frames[1]), Layout(schema), _remembered(table, other))


def append(table: SparkTable, other: SparkTable) -> SparkTable:
    """See `Engine.append`."""
    require_same(table, other)
    theirs = other.select(table.schema.names)
    return SparkTable(table.frame.unionAll(theirs.frame), table.layout, _remembered(table, other))


def _remembered(table: SparkTable, other: SparkTable) -> dict[str, int]:
    """The number of records of both, where each is known."""
    counted = [each.remembered.get("records") for each in (table, other)]
    known = [records for records in counted if records is not None]
    return {"records": sum(known)} if len(known) == len(counted) else {}
