"""Primitives that an engine builds from others: segments of consecutive ranks, and samples of records by their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Primitives, RankExchange, RowBlock, unsigned_zeros
from privpipe.blocks.arrays import Ints

if TYPE_CHECKING:
    from privpipe.draws import Stream

__all__ = ["FirstIds", "exchange_in_segments", "last_id_of"]


RANK = "__privpipe_rank"


def exchange_in_segments(engine: Primitives, table: Any, column: str, stream: Stream, exchange: RankExchange) -> Any:
    """See `Engine.exchange_ranks`."""
    import pyarrow as pa

    schema = table.schema
    ranked = engine.map_ranked(table, column, stream, _with_rank, schema.append(pa.field(RANK, pa.int64())))
    return engine.map_groups(ranked, _SegmentKey(exchange.segment), _Segment(column, exchange), schema)


def _with_rank(rows: RowBlock, ranks: Ints) -> RowBlock:
    import pyarrow as pa

    return RowBlock(rows.batch.append_column(RANK, pa.array(ranks, pa.int64())), rows.record_ids)


@dataclass(frozen=True)
class _SegmentKey:
    """The segment of each record; those without a value are dealt out."""

    length: int

    def __call__(self, rows: RowBlock) -> Ints:
        ranks = rows.column(RANK).to_numpy(zero_copy_only=False)
        return np.where(ranks < 0, -1 - rows.record_ids[:, 1] % 64, ranks // self.length)


@dataclass(frozen=True)
class _Segment:
    column: str
    exchange: RankExchange

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        import pyarrow as pa

        ranks = rows.column(RANK).to_numpy(zero_copy_only=False)
        rows = rows.drop([RANK])
        if key < 0:
            return rows
        start = key * self.exchange.segment
        order = np.empty(len(ranks), np.int64)
        order[ranks - start] = np.arange(len(ranks))
        pi = self.exchange.permutation(start, start + len(ranks)) - start
        values = unsigned_zeros(rows.column(self.column))
        return rows.replace(self.column, values.take(pa.array(order[pi[ranks - start]])))


def last_id_of(share: float) -> int:
    """The largest first word of an id among the first `share` of all ids, which lie evenly over 64 bits.

    Examples
    --------
    >>> last_id_of(1.0) == 2**63 - 1, last_id_of(0.5), last_id_of(0.0) == -(2**63)
    (True, 0, True)
    """
    return min(int(share * 2.0**64 - 2.0**63), 2**63 - 1)


@dataclass(frozen=True)
class FirstIds:
    """The rows whose id has a first word of at most `last`."""

    last: int

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.record_ids[:, 0] <= self.last))
