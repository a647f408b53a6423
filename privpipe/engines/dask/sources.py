"""Sources of the Dask engine as partitions: frames, JSON, CSV cut where records end, runs of row groups."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.batches import whole_batch
from privpipe.engines.base.conversion import Typing, typing_of, widened, widest_type
from privpipe.engines.base.frames import arrow_of
from privpipe.engines.base.logical_types import check_names, is_carried, logical_type
from privpipe.engines.dask.dask_table import (
    DaskTable,
    may_fail,
    narrowed,
    scales_of,
    summed,
    text_table,
    typed_table,
)
from privpipe.engines.dask.graph import Node, foreign_nodes
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.sources import csv_dialect, json_names, text_decimals, text_schema
from privpipe.engines.lakes import LakeTable, rows_of_piece
from privpipe.engines.readers.files import list_files, stamp_of
from privpipe.engines.readers.parquet_files import (
    ParquetFiles,
    parquet_files,
    partition_values,
    partitioned_schema,
    read_groups,
    with_partitions,
)
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_records import (
    csv_blocks,
    csv_rows,
    json_batches,
    json_columns,
    read_csv_block,
)
from privpipe.errors import DataError, UsageError

__all__ = [
    "csv_table",
    "dask_schema",
    "dask_table",
    "is_dask_frame",
    "json_table",
    "lake_table",
    "local_table",
    "parquet_table",
    "require_held",
]


LEAST_ROWS = 65536


def is_dask_frame(data: Any) -> bool:
    """Whether this is a Dask DataFrame; imports nothing."""
    kind = type(data)
    return kind.__module__.partition(".")[0] in {"dask", "dask_expr"} and kind.__name__ == "DataFrame"


def dask_table(runtime: Runtime, source: Source) -> DaskTable:
    """The table of a Dask DataFrame, partition for partition.

    Raises
    ------
    DataError
        Bad names, a column that mixes types, within a partition or between them.
    """
    frame = source.data
    names = list(frame.columns)
    check_names(names)
    delayed = frame.to_delayed()
    require_held(delayed)
    parts = foreign_nodes(delayed)
    # Only its partitions show what an object or category column holds.
    schema = _schema(runtime, frame, parts)
    # Nested values stay as each partition has them: as JSON they are the same whatever its own types.
    wanted = pa.schema(
        [each if is_carried(each.type) else each.with_type(logical_type(each.type, each.name)) for each in schema]
    )
    raw = [runtime.task("read frame", partition_rows, part, number=at, schema=wanted) for at, part in enumerate(parts)]
    unsure = {field.name for field in schema if may_fail(field.type, wanted.field(field.name).type)}
    return typed_table(runtime, raw, wanted, source.types, frozenset(unsure))


def dask_schema(runtime: Runtime, frame: Any) -> pa.Schema:
    """The Arrow types of a Dask DataFrame, before they are made logical."""
    return _schema(runtime, frame, foreign_nodes(frame.to_delayed()))


def _schema(runtime: Runtime, frame: Any, parts: Sequence[Any]) -> pa.Schema:
    """The types that the frame promises, and those that its partitions hold where it promises none."""
    untyped = [name for name, kind in frame.dtypes.items() if str(kind) in {"object", "category"}]
    found = []
    if untyped:
        tasks = [
            runtime.task("learn types", schema_of, part, number=at, columns=untyped) for at, part in enumerate(parts)
        ]
        found = runtime.compute("learn types", tasks)
    typed = frame._meta.drop(columns=untyped)
    said = {field.name: field for field in arrow_of(typed).schema} if len(typed.columns) else {}
    learnt = {field.name: field for field in one_schema(found)} if found else {}
    return pa.schema([(said | learnt)[name] for name in frame.columns])


def schema_of(part: Any, number: int, columns: Sequence[str]) -> pa.Schema:
    """The schema of some columns of a partition."""
    return _partition(part, number, columns).select(columns).schema


def partition_rows(part: Any, number: int, schema: pa.Schema) -> pa.RecordBatch:
    """A partition in the types that the frame promises.

    Raises
    ------
    DataError
        Other columns, or a column in a type whose values that of the frame does not hold exactly (number of the
        partition, column, both types).
    """
    found = _partition(part, number, schema.names)
    added = [name for name in found.column_names if name not in schema.names]
    if added:
        raise DataError(f"partition {number}: column {added[0]!r} is not in the frame's meta")
    columns = [_of_frame(found.column(each.name), each, f"partition {number}") for each in schema]
    return pa.record_batch(columns, names=schema.names)


def _of_frame(column: pa.ChunkedArray, wanted: pa.Field, place: str) -> pa.Array:
    if is_carried(wanted.type) and is_carried(column.type):
        return column.combine_chunks()
    return widened(column, wanted.type, wanted.name, place)


def _partition(part: Any, number: int, names: Sequence[str]) -> pa.Table:
    place = f"partition {number}"
    if not hasattr(part, "columns"):
        raise DataError(f"{place}: a {type(part).__name__}, and no data frame as the frame's meta declares")
    try:
        found: pa.Table = arrow_of(part)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    missing = [name for name in names if name not in found.column_names]
    if missing:
        raise DataError(f"{place}: column {missing[0]!r} is missing, which the frame's meta has")
    return found


def require_held(parts: Sequence[Any]) -> None:
    """Refuse a persisted frame whose client was closed, and with it what workers held.

    Raises
    ------
    UsageError
    """
    graphs = {id(part.dask): part.dask for part in parts}
    held = (getattr(each, "value", each) for graph in graphs.values() for each in dict(graph).values())
    if any(getattr(each, "status", "") in ("cancelled", "lost") for each in held):
        raise UsageError(
            "dask engine: what workers held of the frame is lost, since its client was closed or they were restarted; "
            "make the frame again"
        )


def one_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The schema of partitions whose types were inferred from their values; raises as `widest_type`.

    Examples
    --------
    >>> one_schema([pa.schema({"a": pa.null()}), pa.schema({"a": pa.int8()})]).field("a").type
    DataType(int8)
    """
    fields = []
    for name in schemas[0].names:
        places: dict[pa.DataType, str] = {}
        for at, schema in enumerate(schemas):
            if not _is_untyped(schema.field(name).type):
                places.setdefault(schema.field(name).type, f"partition {at}")
        fields.append(pa.field(name, _nested_type(places) or widest_type(name, places)))
    return pa.schema(fields)


def _nested_type(places: Mapping[pa.DataType, str]) -> pa.DataType | None:
    """The type that holds nested values of several types, where there is one."""
    if len(places) < 2 or not all(map(is_carried, places)):
        return None
    try:
        found = pa.unify_schemas([pa.schema({"it": each}) for each in places], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return found.field(0).type


def _is_untyped(kind: pa.DataType) -> bool:
    return pt.is_null(kind) or (pt.is_dictionary(kind) and pt.is_null(kind.value_type))


def local_table(runtime: Runtime, source: Source, partition_bytes: int, npartitions: int | None) -> DaskTable:
    """The table of a frame of this process, in slices.

    Raises
    ------
    DataError, UsageError
        As `arrow_of`.
    """
    found = arrow_of(source.data)
    if isinstance(found, pa.Table):
        table = found
    else:
        table = found.read_all() if isinstance(found, pa.RecordBatchReader) else found.to_table()
    check_names(table.column_names)
    rows = table.num_rows
    wanted = npartitions or max(-(-table.nbytes // partition_bytes), min(runtime.workers, rows // LEAST_ROWS), 1)
    slices = list(_slices(table, min(wanted, max(rows, 1))))
    return typed_table(runtime, runtime.place_each(slices), table.schema, source.types)


def lake_table(runtime: Runtime, source: Source, lake: LakeTable) -> DaskTable:
    """The table of a table format, a partition a data file, read where it is used."""
    raw = [runtime.task("read lake", lake_rows, piece=piece, schema=lake.schema) for piece in lake.pieces]
    empty = [] if raw else [runtime.place_each([whole_batch(lake.schema.empty_table())])[0]]
    check_names(lake.schema.names)
    return typed_table(runtime, raw or empty, lake.schema, source.types)


def lake_rows(piece: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The live rows of a data file."""
    return whole_batch(rows_of_piece(piece, schema))


def _slices(table: pa.Table, parts: int) -> Iterator[pa.RecordBatch]:
    rows = table.num_rows
    cuts = [rows * part // parts for part in range(parts + 1)]
    for start, end in pairwise(cuts):
        yield whole_batch(table.slice(start, end - start))


def json_table(runtime: Runtime, source: Source) -> DaskTable:
    """The table of JSON files, one partition per file.

    Raises
    ------
    DataError
        As `json_columns`; a declared column that is missing; cells that do not convert.
    """
    files = list_files(source)
    found = runtime.compute(
        "read JSON names",
        [runtime.task("read JSON names", json_columns, files=[name], most=source.max_bytes) for name in files],
    )
    names = json_names(found, source)
    raw = [runtime.task("read JSON", json_rows, path=name, names=names, most=source.max_bytes) for name in files]
    return text_table(runtime, raw, names, source.types)


def json_rows(path: str, names: list[str], most: int) -> tuple[pa.RecordBatch, int]:
    """The records of a file as text."""
    return whole_batch(pa.Table.from_batches(json_batches([path], names, most), text_schema(names))), 0


log = logging.getLogger("privpipe.engines.dask")
SMALLEST_BLOCK = 2**20


def csv_table(runtime: Runtime, source: Source, partition_bytes: int) -> DaskTable:
    """The table of a CSV source.

    Raises
    ------
    DataError
        Names, headers, ragged lines, unclosed quotes, cells that do not convert.
    """
    files = list_files(source)
    dialect = csv_dialect(source, files)
    size = sum(stamp_of(name)[1] for name in files)
    wanted = max(SMALLEST_BLOCK, min(partition_bytes, size // runtime.workers))
    layouts = runtime.compute(
        "lay out CSV files",
        [runtime.task("lay out CSV", csv_blocks, path=name, dialect=dialect, size=wanted) for name in files],
    )
    blocks = [block for layout in layouts for block in layout]
    log.debug("%d CSV files in %d blocks", len(files), len(blocks))
    raw = [runtime.task("read CSV", read_csv_block, block=block, dialect=dialect) for block in blocks]
    if not raw:
        raw = [runtime.task("read CSV", csv_rows, data=b"", dialect=dialect, place="")]
    return text_table(runtime, raw, dialect.names, source.types)


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
    except ValueError:  # what Arrow raises for types without a fixed width
        return TEXT_BYTES
