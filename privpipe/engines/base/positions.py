"""A source in its own order, each record with its position, for callers who ask for ``align="position"``."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pyarrow as pa

from privpipe.blocks.table_name import TableName
from privpipe.engines.base.csv_blocks import CsvDialect, csv_blocks, ragged_error, read_csv_block
from privpipe.engines.base.databases import Database
from privpipe.engines.base.files import csv_columns, elsewhere, list_files
from privpipe.engines.base.frames import arrow_of
from privpipe.engines.base.lakes import IcebergName, LakeView
from privpipe.engines.base.objects import copied_files, is_reached
from privpipe.engines.base.parquet_files import parquet_table
from privpipe.engines.base.source import Source
from privpipe.engines.base.whole_files import opened
from privpipe.errors import DataError, UnsupportedError
from privpipe.private_files import scratch_folder

__all__ = ["POSITION", "positioned"]

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
    names = tuple(csv_columns(source, list_files(source)))
    dialect = CsvDialect.of(names, source)
    batches, ragged = [], 0
    for name in list_files(source):
        for block in csv_blocks(name, dialect, BLOCK_BYTES):
            batch, wrong = read_csv_block(block, dialect)
            batches.append(batch)
            ragged += wrong
    if ragged:
        raise ragged_error(ragged, names)
    if not batches:
        raise DataError("the source has no records: there is nothing to align")
    return pa.Table.from_batches(batches)
