"""The Spark engine's handle on a table: a frame and the layout of its columns by position; two tables as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS, Histogram, RowBlock
from privpipe.engines.base.batches import as_type
from privpipe.engines.base.class_blocks import KnownSizes
from privpipe.engines.base.logical_types import require_same, stacked_schema
from privpipe.engines.distributed.columns import column_name
from privpipe.engines.distributed.row_functions import fitted
from privpipe.engines.spark.failures import reported

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from privpipe.draws import Seed

__all__ = [
    "Counts",
    "Hashed",
    "Layout",
    "LeftOut",
    "SparkTable",
    "append",
    "as_counted",
    "count_records",
    "select",
    "spark_type",
    "stack",
]


def spark_type(kind: pa.DataType) -> DataType:
    """The Spark type of a logical type."""
    from pyspark.sql import types

    if pt.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    if pt.is_timestamp(kind):
        return types.TimestampType() if kind.tz else types.TimestampNTZType()
    known = {
        pa.string(): types.StringType,
        pa.int64(): types.LongType,
        pa.float64(): types.DoubleType,
        pa.date32(): types.DateType,
        pa.bool_(): types.BooleanType,
        pa.binary(): types.BinaryType,
    }
    return known[kind]()


@dataclass(frozen=True)
class Layout:
    """Columns of a frame: the visible ones by position, the record ids, further hidden integers.

    Parameters
    ----------
    schema : pyarrow.Schema
        Visible columns, logical.
    has_ids : bool
    extra : tuple of str
        Hidden int64 columns behind the others.
    """

    schema: pa.Schema
    has_ids: bool = False
    extra: tuple[str, ...] = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of all hidden columns."""
        return (*(ID_COLUMNS if self.has_ids else ()), *self.extra)

    @property
    def arrow(self) -> pa.Schema:
        """Arrow schema of the frame."""
        fields = [(column_name(at), field.type) for at, field in enumerate(self.schema)]
        return pa.schema([*fields, *((name, pa.int64()) for name in self.hidden)])

    @property
    def struct(self) -> StructType:
        """Spark schema of the frame."""
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(field.name, spark_type(field.type)) for field in self.arrow])

    def names(self, columns: Sequence[str]) -> list[str]:
        """Names of visible columns inside the frame."""
        return [column_name(self.schema.get_field_index(name)) for name in columns]

    def visible(self, batch: pa.RecordBatch | pa.Table) -> list[pa.Array]:
        """The visible columns in logical types."""
        return [as_type(batch.column(at), field.type) for at, field in enumerate(self.schema)]

    def block(self, batch: pa.RecordBatch) -> RowBlock:
        """The rows of a batch of the frame, under their own names."""
        columns = self.visible(batch)
        names = list(self.schema.names)
        if self.has_ids:
            columns += [batch.column(len(names) + at) for at in range(2)]
            names += ID_COLUMNS
        return RowBlock(pa.record_batch(columns, names=names))

    def hidden_column(self, batch: pa.RecordBatch, name: str) -> Any:
        """A hidden column as int64 array."""
        return batch.column(len(self.schema) + self.hidden.index(name)).to_numpy(zero_copy_only=False)

    def batch(self, rows: RowBlock, **extra: Any) -> pa.RecordBatch:
        """Rows as a batch of the frame; `extra` holds the further hidden columns.

        Raises
        ------
        EngineError
            A stage returned other columns than it promised.
        """
        columns = fitted(rows, self.schema).columns[: len(self.schema)]
        if self.has_ids:
            ids = rows.record_ids
            columns += [pa.array(ids[:, 0]), pa.array(ids[:, 1])]
        columns += [pa.array(extra[name], pa.int64()) for name in self.extra]
        return pa.record_batch(columns, schema=self.arrow)

    def without_ids(self) -> Layout:
        """The visible columns alone."""
        return Layout(self.schema)

    def with_extra(self, *names: str) -> Layout:
        """With further hidden columns."""
        return Layout(self.schema, self.has_ids, (*self.extra, *names))


@dataclass
class Counts:
    """What was counted of a table and is reported again, as its rows do not change.

    Parameters
    ----------
    estimates : dict
        Distinct values of columns, roughly.
    nulls : dict
        Missing values of columns.
    sizes : dict of set of columns to KnownSizes
    content : tuple of int, optional
        The number of records and the sum of their content hashes.
    """

    estimates: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    sizes: dict[frozenset[str], KnownSizes] = field(default_factory=dict)
    content: tuple[int, int] | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Hashed:
    """The frame that record ids were made in: in addition to the columns of a table it has what was seen of them then.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    column : str
        Of pickled `Looks`, one per partition; null elsewhere.
    seed : Seed
        Of the hashes.
    """

    frame: DataFrame
    column: str
    seed: Seed


@dataclass(frozen=True, repr=False, eq=False)
class LeftOut:
    """What a table lacks of one whose columns were counted.

    Parameters
    ----------
    rows : SparkTable
        The rows that it lacks, fewer than its own.
    learned : dict
        Histograms of the other table.
    """

    rows: SparkTable
    learned: dict[str, Histogram]


@dataclass(frozen=True, repr=False, eq=False)
class SparkTable:
    """A table of the Spark engine.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Classic or Connect, with the columns of `layout`.
    layout : Layout
    remembered : dict
        Its number of records, once counted or read from files: `records`.
    at_most : int, optional
        A bound of that number, for a table that came from another by leaving records out.
    learned : dict
        Histograms that were counted, of columns with few distinct values.
    counts : Counts
    hashed : Hashed, optional
        Where the ids of the table were made from its content.
    left_out : LeftOut, optional
        Where it is all but a few rows of another.
    """

    frame: DataFrame
    layout: Layout
    remembered: dict[str, int] = field(default_factory=dict)
    at_most: int | None = None
    learned: dict[str, Histogram] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    hashed: Hashed | None = None
    left_out: LeftOut | None = None

    def __repr__(self) -> str:
        return f"SparkTable({len(self.schema)} columns)"  # a frame's own repr may show rows

    @property
    def schema(self) -> pa.Schema:
        """Logical schema of the visible columns."""
        return self.layout.schema

    @property
    def has_record_ids(self) -> bool:
        """Whether the hidden id columns are there."""
        return self.layout.has_ids

    @property
    def bound(self) -> int | None:
        """A number of records that the table does not exceed, if one is known."""
        return self.remembered.get("records", self.at_most)

    def column(self, name: str) -> Column:
        """A visible column of the frame."""
        from pyspark.sql import functions as sf

        return sf.col(self.layout.names([name])[0])

    def counted(self, name: str) -> Column:
        """A visible column as its values are distinguished: NaN is null, -0.0 is 0.0."""
        return as_counted(self.column(name), self.schema.field(name).type)

    def select(self, columns: Sequence[str]) -> SparkTable:
        """These columns in this order, and the ids."""
        from pyspark.sql import functions as sf

        layout = Layout(pa.schema([self.schema.field(name) for name in columns]), self.has_record_ids)
        chosen = [self.column(name).alias(new) for name, new in zip(columns, layout.names(columns), strict=True)]
        if self.has_record_ids:
            chosen += [sf.col(name) for name in ID_COLUMNS]
        return SparkTable(self.frame.select(*chosen), layout)


def as_counted(column: Any, kind: pa.DataType) -> Column:
    """Spark groups NaN and null apart, and its hash functions see the sign of zero."""
    from pyspark.sql import functions as sf

    if not pt.is_floating(kind):
        return column
    return sf.nanvl(column, sf.lit(None).cast("double")) + sf.lit(0.0)


def select(table: SparkTable, columns: Sequence[str], last: int | None = None) -> SparkTable:
    """These columns, and ids; of the records whose id has a first word of at most `last`, if that is given."""
    from pyspark.sql import functions as sf

    if last is not None:  # the others never leave the executors
        kept = table.frame.where(sf.col(ID_COLUMNS[0]) <= sf.lit(last))
        return replace(SparkTable(kept, table.layout).select(columns), at_most=table.bound)
    return replace(
        table.select(columns),
        remembered=table.remembered,
        at_most=table.at_most,
        learned=table.learned,
        counts=replace(table.counts, content=None),
    )


def stack(table: SparkTable, other: SparkTable, columns: Sequence[str], tag: str) -> SparkTable:
    """See `Engine.stack`."""
    from pyspark.sql import functions as sf

    schema = stacked_schema(table.schema, other.schema, columns, tag)
    frames = []
    for side, each in enumerate((table, other)):
        chosen = [each.column(name).alias(column_name(at)) for at, name in enumerate(columns)]
        frames.append(each.frame.select(*chosen, sf.lit(side).cast("long").alias(column_name(len(columns)))))
    return SparkTable(frames[0].unionAll(frames[1]), Layout(schema), _remembered(table, other))


def append(table: SparkTable, other: SparkTable) -> SparkTable:
    """See `Engine.append`."""
    require_same(table, other)
    theirs = other.select(table.schema.names)
    return SparkTable(table.frame.unionAll(theirs.frame), table.layout, _remembered(table, other))


def _remembered(table: SparkTable, other: SparkTable) -> dict[str, int]:
    """The number of records of both, where each is known."""
    counted = [each.remembered.get("records") for each in (table, other)]
    known = [records for records in counted if records is not None]
    return {"records": sum(known)} if len(known) == len(counted) else {}


def count_records(table: SparkTable) -> int:
    """Number of records, counted at most once a table."""
    if "records" not in table.remembered:
        with reported("count the records"):
            table.remembered["records"] = table.frame.count()
    return table.remembered["records"]
