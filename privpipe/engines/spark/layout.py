"""How a table's columns lie in a Spark frame: by position, so that no name can upset a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.engines.base.typing import normalised
from privpipe.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["Layout", "as_type", "physical", "spark_type"]


def physical(position: int) -> str:
    """Name of a visible column inside a frame: a dot or a backtick in its own name would be syntax to Spark.

    Examples
    --------
    >>> physical(3)
    'c3'
    """
    return f"c{position}"


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


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as a logical type: Spark names the session's zone in timestamps and may send large texts."""
    return array if array.type == kind else array.cast(kind)


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
        fields = [(physical(at), field.type) for at, field in enumerate(self.schema)]
        return pa.schema([*fields, *((name, pa.int64()) for name in self.hidden)])

    @property
    def struct(self) -> StructType:
        """Spark schema of the frame."""
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(field.name, spark_type(field.type)) for field in self.arrow])

    def names(self, columns: Sequence[str]) -> list[str]:
        """Names of visible columns inside the frame."""
        return [physical(self.schema.get_field_index(name)) for name in columns]

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
        if sorted(rows.schema.names) != sorted(self.schema.names):
            raise EngineError(f"a stage promised the columns {self.schema.names} and returned {rows.schema.names}")
        columns = [as_type(normalised(rows.column(field.name), field.name), field.type) for field in self.schema]
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
