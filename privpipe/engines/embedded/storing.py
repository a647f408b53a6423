"""Rows that a function made: kept in memory while they are few, else in Parquet files of the session."""

from __future__ import annotations

import re
import shutil
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from privpipe.blocks import ID_COLUMNS
from privpipe.engines.base.parallel import in_order
from privpipe.engines.base.typing import normalised
from privpipe.engines.embedded.session import Session, guarded
from privpipe.engines.embedded.table import EmbeddedTable, column_list
from privpipe.private_files import create_private

__all__ = ["MEMORY_BYTES", "fitted", "in_memory", "parquet_scan", "store"]

MEMORY_BYTES, SMALL_BYTES = 4 << 30, 32 << 20
"""Results up to this size stay in memory while the session has room; small ones even where it has none."""

PATTERN = re.compile(r"([*?[])")


class _Files:
    """A folder of part files, removed with its last owner."""

    def __init__(self, session: Session) -> None:
        self.folder = session.folder / session.name("rows")
        self.folder.mkdir(mode=0o700)
        self.names: list[str] = []
        self._lock = threading.Lock()
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        with self._lock:
            path = self.folder / f"{len(self.names):06d}.parquet"
            self.names.append(str(path))
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        # Dictionaries pay for text; tried on ids and numbers they cost more than all the rest.
        texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
        with guarded("spilling of rows"):
            create_private(path)
            pq.write_table(
                table, path, compression="lz4", write_statistics=False, store_schema=False, use_dictionary=texts
            )


def store(
    session: Session,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    make: Callable[[pa.RecordBatch], pa.RecordBatch | None],
    *,
    ids: bool,
) -> EmbeddedTable:
    """A table of what `make` makes of each batch, made on several threads.

    Parameters
    ----------
    make : callable
        Returns a batch of `schema` (and of the id columns if `ids`), or None for nothing.
    schema : pyarrow.Schema
        Of all columns but the ids.
    """
    spilled: list[_Files] = []

    def finish(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        made = make(batch)
        if made is not None and made.num_rows and spilled:
            spilled[0].write(made)
            return None
        return made if made is not None and made.num_rows else None

    kept: list[pa.RecordBatch] = []
    size, most = 0, min(MEMORY_BYTES, max(session.room(), SMALL_BYTES))
    for made in in_order(finish, batches, session.threads):
        if made is None:
            continue
        kept.append(made)
        size += made.nbytes
        if size > most:
            spilled = spilled or [_Files(session)]
            deque(in_order(spilled[0].write, kept, session.threads), maxlen=0)
            kept, size = [], 0
    whole = schema if not ids else _with_id_fields(schema)
    if not spilled:
        return in_memory(session, pa.Table.from_batches(kept, whole), schema, ids, size)
    if kept:
        spilled[0].write(pa.Table.from_batches(kept))
    return _in_files(spilled[0], schema, ids)


def _with_id_fields(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, *(pa.field(name, pa.int64()) for name in ID_COLUMNS)])


def in_memory(
    session: Session,
    rows: pa.Table,
    schema: pa.Schema,
    ids: bool,
    size: int,
    holds: tuple[object, ...] = (),
) -> EmbeddedTable:
    """A table of rows in memory; `size` bytes of them are new, and what else they are made of is held by `holds`."""
    view = session.name("frame")
    held = (*holds, session.hold(size))
    return EmbeddedTable(f"SELECT {column_list(rows.column_names)} FROM {view}", schema, ids, {view: rows}, held, rows)


def _in_files(files: _Files, schema: pa.Schema, ids: bool) -> EmbeddedTable:
    names = [*schema.names, *(ID_COLUMNS if ids else ())]
    return EmbeddedTable(f"SELECT {column_list(names)} FROM {parquet_scan(files.names)}", schema, ids, {}, (files,))


def parquet_scan(files: list[str]) -> str:
    """A FROM item that reads these Parquet files: of their names each sign of a pattern stands for itself alone."""
    plain = (PATTERN.sub(r"[\1]", name).replace("'", "''") for name in files)
    listed = ", ".join(f"'{name}'" for name in plain)
    return f"read_parquet([{listed}], hive_partitioning = false)"


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A function's result in the schema it promised: logical types, no NaN, ids last.

    Raises
    ------
    DataError
        Values that the promised type cannot hold.
    """
    columns = []
    for wanted in schema:
        array = normalised(batch.column(wanted.name), wanted.name)
        columns.append(array if array.type == wanted.type else array.cast(wanted.type))
    names = list(schema.names)
    for name in ID_COLUMNS:
        if name in batch.schema.names:
            columns.append(batch.column(name))
            names.append(name)
    return pa.record_batch(columns, names=names)
