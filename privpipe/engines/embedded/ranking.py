"""Global order in the embedded engine: DuckDB sorts by value and keyed order, a record's place is its rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.embedded.mapping import logical
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.storing import fitted, store
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted

__all__ = ["ORDER", "map_ranked", "ordered_rows", "worded_rows"]

ORDER = "__privpipe_order"
"""Hidden column with the order words of rows."""


def map_ranked(
    session: Session,
    table: EmbeddedTable,
    column: str,
    stream: Stream,
    function: Callable[[RowBlock, NDArray[np.int64]], RowBlock],
    schema: pa.Schema,
) -> EmbeddedTable:
    """See `Engine.map_ranked`: sorted by value and keyed order, a record's place is its rank."""
    table.require([column])
    ranked = _ranked(logical(batch, table.schema) for batch in ordered_rows(session, table, stream, column))

    def make(item: tuple[pa.RecordBatch, int]) -> pa.RecordBatch:
        batch, first = item
        ranks = np.arange(first, first + batch.num_rows)
        ranks[np.asarray(batch.column(column).is_null().to_numpy(zero_copy_only=False))] = -1
        return fitted(function(RowBlock(batch), ranks).to_batch(), schema)

    return store(session, ranked, schema, make, ids=table.has_record_ids)


def _ranked(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int]]:
    first = 0
    for batch in batches:
        yield batch, first
        first += batch.num_rows


def ordered_rows(
    session: Session, table: EmbeddedTable, stream: Stream, column: str | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows with their ids by (value of the column with nulls last, keyed order, id)."""
    for batch in worded_rows(session, table, stream, column):
        yield batch.select(table.all_columns)


def worded_rows(
    session: Session, table: EmbeddedTable, stream: Stream, column: str | None = None
) -> Iterator[pa.RecordBatch]:
    """As `ordered_rows`, with their order words beside them in the column `ORDER`.

    Without a column, texts come as the dictionaries that the table has of them.
    """

    def order(high: pa.Array, low: pa.Array) -> pa.Array:
        return pa.array(stream.order(np.column_stack([np.asarray(high), np.asarray(low)])))

    # As a function of the query, the order word costs no pass of its own; its key stays in this process.
    with session.function(order) as keyed:
        columns = f"{column_list(table.all_columns)}, {keyed}({column_list(ID_COLUMNS)}) AS {ORDER}"
        by = f"{_comparable(table, column)} NULLS LAST, {ORDER}" if column else ORDER
        sql = f"SELECT {columns} FROM {table.source if column else table.compact} ORDER BY {by}"
        yield from _settled(session.stream(sql, table.frames), column)


def _comparable(table: EmbeddedTable, column: str) -> str:
    """-0.0 equals 0.0, whatever their bits: the tie is the keyed order's."""
    name = quoted(column)
    floats = pa.types.is_floating(table.schema.field(column).type)
    return f"CASE WHEN {name} = 0 THEN 0 ELSE {name} END" if floats else name


def _settled(batches: Iterator[pa.RecordBatch], column: str | None) -> Iterator[pa.RecordBatch]:
    """Equal order words, one pair in 2^64, go by id; as keys of the sort the ids would slow every table by half."""
    held: pa.RecordBatch | None = None
    for batch in batches:
        if held is not None and held.column(ORDER)[-1].as_py() == batch.column(ORDER)[0].as_py():
            held = joined([held, batch])
            continue
        if held is not None:
            yield _by_id(held, column)
        held = batch
    if held is not None:
        yield _by_id(held, column)


def _by_id(batch: pa.RecordBatch, column: str | None) -> pa.RecordBatch:
    orders = batch.column(ORDER).to_numpy()
    if not (orders[1:] == orders[:-1]).any():
        return batch
    values = batch.column(column).to_pylist() if column else [None] * batch.num_rows
    fresh = [a != b for a, b in zip(values[1:], values[:-1], strict=True)]
    runs = np.concatenate([[0], np.cumsum(np.array(fresh, np.bool_) | (orders[1:] != orders[:-1]))])
    high, low = (batch.column(name).to_numpy() for name in ID_COLUMNS)
    return batch.take(pa.array(np.lexsort((low, high, runs))))
