"""Rank exchange over any distance: each value is sent to the range of its receiver and joined to the rows there.

With a permutation that reaches far, a range would have to carry all values along. So the column alone is ordered first,
range by range, and each value goes to where its receiver's row goes: two small exchanges and the one of the rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RankExchange, unsigned_zeros
from privpipe.draws import Stream
from privpipe.engines.spark.layout import Layout
from privpipe.engines.spark.rank_exchange import (
    GAPS,
    KIND,
    PART,
    PIECE,
    PIECES,
    ROWS,
    VALUES,
    Dealer,
    Held,
    RankRanges,
    another_table,
    in_order,
    ranges_of,
    value_names,
    whole,
)
from privpipe.engines.spark.runs import together
from privpipe.engines.spark.spreading import spread_keys
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.workers import map_batches, map_raw

__all__ = ["forward_ranks"]

Batches = Iterator[pa.RecordBatch]
Ints = NDArray[np.int64]


def forward_ranks(table: SparkTable, column: str, stream: Stream, exchange: RankExchange) -> SparkTable:
    """See `Engine.exchange_ranks`."""
    records = exchange.records
    ranges = ranges_of(table, column, stream, replace(exchange, segment=max(records, 1), reach=0))
    held, alone = Held(secrets.token_hex(8), exchange), table.select([column])
    ordered = map_raw(alone.frame, Dealer(alone.layout, column, stream, ranges), PIECES)
    sender = _Sender(_Orders(alone.layout, column, stream, ranges), held)
    sent = map_raw(ordered.repartition(len(ranges), PART), sender, PIECES)
    rows = map_raw(table.frame, Dealer(table.layout, column, stream, ranges), PIECES)
    pieces = rows.union(sent).repartition(len(ranges), PART)
    receiver = _Receiver(_Orders(table.layout, column, stream, ranges))
    return SparkTable(map_batches(pieces, receiver, table.layout), table.layout, at_most=table.bound)


@lru_cache(maxsize=1)
def _receivers(held: Held) -> NDArray[Any]:
    """The rank that receives the value of each rank."""
    exchange = held.exchange
    found: NDArray[Any] = np.empty(exchange.records, np.int32 if exchange.records < 2**31 else np.int64)
    for number in range(-(-exchange.records // exchange.segment)):
        start = number * exchange.segment
        pi = exchange.of_segment(number)
        found[pi] = np.arange(start, start + len(pi))
    return found


@dataclass(frozen=True, repr=False)
class _Orders:
    """The pieces of each range, and the order of its rows."""

    layout: Layout
    column: str
    stream: Stream
    ranges: RankRanges

    def pieces(self, batches: Batches, values: pa.Schema) -> dict[int, dict[int, list[pa.RecordBatch]]]:
        """By range and kind."""
        schemas = {ROWS: self.layout.arrow, GAPS: self.layout.arrow, VALUES: values}
        parts = {key: part for part, key in enumerate(spread_keys(len(self.ranges)))}
        found: dict[int, dict[int, list[pa.RecordBatch]]] = {}
        for batch in batches:
            for key, kind, cell in zip(*(batch.column(at) for at in range(3)), strict=True):
                piece = pa.ipc.read_record_batch(cell.as_buffer(), schemas[kind.as_py()])
                found.setdefault(parts[key.as_py()], {}).setdefault(kind.as_py(), []).append(piece)
        return found

    def of(self, part: int, rows: list[pa.RecordBatch]) -> tuple[int, pa.Array, Ints]:
        """The first rank of a range, its values as they came, and their positions by rank."""
        low, high = (int(self.ranges.starts[self.ranges.first[at]]) for at in (part, part + 1))
        names = value_names(self.layout, self.column)
        keys = pa.Table.from_batches([piece.select(names) for piece in rows]).combine_chunks()
        if len(keys) != high - low:
            raise another_table(self.column)
        cells = whole(keys.column(0))
        ids = np.column_stack([whole(keys.column(name)).to_numpy() for name in ID_COLUMNS])
        return low, cells, in_order(cells, ids, self.stream)

    @property
    def sent(self) -> pa.Schema:
        """Schema of values on their way: the rank of the receiver and the value."""
        return pa.schema([("rank", pa.int64()), ("value", self.layout.schema.field(self.column).type)])


@dataclass(frozen=True, repr=False)
class _Sender:
    """The values of a range, each to the range of its receiver."""

    orders: _Orders
    held: Held

    def __call__(self, batches: Batches) -> Batches:
        ranges, schema = self.orders.ranges, self.orders.sent
        keys = np.array(spread_keys(len(ranges)))
        borders = ranges.starts[ranges.first]
        for part, kinds in self.orders.pieces(batches, schema).items():
            if ROWS not in kinds:
                continue
            low, cells, order = self.orders.of(part, kinds[ROWS])
            receivers = _receivers(self.held)[low : low + len(order)].astype(np.int64)
            by_rank = np.argsort(receivers)
            values = cells.take(pa.array(order[by_rank]))
            sent = pa.record_batch([pa.array(receivers[by_rank]), values], schema=schema)
            places = np.searchsorted(receivers[by_rank], borders)
            chosen = np.flatnonzero(places[1:] > places[:-1])
            cut = [sent.slice(places[at], places[at + 1] - places[at]) for at in chosen]
            cells = pa.array([piece.serialize().to_pybytes() for piece in cut], pa.binary())
            kind = pa.array(np.full(len(cut), VALUES, np.int64))
            yield pa.record_batch([pa.array(keys[chosen]), kind, cells], names=[PART, KIND, PIECE])


@dataclass(frozen=True, repr=False)
class _Receiver:
    """The rows of a range with the values that were sent to them."""

    orders: _Orders

    def __call__(self, batches: Batches) -> Batches:
        yield from together(self._given(batches))

    def _given(self, batches: Batches) -> Batches:
        layout, column = self.orders.layout, self.orders.column
        at = layout.schema.get_field_index(column)
        for part, kinds in self.orders.pieces(batches, self.orders.sent).items():
            yield from kinds.get(GAPS, [])
            if ROWS not in kinds:
                continue
            low, _, order = self.orders.of(part, kinds[ROWS])
            sent = pa.Table.from_batches(kinds.get(VALUES, []), self.orders.sent).combine_chunks()
            ranks = whole(sent.column("rank")).to_numpy() if len(sent) else np.zeros(0, np.int64)
            by_rank = np.argsort(ranks)
            if not np.array_equal(ranks[by_rank], np.arange(low, low + len(order))):
                raise another_table(column)
            places = np.empty(len(order), np.int64)
            places[order] = by_rank
            received = unsigned_zeros(whole(sent.column("value")).take(pa.array(places)))
            start = 0
            for piece in kinds[ROWS]:
                yield piece.set_column(at, piece.schema.field(at), received.slice(start, piece.num_rows))
                start += piece.num_rows
