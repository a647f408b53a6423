"""Rank exchange over rows in memory: one column is sorted, and the others stay as they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RankExchange, RowBlock
from privpipe.draws import Stream
from privpipe.engines.embedded.session import BATCH_ROWS, Session, guarded
from privpipe.engines.embedded.storing import in_memory
from privpipe.engines.embedded.table import EmbeddedTable
from privpipe.kernels.grouping.parallel_order import give_by_rank, positions_by_value, sortable_words, sorted_values

__all__ = ["exchange_held"]

BYTES_A_RECORD = 48
"""What sorting one column takes beside the rows."""
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

    def known(self) -> NDArray[np.int64]:
        """Places of the records with a value."""
        valid = [batch.column(self._column).is_valid().to_numpy(zero_copy_only=False) for batch in self._batches]
        return np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *valid]))

    def words(self, pool: Executor) -> NDArray[np.uint64]:
        """The values as words in the order of the values, without nulls."""
        return self._of_each(lambda batch: sortable_words(_numbers(batch.column(self._column))), pool)

    def tie_words(self, pool: Executor) -> NDArray[np.uint64]:
        """The keyed order of the records with a value, to be compared without sign."""

        def of(batch: pa.RecordBatch) -> NDArray[np.uint64]:
            orders = self._stream.order(RowBlock(batch.select(ID_COLUMNS)).record_ids).view(np.uint64) ^ SIGN
            cells = batch.column(self._column)
            return orders[cells.is_valid().to_numpy(zero_copy_only=False)] if cells.null_count else orders

        return self._of_each(of, pool)

    def _of_each(self, of: Callable[[pa.RecordBatch], NDArray[np.uint64]], pool: Executor) -> NDArray[np.uint64]:
        """What `of` makes of each batch, one after the other: a word a value."""
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


def _exchanged(column: _Column, exchange: RankExchange, pool: Executor) -> NDArray[np.uint64]:
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

    def give(stretch: tuple[int, NDArray[np.int64]]) -> None:
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


def _values(words: NDArray[np.uint64], cells: pa.Array) -> pa.Array:
    """What the records of `cells` receive, in their type; null stays null."""
    kind: Any = np.float64 if pt.is_floating(cells.type) else np.int64
    values = sorted_values(words, kind)
    if pt.is_date(cells.type):
        values = values.astype(np.int32)
    mask = cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None
    if mask is not None:
        values = np.where(mask, np.zeros(1, values.dtype), values)
    return pa.array(values, mask=mask).cast(cells.type)
