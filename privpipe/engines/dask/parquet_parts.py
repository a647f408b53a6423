"""Parquet files as partitions: runs of row groups, of which only the columns in use are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from privpipe.engines.base.files import list_files, parquet_head, parquet_schema
from privpipe.engines.base.partitions import partition_values, partitioned_schema, with_partitions
from privpipe.engines.base.source import Source
from privpipe.engines.base.typing import Typing, typing_of
from privpipe.engines.base.unpacking import reading
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable
from privpipe.engines.dask.typed import may_fail, narrowed, scales_of, summed, text_decimals, typed_table, whole_batch

__all__ = ["parquet_table"]

TEXT_BYTES = 16
SMALLEST_RUN = 4 * 2**20


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]


def parquet_table(runtime: Runtime, source: Source, partition_bytes: int) -> DaskTable:
    """The table of a Parquet source, read when it is used and only the columns that are.

    Raises
    ------
    DataError
        An unreadable file, files that do not agree, cells that do not convert.
    """
    files = list_files(source)
    if source.partitions:
        return _partitioned_table(runtime, source, files, partition_bytes)
    schema = parquet_schema(files)
    heads = {name: parquet_head(name) for name in files}
    runs = list(_runs(heads, schema, partition_bytes, runtime.workers)) or [RowGroups(files[0], ())]
    decimals = text_decimals(schema, source.types)
    texts = [runtime.task("read Parquet", raw_columns, run=run, columns=decimals) for run in runs]
    typing = typing_of(schema, source.types, scales_of(runtime, texts, decimals))
    unreadable_columns = [field.name for field in schema if may_fail(field.type, typing.schema.field(field.name).type)]
    if unreadable_columns:
        narrow = narrowed(typing, unreadable_columns)
        checks = [runtime.task("check types", bad_cells_of, run=run, typing=narrow) for run in runs]
        typing.refuse(summed(runtime.compute("check types", checks)))
    reading = _Reading(runtime, tuple(runs), typing, _plain_texts(schema, typing.schema))
    return DaskTable(typing.schema, tuple(reading(typing.schema.names)), narrow=reading)


def _partitioned_table(runtime: Runtime, source: Source, files: list[str], partition_bytes: int) -> DaskTable:
    """The table of a folder of Hive partitions."""
    schema, values = partitioned_schema(source, files), partition_values(source, files)
    columns = [name for name in schema.names if name not in source.partitions]
    heads = {name: parquet_head(name) for name in files}
    runs = list(_runs(heads, schema, partition_bytes, runtime.workers)) or [RowGroups(files[0], ())]
    raw = [
        runtime.task("read Parquet", partitioned_run, run=run, columns=columns, values=values[run.path]) for run in runs
    ]
    return typed_table(runtime, raw, schema, source.types)


def partitioned_run(run: RowGroups, columns: Sequence[str], values: Mapping[str, str | None]) -> pa.RecordBatch:
    """Row groups in the file's types, with the columns in the names of the folders above."""
    return with_partitions(raw_columns(run, columns), values)


def _plain_texts(found: pa.Schema, logical: pa.Schema) -> frozenset[str]:
    """Columns that are text in the files and in the table."""
    return frozenset(
        field.name for field in found if pt.is_string(field.type) and pt.is_string(logical.field(field.name).type)
    )


@dataclass(frozen=True)
class _Reading:
    """Tasks that read some columns of all partitions."""

    runtime: Runtime
    runs: tuple[RowGroups, ...]
    typing: Typing

    texts: frozenset[str]

    def __call__(self, columns: Sequence[str], coded: bool = False) -> list[Node]:
        typing = narrowed(self.typing, columns)
        texts = [name for name in columns if name in self.texts] if coded else []
        return [self.runtime.task("read Parquet", read_run, run=run, typing=typing, texts=texts) for run in self.runs]


def read_run(run: RowGroups, typing: Typing, texts: Sequence[str] = ()) -> pa.RecordBatch:
    """Row groups in logical types; some text columns as the dictionaries that files hold, some ten times cheaper."""
    raw = raw_columns(run, typing.schema.names, texts)
    others = [field.name for field in typing.schema if field.name not in texts]
    typed = narrowed(typing, others).convert(raw.select(others))
    arrays = [raw.column(name) if name in texts else typed.column(name) for name in typing.schema.names]
    return pa.record_batch(arrays, names=typing.schema.names)


def bad_cells_of(run: RowGroups, typing: Typing) -> dict[str, int]:
    """Cells that do not convert."""
    return typing.apply(raw_columns(run, typing.schema.names))[1]


def raw_columns(run: RowGroups, columns: Sequence[str], texts: Sequence[str] = ()) -> pa.RecordBatch:
    """Some columns of row groups, in the file's types; `texts` as dictionaries."""
    # Parallel over partitions already: threads inside a read would only contend.
    with reading(run.path, "Parquet"), pq.ParquetFile(run.path, read_dictionary=list(texts)) as file:
        found = file.read_row_groups(list(run.groups), columns=list(columns), use_threads=False)
    return whole_batch(found.unify_dictionaries() if texts else found)


def _runs(
    heads: Mapping[str, pq.FileMetaData], schema: pa.Schema, partition_bytes: int, workers: int
) -> Iterator[RowGroups]:
    width = sum(_width(field.type) for field in schema)
    total = sum(head.num_rows for head in heads.values()) * width
    target = max(1, min(partition_bytes, max(SMALLEST_RUN, total // workers)) // width)
    for name, head in heads.items():
        groups: list[int] = []
        rows = 0
        for group in range(head.num_row_groups):
            size = head.row_group(group).num_rows
            if groups and rows + size > target:
                yield RowGroups(name, tuple(groups))
                groups, rows = [], 0
            if size:
                groups.append(group)
                rows += size
        if groups:
            yield RowGroups(name, tuple(groups))


def _width(kind: pa.DataType) -> int:
    """Bytes of a cell in memory, text guessed."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # what Arrow says of types without a fixed width
        return TEXT_BYTES
