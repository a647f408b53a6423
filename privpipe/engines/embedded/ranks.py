"""Global order in the embedded engine: DuckDB sorts by value and keyed order, and values are exchanged by rank."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RankExchange, RowBlock, unsigned_zeros
from privpipe.blocks.arrays import Ints, Words
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.session import BATCH_ROWS, Session, column_list, guarded, quoted
from privpipe.engines.embedded.stored_rows import brought, fitted, in_memory, logical, store
from privpipe.errors import DataError
from privpipe.kernels.grouping.sorting import give_by_rank, positions_by_value, sortable_words, sorted_values

__all__ = ["ORDER", "exchange_held", "exchange_ranks", "exchange_streamed", "map_ranked", "ordered_rows", "worded_rows"]


ORDER = "__privpipe_order"
"""Hidden column with the order words of rows."""


def map_ranked(
    session: Session,
    table: EmbeddedTable,
    column: str,
    stream: Stream,
    function: Callable[[RowBlock, Ints], RowBlock],
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
    """As `ordered_rows`, with their order words next to them in the column `ORDER`.

    Without a column, texts come as the dictionaries that the table has of them.
    """

    def order(high: pa.Array, low: pa.Array) -> pa.Array:
        return pa.array(stream.order(np.column_stack([np.asarray(high), np.asarray(low)])))

    # As a function of the query, the order word costs no separate pass; its key stays in this process.
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


BYTES_A_RECORD = 48
"""What sorting one column takes in addition to the rows."""
SIGN = np.uint64(1 << 63)


def exchange_held(
    session: Session, table: EmbeddedTable, column: str, stream: Stream, exchange: RankExchange
) -> EmbeddedTable | None:
    """See `Engine.exchange_ranks`; None where the rows are not in memory, or there is no room to sort a column.

    `exchange` has as many ranks as the column has values.
    """
    rows, found = table.rows, table.schema.field(column)
    numbers = pt.is_floating(found.type) or pt.is_integer(found.type) or pt.is_date(found.type)
    if rows is None or not (numbers or pt.is_timestamp(found.type)):
        return None
    if session.room() < BYTES_A_RECORD * rows.num_rows:
        return None
    batches = [batch for batch in rows.to_batches(BATCH_ROWS) if batch.num_rows]
    with guarded("swap of ranks"), ThreadPoolExecutor(session.threads, thread_name_prefix="privpipe-ranks") as pool:
        words = _exchanged(_Column(batches, column, stream), exchange, pool)
        starts = itertools.accumulate((batch.num_rows for batch in batches), initial=0)
        received = [words[start : start + batch.num_rows] for start, batch in zip(starts, batches, strict=False)]
        chunks = list(pool.map(_values, received, (batch.column(column) for batch in batches)))
    at = table.schema.get_field_index(column)
    made = rows.set_column(at, found, pa.chunked_array(chunks, found.type))
    return in_memory(session, made, table.schema, table.has_record_ids, words.nbytes, table.holds)


class _Column:
    """One column of rows in memory and the order of its records."""

    def __init__(self, batches: list[pa.RecordBatch], column: str, stream: Stream) -> None:
        self._batches, self._column, self._stream = batches, column, stream
        self.records = sum(batch.num_rows for batch in batches)
        self.complete = not any(batch.column(column).null_count for batch in batches)

    def known(self) -> Ints:
        """Places of the records with a value."""
        valid = [batch.column(self._column).is_valid().to_numpy(zero_copy_only=False) for batch in self._batches]
        return np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *valid]))

    def words(self, pool: Executor) -> Words:
        """The values as words in the order of the values, without nulls."""
        return self._of_each(lambda batch: sortable_words(_numbers(batch.column(self._column))), pool)

    def tie_words(self, pool: Executor) -> Words:
        """The keyed order of the records with a value, to be compared without sign."""

        def of(batch: pa.RecordBatch) -> Words:
            orders = self._stream.order(RowBlock(batch.select(ID_COLUMNS)).record_ids).view(np.uint64) ^ SIGN
            cells = batch.column(self._column)
            return orders[cells.is_valid().to_numpy(zero_copy_only=False)] if cells.null_count else orders

        return self._of_each(of, pool)

    def _of_each(self, of: Callable[[pa.RecordBatch], Words], pool: Executor) -> Words:
        """What `of` makes of each batch, one after the other: one word per value."""
        counts = [batch.num_rows - batch.column(self._column).null_count for batch in self._batches]
        ends = np.cumsum([0, *counts]).tolist()
        out = np.empty(ends[-1], np.uint64)

        def fill(batch: pa.RecordBatch, start: int, stop: int) -> None:
            out[start:stop] = of(batch)

        list(pool.map(fill, self._batches, ends, ends[1:]))
        return out

    def by_id(self, places: NDArray[Any]) -> NDArray[Any]:
        """These records by their ids, for those that tie in value and keyed order."""
        held = pa.Table.from_batches([batch.select(ID_COLUMNS) for batch in self._batches]).take(pa.array(places))
        high, low = (held.column(name).to_numpy() for name in ID_COLUMNS)
        return np.lexsort((low, high))


def _exchanged(column: _Column, exchange: RankExchange, pool: Executor) -> Words:
    """The word that each record receives; of those without a value, any."""
    # The permutations depend on no data, so they are computed while the values are sorted.
    segments = [pool.submit(exchange.of_segment, at) for at in range(-(-exchange.records // exchange.segment))]
    known = None if column.complete else column.known()

    def settled(positions: NDArray[Any]) -> NDArray[Any]:
        return positions[column.by_id(positions if known is None else known[positions])]

    positions, words = positions_by_value(column.words(pool), lambda: column.tie_words(pool), settled, pool)
    if known is not None:
        positions = known.astype(positions.dtype)[positions]
    received = np.zeros(column.records, np.uint64)

    def give(stretch: tuple[int, Ints]) -> None:
        start, pi = stretch
        give_by_rank(positions, words, pi, start, received)

    for number, segment in enumerate(segments):
        pi, first = segment.result(), number * exchange.segment
        stretches = [(first + at, pi[at : at + BATCH_ROWS]) for at in range(0, len(pi), BATCH_ROWS)]
        list(pool.map(give, stretches))
    return received


def _numbers(cells: pa.Array) -> NDArray[Any]:
    """The values of a column, without nulls: dates in days, timestamps in microseconds."""
    cells = cells.drop_null() if cells.null_count else cells
    if pt.is_date(cells.type):
        cells = cells.cast(pa.int32())
    wanted = pa.float64() if pt.is_floating(cells.type) else pa.int64()
    return np.asarray(cells.cast(wanted).to_numpy(zero_copy_only=False))


def _values(words: Words, cells: pa.Array) -> pa.Array:
    """What the records of `cells` receive, in their type; null stays null."""
    kind: Any = np.float64 if pt.is_floating(cells.type) else np.int64
    values = sorted_values(words, kind)
    if pt.is_date(cells.type):
        values = values.astype(np.int32)
    mask = cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None
    if mask is not None:
        values = np.where(mask, np.zeros(1, values.dtype), values)
    return pa.array(values, mask=mask).cast(cells.type)


Given = tuple[pa.RecordBatch, list[pa.Array], Ints]
"""Rows, consecutive values of the sorted column, and the place among them of what each row receives."""


def exchange_ranks(
    session: Session, table: EmbeddedTable, column: str, stream: Stream, exchange: RankExchange
) -> EmbeddedTable:
    """See `Engine.exchange_ranks`; of rows that are not in memory, two reaches are held at a time."""
    table.require([column])
    table = brought(session, table)
    if table.rows is not None and exchange.records != table.rows.num_rows - table.rows.column(column).null_count:
        raise _another_table(column)
    held = exchange_held(session, table, column, stream, exchange)
    return exchange_streamed(session, table, column, stream, exchange) if held is None else held


def exchange_streamed(
    session: Session, table: EmbeddedTable, column: str, stream: Stream, exchange: RankExchange
) -> EmbeddedTable:
    at = table.schema.get_field_index(column)

    def make(given: Given) -> pa.RecordBatch:
        batch, values, places = given
        if len(places):
            received = pa.concat_arrays(values).take(pa.array(places))
            batch = batch.set_column(at, table.schema.field(at), unsigned_zeros(received))
        return fitted(batch, table.schema)

    rows = (logical(batch, table.schema) for batch in ordered_rows(session, table, stream, column))
    # The permutations depend on no data, so they are computed while the rows are sorted.
    with ThreadPoolExecutor(1, thread_name_prefix="privpipe-ranks") as pool:
        given = _given(rows, column, at, _Permutations(exchange, pool))
        return store(session, given, table.schema, make, ids=table.has_record_ids)


class _Permutations:
    """pi over stretches of ranks that are asked for in ascending order; one segment is computed ahead."""

    def __init__(self, exchange: RankExchange, pool: ThreadPoolExecutor) -> None:
        self.exchange = exchange
        self._pool = pool
        self._numbers = iter(range(-(-exchange.records // exchange.segment)))
        self._segments: deque[Future[Ints]] = deque()
        self._first = 0  # rank that the first of the segments begins at
        self._compute(2)

    def _compute(self, count: int) -> None:
        for number in itertools.islice(self._numbers, count):
            self._segments.append(self._pool.submit(self.exchange.of_segment, number))

    def of(self, start: int, stop: int) -> Ints:
        """pi of the ranks start .. stop - 1."""
        parts = []
        while start < stop:
            segment = self._segments[0].result()
            end = min(stop, self._first + len(segment))
            parts.append(segment[start - self._first : end - self._first])
            if end == self._first + len(segment):
                self._first = end
                self._segments.popleft()
                self._compute(1)
            start = end
        return np.concatenate(parts)


def _given(rows: Iterator[pa.RecordBatch], column: str, at: int, permutations: _Permutations) -> Iterator[Given]:
    """Rows with the values that they receive, once all of these are read; the ones without a value as they are."""
    records, reach = permutations.exchange.records, permutations.exchange.reach
    waiting: deque[tuple[pa.RecordBatch, int, Ints]] = deque()
    values: deque[pa.Array] = deque()
    first = read = 0  # ranks of the values held
    for batch in rows:
        known = batch.num_rows - batch.column(at).null_count
        if read + known > records:
            raise _another_table(column)
        if known:
            waiting.append((batch.slice(0, known), read, permutations.of(read, read + known)))
            values.append(batch.column(at).slice(0, known))
            read += known
        if known < batch.num_rows:
            yield batch.slice(known), [], np.zeros(0, np.int64)
        while waiting and int(waiting[0][2].max()) < read:
            held, start, pi = waiting.popleft()
            while first + len(values[0]) <= start - reach:
                first += len(values.popleft())
            yield held, _until(values, first, int(pi.max())), pi - first
    if read != records:
        raise _another_table(column)


def _until(values: deque[pa.Array], first: int, last: int) -> list[pa.Array]:
    """The values from rank `first` up to rank `last` at least."""
    ends = itertools.accumulate((len(part) for part in values), initial=first)
    return [part for part, start in zip(values, ends, strict=False) if start <= last]


def _another_table(column: str) -> DataError:
    return DataError(f"the plan was made for another table: column {column!r} has a different number of values")
