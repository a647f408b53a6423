"""The class table: cells counted by Spark, brought together by class, measured where they lie or collected."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.engines.base.assembly import COUNT, block_of_cells, grouping_columns, may_be_marked
from privpipe.engines.spark.layout import as_type, physical
from privpipe.engines.spark.table import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "MARKED",
    "WORDS",
    "CellReader",
    "cells_in",
    "cells_of",
    "class_words",
    "gathered",
    "new_salt",
    "value_columns",
    "whole_classes",
]

WORDS = ("__privpipe_k0", "__privpipe_k1")
"""Hidden columns with the 128 bits that stand for a class."""
MARKED = (-0x1E3779B97F4A7C15, 0x7F4A7C15BF58476D)
"""Words of the class of nothing but the mark, as unlikely as any other two for a class that is not."""
CLASS = "__privpipe_class"
BLOCK_CELLS = 1 << 18


def class_words(table: SparkTable, query: ClassQuery, salt: int) -> tuple[Column, Column]:
    """Two 64-bit words that distinguish classes, for any types and with nulls as values of their own.

    Grouping on words instead of columns makes the shuffle and the sort some three times cheaper.
    """
    from pyspark.sql import functions as sf

    if not query.keys:
        return sf.lit(0).cast("long").alias(WORDS[0]), sf.lit(0).cast("long").alias(WORDS[1])
    keys = [table.counted(name) for name in query.keys]
    # The hash skips nulls, so ('a', null) and (null, 'a') differ by this mask alone.
    masks = [
        sum(
            (sf.isnull(key).cast("long") * (1 << bit) for bit, key in enumerate(keys[start : start + 62])),
            sf.lit(0).cast("long"),
        )
        for start in range(0, len(keys), 62)
    ]
    # The salt is no secret; whoever wrote the data before it was drawn cannot have aimed at a collision.
    # As text it stays out of the code that Spark generates, which then serves every query of this shape.
    seed = sf.lit(f"{salt:016x}")
    words = [sf.xxhash64(seed, *masks, *keys), sf.xxhash64(*reversed(keys), *masks, seed)]
    if may_be_marked(query):
        bears_mark = sf.lit(True)
        for name, key in zip(query.keys, keys, strict=True):
            text = pa.types.is_string(table.schema.field(name).type)
            bears_mark &= sf.coalesce(key == sf.lit(query.mark), sf.lit(False)) if text else sf.isnull(key)
        words = [sf.when(bears_mark, sf.lit(mark)).otherwise(word) for mark, word in zip(MARKED, words, strict=True)]
    return words[0].alias(WORDS[0]), words[1].alias(WORDS[1])


def cells_of(table: SparkTable, query: ClassQuery, salt: int) -> DataFrame:
    """Joint cells: class words, the query's other columns by position, the number of records."""
    return cells_in(table.frame.select("*", *class_words(table, query, salt)), table, query)


def cells_in(rows: DataFrame, table: SparkTable, query: ClassQuery) -> DataFrame:
    """The same of rows of a table that have the words of their class beside them."""
    from pyspark.sql import functions as sf

    names = value_columns(query)
    columns = [table.counted(name).alias(physical(at)) for at, name in enumerate(names)]
    grouped = rows.select(*WORDS, *columns).groupBy(*WORDS, *(physical(at) for at in range(len(names))))
    return grouped.agg(sf.count(sf.lit(1)).alias(COUNT))


def gathered(cells: DataFrame) -> DataFrame:
    """The cells with those of a class in one partition, sorted by its first word; see `whole_classes`.

    Spark sorts by one integer in a third of the time that it takes for two.
    """
    return cells.repartition(WORDS[0]).sortWithinPartitions(WORDS[0])


def new_salt() -> int:
    """A salt for one query."""
    return secrets.randbits(63)


def value_columns(query: ClassQuery) -> list[str]:
    """Columns of the query that are counted inside a class: sensitive values, weight, person."""
    return list(grouping_columns(replace(query, keys=())))


@dataclass(frozen=True)
class CellReader:
    """Class blocks from batches of sorted cells.

    Parameters
    ----------
    query : ClassQuery
    types : tuple of pyarrow.DataType
        Of `value_columns(query)`.
    markable : bool
    """

    query: ClassQuery = field(repr=False)
    types: tuple[pa.DataType, ...]
    markable: bool

    @classmethod
    def of(cls, table: SparkTable, query: ClassQuery) -> CellReader:
        """The reader of a query on a table."""
        types = tuple(table.schema.field(name).type for name in value_columns(query))
        return cls(query, types, may_be_marked(query))

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """Blocks of whole classes, each with the words of its classes, shape (n_classes, 2)."""
        for cells in whole_classes(batches, lambda batch: batch.num_rows, BLOCK_CELLS):
            yield self.block(cells)

    def block(self, cells: pa.Table) -> tuple[ClassBlock, NDArray[np.int64]]:
        """The block of sorted cells, and its classes' words."""
        words = _words(cells)
        fresh = np.ones(len(words), np.bool_)
        fresh[1:] = (words[1:] != words[:-1]).any(axis=1)
        names = value_columns(self.query)
        columns = {CLASS: pa.array(np.cumsum(fresh)), COUNT: cells.column(COUNT)}
        for at, (name, kind) in enumerate(zip(names, self.types, strict=True)):
            columns[name] = as_type(cells.column(physical(at)), kind)
        # Numbered as they come, the classes keep their order.
        block = block_of_cells(pa.table(columns), replace(self.query, keys=(CLASS,), mark=None))
        classes = words[fresh]
        if self.markable:
            block = replace(block, marked=(classes == np.array(MARKED)).all(axis=1))
        return block, classes

    def sorted_blocks(self, cells: pa.Table) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """As `blocks`, of collected cells, which come in any order."""
        words = _words(cells)
        cells = cells.take(pa.array(np.lexsort((words[:, 1], words[:, 0]))))
        yield from self.blocks(iter(cells.combine_chunks().to_batches(max_chunksize=BLOCK_CELLS)))

    def measured(self, measure: Callable[[ClassBlock], Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
        """A function from the batches of a partition to the figures of its blocks."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
            for block, _ in self.blocks(batches):
                yield measure(block)

        return run


def whole_classes(
    batches: Iterator[pa.RecordBatch], weigh: Callable[[pa.RecordBatch], int], least: int
) -> Iterator[pa.Table]:
    """Rows sorted by the first word of their class, cut between classes as soon as there are enough by weight.

    They come out sorted by both words: classes that share the first by chance would be counted in pieces.
    """
    waiting: list[pa.RecordBatch] = []
    weight, enough = 0, least
    for batch in batches:
        waiting.append(batch)
        weight += weigh(batch)
        if weight < enough:
            continue
        rows = pa.Table.from_batches(waiting)
        border = _last_border(_words(rows))
        if border:
            yield _sorted_by_both(rows.slice(0, border))
            waiting = rows.slice(border).to_batches()
            weight, enough = sum(map(weigh, waiting)), least
        else:
            enough = 2 * weight  # one huge class: look again when there is as much once more
    if any(batch.num_rows for batch in waiting):
        yield _sorted_by_both(pa.Table.from_batches(waiting))


def _sorted_by_both(rows: pa.Table) -> pa.Table:
    """Rows in order of the first word, in order of both."""
    words = _words(rows)
    falls = (words[1:, 0] == words[:-1, 0]) & (words[1:, 1] < words[:-1, 1])
    return rows.take(pa.array(np.lexsort((words[:, 1], words[:, 0])))) if falls.any() else rows


def _words(cells: pa.Table) -> NDArray[np.int64]:
    return np.column_stack([cells.column(name).to_numpy() for name in WORDS])


def _last_border(words: NDArray[np.int64]) -> int:
    """Where the last classes of one first word start; more of them may follow."""
    changes = np.flatnonzero(words[1:, 0] != words[:-1, 0])
    return int(changes[-1]) + 1 if len(changes) else 0
