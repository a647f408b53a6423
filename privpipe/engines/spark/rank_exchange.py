"""Rank exchange on Spark: rows move once, packed by ranges of ranks; values over any distance are joined to them."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RankExchange, unsigned_zeros
from privpipe.blocks.arrays import Ints
from privpipe.draws import Stream
from privpipe.engines.spark.ranks import (
    KeyBins,
    bin_counts,
    bins_of,
    decimal_limbs,
    is_countable,
    placed,
    spread_keys,
    tie_words,
    value_words,
)
from privpipe.engines.spark.row_functions import together
from privpipe.engines.spark.spark_table import Layout, SparkTable
from privpipe.engines.spark.workers import map_batches, map_raw
from privpipe.errors import DataError
from privpipe.kernels.grouping.parallel_order import positions_by_value

__all__ = [
    "GAPS",
    "KIND",
    "PART",
    "PIECE",
    "PIECES",
    "ROWS",
    "VALUES",
    "Dealer",
    "Held",
    "RankRanges",
    "another_table",
    "exchange_ranks",
    "forward_ranks",
    "in_order",
    "is_countable",
    "ranges_of",
    "value_names",
    "whole",
]


Batches = Iterator[pa.RecordBatch]
ROWS_PER_RANGE = 500_000
LEAST_ROWS, FEW_RANGES = 125_000, 8
"""Small tables go to so many ranges, to keep several cores busy, while each is worth a task."""
CELLS_PER_RANGE = 1 << 24
BINS_PER_RANGE, LEAST_BINS = 16, 1024
PART, KIND, PIECE = "part", "kind", "piece"
PIECES = f"{PART} bigint, {KIND} bigint, {PIECE} binary"
ROWS, VALUES, GAPS = 0, 1, 2
"""Kinds of pieces: rows of the range, values of other ranges in its reach, rows without a value."""


def exchange_ranks(table: SparkTable, column: str, stream: Stream, exchange: RankExchange) -> SparkTable:
    """See `Engine.exchange_ranks`."""
    ranges = ranges_of(table, column, stream, exchange)
    dealer = Dealer(table.layout, column, stream, ranges)
    giver = _Giver(_Orders(table.layout, column, stream, ranges), Held(secrets.token_hex(8), exchange))
    pieces = map_raw(table.frame, dealer, PIECES).repartition(len(ranges), PART)
    return SparkTable(map_batches(pieces, giver, table.layout), table.layout, at_most=table.bound)


@dataclass(frozen=True, repr=False)
class RankRanges:
    """Ranges of consecutive ranks, each of whole bins.

    Parameters
    ----------
    bins : KeyBins
    starts : ndarray of int64, shape (n_bins + 1,)
        Rank of the first record of each bin, and the number of ranks.
    first : ndarray of int64, shape (n_ranges + 1,)
        First bin of each range, and the number of bins.
    reached : ndarray of int64, shape (n_ranges, 2)
        The bins that hold all ranks which a range's ranks may receive from: the first, and the one after the last.
    """

    bins: KeyBins
    starts: Ints
    first: Ints
    reached: Ints

    @classmethod
    def of(cls, bins: KeyBins, counts: Ints, exchange: RankExchange, number: int) -> RankRanges:
        """At most so many ranges of about one size."""
        starts = np.concatenate([[0], np.cumsum(counts)])
        targets = starts[-1] * np.arange(1, number) // number
        cuts = np.searchsorted(starts, targets)
        cuts = np.unique(cuts[(cuts > 0) & (cuts < len(bins))])
        first = np.concatenate([[0], cuts, [len(bins)]])
        low, high = starts[first[:-1]], starts[first[1:]]
        segment, reach = exchange.segment, exchange.reach
        least = np.maximum(low - reach, low // segment * segment)
        most = np.minimum(np.minimum(high + reach, -(-high // segment) * segment), starts[-1])
        reached = np.column_stack([np.searchsorted(starts, least, "right") - 1, np.searchsorted(starts, most)])
        # An empty range, of a column without values, reaches nothing.
        reached[:, 0] = np.minimum(reached[:, 0], first[:-1])
        reached[:, 1] = np.maximum(reached[:, 1], first[1:])
        return cls(bins, starts, first, reached)

    def __len__(self) -> int:
        return len(self.first) - 1


def ranges_of(table: SparkTable, column: str, stream: Stream, exchange: RankExchange) -> RankRanges:
    """Ranges of a column with as many values as `exchange` has ranks."""
    records = exchange.records
    most = min(ROWS_PER_RANGE, max(CELLS_PER_RANGE // (len(table.schema) + 2), LEAST_ROWS))
    number = max(-(-records // most), min(-(-records // LEAST_ROWS), FEW_RANGES))
    if number <= 1:
        none = np.zeros(0, np.uint64)
        return RankRanges.of(KeyBins(none, none), np.array([records]), exchange, 1)
    bins = bins_of(table, column, stream, records, max(BINS_PER_RANGE * number, LEAST_BINS))
    counts = bin_counts(table, column, stream, bins)
    if int(counts.sum()) != records:
        raise another_table(column)
    return RankRanges.of(bins, counts, exchange, number)


@dataclass(frozen=True, repr=False)
class Dealer:
    """Batches cut into pieces, each for one range."""

    layout: Layout
    column: str
    stream: Stream
    ranges: RankRanges

    def __call__(self, batches: Batches) -> Batches:
        keys = np.array(spread_keys(len(self.ranges)))
        for at, batch in enumerate(together(batches)):
            pieces = list(self._pieces(batch, at))
            parts = pa.array(keys[[part for part, _, _ in pieces]])
            kinds = pa.array([kind for _, kind, _ in pieces], pa.int64())
            cells = pa.array([piece.serialize().to_pybytes() for _, _, piece in pieces], pa.binary())
            yield pa.record_batch([parts, kinds, cells], names=[PART, KIND, PIECE])

    def _pieces(self, batch: pa.RecordBatch, number: int) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        ranges = self.ranges
        rows = self.layout.block(batch)
        words, known = value_words(rows.column(self.column))
        bins = placed(rows, words, known, ranges.bins, self.stream)
        bins = np.where(known, bins, len(ranges.bins)).astype(np.uint16)
        plain = pa.record_batch(rows.to_batch().columns, schema=self.layout.arrow)
        if len(ranges) > 1 or not known.all():
            order = np.argsort(bins, kind="stable")
            plain, bins = plain.take(pa.array(order)), bins[order]
        values = plain.select(value_names(self.layout, self.column))
        firsts = np.searchsorted(bins, ranges.first)
        reached = np.searchsorted(bins, ranges.reached)
        for part, (start, stop) in enumerate(itertools.pairwise(firsts.tolist())):
            for kind, piece, low, high in (
                (ROWS, plain, start, stop),
                (VALUES, values, reached[part, 0], start),
                (VALUES, values, stop, reached[part, 1]),
            ):
                if high > low:
                    yield part, kind, piece.slice(low, high - low)
        if firsts[-1] < len(bins):
            yield number % len(ranges), GAPS, plain.slice(firsts[-1])


@dataclass(frozen=True)
class Held:
    """An exchange under its own name, by which workers remember a segment."""

    name: str
    exchange: RankExchange = field(compare=False, repr=False)


@lru_cache(maxsize=1)
def _segment(held: Held, number: int) -> NDArray[np.int32] | Ints:
    """pi of a segment, which several ranges of one worker may lie in."""
    pi = held.exchange.of_segment(number)
    return pi.astype(np.int32) if held.exchange.records < 2**31 else pi


@dataclass(frozen=True, repr=False)
class _Giver:
    """The rows of a range with the values that they receive."""

    orders: _Orders
    held: Held

    def __call__(self, batches: Batches) -> Batches:
        yield from together(self._given(batches))

    def _given(self, batches: Batches) -> Batches:
        orders = self.orders
        names = value_names(orders.layout, orders.column)
        values = pa.schema([orders.layout.arrow.field(name) for name in names])
        for part, kinds in orders.pieces(batches, values).items():
            yield from kinds.get(GAPS, [])
            if ROWS not in kinds:
                continue
            rows = kinds.pop(ROWS)
            found = orders.of(part, rows, kinds.pop(VALUES, []))
            order, own = found.order, found.high - found.low
            places = np.empty(own, np.int64)
            places[order[order < own]] = order[self._pi(found.low, found.high) - found.first]
            yield from orders.with_values(rows, found.cells.take(pa.array(places)))

    def _pi(self, low: int, high: int) -> Ints:
        """pi of the ranks low .. high - 1."""
        length = self.held.exchange.segment
        found = []
        for number in range(low // length, -(-high // length)):
            start = number * length
            found.append(_segment(self.held, number)[max(low - start, 0) : high - start])
        return np.concatenate(found).astype(np.int64, copy=False)


def in_order(cells: pa.Array, ids: Ints, stream: Stream) -> Ints:
    """Positions of the records, all with a value, by (value, keyed order, id)."""
    if pt.is_decimal(cells.type):
        low, high = decimal_limbs(cells)
        return np.lexsort((ids[:, 1], ids[:, 0], stream.order(ids), low.view(np.uint64), high))

    def settled(positions: Ints) -> Ints:
        return positions[np.lexsort((ids[positions, 1], ids[positions, 0]))]

    with ThreadPoolExecutor(1) as pool:
        positions, _ = positions_by_value(value_words(cells)[0], lambda: tie_words(stream, ids), settled, pool)
    return positions.astype(np.int64)


def value_names(layout: Layout, column: str) -> list[str]:
    """The column and the ids, as a frame names them."""
    return [*layout.names([column]), *ID_COLUMNS]


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def another_table(column: str) -> DataError:
    """What is wrong where a column has not the values that were planned for."""
    return DataError(f"the plan was made for another table: column {column!r} has not as many values")


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
class _Ordered:
    """Values as they came, those of the ranks low .. high - 1 first, and their positions by rank from `first` on."""

    low: int
    high: int
    first: int
    cells: pa.Array
    order: Ints


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

    def of(self, part: int, rows: list[pa.RecordBatch], others: Sequence[pa.RecordBatch] = ()) -> _Ordered:
        """The values of a range and of `others` in its reach, and their order.

        Raises
        ------
        DataError
            They are not as many as were counted.
        """
        ranges, names = self.ranges, value_names(self.layout, self.column)
        low, high = (int(ranges.starts[ranges.first[at]]) for at in (part, part + 1))
        first, last = ranges.starts[ranges.reached[part]].tolist()
        keys = pa.Table.from_batches([*(piece.select(names) for piece in rows), *others]).combine_chunks()
        if sum(piece.num_rows for piece in rows) != high - low or len(keys) != last - first:
            raise another_table(self.column)
        cells = whole(keys.column(0))
        ids = np.column_stack([whole(keys.column(name)).to_numpy() for name in ID_COLUMNS])
        return _Ordered(low, high, first, cells, in_order(cells, ids, self.stream))

    def with_values(self, rows: list[pa.RecordBatch], received: pa.Array) -> Batches:
        """The rows with the values that they receive, in the order of the rows."""
        at, start, received = self.layout.schema.get_field_index(self.column), 0, unsigned_zeros(received)
        for piece in rows:
            yield piece.set_column(at, piece.schema.field(at), received.slice(start, piece.num_rows))
            start += piece.num_rows

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
            found = self.orders.of(part, kinds[ROWS])
            receivers = _receivers(self.held)[found.low : found.high].astype(np.int64)
            by_rank = np.argsort(receivers)
            values = found.cells.take(pa.array(found.order[by_rank]))
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
        for part, kinds in self.orders.pieces(batches, self.orders.sent).items():
            yield from kinds.get(GAPS, [])
            if ROWS not in kinds:
                continue
            found = self.orders.of(part, kinds[ROWS])
            sent = pa.Table.from_batches(kinds.get(VALUES, []), self.orders.sent).combine_chunks()
            ranks = whole(sent.column("rank")).to_numpy() if len(sent) else np.zeros(0, np.int64)
            by_rank = np.argsort(ranks)
            if not np.array_equal(ranks[by_rank], np.arange(found.low, found.high)):
                raise another_table(self.orders.column)
            places = np.empty(len(found.order), np.int64)
            places[found.order] = by_rank
            yield from self.orders.with_values(kinds[ROWS], whole(sent.column("value")).take(pa.array(places)))
