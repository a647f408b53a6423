"""Rows that are stored: in memory while they are few, else in Parquet files of the session."""

from __future__ import annotations

import re
import shutil
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privpipe.blocks import ID_COLUMNS, ClassBlock, ClassQuery
from privpipe.blocks.arrays import Bools, Ints
from privpipe.engines.base.batches import in_order
from privpipe.engines.base.class_blocks import COUNT, block_of_cells, grouping_columns, require_query_columns
from privpipe.engines.base.conversion import normalised
from privpipe.engines.base.histograms import group_key, value_order
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, column_list
from privpipe.engines.embedded.session import Session, guarded
from privpipe.errors import DataError
from privpipe.private_files import create_private

if TYPE_CHECKING:
    from privpipe.engines.base.conversion import Typing

__all__ = ["MEMORY_BYTES", "SmallRows", "fitted", "given", "in_memory", "is_small", "parquet_scan", "scanned", "store"]


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


SPACE = 1 << 62


def is_small(session: Session, rows: pa.Table) -> bool:
    """Whether rows in memory are few, and so small that a copy of them needs no room."""
    return bool(rows.num_rows <= session.small_rows and rows.nbytes <= SMALL_BYTES)


@dataclass(frozen=True)
class SmallRows:
    """The rows of one table; each answer is what the same query of the database gives.

    Parameters
    ----------
    session : Session
    table : EmbeddedTable
    rows : pyarrow.Table
        All its columns, one chunk each.
    """

    session: Session
    table: EmbeddedTable
    rows: pa.Table = field(repr=False)

    @classmethod
    def of(cls, session: Session, table: EmbeddedTable) -> SmallRows | None:
        """None for a table whose rows are many, or not in memory."""
        if table.rows is None or not is_small(session, table.rows):
            return None
        return cls(session, table, table.rows.combine_chunks())

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def column(self, name: str) -> pa.Array:
        """One column; of a table without rows too."""
        column = self.rows.column(name)
        return column.chunk(0) if column.num_chunks else pa.array([], column.type)

    def nulls(self, name: str) -> int:
        """Missing values of a column."""
        return int(self.rows.column(name).null_count)

    def distinct(self, columns: Sequence[str], count: str = "__count") -> pa.Table:
        """Each combination with its records, in order of the columns, nulls last."""
        return self._counted(columns, self._numbers(columns), count)[0]

    def _counted(self, columns: Sequence[str], numbers: Ints, count: str) -> tuple[pa.Table, Ints]:
        """Each combination with its records, and its first record; `numbers` as `_numbers` gives them."""
        _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        at = pa.array(first)
        found = [group_key(self.column(name)).take(at) for name in columns]
        return pa.table([*found, pa.array(counts, pa.int64())], names=[*columns, count]), first

    def block(self, query: ClassQuery) -> ClassBlock | None:
        """All classes as one block; None without a record."""
        require_query_columns(self.table.schema, query)
        if not self.rows.num_rows:
            return None
        return self._classes(query)[0]

    def blocks(self, query: ClassQuery) -> Iterator[ClassBlock]:
        """The classes as blocks."""
        block = self.block(query)
        return iter(()) if block is None else iter((block,))

    def keep_classes(self, query: ClassQuery, passing: Callable[[ClassBlock], Bools]) -> EmbeddedTable:
        """See `Engine.keep_classes`."""
        require_query_columns(self.table.schema, query)
        if not self.rows.num_rows:
            return self.table
        block, numbers = self._classes(query)
        kept = passing(block)[numbers]
        return self.table if kept.all() else self._made(self.rows.filter(pa.array(kept)), self.table.schema)

    def recode(self, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> EmbeddedTable:
        """See `Engine.recode`."""
        rows, schema = self.rows, self.table.schema
        for name, (raw, labels) in codebooks.items():
            raw = group_key(raw).cast(schema.field(name).type)
            places = pc.index_in(group_key(self.column(name)), value_set=raw)
            if places.null_count:
                raise DataError(
                    f"column {name!r}: {places.null_count:,} records hold a value that the hierarchy has no label for; "
                    "complete it"
                )
            at = rows.column_names.index(name)
            rows = rows.set_column(at, name, labels.take(places))
            schema = schema.set(schema.get_field_index(name), pa.field(name, labels.type))
        return self._made(rows, schema)

    def ordered(self) -> pa.Table:
        """The visible rows by record id."""
        order = np.lexsort([self.column(name).to_numpy() for name in reversed(ID_COLUMNS)])
        return self.rows.select(self.table.schema.names).take(pa.array(order))

    def _made(self, rows: pa.Table, schema: pa.Schema) -> EmbeddedTable:
        return in_memory(self.session, rows, schema, self.table.has_record_ids, rows.nbytes)

    def _classes(self, query: ClassQuery) -> tuple[ClassBlock, Ints]:
        """The classes, and the class of each record."""
        classes, columns = self._numbers(query.keys), grouping_columns(query)
        _, numbers = np.unique(classes, return_inverse=True)
        numbers = numbers.reshape(-1).astype(np.int64)
        cells, first = self._counted(
            columns, classes if list(columns) == list(query.keys) else self._numbers(columns), COUNT
        )
        return block_of_cells(cells, query, numbers[first]), numbers

    def _numbers(self, columns: Sequence[str]) -> Ints:
        """A number for each record's combination, in order of the columns, nulls last."""
        numbers, space = np.zeros(self.rows.num_rows, dtype=np.int64), 1
        for name in columns:
            encoded = group_key(self.column(name)).dictionary_encode(null_encoding="encode")
            order = value_order(encoded.dictionary).to_numpy()
            ranks = np.empty(len(order), dtype=np.int64)
            ranks[order] = np.arange(len(order))
            if space * max(len(order), 1) >= SPACE:
                distinct, numbers = np.unique(numbers, return_inverse=True)
                numbers, space = numbers.reshape(-1).astype(np.int64), len(distinct)
            numbers = numbers * len(order) + ranks[encoded.indices.to_numpy(zero_copy_only=False)]
            space *= max(len(order), 1)
        return numbers


def given(session: Session, rows: pa.Table, ids: Ints) -> EmbeddedTable:
    """See `GivenRows`."""
    words = [pa.array(np.ascontiguousarray(ids[:, word])) for word in (0, 1)]
    whole = pa.table([*rows.columns, *words], schema=_with_id_fields(rows.schema))
    return in_memory(session, whole, rows.schema, True, ids.nbytes)


def scanned(session: Session, frame: pa.Table, typing: Typing) -> EmbeddedTable:
    """A small frame in logical types, copied: what is judged must not change with the caller's frame.

    Raises
    ------
    DataError
        Cells that do not convert.
    """
    rows = pa.Table.from_batches([typing.convert(frame)])
    rows = rows.take(pa.array(np.arange(rows.num_rows)))
    return in_memory(session, rows, typing.schema, False, rows.nbytes)
