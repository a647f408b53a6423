"""Queries over the class table: its blocks, a reduction over them, the records of the classes that pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Reduction
from privpipe.engines.base.assembly import COUNT, block_of_cells, require_query_columns
from privpipe.engines.base.histograms import find_codes, not_covered
from privpipe.engines.spark.class_parts import PartReader, parts_of
from privpipe.engines.spark.counting import WORDS, CellReader, cells_of, class_words, gathered, new_salt
from privpipe.engines.spark.driver_room import result_limit
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.learning import histograms_of, learn
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.versions import arrow_table
from privpipe.engines.spark.workers import fold, map_raw
from privpipe.errors import DataError

__all__ = ["collected_blocks", "fits_here", "keep_classes", "reduced_here", "reduced_in_place"]

R = TypeVar("R")
RECORDS_HERE = 2_000_000
"""A table of at most so many records has few enough cells for the driver."""


CELL_BYTES = 40
"""Of a collected cell: its class, its code and its count, as Arrow and once more as it is sent."""


def fits_here(table: SparkTable, facts: Facts, columns: int = 1) -> bool:
    """Whether the cells of so many columns are few enough for the driver, as far as it is known without a count.

    Few enough are those of a small table whose cells stay within what the driver may collect.
    """
    known = [bound for bound in (table.bound, facts.records) if bound is not None and bound >= 0]
    if not known or min(known) > RECORDS_HERE:
        return False
    limit = result_limit(table.frame.sparkSession)
    return not limit or min(known) * CELL_BYTES * max(columns, 1) <= limit


def collected_blocks(table: SparkTable, query: ClassQuery) -> Iterator[ClassBlock]:
    """Blocks of whole classes, from cells brought to the driver."""
    require_query_columns(table.schema, query)
    with reported("count the cells"):
        cells = arrow_table(cells_of(table, query, new_salt()))
    try:
        yield from CellReader.of(table, query).sorted_blocks(cells)
    except DataError:
        _explain(table, query)
        raise


def reduced_here(table: SparkTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts) -> R | None:
    """The reduction over collected blocks."""
    found: R | None = None
    for block in collected_blocks(table, query):
        part = reduction.measure(block, facts)
        found = part if found is None else reduction.merge(found, part)
    return found


def reduced_in_place(
    table: SparkTable, query: ClassQuery, reduction: Reduction[ClassBlock, R], facts: Facts
) -> R | None:
    """The reduction over blocks that never leave the workers."""
    require_query_columns(table.schema, query)
    reader: CellReader | PartReader
    if query.person is None and query.weight is None:
        reader = PartReader.of(table, query)
        rows = parts_of(table, reader)
    else:
        reader = CellReader.of(table, query)
        rows = gathered(cells_of(table, query, new_salt()))
    try:
        measure = reader.measured(lambda block: reduction.measure(block, facts))
        return fold(rows, measure, reduction.merge, "measure the classes")
    except DataError:
        _explain(table, query)
        raise


def keep_classes(
    table: SparkTable, query: ClassQuery, passing: Callable[[ClassBlock], NDArray[np.bool_]]
) -> SparkTable:
    """The records of passing classes; a class that nobody judged is gone with the failing ones."""
    require_query_columns(table.schema, query)
    salt = new_salt()
    reader = CellReader.of(table, query)

    def chosen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block, words in reader.blocks(batches):
            kept = words[passing(block)]
            yield pa.record_batch([pa.array(kept[:, 0]), pa.array(kept[:, 1])], names=list(WORDS))

    passed = map_raw(gathered(cells_of(table, query, salt)), chosen, f"{WORDS[0]} long, {WORDS[1]} long")
    rows = table.frame.select("*", *class_words(table, query, salt))
    kept = rows.join(passed, list(WORDS), "left_semi").select(*table.layout.arrow.names)
    return SparkTable(kept, table.layout, at_most=table.bound)


def _explain(table: SparkTable, query: ClassQuery) -> None:
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
