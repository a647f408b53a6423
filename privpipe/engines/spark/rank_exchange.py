"""Rank exchange on Spark: rows move once, packed by ranges of ranks; values over any distance are joined to them."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RankExchange
from privpipe.draws import Stream
from privpipe.engines.base.contract import Engine
from privpipe.engines.distributed import rank_exchange
from privpipe.engines.distributed.rank_exchange import Permutations, RangeKeys, RankedColumn, ranked_column
from privpipe.engines.spark.ranks import spread_keys
from privpipe.engines.spark.row_functions import together
from privpipe.engines.spark.spark_table import Layout, SparkTable
from privpipe.engines.spark.workers import map_batches, map_raw

__all__ = ["exchange_ranks"]


Batches = Iterator[pa.RecordBatch]
CELLS_PER_RANGE = 1 << 24
PART, KIND, PIECE = "part", "kind", "piece"
PIECES = f"{PART} bigint, {KIND} bigint, {PIECE} binary"
ROWS, VALUES, GAPS = 0, 1, 2
"""Kinds of pieces: rows of the range, values of other ranges for it, rows without a value."""


def exchange_ranks(
    engine: Engine, table: SparkTable, column: str, stream: Stream, exchange: RankExchange
) -> SparkTable:
    """See `Engine.exchange_ranks`."""
    most = max(CELLS_PER_RANGE // (len(table.schema) + 2), rank_exchange.LEAST_ROWS)
    ranked = ranked_column(engine, table, column, stream, exchange, most)
    held = Held(secrets.token_hex(8), Permutations(exchange, ranked.is_near))
    rows, number = _Packed(table.layout, ranked), len(ranked.ranges)
    pieces = map_raw(table.frame, _Dealer(rows), PIECES)
    if not ranked.is_near:
        alone = table.select([column])
        keys = _Packed(alone.layout, ranked)
        met = map_raw(alone.frame, _Dealer(keys), PIECES).repartition(number, PART)
        pieces = pieces.union(map_raw(met, _Sender(keys, held), PIECES))
    receiver = _Receiver(rows, held)
    received = map_batches(pieces.repartition(number, PART), receiver, table.layout)
    return SparkTable(received, table.layout, at_most=table.bound)


@dataclass(frozen=True)
class Held:
    """Permutations under their own name, by which workers remember a chunk."""

    name: str
    permutations: Permutations = field(compare=False, repr=False)

    def between(self, low: int, high: int) -> NDArray[Any]:
        """Of the ranks low .. high - 1."""
        found = [_chunk(self, number)[start:stop] for number, start, stop in self.permutations.slices(low, high)]
        return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.int64), *found])


@lru_cache(maxsize=1)
def _chunk(held: Held, number: int) -> NDArray[Any]:
    """A chunk, in which several ranges of one worker may lie."""
    return held.permutations.chunk(number)


@dataclass(frozen=True, repr=False)
class _Packed:
    """Rows of a table on their way to the ranges of a column, as packed pieces."""

    layout: Layout
    ranked: RankedColumn

    @property
    def keys(self) -> list[str]:
        """The column and the ids, as a frame names them."""
        return [*self.layout.names([self.ranked.column]), *ID_COLUMNS]

    def pieces(self, batches: Batches) -> Iterator[tuple[int, dict[int, list[pa.RecordBatch]]]]:
        """Range by range, the pieces by kind."""
        # Values of the reach come with their ids, in the schema of keys; those sent on, with the rank of the receiver.
        values = pa.schema([self.layout.arrow.field(name) for name in self.keys])
        if not self.ranked.is_near:
            values = rank_exchange.sent_schema(values.field(0).type)
        schemas = {ROWS: self.layout.arrow, GAPS: self.layout.arrow, VALUES: values}
        parts = {key: part for part, key in enumerate(spread_keys(len(self.ranked.ranges)))}
        found: dict[int, dict[int, list[pa.RecordBatch]]] = {}
        for batch in batches:
            for key, kind, cell in zip(*(batch.column(at) for at in range(3)), strict=True):
                piece = pa.ipc.read_record_batch(cell.as_buffer(), schemas[kind.as_py()])
                found.setdefault(parts[key.as_py()], {}).setdefault(kind.as_py(), []).append(piece)
        yield from found.items()

    def met(self, part: int, rows: list[pa.RecordBatch], others: Sequence[pa.RecordBatch]) -> RangeKeys:
        """The keys of a range's rows, and after them others in its reach."""
        own = sum(piece.num_rows for piece in rows)
        return self.ranked.keys(part, [*(piece.select(self.keys) for piece in rows), *others], own)


@dataclass(frozen=True, repr=False)
class _Dealer:
    """Batches cut into pieces, each for one range."""

    packed: _Packed

    def __call__(self, batches: Batches) -> Batches:
        for at, batch in enumerate(together(batches)):
            yield _sent(list(self._pieces(batch, at)), len(self.packed.ranked.ranges))

    def _pieces(self, batch: pa.RecordBatch, number: int) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        layout, ranked = self.packed.layout, self.packed.ranked
        ranges, rows = ranked.ranges, layout.block(batch)
        placed, known = ranked.bins(rows.column(ranked.column), rows.record_ids)
        bins = np.where(known, placed, len(ranges.bins)).astype(np.uint16)
        plain = pa.record_batch(rows.to_batch().columns, schema=layout.arrow)
        if len(ranges) > 1 or not known.all():
            order = np.argsort(bins, kind="stable")
            plain, bins = plain.take(pa.array(order)), bins[order]
        values = plain.select(self.packed.keys)
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


def _sent(pieces: Sequence[tuple[int, int, pa.RecordBatch]], ranges: int) -> pa.RecordBatch:
    """Pieces of (range, kind) as rows of a frame."""
    keys = np.array(spread_keys(ranges))
    parts = pa.array(keys[[part for part, _, _ in pieces]], pa.int64())
    kinds = pa.array([kind for _, kind, _ in pieces], pa.int64())
    cells = pa.array([piece.serialize().to_pybytes() for _, _, piece in pieces], pa.binary())
    return pa.record_batch([parts, kinds, cells], names=[PART, KIND, PIECE])


@dataclass(frozen=True, repr=False)
class _Sender:
    """The values of a range, each to the range of its receiver."""

    packed: _Packed
    held: Held

    def __call__(self, batches: Batches) -> Batches:
        borders = self.packed.ranked.ranges.borders
        for part, kinds in self.packed.pieces(batches):
            if ROWS in kinds:
                found = self.packed.met(part, kinds[ROWS], ())
                sent, ends = found.sent(self.held.between(found.low, found.high), borders)
                yield _sent(
                    [
                        (to, VALUES, sent.slice(start, stop - start))
                        for to, (start, stop) in enumerate(itertools.pairwise(ends.tolist()))
                        if stop > start
                    ],
                    len(borders) - 1,
                )


@dataclass(frozen=True, repr=False)
class _Receiver:
    """The rows of a range with the values that they receive, in the order of the rows."""

    packed: _Packed
    held: Held

    def __call__(self, batches: Batches) -> Batches:
        yield from together(self._given(batches))

    def _given(self, batches: Batches) -> Batches:
        for part, kinds in self.packed.pieces(batches):
            yield from kinds.get(GAPS, [])
            if ROWS in kinds:
                yield from self._with_values(kinds[ROWS], self._received(part, kinds[ROWS], kinds.get(VALUES, [])))

    def _received(self, part: int, rows: list[pa.RecordBatch], values: list[pa.RecordBatch]) -> pa.Array:
        if not self.packed.ranked.is_near:
            return self.packed.met(part, rows, ()).given(values)
        found = self.packed.met(part, rows, values)
        return found.received(self.held.between(found.low, found.high))

    def _with_values(self, rows: list[pa.RecordBatch], received: pa.Array) -> Batches:
        layout, start = self.packed.layout, 0
        at = layout.schema.get_field_index(self.packed.ranked.column)
        for piece in rows:
            yield piece.set_column(at, piece.schema.field(at), received.slice(start, piece.num_rows))
            start += piece.num_rows
