"""Results as Spark frames whose untouched columns have the types and comments that they came with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privpipe.engines.base.carried_cells import carried_cells, is_carried
from privpipe.engines.base.return_forms import ReturnForm, kept_metadata
from privpipe.engines.spark.layout import physical
from privpipe.engines.spark.workers import map_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["as_it_came"]


def as_it_came(frame: DataFrame, like: Any, form: ReturnForm) -> DataFrame:
    """A frame of logical types as its source was: types by `form`, and what metadata may stay; nothing runs.

    Attributes of Spark ML list the values of a column: they stay where it is untouched and no record is left out.
    """
    from pyspark.sql import functions as sf

    names = list(frame.columns)
    known = {field.name: field for field in _schema(like).fields}
    frame = _decoded(frame.toDF(*map(physical, range(len(names)))), names, known, form)
    columns = []
    for at, name in enumerate(names):
        column = sf.col(physical(at))
        if name in form.types:
            column = column.cast(known[name].dataType)
        metadata = {}
        if name in known:
            metadata = kept_metadata(known[name].metadata, whole=form.whole and name in form.untouched)
        columns.append(column.alias(name, metadata=metadata) if metadata else column.alias(name))
    return frame.select(*columns)


def _schema(like: Any) -> Any:
    return like.schema if hasattr(like, "mapInArrow") else like.to_spark().schema


def _decoded(frame: DataFrame, names: list[str], known: dict[str, Any], form: ReturnForm) -> DataFrame:
    """The frame with what was carried as text in its own types again."""
    from pyspark.sql.types import StructField, StructType

    held = {at: form.types[name] for at, name in enumerate(names) if is_carried(form.types.get(name, pa.null()))}
    if not held:
        return frame
    fields = [
        StructField(each.name, known[names[at]].dataType) if at in held else each
        for at, each in enumerate(frame.schema.fields)
    ]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            cells = [
                carried_cells(cell.cast(pa.string()), held[at]) if at in held else cell
                for at, cell in enumerate(batch.columns)
            ]
            yield pa.record_batch(cells, names=batch.schema.names)

    return map_struct(frame, read, StructType(fields))
