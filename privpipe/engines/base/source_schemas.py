"""The types that a source has, before they are made logical."""

from __future__ import annotations

import datetime
import os
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.engines.base.files import elsewhere, list_files
from privpipe.engines.base.frames import arrow_of, is_local_frame, is_unordered
from privpipe.engines.base.lakes import lake_of
from privpipe.engines.base.parquet_files import parquet_files
from privpipe.engines.base.partitions import partitioned_schema
from privpipe.engines.base.source import Source

__all__ = ["schema_of_source"]

_NESTED = (list, tuple, set, frozenset, dict, np.ndarray, datetime.time, datetime.timedelta)


def schema_of_source(source: Source) -> pa.Schema:
    """Columns of a source in its own types; none where it has no types (text), or holds them elsewhere (a database).

    Examples
    --------
    >>> schema_of_source(Source(data=pa.table({"age": pa.array([1], pa.int8())}))).field("age").type
    DataType(int8)
    """
    lake = lake_of(source)
    if lake is not None:
        return lake.schema
    if not source.is_path:
        return _of_frame(source.data) if is_local_frame(source.data) else pa.schema([])
    if elsewhere(os.fspath(source.data)) or source.resolved_format != "parquet":
        return pa.schema([])
    return partitioned_schema(source, parquet_files(list_files(source)))


def _of_frame(frame: Any) -> pa.Schema:
    if is_unordered(frame):  # a query is not computed for its types
        return arrow_of(frame.limit(0)).schema
    if type(frame).__module__.partition(".")[0] != "pandas":
        return arrow_of(frame).schema
    schema = arrow_of(frame.iloc[:0]).schema
    held = [
        name
        for name, kind in frame.dtypes.items()
        if str(kind) == "object" and isinstance(_first(frame[name]), _NESTED)
    ]
    for field in arrow_of(frame[held]).schema if held else ():
        schema = schema.set(schema.get_field_index(field.name), field)
    return schema


def _first(column: Any) -> Any:
    """The first value of a column of objects, which tells whether all of them have to be looked at."""
    present = column.notna().to_numpy()
    return column.iloc[present.argmax()] if present.any() else None
