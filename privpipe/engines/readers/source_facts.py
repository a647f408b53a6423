"""What is known of a source before an engine reads it: its types, whether it is small, and its own order."""

from __future__ import annotations

import datetime
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.blocks.table_name import TableName
from privpipe.engines.base.frames import arrow_of, is_local_frame, is_unordered
from privpipe.engines.databases import Database
from privpipe.engines.lakes import IcebergName, LakeView, lake_of
from privpipe.engines.readers.files import elsewhere, list_files
from privpipe.engines.readers.parquet_files import parquet_files, parquet_head, parquet_table, partitioned_schema
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_records import csv_table
from privpipe.engines.readers.whole_files import opened
from privpipe.engines.stores import copied_files, is_reached
from privpipe.errors import DataError, UnsupportedError
from privpipe.private_files import scratch_folder

__all__ = ["MOST_ROWS", "POSITION", "SMALL_BYTES", "is_small", "positioned", "schema_of_source"]


SMALL_BYTES = 64 * 2**20
MOST_ROWS = 2_000_000
"""Their release takes one process about a gigabyte; workers on two cores take three to ten times as long for them."""
UNPACKS_TO = 20
"""Bytes that a byte of a packed text file is taken to hold."""


def is_small(source: Source, most: int) -> bool:
    """Whether files of this machine, or a frame of this process, take at most so many bytes.

    Examples
    --------
    >>> is_small(Source(data=pa.table({"age": [1]})), 100), is_small(Source(data=pa.table({"age": [1]})), 0)
    (True, False)
    """
    if not most:
        return False
    if not source.is_path:
        size = getattr(source.data, "nbytes", None) if isinstance(source.data, pa.Table) else None
        return is_local_frame(source.data) and size is not None and size <= most
    kind = source.resolved_format
    return not elsewhere(os.fspath(source.data)) and kind != "delta" and _size(source, kind) <= most


def _size(source: Source, kind: str) -> float:
    """Bytes of the files of a source as they are in memory, roughly; more than any limit for many rows."""
    files = list_files(source)
    if kind != "parquet":
        return sum(os.path.getsize(name) * (UNPACKS_TO if source.form.packing(name) else 1) for name in files)
    heads = [parquet_head(name) for name in files]
    if sum(head.num_rows for head in heads) > MOST_ROWS:
        return float("inf")
    return sum(head.row_group(at).total_byte_size for head in heads for at in range(head.num_row_groups))


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
    """The first value of a column of objects, which shows whether all of them have to be looked at."""
    present = column.notna().to_numpy()
    return column.iloc[present.argmax()] if present.any() else None


POSITION = "row number of privpipe"
"""Name of the column of positions, int64, from 0."""
BLOCK_BYTES = 1 << 24


def positioned(source: Source) -> pa.Table:
    """The source's records in the order of its files and rows, with their positions.

    Parameters
    ----------
    source : Source
        CSV or Parquet files, or a frame that has an order (any but Spark's). CSV cells stay text.

    Raises
    ------
    UnsupportedError
        A Spark frame or a table of a catalogue or a database, which have no order; JSON or Delta files, whose order no
        reader promises.
    """
    source = opened(source)
    table = _files(source) if source.is_path else _frame(source.data)
    return table.append_column(POSITION, pa.array(range(table.num_rows), pa.int64()))


def _frame(data: Any) -> pa.Table:
    if isinstance(data, TableName | Database):
        kind = "catalogue" if isinstance(data, TableName) else "database"
        raise UnsupportedError(
            f"a table of a {kind} has no order, so nothing can be aligned by position; use a record_id"
        )
    if isinstance(data, IcebergName):
        raise UnsupportedError("an Iceberg table has no order, so nothing can be aligned by position; use a record_id")
    if isinstance(data, LakeView):
        raise UnsupportedError("a table of a table format has no order, so nothing can be aligned by position")
    library = type(data).__module__.partition(".")[0]
    if library == "pyspark":
        raise UnsupportedError("a Spark frame has no order, so nothing can be aligned by position; use a record_id")
    if library in ("dask", "dask_expr"):
        data = data.compute()
    found = arrow_of(data)
    return found if isinstance(found, pa.Table) else _whole(found)


def _whole(found: Any) -> pa.Table:
    table: pa.Table = found.read_all() if isinstance(found, pa.RecordBatchReader) else found.to_table()
    return table


def _files(source: Source) -> pa.Table:
    kind = source.resolved_format
    if elsewhere(os.fspath(source.data)) and is_reached(os.fspath(source.data)) and kind != "delta":
        with scratch_folder("objects") as folder:
            copy = copied_files(os.fspath(source.data), folder)
            return _files(replace(source, data=copy.path, format=kind))
    if source.partitions:
        raise UnsupportedError(
            "a folder of partitions is not aligned by position; use a record_id, or one of its files"
        )
    if kind == "delta":
        raise UnsupportedError("a Delta table has no order, so nothing can be aligned by position; use a record_id")
    if kind == "parquet":
        return parquet_table(list_files(source))
    if kind != "csv":
        raise UnsupportedError(f"{kind} files are not aligned by position; use a record_id, or CSV or Parquet files")
    rows = csv_table(source)
    if not rows.num_rows:
        raise DataError("the source has no records: there is nothing to align")
    return rows
