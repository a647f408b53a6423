"""Functions of row blocks: mapped, grouped by a key, reduced, and reduced over pairs of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, Facts, PairBlock, Reduction, RowBlock
from privpipe.engines.base.besides import beside_schema
from privpipe.engines.base.thinning import last_id_of
from privpipe.engines.spark.layout import Layout
from privpipe.engines.spark.runs import together, whole_runs
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.workers import fold, map_batches

__all__ = ["beside", "map_groups", "map_rows", "reduce_pairs", "reduce_rows", "thinned"]

R = TypeVar("R")
Batches = Iterator[pa.RecordBatch]
KEY = "__privpipe_key"


def map_rows(table: SparkTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema) -> SparkTable:
    """See `Engine.map_rows`."""
    source, out = table.layout, Layout(schema, table.has_record_ids)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                yield out.batch(function(source.block(batch)))

    return SparkTable(map_batches(table.frame, run, out), out, at_most=table.bound)


def map_groups(
    table: SparkTable,
    key: Callable[[RowBlock], NDArray[np.int64]],
    function: Callable[[RowBlock, int], RowBlock],
    schema: pa.Schema,
) -> SparkTable:
    """See `Engine.map_groups`."""
    source, out = table.layout, Layout(schema, table.has_record_ids)
    keyed = source.with_extra(KEY)

    def add_key(batches: Batches) -> Batches:
        for batch in batches:
            rows = source.block(batch)
            yield keyed.batch(rows, **{KEY: key(rows)})

    def run(batches: Batches) -> Batches:
        found = (out.batch(function(keyed.block(rows), at)) for at, rows in whole_runs(batches, KEY))
        yield from together(found)

    gathered = map_batches(table.frame, add_key, keyed).repartition(KEY).sortWithinPartitions(KEY)
    return SparkTable(map_batches(gathered, run, out), out, at_most=table.bound)


def reduce_rows(table: SparkTable, columns: Sequence[str], reduction: Reduction[RowBlock, R], facts: Facts) -> R | None:
    """See `Engine.reduce_rows`."""
    chosen = table.select(list(dict.fromkeys(columns)))
    layout = chosen.layout

    def measure(batches: Batches) -> Iterator[R]:
        for batch in batches:
            if batch.num_rows:
                yield reduction.measure(layout.block(batch), facts)

    return fold(chosen.frame, measure, reduction.merge, "measure the records")


def reduce_pairs(
    original: SparkTable,
    released: SparkTable,
    columns: Sequence[str],
    reduction: Reduction[PairBlock, R],
    facts: Facts,
) -> R | None:
    """See `Engine.reduce_pairs`."""
    from pyspark.sql import functions as sf

    names = list(dict.fromkeys(columns))
    left, right = original.select(names), released.select(names)
    of_left, of_right = left.layout, right.layout
    other = [f"other_{name}" for name in of_right.arrow.names]
    pairs = left.frame.join(
        right.frame.toDF(*other),
        [sf.col(name) == sf.col(f"other_{name}") for name in ID_COLUMNS],
        "inner",
    )
    width = len(of_left.arrow)

    def measure(batches: Batches) -> Iterator[R]:
        for batch in batches:
            if batch.num_rows:
                first, second = range(width), range(width, width + len(other))
                block = PairBlock(of_left.block(batch.select(list(first))), of_right.block(batch.select(list(second))))
                yield reduction.measure(block, facts)

    return fold(pairs, measure, reduction.merge, "measure the pairs")


def beside(released: SparkTable, original: SparkTable, columns: Mapping[str, str]) -> SparkTable:
    """See `Engine.beside`."""
    from pyspark.sql import functions as sf

    layout = Layout(beside_schema(released, original, columns))
    other = original.select(list(columns))
    renamed = [f"other_{name}" for name in other.layout.arrow.names]
    joined = released.frame.join(
        other.frame.toDF(*renamed), [sf.col(name) == sf.col(f"other_{name}") for name in ID_COLUMNS], "inner"
    )
    behind = renamed[: len(columns)]
    names = [*released.layout.names(released.schema.names), *behind]
    chosen = [sf.col(name).alias(new) for name, new in zip(names, layout.arrow.names, strict=True)]
    return SparkTable(joined.select(*chosen), layout, at_most=released.bound)


def thinned(table: SparkTable, share: float) -> SparkTable:
    """See `Engine.thinned`; the others never leave the executors."""
    from pyspark.sql import functions as sf

    kept = table.frame.where(sf.col(ID_COLUMNS[0]) <= sf.lit(last_id_of(share)))
    return SparkTable(kept, table.layout, at_most=table.bound)
