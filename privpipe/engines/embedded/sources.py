"""Sources of the embedded engine: files and frames scanned where they are, text typed and stored once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks.table_name import TableName, refuse_table
from privpipe.engines.base.batches import in_order
from privpipe.engines.base.conversion import Typing, conversion_error, decimal_scale, normalised, typing_of
from privpipe.engines.base.frames import arrow_of
from privpipe.engines.base.logical_types import (
    CARRIED,
    check_declared,
    check_names,
    inexact_error,
    is_carried,
    kind_of,
    logical_type,
)
from privpipe.engines.embedded import stored_rows
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.file_codes import FileCodes
from privpipe.engines.embedded.session import Session, column_list, quoted
from privpipe.engines.embedded.stored_rows import parquet_scan, store
from privpipe.engines.lakes import lake_of
from privpipe.engines.readers.files import csv_columns, list_files, stamp_of, wrong_delimiter_hint
from privpipe.engines.readers.parquet_files import (
    ParquetFiles,
    parquet_files,
    partition_values,
    partitioned_dataset,
    partitioned_schema,
    read_groups,
    refuse_finer_instants,
    with_partitions,
)
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_records import (
    CsvBlock,
    CsvDialect,
    csv_blocks,
    json_batches,
    json_columns,
    ragged_error,
    read_csv_block,
)
from privpipe.errors import DataError, EngineError, PrivpipeError

__all__ = ["converted_rows", "decimal_scales", "scan", "scan_text", "table_of"]


def table_of(connection: Any, name: TableName) -> Any:
    """A relation of the caller's connection.

    Raises
    ------
    UnsupportedError
        There is no such connection: the engine's own database holds no user tables.
    DataError
        The connection knows no such table or view. A name never stands for a file or a variable of Python.
    """
    if connection is None:
        raise refuse_table(name, "embedded")
    try:
        # DuckDB takes an unknown name for a file or a Python variable; this asks its catalogue alone.
        connection.sql("SELECT count(*) FROM pragma_table_info(?)", params=[name.duckdb]).fetchall()
        return connection.table(name.duckdb)
    except (duckdb.CatalogException, duckdb.BinderException):
        problem: PrivpipeError = DataError(
            name.located(
                f"the DuckDB connection knows no table or view {name}; create or attach it in that connection, or give "
                "the `path:` of its files"
            )
        )
    except duckdb.Error as error:
        problem = EngineError(name.located(f"the DuckDB connection cannot read {name} ({type(error).__name__})"))
    raise problem


BLOCK_BYTES = 1 << 24
Pieces = Callable[[], Iterable[Any]]
Reader = Callable[[Any], tuple[pa.RecordBatch, int]]
"""From a piece of a source to its text columns and the number of its ragged lines."""


def scan_text(session: Session, source: Source, files: list[str]) -> EmbeddedTable:
    """The table of CSV or JSON files.

    Raises
    ------
    DataError
        Names, headers, ragged lines, unclosed quotes, cells that do not convert; all cells of the source are
        counted before one column is blamed.
    """
    names, pieces, read = (_json if source.resolved_format == "json" else _csv)(session, source, files)
    wanted = [name for name, kind in source.types.items() if kind == "decimal"]
    texts = (batch for batch, _ in in_order(read, pieces(), session.threads)) if wanted else iter(())
    schema = pa.schema([(name, pa.string()) for name in names])
    typing = typing_of(schema, source.types, decimal_scales(texts, wanted))
    ragged: list[int] = []

    def take(piece: Any) -> pa.RecordBatch:
        batch, lines = read(piece)
        ragged.append(lines)
        return batch

    def refuse() -> None:
        if sum(ragged):
            raise ragged_error(sum(ragged), names)

    return converted_rows(session, pieces(), typing, take, refuse)


def converted_rows(
    session: Session,
    pieces: Iterable[Any],
    typing: Typing,
    take: Callable[[Any], pa.RecordBatch] = lambda batch: batch,
    refuse: Callable[[], None] = lambda: None,
) -> EmbeddedTable:
    """Rows converted piece by piece and stored.

    Parameters
    ----------
    take : callable
        Makes a batch of a piece.
    refuse : callable
        Raises what `take` found amiss.

    Raises
    ------
    DataError
        Cells that do not convert.
    """
    failed: list[dict[str, int]] = []  # appended to by several threads, added up by one

    def convert(piece: Any) -> pa.RecordBatch:
        converted, bad = typing.apply(take(piece))
        failed.append(bad)
        return converted

    table = store(session, pieces, typing.schema, convert, ids=False)
    refuse()
    counts: Counter[str] = Counter()
    for bad in failed:
        counts.update(bad)
    for name in typing.schema.names:
        if counts[name]:
            raise conversion_error(name, kind_of(typing.schema.field(name).type), counts[name])
    return table


def decimal_scales(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> dict[str, int]:
    """Digits after the point that text columns need, over all their cells."""
    scales = dict.fromkeys(columns, 0)
    for batch in batches:
        for name in columns:
            scales[name] = max(scales[name], decimal_scale(batch.column(name).cast(pa.string())))
    return scales


def _csv(session: Session, source: Source, files: list[str]) -> tuple[list[str], Pieces, Reader]:
    names = csv_columns(source, files)
    check_names(names)
    check_declared(names, source.types, hint=wrong_delimiter_hint(names, source.delimiter))
    dialect = CsvDialect.of(names, source)
    # Enough blocks for all threads, none so large that a few of them fill the memory.
    size = max(1 << 20, min(BLOCK_BYTES, sum(stamp_of(name)[1] for name in files) // (2 * session.threads)))
    blocks: list[CsvBlock] = []
    for found in in_order(lambda name: csv_blocks(name, dialect, size), files, session.threads):
        blocks += found
    return names, lambda: blocks, lambda block: read_csv_block(block, dialect)


def _json(session: Session, source: Source, files: list[str]) -> tuple[list[str], Pieces, Reader]:
    names = json_columns(files, source.max_bytes)
    check_names(names)
    check_declared(names, source.types)

    def batches() -> Iterator[pa.RecordBatch]:
        return json_batches(files, names, source.max_bytes)

    return names, batches, lambda batch: (batch, 0)


def scan(session: Session, source: Source) -> EmbeddedTable:
    """The table of a source; see `Engine.scan`."""
    lake = lake_of(source)
    if lake is not None:
        return _scan_frame(session, replace(source, data=lake.frame(), format=None))
    if not source.is_path:
        return _scan_frame(session, source)
    files = list_files(source)
    return (
        _scan_parquet(session, source, files)
        if source.resolved_format == "parquet"
        else scan_text(session, source, files)
    )


def _scan_parquet(session: Session, source: Source, files: list[str]) -> EmbeddedTable:
    """Files read by the database where it gets every value right, else file by file in the types of the source."""
    found = parquet_files(files)
    if not found.native or (found.int96 and (source.partitions or _is_escaped(files))):
        return _typed(session, _converted_files(session, source, found), source)
    refuse_finer_instants(found, session.threads)
    if source.partitions:
        return _scan_frame(session, replace(source, data=partitioned_dataset(source, found)))
    if any(is_carried(field.type) for field in found.schema):
        import pyarrow.dataset as ds

        dataset = ds.dataset(files, schema=found.schema, format="parquet", partitioning=None)
        return _streamed(session, _readable(dataset, source), source)
    if _is_escaped(files):
        raw = _escaped(session, files, found.schema)
    else:
        raw = EmbeddedTable(f"SELECT * FROM {parquet_scan(files)}", found.schema)
    return _typed(session, replace(raw, files=FileCodes(tuple(files), found.schema)), source)


def _converted_files(session: Session, source: Source, found: ParquetFiles) -> EmbeddedTable:
    """The rows of files in the one schema of the source, read once and stored."""
    schema = partitioned_schema(source, found)
    values = partition_values(source, found.files) if source.partitions else {}

    def read(piece: tuple[str, int]) -> pa.RecordBatch:
        rows = read_groups(piece[0], [piece[1]], found.schema).combine_chunks()
        batch = rows.to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], rows.schema)
        return with_partitions(batch, values.get(piece[0], {}))

    pieces = [(name, at) for name, groups in found.groups.items() for at in range(len(groups))]
    return converted_rows(session, pieces, typing_of(schema, _carried(source)), read)


def _escaped(session: Session, files: list[str], schema: pa.Schema) -> EmbeddedTable:
    """Files with a backslash in a name, which DuckDB takes for an escape whatever stands around it."""
    import pyarrow.dataset as ds

    view = session.name("frame")
    return EmbeddedTable(
        f"SELECT * FROM {view}", schema, False, {view: ds.dataset(files, schema, format="parquet", partitioning=None)}
    )


def _is_escaped(files: list[str]) -> bool:
    return any("\\" in name for name in files)


def _scan_frame(session: Session, source: Source) -> EmbeddedTable:
    frame = _readable(arrow_of(source.data), source)
    if isinstance(frame, pa.RecordBatchReader):
        return _streamed(session, frame, source)
    whole = isinstance(frame, pa.Table) and frame.num_rows and frame.num_columns
    if whole and "decimal" not in source.types.values() and stored_rows.is_small(session, frame):
        return stored_rows.scanned(session, frame, typing_of(frame.schema, source.types))
    view = session.name("frame")
    table = _typed(session, EmbeddedTable(f"SELECT * FROM {view}", frame.schema, False, {view: frame}), source)
    if isinstance(frame, pa.Table):
        table.tell_records(frame.num_rows)
    return table


def _streamed(session: Session, batches: pa.RecordBatchReader, source: Source) -> EmbeddedTable:
    """A stream can be read once: it is stored unchanged, and typed from there."""
    return _typed(session, converted_rows(session, batches, typing_of(batches.schema, _carried(source))), source)


def _carried(source: Source) -> dict[str, str]:
    """Of the declared types those of columns that nothing looks into."""
    return {name: kind for name, kind in source.types.items() if kind == CARRIED}


def _readable(frame: Any, source: Source) -> Any:
    """A frame in types that DuckDB takes; a dataset that has others becomes a stream of batches, which is typed."""
    strange = [field.name for field in frame.schema if _is_strange(field.type) or is_carried(field.type)]
    if not strange or isinstance(frame, pa.RecordBatchReader):
        return frame
    if not isinstance(frame, pa.Table):
        return pa.RecordBatchReader.from_batches(frame.schema, frame.to_batches())
    check_names(frame.column_names)
    for name in strange:
        at = frame.column_names.index(name)
        frame = frame.set_column(
            at, name, normalised(frame.column(at), name, carried=source.types.get(name) == CARRIED)
        )
    return frame


def _is_strange(kind: pa.DataType) -> bool:
    """Types that DuckDB refuses or whose values beyond its range it meets in the middle of a query."""
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        kind = kind.value_type
    if pt.is_timestamp(kind):
        return kind.unit in ("s", "ms")
    return bool(pt.is_float16(kind) or pt.is_decimal256(kind) or pt.is_date64(kind))


def _typed(session: Session, raw: EmbeddedTable, source: Source) -> EmbeddedTable:
    """The raw table in logical types: by casts where DuckDB's are exact, else converted once."""
    typing = typing_of(raw.schema, source.types)
    for field in raw.schema:
        wanted = typing.schema.field(field.name).type
        if logical_type(field.type, field.name) != wanted or not _casts_exactly(session, raw, field):
            return converted_rows(session, _batches(session, raw), _with_scales(session, raw, source))
    columns = ", ".join(_cast(field, typing.schema.field(field.name).type) for field in raw.schema)
    files = None if raw.files is None else replace(raw.files, schema=typing.schema)
    return raw.derived(f"SELECT {columns} FROM {raw.source}", typing.schema, files=files)


def _batches(session: Session, raw: EmbeddedTable) -> Iterator[pa.RecordBatch]:
    return session.stream(raw.sql, raw.frames)


def _casts_exactly(session: Session, raw: EmbeddedTable, field: pa.Field) -> bool:
    """Whether a cast keeps every value; where that depends on the values, they are examined."""
    kind, name = field.type, quoted(field.name)
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if pt.is_run_end_encoded(kind):
        return False
    if pt.is_uint64(kind):
        limit = session.value(f"SELECT max({name}) FROM {raw.source}", raw.frames)
        if limit is not None and limit >= 2**63:
            raise inexact_error(field.name, kind)
    if pt.is_timestamp(kind) and kind.unit == "ns":
        # The largest one stands for infinity, of which there is no epoch.
        wrong = f"{name} IS NOT NULL AND coalesce(epoch_ns({name}) % 1000, 1) <> 0"
        finer = session.value(f"SELECT count(*) FROM {raw.source} WHERE {wrong}", raw.frames)
        if finer:
            raise inexact_error(field.name, kind)
    return True


def _cast(field: pa.Field, wanted: pa.DataType) -> str:
    name = quoted(field.name)
    if field.type == wanted and not pt.is_floating(wanted):
        return name
    if pt.is_floating(wanted):
        # Not by isnan: where a Parquet file's statistics name no NaN, which they never do, DuckDB takes it for false.
        number = f"{name}::DOUBLE"
        return f"CASE WHEN isfinite({number}) OR isinf({number}) THEN {number} END AS {name}"
    target = {
        "text": "VARCHAR",
        "integer": "BIGINT",
        "boolean": "BOOLEAN",
        "date": "DATE",
        "binary": "BLOB",
        "timestamp": "TIMESTAMPTZ" if getattr(wanted, "tz", None) else "TIMESTAMP",
        "decimal": f"DECIMAL(38, {getattr(wanted, 'scale', 0)})",
    }[kind_of(wanted)]
    return f"{name}::{target} AS {name}"


def _with_scales(session: Session, raw: EmbeddedTable, source: Source) -> Typing:
    """The typing, once the digits of text columns declared decimal are known."""
    wanted = [
        name
        for name, kind in source.types.items()
        if kind == "decimal" and kind_of(logical_type(raw.schema.field(name).type, name)) == "text"
    ]
    narrow = f"SELECT {column_list(wanted)} FROM {raw.source}"
    batches = session.stream(narrow, raw.frames) if wanted else iter(())
    return typing_of(raw.schema, source.types, decimal_scales(batches, wanted))
