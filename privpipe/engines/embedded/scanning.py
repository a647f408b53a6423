"""Sources of the embedded engine: Parquet read where it lies, frames scanned where they lie, text converted once."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.files import csv_columns, list_files, parquet_schema, wrong_delimiter_hint
from privpipe.engines.base.frames import arrow_of
from privpipe.engines.base.json_rows import json_batches, json_columns
from privpipe.engines.base.logical import kind_of, logical_type
from privpipe.engines.base.names import check_declared, check_names
from privpipe.engines.base.source import Source
from privpipe.engines.base.text import decimal_scale
from privpipe.engines.base.typing import Typing, conversion_error, typing_of
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.storing import parquet_scan, store
from privpipe.engines.embedded.table import EmbeddedTable, quoted
from privpipe.errors import DataError, EngineError, UsageError

__all__ = ["scan"]


def scan(session: Session, source: Source) -> EmbeddedTable:
    """The table of a source; see `Engine.scan`."""
    if not source.is_path:
        return _scan_frame(session, source)
    kind = source.resolved_format
    if kind == "delta":
        return _scan_delta(session, source)
    files = list_files(source)
    if kind == "parquet":
        found = parquet_schema(files)
        raw = EmbeddedTable(f"SELECT * FROM {parquet_scan(files)}", found)
        return _typed(session, raw, source)
    if kind == "json":
        return _scan_json(session, source, files)
    return _scan_csv(session, source, files)


def _scan_frame(session: Session, source: Source) -> EmbeddedTable:
    frame = arrow_of(source.data)
    if isinstance(frame, pa.RecordBatchReader):
        # A stream can be read once: it is stored as it is, and typed from there.
        return _typed(session, _converted(session, frame, typing_of(frame.schema, {})), source)
    view = session.name("frame")
    return _typed(session, EmbeddedTable(f"SELECT * FROM {view}", frame.schema, False, {view: frame}), source)


def _scan_delta(session: Session, source: Source) -> EmbeddedTable:
    try:
        deltalake = importlib.import_module("deltalake")
    except ImportError:
        raise UsageError("format delta needs deltalake: pip install 'privpipe[delta]'") from None
    try:
        dataset = deltalake.DeltaTable(str(source.data)).to_pyarrow_dataset()
    except (deltalake.exceptions.DeltaError, OSError) as error:
        raise DataError(f"not a readable Delta table ({type(error).__name__}): {source.data!s}") from None
    view = session.name("frame")
    return _typed(session, EmbeddedTable(f"SELECT * FROM {view}", dataset.schema, False, {view: dataset}), source)


def _typed(session: Session, raw: EmbeddedTable, source: Source) -> EmbeddedTable:
    """The raw table in logical types: by casts where DuckDB's are exact, else converted once."""
    typing = typing_of(raw.schema, source.types)
    for field in raw.schema:
        wanted = typing.schema.field(field.name).type
        if logical_type(field.type, field.name) != wanted or not _casts_exactly(session, raw, field):
            return _converted(session, _batches(session, raw), _with_scales(session, raw, source))
    columns = ", ".join(_cast(field, typing.schema.field(field.name).type) for field in raw.schema)
    return raw.derived(f"SELECT {columns} FROM {raw.source}", typing.schema)


def _batches(session: Session, raw: EmbeddedTable) -> Iterator[pa.RecordBatch]:
    return session.stream(raw.sql, raw.frames)


def _casts_exactly(session: Session, raw: EmbeddedTable, field: pa.Field) -> bool:
    """Whether a cast keeps every value; where only the values tell, they are asked."""
    kind, name = field.type, quoted(field.name)
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if pt.is_run_end_encoded(kind):
        return False
    if pt.is_uint64(kind):
        limit = session.value(f"SELECT max({name}) FROM {raw.source}", raw.frames)
        if limit is not None and limit >= 2**63:
            raise DataError(f"column {field.name!r} holds integers above 2^63 - 1, which no logical type can carry")
    if pt.is_timestamp(kind) and kind.unit == "ns":
        finer = session.value(f"SELECT count(*) FROM {raw.source} WHERE epoch_ns({name}) % 1000 <> 0", raw.frames)
        if finer:
            raise DataError(f"column {field.name!r} holds {finer:,} timestamps finer than a microsecond; round them")
    return True


def _cast(field: pa.Field, wanted: pa.DataType) -> str:
    name = quoted(field.name)
    if field.type == wanted and not pt.is_floating(wanted):
        return name
    if pt.is_floating(wanted):
        return f"CASE WHEN isnan({name}) THEN NULL ELSE {name}::DOUBLE END AS {name}"
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
    scales: Counter[str] = Counter()
    if wanted:
        columns = ", ".join(quoted(name) for name in wanted)
        for batch in session.stream(f"SELECT {columns} FROM {raw.source}", raw.frames):
            for name in wanted:
                scales[name] = max(scales[name], decimal_scale(batch.column(name).cast(pa.string())))
    return typing_of(raw.schema, source.types, scales)


def _converted(session: Session, batches: Any, typing: Typing) -> EmbeddedTable:
    """Rows converted batch by batch and stored; every cell that does not convert is counted before any is blamed."""
    failed: Counter[str] = Counter()

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        converted, bad = typing.apply(batch)
        failed.update(bad)  # a Counter's update of one key is safe under the interpreter lock
        return converted

    table = store(session, batches, typing.schema, convert, ids=False)
    for name in typing.schema.names:
        if failed[name]:
            raise conversion_error(name, typing.kinds.get(name, kind_of(typing.schema.field(name).type)), failed[name])
    return table


def _scan_json(session: Session, source: Source, files: list[str]) -> EmbeddedTable:
    names = json_columns(files)
    check_names(names)
    schema = pa.schema([(name, pa.string()) for name in names])
    text = store(session, json_batches(files, names), schema, lambda batch: batch, ids=False)
    return _typed(session, text, source)


def _scan_csv(session: Session, source: Source, files: list[str]) -> EmbeddedTable:
    names = csv_columns(source, files)
    hint = wrong_delimiter_hint(names, source.delimiter)
    check_declared(names, source.types, hint=hint)
    check_names(names)
    filled = [name for name in files if Path(name).stat().st_size]
    raw = EmbeddedTable(
        f"SELECT * FROM {_csv_scan(source, filled, names)}", pa.schema([(n, pa.string()) for n in names])
    )
    try:
        if source.types:
            return _converted(session, _batches(session, raw), _with_scales(session, raw, source))
        return store(session, _batches(session, raw), raw.schema, lambda batch: batch, ids=False)
    except EngineError as error:
        if isinstance(error.__context__, OSError) or type(error) is not EngineError:
            raise
        raise DataError(
            f"{Path(files[0]).name}{' and others' if len(files) > 1 else ''}: not readable as CSV with {len(names)} "
            f"columns and the delimiter {source.delimiter!r}: a row has more or fewer fields, a quote is never "
            "closed, or the text is not UTF-8"
        ) from None


def _csv_scan(source: Source, files: list[str], names: list[str]) -> str:
    def text(value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    listed = ", ".join(map(text, files))
    columns = ", ".join(f"{text(name)}: 'VARCHAR'" for name in names)
    nulls = ", ".join(map(text, source.null_values))
    # Every reading rule is given: a sniffer would read two files of one source in two ways.
    return (
        f"read_csv([{listed}], auto_detect = false, columns = {{{columns}}}, delim = {text(source.delimiter)}, "
        f"quote = '\"', escape = '\"', header = {str(source.header).lower()}, strict_mode = true, "
        f"null_padding = false, ignore_errors = false, allow_quoted_nulls = true, hive_partitioning = false, "
        f"{f'nullstr = [{nulls}]' if nulls else 'nullstr = []'})"
    )
