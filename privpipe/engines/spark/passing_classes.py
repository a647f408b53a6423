"""The records of the classes that pass: few classes are judged on the driver, many where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery, Facts
from privpipe.engines.base.assembly import require_query_columns
from privpipe.engines.spark.class_parts import counted_where_they_lie
from privpipe.engines.spark.class_table import explain
from privpipe.engines.spark.counting import WORDS, CellReader, cells_in, class_words, new_salt
from privpipe.engines.spark.driver_room import fits_driver, fits_here
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.table import LeftOut, SparkTable
from privpipe.engines.spark.versions import arrow_table, frame_of
from privpipe.engines.spark.workers import map_raw
from privpipe.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["keep_classes"]

Passing = Callable[[ClassBlock], NDArray[np.bool_]]
SIZE = "__privpipe_size"
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
    """The records of passing classes; a class that nobody judged is gone with the failing ones.

    Parameters
    ----------
    keep : callable, optional
        Persists a frame; without it nothing is kept of classes that lie on the executors.
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
        rows.unpersist()  # nobody reads it any more
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
    for block, classes in CellReader.of(table, query).sorted_blocks(cells):
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
    try:
        with reported("count the classes that pass"):
            classes, records = passed.agg(sf.count(sf.lit(1)), sf.sum(SIZE)).collect()[0]
    except DataError:
        explain(table, query)
        raise
    words = passed.select(*WORDS)
    sent = _may_be_sent(table, classes)
    inside, all_records = _of_records(query, int(records or 0)), table.remembered.get("records")
    outside = None if inside is None or all_records is None else all_records - inside
    return _Passed(sf.broadcast(words) if sent else words, sent, inside, outside, all=outside == 0)


def _may_be_sent(table: SparkTable, classes: int) -> bool:
    return classes <= MOST_SENT and fits_driver(table.frame.sparkSession, classes * CLASS_BYTES)


def _of_records(query: ClassQuery, sizes: int) -> int | None:
    return sizes if query.person is None and query.weight is None else None
