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
from privpipe.engines.spark.class_table import fits_here
from privpipe.engines.spark.counting import WORDS, CellReader, cells_of, class_words, gathered, new_salt
from privpipe.engines.spark.driver_room import fits_driver
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.versions import arrow_table, frame_of
from privpipe.engines.spark.workers import map_raw

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
    records : int, optional
        In them, where sizes are numbers of records.
    all : bool
        Whether no class fails.
    """

    words: Any
    records: int | None = None
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
    salt = new_salt()
    if fits_here(table, Facts(), len(query.columns)):
        passed = _judged_here(table, query, passing, salt)
    else:
        passed = _judged_in_place(table, query, passing, salt, keep)
    if passed.all:
        return replace(table)
    rows = table.frame.select("*", *class_words(table, query, salt))
    kept = rows.join(passed.words, list(WORDS), "left_semi").select(*table.layout.arrow.names)
    known = {} if passed.records is None else {"records": passed.records}
    return SparkTable(kept, table.layout, known, at_most=table.bound)


def _judged_here(table: SparkTable, query: ClassQuery, passing: Passing, salt: int) -> _Passed:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import LongType, StructField, StructType

    with reported("count the cells"):
        cells = arrow_table(cells_of(table, query, salt))
    found, records, failing = [np.empty((0, 2), np.int64)], 0, 0
    for block, words in CellReader.of(table, query).sorted_blocks(cells):
        kept = passing(block)
        found.append(words[kept])
        records += int(block.sizes[kept].sum())
        failing += int((~kept).sum())
    chosen = np.concatenate(found)
    rows = pa.table([pa.array(chosen[:, at]) for at in range(2)], names=list(WORDS))
    struct = StructType([StructField(name, LongType()) for name in WORDS])
    with reported("send the classes to Spark"):
        sent = frame_of(table.frame.sparkSession, rows, struct)
    sent = sf.broadcast(sent) if _may_be_sent(table, len(chosen)) else sent
    return _Passed(sent, _of_records(query, records), all=not failing)


def _judged_in_place(
    table: SparkTable,
    query: ClassQuery,
    passing: Passing,
    salt: int,
    keep: Callable[[DataFrame], DataFrame] | None,
) -> _Passed:
    from pyspark.sql import functions as sf

    reader = CellReader.of(table, query)

    def chosen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block, words in reader.blocks(batches):
            kept = passing(block)
            columns = [words[kept][:, 0], words[kept][:, 1], block.sizes[kept]]
            yield pa.record_batch([pa.array(each) for each in columns], names=[*WORDS, SIZE])

    schema = ", ".join(f"{name} long" for name in (*WORDS, SIZE))
    passed = map_raw(gathered(cells_of(table, query, salt)), chosen, schema)
    if keep is None:
        return _Passed(passed.select(*WORDS))
    passed = keep(passed)
    with reported("count the classes that pass"):
        classes, records = passed.agg(sf.count(sf.lit(1)), sf.sum(SIZE)).collect()[0]
    words = passed.select(*WORDS)
    words = sf.broadcast(words) if _may_be_sent(table, classes) else words
    return _Passed(words, _of_records(query, int(records or 0)))


def _may_be_sent(table: SparkTable, classes: int) -> bool:
    return classes <= MOST_SENT and fits_driver(table.frame.sparkSession, classes * CLASS_BYTES)


def _of_records(query: ClassQuery, sizes: int) -> int | None:
    return sizes if query.person is None and query.weight is None else None
