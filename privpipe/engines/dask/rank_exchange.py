"""Rank exchange on Dask: keys go to the range of their rank, and the values that their records receive come back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, RankExchange, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.engines.dask.exchange import Pieces, meet
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.rank_exchange import (
    Permutations,
    RangeKeys,
    RankedColumn,
    another_table,
)

__all__ = ["exchanged", "most_ranks"]


KEY_BYTES = 256
"""Of a key and what is made to order it."""
NEIGHBOURS = 3
"""A range, and as much in its reach on either side."""
FEWEST = 1000


def most_ranks(task_limit: int) -> int:
    """Ranks of a range that one task may hold, with what is in their reach.

    Examples
    --------
    >>> most_ranks(2**26)
    87381
    """
    return max(task_limit // (NEIGHBOURS * KEY_BYTES), FEWEST)


def exchanged(runtime: Runtime, parts: Sequence[Node], ranked: RankedColumn, exchange: RankExchange) -> list[Node]:
    """The partitions with what their records receive in a column; rows stay where they are."""
    placed = runtime.place(ranked)
    keys = [runtime.task("cut by range", RankedKeys.of, part, placed) for part in parts]
    borders = ranked.ranges.borders
    numbers = [runtime.task("number a range", _same, number=at) for at in range(len(borders) - 1)]
    permuted = _permuted(runtime, Permutations(exchange, ranked.is_near), borders)
    if ranked.is_near:
        each = [[number, pi, placed] for number, pi in zip(numbers, permuted, strict=True)]
        replies = meet(runtime, "give values", keys, len(numbers), _received, each=each)
    else:
        each = [[number, placed] for number in numbers]
        met = meet(runtime, "order a range", keys, len(numbers), _Met.of, each=each)
        sent = [runtime.task("send values", _Met.sent, *pair, placed) for pair in zip(met, permuted, strict=True)]
        replies = meet(runtime, "give values", sent, len(numbers), _given, each=[[one] for one in met])
    column = runtime.place(ranked.column)
    return meet(
        runtime, "use values", replies, len(parts), _used, column, each=[[*p] for p in zip(parts, keys, strict=True)]
    )


def _permuted(runtime: Runtime, permutations: Permutations, borders: Ints) -> list[Node]:
    """Donors or receivers of each range's ranks; a chunk that several ranges share is computed once."""
    shared = runtime.place(permutations)
    chunks: dict[int, Node] = {}
    found = []
    for low, high in itertools.pairwise(borders.tolist()):
        slices = []
        for number, start, stop in permutations.slices(low, high):
            if number not in chunks:
                chunks[number] = runtime.task("permute ranks", Permutations.chunk, shared, number=number)
            slices.append(runtime.task("cut ranks", _sliced, chunks[number], start=start, stop=stop))
        found.append(runtime.task("join ranks", _concatenated, slices))
    return found


def _same(number: int) -> int:
    return number


def _sliced(chunk: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int64]:
    return chunk[start:stop]


def _concatenated(slices: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return slices[0] if len(slices) == 1 else np.concatenate([np.zeros(0, np.int64), *slices])


@dataclass(frozen=True, repr=False)
class RankedKeys:
    """The keys of a partition in the order of their bins.

    Parameters
    ----------
    keys : pyarrow.RecordBatch
        The value and the id of each record that has a value.
    rows : ndarray of int64
        The row of the partition that each is of.
    own : ndarray of int64, shape (n_ranges,)
        Keys of each range.
    reached : ndarray of int64, shape (n_ranges, 2)
        Of each range, the first key in its reach and the one after the last.
    """

    keys: pa.RecordBatch
    rows: Ints
    own: Ints
    reached: Ints

    def __repr__(self) -> str:
        return f"RankedKeys({len(self.rows)} for {len(self.reached)} ranges)"

    @classmethod
    def of(cls, batch: pa.RecordBatch, ranked: RankedColumn) -> RankedKeys:
        """The keys of a partition."""
        bins, known = ranked.bins(batch.column(ranked.column), RowBlock(batch).record_ids)
        rows = np.flatnonzero(known)
        order = np.argsort(bins[rows], kind="stable")
        rows, bins = rows[order], bins[rows][order]
        keys = batch.select([ranked.column, *ID_COLUMNS]).take(pa.array(rows))
        own = np.diff(np.searchsorted(bins, ranked.ranges.first))
        return cls(keys, rows, own, np.searchsorted(bins, ranked.ranges.reached))

    def piece(self, place: int) -> pa.RecordBatch:
        """The keys in the reach of a range, its own among them."""
        start, stop = self.reached[place].tolist()
        return self.keys.slice(start, stop - start)


@dataclass(frozen=True, repr=False)
class _Met:
    """The keys of a range, and where those of each partition end."""

    keys: RangeKeys
    ends: Ints

    def __repr__(self) -> str:
        return f"_Met({len(self.keys.order)} ranks)"

    @classmethod
    def of(cls, pieces: Sequence[pa.RecordBatch], number: int, ranked: RankedColumn) -> _Met:
        ends = np.cumsum([0, *map(len, pieces)])
        return cls(ranked.keys(number, pieces), ends)

    def sent(self, receivers: NDArray[np.int64], ranked: RankedColumn) -> Pieces:
        """The values of the range for all ranges."""
        return Pieces(*self.keys.sent(receivers, ranked.ranges.borders))

    def cut(self, received: pa.Array) -> Pieces:
        """What each of the range's own records receives, by partition."""
        own = np.concatenate([[0], np.cumsum(self.keys.own)])
        return Pieces(received, own[self.ends])


def _received(pieces: Sequence[pa.RecordBatch], number: int, pi: NDArray[np.int64], ranked: RankedColumn) -> Pieces:
    met = _Met.of(pieces, number, ranked)
    return met.cut(met.keys.received(pi))


def _given(pieces: Sequence[pa.RecordBatch], met: _Met) -> Pieces:
    return met.cut(met.keys.given(pieces))


def _used(replies: Sequence[pa.Array], batch: pa.RecordBatch, keys: RankedKeys, column: str) -> pa.RecordBatch:
    """The rows of a partition with the values that came back for them; those without a value stay."""
    if [len(each) for each in replies] != keys.own.tolist():
        raise another_table(column)
    places = np.arange(len(keys.rows), len(keys.rows) + batch.num_rows)
    places[keys.rows] = np.arange(len(keys.rows))
    at = batch.schema.get_field_index(column)
    values = pa.concat_arrays([*replies, batch.column(at)]).take(pa.array(places))
    return batch.set_column(at, batch.schema.field(at), values)
