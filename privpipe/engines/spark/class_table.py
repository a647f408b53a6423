"""Queries over the class table: its blocks, and a reduction over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Reduction
from privpipe.engines.base.assembly import COUNT, block_of_cells, may_be_marked, require_query_columns
from privpipe.engines.base.contract import Where
from privpipe.engines.base.histograms import find_codes, not_covered
from privpipe.engines.spark.class_parts import counted_where_they_lie
from privpipe.engines.spark.class_sizes import Sized, counts_records, sized_blocks
from privpipe.engines.spark.counting import CellReader, cells_of, class_words, new_salt
from privpipe.engines.spark.driver_room import fits_here
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.learning import histograms_of, learn
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.versions import arrow_table
from privpipe.engines.spark.workers import fold
from privpipe.errors import DataError

__all__ = ["collected_blocks", "explain", "reduced"]

R = TypeVar("R")


def collected_blocks(table: SparkTable, query: ClassQuery) -> Iterator[ClassBlock]:
    """Blocks of whole classes, from cells brought to the driver."""
    require_query_columns(table.schema, query)
    with reported("count the cells"):
        cells = arrow_table(cells_of(table, query, new_salt()))
    try:
        yield from (block for block, _ in CellReader.of(table, query).sorted_blocks(cells))
    except DataError:
        explain(table, query)
        raise


def reduced(
    table: SparkTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts, where: Where
) -> R | None:
    """The reduction over the class table, wherever it costs least; sizes of classes are counted at most once."""
    blocks = sized_blocks(table, query) if where == "auto" else None
    if blocks is not None:
        return _folded(blocks, reduction, facts)
    here = where == "driver" or (where == "auto" and fits_here(table, facts, len(query.columns)))
    reduce = reduced_here if here else reduced_in_place
    if not counts_records(query):
        return reduce(table, query, reduction, facts)
    found = reduce(table, query, Sized(reduction, query.mark if may_be_marked(query) else None), facts)
    if found is None:
        return None
    table.counts.sizes[frozenset(query.keys)] = found[1]
    whole: R = found[0]
    return whole


def _folded(blocks: Iterator[ClassBlock], reduction: Reduction[ClassBlock, R], facts: Facts) -> R | None:
    found: R | None = None
    for block in blocks:
        part = reduction.measure(block, facts)
        found = part if found is None else reduction.merge(found, part)
    return found


def reduced_here(table: SparkTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts) -> R | None:
    """The reduction over collected blocks."""
    return _folded(collected_blocks(table, query), reduction, facts)


def reduced_in_place(
    table: SparkTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    """The reduction over blocks that never leave the workers."""
    require_query_columns(table.schema, query)
    rows = table.frame.select("*", *class_words(table, query, new_salt()))
    reader, counted = counted_where_they_lie(rows, table, query)
    try:
        measure = reader.measured(lambda block: reduction.measure(block, facts))
        return fold(counted, measure, reduction.merge, "measure the classes")
    except DataError:
        explain(table, query)
        raise


def explain(table: SparkTable, query: ClassQuery) -> None:
    """Count what a block found amiss over the whole table, so that every partitioning says the same.

    Raises
    ------
    DataError
        Values that a dictionary lacks, records without a weight.
    """
    if query.weight is not None:
        nulls = learn(table, FactsRequest(nulls=(query.weight,))).nulls[query.weight]
        if nulls:  # the shared code says it in the shared words
            cell = pa.table({query.weight: pa.nulls(1, pa.float64()), COUNT: pa.array([nulls], pa.int64())})
            block_of_cells(cell, ClassQuery(keys=(), weight=query.weight))
    columns = [name for name in dict.fromkeys(query.columns) if name in query.dictionaries]
    for name, found in histograms_of(table, columns).items():
        missing = int((find_codes(found.values, query.dictionaries[name]) < 0).sum())
        if missing:
            raise not_covered(name, missing)
