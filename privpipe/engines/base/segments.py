"""Segments of consecutive ranks by the other primitives: ranks first, then all records of a segment together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Primitives, RankExchange, RowBlock, unsigned_zeros

if TYPE_CHECKING:
    from privpipe.draws import Stream

__all__ = ["exchange_in_segments"]

RANK = "__privpipe_rank"


def exchange_in_segments(engine: Primitives, table: Any, column: str, stream: Stream, exchange: RankExchange) -> Any:
    """See `Engine.exchange_ranks`."""
    import pyarrow as pa

    schema = table.schema
    ranked = engine.map_ranked(table, column, stream, _with_rank, schema.append(pa.field(RANK, pa.int64())))
    return engine.map_groups(ranked, _SegmentKey(exchange.segment), _Segment(column, exchange), schema)


def _with_rank(rows: RowBlock, ranks: NDArray[np.int64]) -> RowBlock:
    import pyarrow as pa

    return RowBlock(rows.batch.append_column(RANK, pa.array(ranks, pa.int64())), rows.record_ids)


@dataclass(frozen=True)
class _SegmentKey:
    """The segment of each record; those without a value are dealt out."""

    length: int

    def __call__(self, rows: RowBlock) -> NDArray[np.int64]:
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
