"""Functions of row blocks: mapped, grouped by a key, reduced, and reduced over pairs of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, Facts, PairBlock, Reduction, RowBlock
from privpipe.engines.base.besides import beside_schema
from privpipe.engines.base.histograms import group_key
from privpipe.engines.spark.layout import Layout
from privpipe.engines.spark.learning import histograms_of
from privpipe.engines.spark.runs import together, whole_runs
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.workers import fold, map_batches
from privpipe.errors import DataError

__all__ = ["beside", "map_groups", "map_rows", "recode", "reduce_pairs", "reduce_rows"]

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


def recode(table: SparkTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> SparkTable:
    """See `Engine.recode`; a codebook travels in the function, for values in a plan would reach the event log."""
    books = {name: (group_key(values), labels) for name, (values, labels) in codebooks.items()}
    _require_known(table, books)
    fields = [field.with_type(books[field.name][1].type) if field.name in books else field for field in table.schema]

    def run(rows: RowBlock) -> RowBlock:
        for name, (values, labels) in books.items():
            found = _positions(rows.column(name), values)
            if found.null_count:
                raise _unknown(name, found.null_count)
            rows = rows.replace(name, labels.take(found))
        return rows

    return replace(map_rows(table, run, pa.schema(fields)), remembered=table.remembered)


def _require_known(table: SparkTable, books: Mapping[str, tuple[pa.Array, Any]]) -> None:
    """Count the distinct values rather than the records: that is done where they lie, and once."""
    for name, found in histograms_of(table, list(books)).items():
        missing = pc.is_null(_positions(found.values, books[name][0])).to_numpy(zero_copy_only=False)
        if missing.any():
            raise _unknown(name, int(found.counts[missing].sum()))


def _positions(column: pa.Array, values: pa.Array) -> pa.Array:
    return pc.index_in(group_key(column), value_set=values.cast(column.type))


def _unknown(name: str, count: int) -> DataError:
    return DataError(
        f"column {name!r}: {count:,} record{'s hold values' if count != 1 else ' holds a value'} that "
        "the codebook lacks"
    )
