"""Parquet files as partitions: runs of row groups, of which only the columns in use are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.files import list_files
from privpipe.engines.base.parquet_files import ParquetFiles, parquet_files, read_groups
from privpipe.engines.base.partitions import partition_values, partitioned_schema, with_partitions
from privpipe.engines.base.source import Source
from privpipe.engines.base.typing import Typing, typing_of
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
    found = parquet_files(files)
    schema = found.schema
    if source.partitions:
        return _partitioned_table(runtime, source, found, partition_bytes)
    runs = list(_runs(found.groups, schema, partition_bytes, runtime.workers)) or [RowGroups(files[0], ())]
    decimals = text_decimals(schema, source.types)
    narrow_schema = pa.schema([schema.field(name) for name in decimals])
    texts = [runtime.task("read Parquet", raw_columns, run=run, schema=narrow_schema) for run in runs]
    typing = typing_of(schema, source.types, scales_of(runtime, texts, decimals))
    unreadable_columns = [
        field.name
        for field in schema
        if field.name in found.mixed | found.int96 or may_fail(field.type, typing.schema.field(field.name).type)
    ]
    reading = _Reading(
        runtime, tuple(runs), schema, typing, frozenset(_plain_texts(schema, typing.schema) - found.mixed)
    )
    if unreadable_columns:
        narrow = replace(reading, typing=narrowed(typing, unreadable_columns))
        typing.refuse(summed(runtime.compute("check types", narrow.checks())))
    return DaskTable(typing.schema, tuple(reading(typing.schema.names)), narrow=reading)


def _partitioned_table(runtime: Runtime, source: Source, found: ParquetFiles, partition_bytes: int) -> DaskTable:
    """The table of a folder of Hive partitions."""
    schema, values = partitioned_schema(source, found), partition_values(source, found.files)
    runs = list(_runs(found.groups, schema, partition_bytes, runtime.workers)) or [RowGroups(found.files[0], ())]
    raw = [
        runtime.task("read Parquet", partitioned_run, run=run, schema=found.schema, values=values[run.path])
        for run in runs
    ]
    return typed_table(runtime, raw, schema, source.types, found.mixed | found.int96)


def partitioned_run(run: RowGroups, schema: pa.Schema, values: Mapping[str, str | None]) -> pa.RecordBatch:
    """Row groups in the types of the source, with the columns in the names of the folders above."""
    return with_partitions(raw_columns(run, schema), values)


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
    schema: pa.Schema
    typing: Typing
    texts: frozenset[str]

    def __call__(self, columns: Sequence[str], coded: bool = False) -> list[Node]:
        typing = narrowed(self.typing, columns)
        texts = [name for name in columns if name in self.texts] if coded else []
        schema = self._raw(columns)
        return [
            self.runtime.task("read Parquet", read_run, run=run, schema=schema, typing=typing, texts=texts)
            for run in self.runs
        ]

    def checks(self) -> list[Node]:
        """Tasks that count the cells that do not convert."""
        schema = self._raw(self.typing.schema.names)
        return [
            self.runtime.task("check types", bad_cells_of, run=run, schema=schema, typing=self.typing)
            for run in self.runs
        ]

    def _raw(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in columns])


def read_run(run: RowGroups, schema: pa.Schema, typing: Typing, texts: Sequence[str] = ()) -> pa.RecordBatch:
    """Row groups in logical types; some text columns as the dictionaries that files hold, some ten times cheaper."""
    raw = raw_columns(run, schema, texts)
    others = [field.name for field in typing.schema if field.name not in texts]
    typed = narrowed(typing, others).convert(raw.select(others))
    arrays = [raw.column(name) if name in texts else typed.column(name) for name in typing.schema.names]
    return pa.record_batch(arrays, names=typing.schema.names)


def bad_cells_of(run: RowGroups, schema: pa.Schema, typing: Typing) -> dict[str, int]:
    """Cells that do not convert."""
    return typing.apply(raw_columns(run, schema))[1]


def raw_columns(run: RowGroups, schema: pa.Schema, texts: Sequence[str] = ()) -> pa.RecordBatch:
    """Some columns of row groups, in the types of the source; `texts` as dictionaries."""
    found = read_groups(run.path, run.groups, schema, texts)
    return whole_batch(found.unify_dictionaries() if texts else found)


def _runs(
    files: Mapping[str, tuple[int, ...]], schema: pa.Schema, partition_bytes: int, workers: int
) -> Iterator[RowGroups]:
    width = sum(_width(field.type) for field in schema)
    total = sum(map(sum, files.values())) * width
    target = max(1, min(partition_bytes, max(SMALLEST_RUN, total // workers)) // width)
    for name, sizes in files.items():
        groups: list[int] = []
        rows = 0
        for group, size in enumerate(sizes):
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
