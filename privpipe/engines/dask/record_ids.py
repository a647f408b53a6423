"""Record ids: identical rows are numbered over the whole table, while only hashes and counts are exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.engines.dask.exchange import Pieces, answers, meet
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group, split_order
from privpipe.kernels.ids.record_ids import content_hash, declared_id, record_id

__all__ = ["declared_ids", "numbered_ids"]


def numbered_ids(runtime: Runtime, parts: Sequence[Node], places: int, seed: Seed) -> list[Node]:
    """Partitions with ids from the content of all their columns and an ordinal among identical rows."""
    sent = [runtime.task("hash records", _Hash(seed, places), part) for part in parts]
    replies = meet(runtime, "number records", sent, places, ordinal_starts)
    each = [[part, out] for part, out in zip(parts, sent, strict=True)]
    return meet(runtime, "attach ids", replies, len(parts), _Attach(seed), each=each)


def declared_ids(runtime: Runtime, parts: Sequence[Node], column: str, seed: Seed) -> list[Node]:
    """Partitions with ids from a column known to be unique."""
    return [runtime.task("attach ids", attach_declared, part, column=column, seed=seed) for part in parts]


@dataclass(frozen=True, repr=False)
class Hashed:
    """A partition's record hashes, and its distinct ones with their counts as they are sent."""

    words: Ints
    groups: Ints
    order: Ints
    pieces: Pieces

    def __repr__(self) -> str:
        return f"Hashed({self.pieces!r})"

    def piece(self, place: int) -> Ints:
        """Rows (hash, hash, count) that go to one place."""
        found: Ints = self.pieces.piece(place)
        return found


@dataclass(frozen=True, repr=False)
class _Hash:
    seed: Seed
    places: int

    def __call__(self, batch: pa.RecordBatch) -> Hashed:
        visible = [name for name in batch.schema.names if name not in ID_COLUMNS]
        words = content_hash(batch.select(visible), self.seed)
        groups, firsts = group_rows(words)
        counts = np.bincount(groups, minlength=len(firsts))
        order, offsets = split_order(words[firsts, 0], self.places)
        rows = np.column_stack([words[firsts], counts])[order]
        return Hashed(words, groups, order, Pieces(rows, offsets))


def ordinal_starts(pieces: Sequence[Ints]) -> Pieces:
    """For each hash that came, how many records of it are in earlier partitions."""
    came = np.concatenate(pieces)
    groups, firsts = group_rows(came[:, :2])
    order, offsets = ordered_by_group(groups, len(firsts))
    before = np.concatenate([[0], np.cumsum(came[order, 2])])
    starts = np.empty(len(came), dtype=np.int64)
    starts[order] = before[:-1] - before[offsets[groups[order]]]
    return answers(starts, pieces)


@dataclass(frozen=True, repr=False)
class _Attach:
    seed: Seed

    def __call__(self, replies: Sequence[Ints], batch: pa.RecordBatch, hashed: Hashed) -> pa.RecordBatch:
        starts = np.empty(len(hashed.order), dtype=np.int64)
        starts[hashed.order] = np.concatenate(replies)
        order, offsets = ordered_by_group(hashed.groups, len(starts))
        within = np.empty(len(order), dtype=np.int64)
        within[order] = np.arange(len(order)) - offsets[hashed.groups[order]]
        return with_ids(batch, record_id(hashed.words, starts[hashed.groups] + within, self.seed))


def attach_declared(batch: pa.RecordBatch, column: str, seed: Seed) -> pa.RecordBatch:
    """The batch with ids from one of its columns."""
    return with_ids(batch, declared_id(batch.column(column), seed))


def with_ids(batch: pa.RecordBatch, ids: Ints) -> pa.RecordBatch:
    """The visible columns with these ids after them."""
    visible = [name for name in batch.schema.names if name not in ID_COLUMNS]
    columns = [*batch.select(visible).columns, *(pa.array(np.ascontiguousarray(ids[:, word])) for word in (0, 1))]
    return pa.record_batch(columns, names=[*visible, *ID_COLUMNS])
