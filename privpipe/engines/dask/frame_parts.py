"""Frames as partitions: Dask DataFrames as they are cut, frames of this process cut by rows; JSON files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.files import list_files
from privpipe.engines.base.frames import arrow_of
from privpipe.engines.base.json_rows import json_batches, json_columns
from privpipe.engines.base.lakes import LakeTable, rows_of_piece
from privpipe.engines.base.logical import logical_type
from privpipe.engines.base.names import check_declared, check_names
from privpipe.engines.base.source import Source
from privpipe.engines.dask.graph import foreign_nodes
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.table import DaskTable
from privpipe.engines.dask.typed import text_table, typed_table, whole_batch
from privpipe.errors import DataError, UsageError

__all__ = ["dask_table", "is_dask_frame", "json_table", "lake_table", "local_table"]

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
    raw = [runtime.task("read frame", arrow_of, part) for part in foreign_nodes(delayed)]
    # What an object or category column holds, only its partitions can tell.
    if any(str(kind) in {"object", "category"} for kind in frame.dtypes):
        found = runtime.compute("learn types", [runtime.task("learn types", schema_of, part) for part in raw])
        schema = one_schema(found)
    else:
        schema = arrow_of(frame._meta).schema
    return typed_table(runtime, raw, schema, source.types)


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


def schema_of(table: pa.Table) -> pa.Schema:
    """The schema of a partition."""
    return table.schema


def one_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The logical schema of partitions whose types were inferred from their values.

    Examples
    --------
    >>> one_schema([pa.schema({"a": pa.null()}), pa.schema({"a": pa.int8()})]).field("a").type
    DataType(int64)
    """
    fields = []
    for name in schemas[0].names:
        kinds = {
            logical_type(schema.field(name).type, name)
            for schema in schemas
            if not _is_untyped(schema.field(name).type)
        }
        if kinds == {pa.int64(), pa.float64()}:
            kinds = {pa.float64()}
        if len(kinds) > 1:
            raise DataError(
                f"column {name!r} mixes types ({', '.join(sorted(map(str, kinds)))}); make it one type, text say"
            )
        fields.append(pa.field(name, kinds.pop() if kinds else pa.string()))
    return pa.schema(fields)


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
    """The table of JSON files, a partition a file.

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
    names = list(dict.fromkeys(name for one in found for name in one))
    check_names(names)
    check_declared(names, source.types)
    raw = [runtime.task("read JSON", json_rows, path=name, names=names, most=source.max_bytes) for name in files]
    return text_table(runtime, raw, names, source.types)


def json_rows(path: str, names: list[str], most: int) -> tuple[pa.RecordBatch, int]:
    """The records of a file as text."""
    schema = pa.schema([(name, pa.string()) for name in names])
    return whole_batch(pa.Table.from_batches(json_batches([path], names, most), schema)), 0
