"""Hive partitions: columns that stand in the names of folders above Parquet files; the same on every engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds

from privpipe.engines.base.files import local_path
from privpipe.engines.base.parquet_files import ParquetFiles
from privpipe.engines.base.source import Source
from privpipe.errors import DataError

__all__ = ["partition_values", "partitioned_dataset", "partitioned_schema", "with_partitions"]

MISSING: Final = "__HIVE_DEFAULT_PARTITION__"
"""What writers put in the place of a missing value."""


def partition_values(source: Source, files: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """By file, the value of each partition column, as text.

    Raises
    ------
    DataError
        A file lies below other folders than those that the source names, in their order.
    """
    top = local_path(source)
    found, strange = {}, 0
    for name in files:
        parts = [part.partition("=") for part in os.path.dirname(os.path.relpath(name, top)).split(os.sep)]
        names = tuple(unquote(key) for key, sign, _ in parts if sign)
        strange += names != tuple(source.partitions)
        found[name] = {unquote(key): None if value == MISSING else unquote(value) for key, sign, value in parts if sign}
    if strange:
        folders = "/".join(f"{key}=..." for key in source.partitions)
        raise DataError(
            f"{strange:,} of {len(files):,} files do not lie below folders `{folders}`; `partitions:` of the "
            "source names the columns of the folders in their order"
        )
    return found


def partitioned_schema(source: Source, found: ParquetFiles) -> pa.Schema:
    """The schema of the files with the partition columns behind, which are text until typed.

    Raises
    ------
    DataError
        As `partition_values`; a partition column is also in the files.
    """
    schema = found.schema
    if source.partitions:
        partition_values(source, found.files)
    for name in source.partitions:
        if name in schema.names:
            raise DataError(f"the partition column {name!r} is also a column of the files; write it once")
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def with_partitions(batch: pa.RecordBatch, values: Mapping[str, str | None]) -> pa.RecordBatch:
    """Rows of a file with its partition columns behind.

    Examples
    --------
    >>> with_partitions(pa.record_batch({"n": [1, 2]}), {"year": "2024"}).to_pylist()
    [{'n': 1, 'year': '2024'}, {'n': 2, 'year': '2024'}]
    """
    added = [pa.array([value] * batch.num_rows, pa.string()) for value in values.values()]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], names=[*batch.schema.names, *values])


def partitioned_dataset(source: Source, found: ParquetFiles) -> ds.Dataset:
    """The rows of a partitioned folder, whose files have one type for each column, read when they are scanned."""
    schema = partitioned_schema(source, found)
    keys = pa.schema([schema.field(name) for name in source.partitions])
    partitioning = ds.partitioning(keys, flavor="hive")
    return ds.dataset(
        found.files, schema=schema, format="parquet", partitioning=partitioning, partition_base_dir=local_path(source)
    )
