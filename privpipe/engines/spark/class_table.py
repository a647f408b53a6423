"""The class table on Spark: sizes of classes, a reduction over its blocks, and the records of the classes that pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from privpipe.blocks import ClassBlock, ClassQuery, Facts, Reduction
from privpipe.blocks.arrays import Bools
from privpipe.blocks.requests import Where
from privpipe.engines.base.class_blocks import (
    COUNT,
    KnownSizes,
    WithSizes,
    grouping_columns,
    may_be_marked,
    require_query_columns,
)
from privpipe.engines.distributed.class_parts import SIZE, WORDS, explained
from privpipe.engines.spark.class_cells import (
    MARKED,
    cell_reader,
    cells_in,
    cells_of,
    class_words,
    counted_where_they_lie,
    new_salt,
)
from privpipe.engines.spark.driver_memory import fits_driver, fits_here, require_room, room_for_results
from privpipe.engines.spark.facts import learn
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.spark_table import LeftOut, SparkTable
from privpipe.engines.spark.versions import arrow_table, frame_of
from privpipe.engines.spark.workers import fold, map_raw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["collected_blocks", "counts_records", "keep_classes", "reduced", "sized_blocks"]


CLASSES_HERE = 1 << 26
"""More classes are measured where they lie, by all workers at once."""
FLAG, NUMBER = "__privpipe_marked", "__privpipe_number"


def counts_records(query: ClassQuery) -> bool:
    """Whether sizes are numbers of records, of classes that keys distinguish."""
    return bool(query.keys) and query.person is None and query.weight is None


def sized_blocks(table: SparkTable, query: ClassQuery) -> Iterator[ClassBlock] | None:
    """The classes of a query that asks for nothing but their sizes, from a few numbers; None where they are too many.

    A count over the same keys that came before is not done again.
    """
    require_query_columns(table.schema, query)
    if query.columns or not counts_records(query):
        return None
    found = table.counts.sizes.get(frozenset(query.keys))
    if found is None or not found.answers(query):
        found = _counted(table, query)
        table.counts.sizes[frozenset(query.keys)] = found
    return found.blocks(query) if sum(found.classes.values()) <= CLASSES_HERE else None


def _counted(table: SparkTable, query: ClassQuery) -> KnownSizes:
    return _counted_here(table, query) if fits_here(table, Facts()) else _counted_by_spark(table, query)


def _counted_here(table: SparkTable, query: ClassQuery) -> KnownSizes:
    """From the words of every record: a hash table of them here costs less than one in every part, and a shuffle."""
    from privpipe.kernels.grouping.word_groups import group_rows

    with reported("count the classes"):
        found = arrow_table(table.frame.select(*class_words(table, query, new_salt())))
    words = np.column_stack([found.column(name).to_numpy() for name in WORDS])
    groups, firsts = group_rows(words)
    sizes = np.bincount(groups, minlength=len(firsts))
    marked = (words[firsts] == np.array(MARKED)).all(axis=1) if may_be_marked(query) else None
    return KnownSizes.of(ClassBlock(sizes, marked=marked), query.mark if may_be_marked(query) else None)


def _counted_by_spark(table: SparkTable, query: ClassQuery) -> KnownSizes:
    from pyspark.sql import functions as sf

    marks = may_be_marked(query)
    flag = (sf.col(WORDS[0]) == MARKED[0]) & (sf.col(WORDS[1]) == MARKED[1]) if marks else sf.lit(False)
    sizes = cells_of(table, query, new_salt()).select(flag.alias(FLAG), COUNT).groupBy(FLAG, COUNT)
    with reported("count the classes"):
        found = arrow_table(sizes.agg(sf.count(sf.lit(1)).alias(NUMBER)))
    flags, numbers, classes = (found.column(name).to_pylist() for name in (FLAG, COUNT, NUMBER))
    return KnownSizes(query.mark if marks else None, dict(zip(zip(flags, numbers, strict=True), classes, strict=True)))


R = TypeVar("R")


def collected_blocks(table: SparkTable, query: ClassQuery) -> Iterator[ClassBlock]:
    """Blocks of whole classes, from cells brought to the driver."""
    require_query_columns(table.schema, query)
    if query.keys or query.columns:
        require_room(table, [grouping_columns(query)], "cells of classes")
    with reported("count the cells"):
        cells = arrow_table(cells_of(table, query, new_salt()))
    with _explained(table, query):
        yield from (block for block, _ in cell_reader(table, query).sorted_blocks(cells))


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
    found = reduce(table, query, WithSizes(reduction, query.mark if may_be_marked(query) else None), facts)
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
    with _explained(table, query):
        measure = reader.measured(lambda block: reduction.measure(block, facts))
        room = room_for_results(table, grouping_columns(query), "the figures of the classes")
        return fold(counted, measure, reduction.merge, "measure the classes", room)


def _explained(table: SparkTable, query: ClassQuery) -> AbstractContextManager[None]:
    return explained(query, lambda request: learn(table, request))


Passing = Callable[[ClassBlock], Bools]
MOST_SENT = 1 << 20
"""Classes of which every executor gets a list; of more, records and classes are brought together."""
CLASS_BYTES = 32
"""Of a class in that list, packed as rows of Spark's."""


@dataclass(frozen=True, repr=False)
class _Passed:
    """Classes that pass.

    Parameters
    ----------
    words : pyspark.sql.DataFrame
        Of the classes.
    sent : bool
        Whether every executor gets them.
    records : int, optional
        In them, where sizes are numbers of records.
    failing : int, optional
        Records in the other classes, likewise.
    all : bool
        Whether no class fails.
    """

    words: Any
    sent: bool
    records: int | None = None
    failing: int | None = None
    all: bool = False


def keep_classes(
    table: SparkTable, query: ClassQuery, passing: Passing, keep: Callable[[DataFrame], DataFrame] | None
) -> SparkTable:
    """The records of passing classes; a class that was not judged is dropped with the failing ones.

    Parameters
    ----------
    keep : callable, optional
        Persists a frame; without it nothing is kept of classes that are on the executors.
    """
    require_query_columns(table.schema, query)
    names = table.layout.arrow.names
    # Labels are looked up and words hashed once, for the count and for what is kept.
    rows = table.frame.select("*", *class_words(table, query, new_salt()))
    rows = rows if keep is None else keep(rows)
    if fits_here(table, Facts(), len(query.columns)):
        passed = _judged_here(rows, table, query, passing)
    else:
        passed = _judged_in_place(rows, table, query, passing, keep)
    if passed.all:
        return replace(table, frame=rows.select(*names))
    kept = rows.join(passed.words, list(WORDS), "left_semi").select(*names)
    if keep is not None and not passed.sent:
        kept = keep(kept)
        with reported("bring the records to the classes that pass"):
            kept.count()
        rows.unpersist()  # it is no longer read
    known = {} if passed.records is None else {"records": passed.records}
    left_out = None
    if keep is not None and passed.sent and passed.failing is not None and passed.failing <= (passed.records or 0):
        # Columns are counted by these, which are fewer.
        others = rows.join(passed.words, list(WORDS), "left_anti").select(*names)
        left_out = LeftOut(SparkTable(others, table.layout, {"records": passed.failing}), table.learned)
    return SparkTable(kept, table.layout, known, at_most=table.bound, left_out=left_out)


def _judged_here(rows: DataFrame, table: SparkTable, query: ClassQuery, passing: Passing) -> _Passed:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import LongType, StructField, StructType

    with reported("count the cells"):
        cells = arrow_table(cells_in(rows, table, query))
    found, records, others, failing = [np.empty((0, 2), np.int64)], 0, 0, 0
    for block, classes in cell_reader(table, query).sorted_blocks(cells):
        kept = passing(block)
        found.append(classes[kept])
        records += int(block.sizes[kept].sum())
        others += int(block.sizes[~kept].sum())
        failing += int((~kept).sum())
    chosen = np.concatenate(found)
    listed = pa.table([pa.array(chosen[:, at]) for at in range(2)], names=list(WORDS))
    struct = StructType([StructField(name, LongType()) for name in WORDS])
    with reported("send the classes to Spark"):
        words = frame_of(table.frame.sparkSession, listed, struct)
    sent = _may_be_sent(table, len(chosen))
    words = sf.broadcast(words) if sent else words
    return _Passed(words, sent, _of_records(query, records), _of_records(query, others), all=not failing)


def _judged_in_place(
    rows: DataFrame,
    table: SparkTable,
    query: ClassQuery,
    passing: Passing,
    keep: Callable[[DataFrame], DataFrame] | None,
) -> _Passed:
    from pyspark.sql import functions as sf

    reader, counted = counted_where_they_lie(rows, table, query)

    def chosen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block, words in reader.blocks(batches):
            kept = passing(block)
            columns = [words[kept][:, 0], words[kept][:, 1], block.sizes[kept]]
            yield pa.record_batch([pa.array(each) for each in columns], names=[*WORDS, SIZE])

    schema = ", ".join(f"{name} long" for name in (*WORDS, SIZE))
    passed = map_raw(counted, chosen, schema)
    if keep is None:
        return _Passed(passed.select(*WORDS), sent=False)
    passed = keep(passed)
    with _explained(table, query), reported("count the classes that pass"):
        classes, records = passed.agg(sf.count(sf.lit(1)), sf.sum(SIZE)).collect()[0]
    words = passed.select(*WORDS)
    sent = _may_be_sent(table, classes)
    inside, all_records = _of_records(query, int(records or 0)), table.remembered.get("records")
    outside = None if inside is None or all_records is None else all_records - inside
    return _Passed(sf.broadcast(words) if sent else words, sent, inside, outside, all=outside == 0)


def _may_be_sent(table: SparkTable, classes: int) -> bool:
    return classes <= MOST_SENT and fits_driver(table.frame.sparkSession, classes * CLASS_BYTES)


def _of_records(query: ClassQuery, sizes: int) -> int | None:
    return sizes if query.person is None and query.weight is None else None
