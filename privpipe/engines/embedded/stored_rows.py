"""Rows that are stored, in memory or in Parquet files, and functions of row blocks: streamed, by key, over pairs."""

from __future__ import annotations

import re
import shutil
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privpipe.blocks import ID_COLUMNS, ClassBlock, ClassQuery, PairBlock, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.engines.base.batches import in_order, joined, whole_array
from privpipe.engines.base.class_blocks import (
    COUNT,
    block_of_cells,
    group_key,
    grouping_columns,
    require_query_columns,
    value_order,
)
from privpipe.engines.base.conversion import normalised
from privpipe.engines.base.logical_types import beside_schema
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.session import BATCH_ROWS, Session, column_list, guarded, quoted
from privpipe.errors import DataError
from privpipe.kernels.grouping.sorting import positions_by_code
from privpipe.private_files import create_private
from privpipe.progress import advanced

if TYPE_CHECKING:
    from privpipe.engines.base.conversion import Typing

__all__ = [
    "MEMORY_BYTES",
    "SmallRows",
    "beside",
    "brought",
    "fitted",
    "given",
    "in_memory",
    "is_small",
    "logical",
    "logical_table",
    "map_groups",
    "map_rows",
    "paired",
    "parquet_scan",
    "rows_of",
    "scanned",
    "store",
    "with_column",
]


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


A = TypeVar("A", pa.RecordBatch, pa.Table)
TEXT_BYTES = 32
"""What a text is reckoned to take."""


def logical(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of DuckDB's in the table's logical types (it names time zones and decimals its own way)."""
    columns = [_as(column, name, schema) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.record_batch(columns, names=batch.schema.names)


def logical_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """As `logical`, of a whole table."""
    columns = [_as(column, name, schema) for name, column in zip(table.column_names, table.columns, strict=True)]
    return pa.table(columns, names=table.column_names)


def _as(column: pa.Array, name: str, schema: pa.Schema) -> pa.Array:
    at = schema.get_field_index(name)
    return column if at < 0 or column.type == schema.field(at).type else column.cast(schema.field(at).type)


def rows_of(session: Session, table: EmbeddedTable, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Some columns of a table (default: all, ids too), in no promised order."""
    names = table.all_columns if columns is None else columns
    # Without a column a batch would forget how many rows it has.
    if table.rows is not None and names:
        return (batch for batch in table.rows.select(names).to_batches(BATCH_ROWS) if batch.num_rows)
    sql = f"SELECT {column_list(names)} FROM {table.source}"
    return (logical(batch, table.schema) for batch in session.stream(sql, table.frames))


def brought(session: Session, table: EmbeddedTable) -> EmbeddedTable:
    """The table with its rows in memory, if there is likely to be room for them and a copy; else unchanged."""
    if table.rows is not None:
        return table
    width = sum(TEXT_BYTES if _has_no_width(field.type) else field.type.bit_width / 8 for field in table.schema)
    width += 8 * len(ID_COLUMNS) if table.has_record_ids else 0
    if 2 * width * table.records(session) > min(MEMORY_BYTES, session.room()):
        return table
    return store(session, rows_of(session, table), table.schema, lambda batch: batch, ids=table.has_record_ids)


def _has_no_width(found: pa.DataType) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_binary(found))


def map_rows(
    session: Session, table: EmbeddedTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema
) -> EmbeddedTable:
    """See `Engine.map_rows`."""

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        return fitted(function(RowBlock(batch)).to_batch(), schema)

    return store(session, rows_of(session, table), schema, make, ids=table.has_record_ids)


def with_column(
    session: Session, table: EmbeddedTable, name: str, compute: Callable[[RowBlock], Ints]
) -> EmbeddedTable:
    """The table with one more hidden integer column."""
    schema = pa.schema([*table.schema, pa.field(name, pa.int64())])

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = RowBlock(batch)
        more = pa.array(compute(rows), pa.int64())
        ids = [batch.column(column) for column in ID_COLUMNS] if table.has_record_ids else []
        names = [*table.schema.names, name, *(ID_COLUMNS if ids else ())]
        return pa.record_batch([*rows.batch.columns, more, *ids], names=names)

    return store(session, rows_of(session, table), schema, make, ids=table.has_record_ids)


KEY = "__privpipe_key"
MOST_BYTES = 1 << 30
"""Of a column that is gathered at once: offsets of texts have 32 bits."""

Keys = Ints


def map_groups(
    session: Session,
    table: EmbeddedTable,
    key: Callable[[RowBlock], Keys],
    function: Callable[[RowBlock, int], RowBlock],
    schema: pa.Schema,
) -> EmbeddedTable:
    """See `Engine.map_groups`."""

    def make(groups: list[tuple[int, pa.RecordBatch]]) -> pa.RecordBatch:
        made = [function(RowBlock(group), number).to_batch() for number, group in groups]
        # A column that one group left without any value may have come back without a type.
        if any(not batch.schema.equals(made[0].schema) for batch in made):
            made = [fitted(batch, schema) for batch in made]
        return fitted(joined(made), schema)

    table = brought(session, table)
    groups = _gathered(session, table, key) or _sorted(session, table, key)
    return store(session, _many(groups), schema, make, ids=table.has_record_ids)


def _gathered(
    session: Session, table: EmbeddedTable, key: Callable[[RowBlock], Keys]
) -> Iterator[tuple[int, pa.RecordBatch]] | None:
    """Keys with their rows, one copy of which is made column by column; None where rows or copy are not in memory."""
    rows = table.rows
    if rows is None or not rows.num_rows or session.room() < rows.nbytes:
        return None
    if max(column.nbytes for column in rows.columns) > MOST_BYTES:
        return None

    def coded(batch: pa.RecordBatch) -> tuple[Keys, Keys]:
        known, codes = np.unique(np.asarray(key(RowBlock(batch)), dtype=np.int64), return_inverse=True)
        return known, codes

    parts = list(in_order(coded, rows_of(session, table), session.threads))
    keys = np.unique(np.concatenate([known for known, _ in parts]))
    codes = np.concatenate([np.searchsorted(keys, known).astype(np.int32)[inside] for known, inside in parts])
    with guarded("gathering of rows"):
        order = pa.array(positions_by_code(codes, len(keys)))
        columns = list(in_order(lambda column: whole_array(column).take(order), rows.columns, session.threads))
    ends = np.cumsum(np.bincount(codes)).tolist()
    whole = pa.record_batch(columns, schema=rows.schema)
    return (
        (number, whole.slice(start, end - start))
        for number, start, end in zip(keys.tolist(), [0, *ends], ends, strict=False)
    )


def _sorted(
    session: Session, table: EmbeddedTable, key: Callable[[RowBlock], Keys]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Keys with their rows, which are stored with their keys and read back in their order."""
    keyed = with_column(session, table, KEY, lambda rows: np.asarray(key(rows), dtype=np.int64))
    names = [*table.all_columns]
    sql = f"SELECT {column_list([*names, KEY])} FROM {keyed.source} ORDER BY {KEY}"
    batches = (logical(batch, table.schema) for batch in session.stream(sql, keyed.frames))
    for group in _groups(batches):  # a generator, so that the files live as long as it does
        yield group.column(KEY)[0].as_py(), group.select(names)


def _many(groups: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[list[tuple[int, pa.RecordBatch]]]:
    """Groups by the handful, so that small ones do not each make a task and a file."""
    found: list[tuple[int, pa.RecordBatch]] = []
    rows = 0
    for number, group in groups:
        found.append((number, group))
        rows += group.num_rows
        if rows >= BATCH_ROWS // 2:
            yield found
            advanced("blocks", len(found))
            found, rows = [], 0
    if found:
        yield found
        advanced("blocks", len(found))


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whole groups of rows that come sorted by key."""
    open_parts: list[pa.RecordBatch] = []
    open_key: int | None = None
    for batch in batches:
        keys = batch.column(KEY).to_numpy()
        starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if open_key is not None and int(keys[start]) != open_key:
                yield joined(open_parts)
                open_parts = []
            open_key = int(keys[start])
            open_parts.append(batch.slice(start, stop - start))
    if open_parts:
        yield joined(open_parts)


BEFORE, AFTER = "__privpipe_before_", "__privpipe_after_"


def paired(
    session: Session, original: EmbeddedTable, released: EmbeddedTable, columns: Sequence[str]
) -> Iterator[PairBlock]:
    """Blocks of the records that are in both tables."""
    original.require(columns)
    released.require(columns)
    if not (original.has_record_ids and released.has_record_ids):
        raise DataError("original and released records cannot be aligned: one of the tables carries no record ids")
    sides = [
        ", ".join(f"{alias}.{quoted(name)} AS {quoted(prefix + name)}" for name in columns)
        for alias, prefix in (("o", BEFORE), ("r", AFTER))
    ]
    ids = column_list(ID_COLUMNS, "o")
    on = " AND ".join(f"o.{name} = r.{name}" for name in ID_COLUMNS)
    select = ", ".join([*(side for side in sides if side), ids])
    sql = f"SELECT {select} FROM {original.source} AS o JOIN {released.source} AS r ON {on}"
    for batch in session.stream(sql, {**original.frames, **released.frames}):
        yield PairBlock(_side(batch, BEFORE, columns, original.schema), _side(batch, AFTER, columns, released.schema))


def beside(
    session: Session, released: EmbeddedTable, original: EmbeddedTable, columns: Mapping[str, str]
) -> EmbeddedTable:
    """See `Engine.beside`."""
    schema = beside_schema(released, original, columns)
    more = [f"o.{quoted(name)} AS {quoted(new)}" for name, new in columns.items()]
    select = ", ".join([column_list(released.schema.names, "r"), *more])
    on = " AND ".join(f"o.{name} = r.{name}" for name in ID_COLUMNS)
    sql = f"SELECT {select} FROM {released.source} AS r JOIN {original.source} AS o ON {on}"
    kept = session.keep(sql, {**original.frames, **released.frames})
    return EmbeddedTable(f"SELECT * FROM {kept.name}", schema, holds=(kept,))


def _side(batch: pa.RecordBatch, prefix: str, columns: Sequence[str], schema: pa.Schema) -> RowBlock:
    arrays = [batch.column(prefix + name) for name in columns]
    arrays += [batch.column(name) for name in ID_COLUMNS]
    return RowBlock(logical(pa.record_batch(arrays, names=[*columns, *ID_COLUMNS]), schema))
