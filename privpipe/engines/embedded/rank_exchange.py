"""Rank exchange in the embedded engine over rows in files: rows are read by rank and buffered."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import RankExchange, unsigned_zeros
from privpipe.draws import Stream
from privpipe.engines.embedded.held_exchange import exchange_held
from privpipe.engines.embedded.mapping import brought, logical
from privpipe.engines.embedded.ranking import ordered_rows
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.storing import fitted, store
from privpipe.engines.embedded.table import EmbeddedTable
from privpipe.errors import DataError

__all__ = ["exchange_ranks", "exchange_streamed"]

Given = tuple[pa.RecordBatch, list[pa.Array], NDArray[np.int64]]
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
        self._segments: deque[Future[NDArray[np.int64]]] = deque()
        self._first = 0  # rank that the first of the segments begins at
        self._compute(2)

    def _compute(self, count: int) -> None:
        for number in itertools.islice(self._numbers, count):
            self._segments.append(self._pool.submit(self.exchange.of_segment, number))

    def of(self, start: int, stop: int) -> NDArray[np.int64]:
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
    waiting: deque[tuple[pa.RecordBatch, int, NDArray[np.int64]]] = deque()
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
    return DataError(f"the plan was made for another table: column {column!r} has not as many values")
