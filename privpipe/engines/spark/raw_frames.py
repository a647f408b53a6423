"""Spark frames under our own column names."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privpipe.engines.base.names import check_names
from privpipe.engines.spark.layout import physical
from privpipe.engines.spark.typed import RawFrame
from privpipe.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["raw_frame"]


def raw_frame(data: Any) -> RawFrame:
    """A Spark frame under our own column names, in the types nearest to the logical ones."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructField, StructType

    frame = data if hasattr(data, "mapInArrow") else _without_index(data)
    names = list(frame.columns)
    check_names(names)
    fields = []
    for field in frame.schema.fields:
        try:
            found = to_arrow_schema(StructType([StructField("c", field.dataType)])).field(0).type
        except PySparkException:
            kind = field.dataType.simpleString()
            raise DataError(f"column {field.name!r} has the type {kind}, which no release can carry") from None
        fields.append(pa.field(field.name, found))
    return RawFrame(_renamed(frame, len(names)), pa.schema(fields))


def _without_index(data: Any) -> DataFrame:
    """A pandas-on-Spark frame as Spark's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that the index is lost, as it should be
        return data.to_spark()


def _renamed(frame: DataFrame, columns: int) -> DataFrame:
    return frame.toDF(*(physical(at) for at in range(columns)))
