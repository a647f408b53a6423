"""Record ids: from a declared column, or from the content of records and their number among identical ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from privpipe.blocks import RowBlock
from privpipe.draws import Seed
from privpipe.engines.base.names import check_record_ids
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.layout import Layout, physical
from privpipe.engines.spark.runs import RunNumbers
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.versions import arrow_table
from privpipe.engines.spark.workers import map_batches

__all__ = ["declared_ids", "numbered_ids"]

Batches = Iterator[pa.RecordBatch]
HASH = ("__privpipe_h0", "__privpipe_h1")


def numbered_ids(table: SparkTable, seed: Seed) -> SparkTable:
    """The table with ids from the content of all columns and an ordinal among identical records."""
    from privpipe.kernels.ids.record_ids import content_hash, record_id

    plain = Layout(table.schema)
    hashed, out = plain.with_extra(*HASH), Layout(table.schema, has_ids=True)

    def add_hash(batches: Batches) -> Batches:
        for batch in batches:
            rows = plain.block(batch)
            words = content_hash(rows.batch, seed)
            yield hashed.batch(rows, **{name: words[:, at] for at, name in enumerate(HASH)})

    def add_ids(batches: Batches) -> Batches:
        runs = RunNumbers()
        for batch in batches:
            words = np.column_stack([hashed.hidden_column(batch, name) for name in HASH])
            ids = record_id(words, runs.number(words), seed)
            yield out.batch(RowBlock(hashed.block(batch).batch, ids))

    visible = table.frame.select(*plain.arrow.names)
    together = map_batches(visible, add_hash, hashed).repartition(*HASH).sortWithinPartitions(*HASH)
    return SparkTable(map_batches(together, add_ids, out), out, dict(table.remembered), table.at_most, table.learned)


def declared_ids(table: SparkTable, column: str, seed: Seed) -> SparkTable:
    """The table with ids from a column that must be unique and complete."""
    from privpipe.kernels.ids.record_ids import declared_id

    _require_unique(table, column)
    plain, out = Layout(table.schema), Layout(table.schema, has_ids=True)

    def add_ids(batches: Batches) -> Batches:
        for batch in batches:
            rows = plain.block(batch)
            yield out.batch(RowBlock(rows.batch, declared_id(rows.column(column), seed)))

    visible = table.frame.select(*plain.arrow.names)
    return SparkTable(map_batches(visible, add_ids, out), out, dict(table.remembered), table.at_most, table.learned)


def _require_unique(table: SparkTable, column: str) -> None:
    from pyspark.sql import functions as sf

    value = sf.col(physical(0))
    counted = table.frame.select(table.counted(column).alias(physical(0))).groupBy(physical(0)).count()
    totals = counted.agg(
        sf.sum(sf.when(sf.isnull(value), sf.col("count"))).alias("nulls"),
        sf.sum(sf.when(~sf.isnull(value), sf.col("count") - sf.lit(1))).alias("repeated"),
        sf.sum("count").alias("records"),
    )
    with reported("count the record ids"):
        found = arrow_table(totals).to_pylist()[0]
    figures = (found[name] or 0 for name in ("records", "nulls", "repeated"))
    check_record_ids(column, *figures)
    table.remembered["records"] = found["records"] or 0
