"""Functions of one partition: blocks through a stage, values by a codebook, whole groups, aligned pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, Facts, PairBlock, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.engines.base.batches import joined
from privpipe.engines.dask.exchange import Pieces, Sent
from privpipe.engines.distributed.row_functions import Codebook, fitted
from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group, split_order
from privpipe.kernels.ids.record_ids import partners

__all__ = [
    "Beside",
    "CutById",
    "CutByKey",
    "MapGroups",
    "MapRanked",
    "MapRows",
    "MeasurePairs",
    "MeasureRows",
    "Recode",
]


KEY = "__privpipe_key"


@dataclass(frozen=True, repr=False)
class MapRows:
    """A block function over a partition."""

    function: Callable[[RowBlock], RowBlock]
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return fitted(self.function(RowBlock(batch)), self.schema)


@dataclass(frozen=True, repr=False)
class MapRanked:
    """A block function over a partition with its ranks."""

    function: Callable[[RowBlock, Ints], RowBlock]
    schema: pa.Schema

    def __call__(self, rows: RowBlock, ranks: Ints) -> pa.RecordBatch:
        return fitted(self.function(rows, ranks), self.schema)


@dataclass(frozen=True, repr=False)
class CutByKey:
    """Rows with their group's key, cut so that a group meets in one place."""

    key: Callable[[RowBlock], Ints]
    places: int

    def __call__(self, batch: pa.RecordBatch) -> Sent:
        keys = np.asarray(self.key(RowBlock(batch)), dtype=np.int64)
        spread = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # neighbouring keys go apart
        spread ^= spread >> np.uint64(29)
        spread *= np.uint64(0xBF58476D1CE4E5B9)
        order, offsets = split_order(spread.view(np.int64), self.places)
        keyed = pa.record_batch([*batch.columns, pa.array(keys)], names=[*batch.schema.names, KEY])
        return Sent(Pieces(keyed.take(pa.array(order)), offsets), order)


@dataclass(frozen=True, repr=False)
class MapGroups:
    """A function over each whole group that came to one place."""

    function: Callable[[RowBlock, int], RowBlock]
    schema: pa.Schema

    def __call__(self, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        rows = joined(pieces)
        keys = rows.column(KEY).to_numpy()
        groups, firsts = group_rows(keys[:, None])
        order, offsets = ordered_by_group(groups, len(firsts))
        rows = rows.select([name for name in rows.schema.names if name != KEY]).take(pa.array(order))
        done = [
            fitted(self.function(RowBlock(rows.slice(start, end - start)), int(keys[first])), self.schema)
            for first, start, end in zip(firsts, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]
        return joined(done) if done else empty_like(rows, self.schema)


def empty_like(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """No rows, of a visible schema, with ids where `rows` have them."""
    ids = [pa.field(name, pa.int64()) for name in ID_COLUMNS if name in rows.schema.names]
    return pa.RecordBatch.from_pylist([], pa.schema([*schema, *ids]))


@dataclass(frozen=True, repr=False)
class MeasureRows:
    """A reduction over a partition's rows; None where it has none."""

    columns: tuple[str, ...]
    reduction: Any

    def __call__(self, batch: pa.RecordBatch, facts: Facts) -> Any:
        if not batch.num_rows:
            return None
        ids = [name for name in ID_COLUMNS if name in batch.schema.names]
        return self.reduction.measure(RowBlock(batch.select([*self.columns, *ids])), facts)


@dataclass(frozen=True, repr=False)
class CutById:
    """Rows with their ids, cut so that the two halves of a pair meet in one place."""

    columns: tuple[str, ...]
    places: int

    def __call__(self, batch: pa.RecordBatch) -> Sent:
        order, offsets = split_order(batch.column(ID_COLUMNS[0]).to_numpy(), self.places)
        chosen = batch.select([*self.columns, *ID_COLUMNS])
        return Sent(Pieces(chosen.take(pa.array(order)), offsets), order)


@dataclass(frozen=True, repr=False)
class MeasurePairs:
    """A reduction over the pairs that came to one place; None where there is none."""

    originals: int
    reduction: Any

    def __call__(self, pieces: Sequence[pa.RecordBatch], facts: Facts) -> Any:
        original = RowBlock(joined(pieces[: self.originals]))
        released = RowBlock(joined(pieces[self.originals :]))
        before, after = partners(original.record_ids, released.record_ids)
        if not len(after):
            return None
        return self.reduction.measure(PairBlock(original.take(before), released.take(after)), facts)


@dataclass(frozen=True, repr=False)
class Beside:
    """The released rows that came to one place with the columns of their originals after them."""

    originals: int
    schema: pa.Schema

    def __call__(self, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        original = RowBlock(joined(pieces[: self.originals]))
        released = RowBlock(joined(pieces[self.originals :]))
        before, after = partners(original.record_ids, released.record_ids)
        columns = [*released.take(after).batch.columns, *original.take(before).batch.columns]
        return pa.record_batch(columns, schema=self.schema)


@dataclass(frozen=True, repr=False)
class Recode:
    """Values by labels, for columns whose every value is known to be in its codebook."""

    books: Mapping[str, Codebook]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            self.books[name].labels_of(column) if name in self.books else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.record_batch(columns, names=batch.schema.names)

    def unknown(self, batch: pa.RecordBatch) -> dict[str, int]:
        """Records of each column whose value the codebook lacks."""
        return {name: book.positions(batch.column(name)).null_count for name, book in self.books.items()}
