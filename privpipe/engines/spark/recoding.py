"""Values replaced by labels: joined to a broadcast codebook, or looked up on the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.blocks import Histogram, RowBlock
from privpipe.engines.base.histograms import group_key, histogram_of
from privpipe.engines.spark.driver_room import fits_driver
from privpipe.engines.spark.failures import reported, sealed
from privpipe.engines.spark.layout import Layout, physical, spark_type
from privpipe.engines.spark.learning import histograms_of
from privpipe.engines.spark.mapping import map_rows
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.versions import frame_of
from privpipe.errors import DataError, EngineError

__all__ = ["recode"]

VALUE, LABEL, FOUND = "__privpipe_value", "__privpipe_label", "__privpipe_found"
MOST_ENTRIES = 1 << 20
"""Entries of codebooks that are sent to every executor as a table."""
ENTRY_BYTES = 48
"""Of an entry beside its value and its label, packed as a row of Spark's."""


@dataclass(frozen=True, repr=False)
class _Book:
    """The codebook of one column, each value once."""

    values: pa.Array
    labels: pa.Array

    @classmethod
    def of(cls, values: pa.Array, labels: pa.Array, kind: pa.DataType) -> _Book:
        """Values as they are compared when counted; of equal ones the first decides."""
        values = group_key(values).cast(kind)
        first = pc.index_in(values.unique(), value_set=values)
        return cls(values.take(first), labels.take(first))

    def positions(self, column: pa.Array) -> pa.Array:
        """Where each value stands, null where it does not."""
        return pc.index_in(group_key(column), value_set=self.values)

    @property
    def plain(self) -> bool:
        """Whether Spark compares such values as they are compared here."""
        return all(
            pt.is_string(kind) or pt.is_int64(kind) or pt.is_boolean(kind) or pt.is_date32(kind)
            for kind in (self.values.type, self.labels.type)
        )


def recode(table: SparkTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> SparkTable:
    """See `Engine.recode`.

    A codebook travels in a function or as a table: values in an expression would reach the event log.
    """
    books = {
        name: _Book.of(values, labels, table.schema.field(name).type) for name, (values, labels) in codebooks.items()
    }
    seen = _require_known(table, books)
    made = _joined(table, books) if _may_be_joined(table, books) else _looked_up(table, books)
    learned = {name: each for name, each in table.learned.items() if name not in books}
    learned |= {name: _relabelled(seen[name], book) for name, book in books.items() if name in table.learned}
    return replace(made, remembered=table.remembered, at_most=table.at_most, learned=learned)


def _may_be_joined(table: SparkTable, books: Mapping[str, _Book]) -> bool:
    entries = [len(book.values) * ENTRY_BYTES + book.values.nbytes + book.labels.nbytes for book in books.values()]
    few = sum(len(book.values) for book in books.values()) <= MOST_ENTRIES
    return few and all(book.plain for book in books.values()) and fits_driver(table.frame.sparkSession, sum(entries))


def _joined(table: SparkTable, books: Mapping[str, _Book]) -> SparkTable:
    from pyspark.sql import functions as sf

    frame, out = table.frame, _layout(table, books)
    columns = {name: table.column(name) for name in table.schema.names}
    for at, (name, book) in enumerate(books.items()):
        names = [f"{part}{at}" for part in (VALUE, LABEL, FOUND)]
        rows = pa.table([book.values, book.labels, pa.array(np.ones(len(book.values), np.bool_))], names=names)
        with reported("send a codebook to Spark"):
            sent = frame_of(frame.sparkSession, rows, _struct(rows.schema))
        frame = frame.join(sf.broadcast(sent), table.counted(name).eqNullSafe(sf.col(names[0])), "left")
        # The values were counted before; where they differ now, nothing may pass for a label.
        gone = sf.raise_error(sf.lit(sealed(EngineError(f"column {name!r}: its values changed during the run"))))
        columns[name] = sf.when(sf.isnull(names[2]), gone.cast(spark_type(book.labels.type))).otherwise(
            sf.col(names[1])
        )
    chosen = [columns[name].alias(physical(at)) for at, name in enumerate(table.schema.names)]
    return SparkTable(frame.select(*chosen, *table.layout.hidden), out)


def _struct(schema: pa.Schema) -> Any:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, spark_type(field.type)) for field in schema])


def _looked_up(table: SparkTable, books: Mapping[str, _Book]) -> SparkTable:
    def run(rows: RowBlock) -> RowBlock:
        for name, book in books.items():
            found = book.positions(rows.column(name))
            if found.null_count:
                raise _unknown(name, found.null_count)
            rows = rows.replace(name, book.labels.take(found))
        return rows

    return map_rows(table, run, _layout(table, books).schema)


def _layout(table: SparkTable, books: Mapping[str, _Book]) -> Layout:
    fields = [
        field.with_type(books[field.name].labels.type) if field.name in books else field for field in table.schema
    ]
    return replace(table.layout, schema=pa.schema(fields))


def _require_known(table: SparkTable, books: Mapping[str, _Book]) -> dict[str, Histogram]:
    """Count the distinct values rather than the records: that is done where they lie, and once."""
    seen = histograms_of(table, list(books))
    for name, found in seen.items():
        missing = pc.is_null(books[name].positions(found.values)).to_numpy(zero_copy_only=False)
        if missing.any():
            raise _unknown(name, int(np.asarray(found.counts)[missing].sum()))
    return seen


def _relabelled(found: Histogram, book: _Book) -> Histogram:
    """The histogram of the labels."""
    return histogram_of(book.labels.take(book.positions(found.values)), pa.array(found.counts))


def _unknown(name: str, count: int) -> DataError:
    return DataError(
        f"column {name!r}: {count:,} record{'s hold values' if count != 1 else ' holds a value'} that "
        "the codebook lacks"
    )
