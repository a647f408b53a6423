"""Functions of row blocks in the embedded engine: streamed, grouped by a key, or over pairs of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, PairBlock, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.engines.base.batches import in_order, joined, whole_array
from privpipe.engines.base.paired_schemas import beside_schema
from privpipe.engines.embedded import stored_rows
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, column_list, quoted
from privpipe.engines.embedded.session import BATCH_ROWS, Session, guarded
from privpipe.engines.embedded.stored_rows import fitted, store
from privpipe.errors import DataError
from privpipe.kernels.grouping.sorting import positions_by_code
from privpipe.progress import advanced

__all__ = [
    "beside",
    "brought",
    "logical",
    "logical_table",
    "map_groups",
    "map_rows",
    "paired",
    "rows_of",
    "with_column",
]


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
    if 2 * width * table.records(session) > min(stored_rows.MEMORY_BYTES, session.room()):
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
