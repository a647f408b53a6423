"""Facts and distinct tables: counted in every partition, merged a few at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.blocks import Facts, FactsRequest, Histogram, RowBlock
from privpipe.draws import Seed
from privpipe.engines.base.batches import joined
from privpipe.engines.base.histograms import ExactMoments, group_key, histogram_of, merged_histogram
from privpipe.engines.dask.exchange import Pieces
from privpipe.engines.distributed.codes import encode, grouped, tuple_hashes
from privpipe.engines.distributed.orders import value_order_of
from privpipe.kernels.grouping.word_groups import split_order

__all__ = ["COUNT", "CountDistinct", "Learn", "Learnt", "facts_of", "merge_distinct", "sorted_distinct"]


COUNT = "__count"


@dataclass(frozen=True, repr=False)
class Learnt:
    """What some partitions answer to a request."""

    records: int
    histograms: Mapping[str, Histogram]
    sums: Any
    nulls: Mapping[str, int]


@dataclass(frozen=True)
class Learn:
    """A request, answered for a partition and merged over several."""

    request: FactsRequest

    @property
    def moments(self) -> ExactMoments:
        """The reduction behind means and deviations."""
        return ExactMoments(self.request.moments, self.request.products)

    def measure(self, batch: pa.RecordBatch) -> Learnt:
        """The answer of one partition."""
        return Learnt(
            batch.num_rows,
            {name: _histogram(batch.column(name)) for name in self.request.histograms},
            self.moments.measure(RowBlock(batch), Facts()) if self.request.moments and batch.num_rows else None,
            {name: group_key(batch.column(name)).null_count for name in self.request.nulls},
        )

    def merge(self, parts: list[Learnt]) -> Learnt:
        """The answer of several partitions; they are at least one."""
        sums = None
        for part in parts:
            if part.sums is not None:
                sums = part.sums if sums is None else self.moments.merge(sums, part.sums)
        return Learnt(
            sum(part.records for part in parts),
            {name: _merged([part.histograms[name] for part in parts]) for name in self.request.histograms},
            sums,
            {name: sum(part.nulls[name] for part in parts) for name in self.request.nulls},
        )


def facts_of(learnt: Learnt, request: FactsRequest) -> Facts:
    """The facts of the whole table.

    Raises
    ------
    DataError
        Moments of a column that holds infinities.
    """
    moments, covariance = Learn(request).moments.finish(learnt.sums)
    return Facts(
        records=learnt.records,
        histograms=learnt.histograms,
        moments=moments,
        covariance=covariance,
        nulls=learnt.nulls,
    )


def _histogram(column: pa.Array) -> Histogram:
    found = encode(column)
    return histogram_of(found.values, pa.array(np.bincount(found.codes, minlength=len(found.values))))


def _merged(parts: Sequence[Histogram]) -> Histogram:
    return parts[0] if len(parts) == 1 else merged_histogram(parts, parts[0].values.type)


@dataclass(frozen=True, repr=False)
class CountDistinct:
    """Distinct combinations of one partition, normalised, with their counts, cut by a keyed hash of 128 bits."""

    columns: tuple[str, ...]
    places: int
    seed: Seed

    def __call__(self, batch: pa.RecordBatch) -> Pieces:
        found = _distinct(batch.select(list(self.columns)), 1)
        encoded = [encode(found.column(name)) for name in self.columns]
        order, offsets = split_order(tuple_hashes(encoded, self.seed, found.num_rows)[:, 0], self.places)
        return Pieces(found.take(pa.array(order)), offsets)


def merge_distinct(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Distinct combinations that met in one place, their counts added up."""
    rows = joined(parts)
    return _distinct(rows.select(rows.schema.names[:-1]), rows.column(COUNT).to_numpy())


def _distinct(rows: pa.RecordBatch, counts: Any) -> pa.RecordBatch:
    encoded = [encode(column) for column in rows.columns]
    groups, firsts = grouped(encoded, rows.num_rows)
    sums = np.zeros(len(firsts), dtype=np.int64)
    np.add.at(sums, groups, counts)
    columns = [column.values.take(pa.array(column.codes[firsts])) for column in encoded]
    return pa.record_batch([*columns, pa.array(sums)], names=[*rows.schema.names, COUNT])


def sorted_distinct(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The combinations of all places in the order of their columns, nulls last."""
    rows = joined(parts)
    names = rows.schema.names[:-1]
    fields = [*(schema.field(name) for name in names), pa.field(COUNT, pa.int64())]
    return pa.Table.from_batches([rows.take(value_order_of(rows.columns[:-1]))]).cast(pa.schema(fields))
