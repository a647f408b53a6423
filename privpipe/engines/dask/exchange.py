"""Exchange of rows: a shuffle by destination, and global order by ranges of keys, which gives ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.draws import Stream
from privpipe.engines.base.batches import joined
from privpipe.engines.base.class_blocks import group_key
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.collection import too_large
from privpipe.engines.distributed.orders import range_targets, sorted_by
from privpipe.kernels.grouping.word_groups import ordered_by_group

__all__ = [
    "Pieces",
    "Sent",
    "answers",
    "cut_by",
    "cut_ranges",
    "meet",
    "ranked",
    "require_room_for_places",
    "sorted_parts",
]


@dataclass(frozen=True, repr=False)
class Pieces:
    """Rows of one partition in the order of the place they go to.

    Parameters
    ----------
    rows : ndarray, pyarrow.RecordBatch or pandas.DataFrame
        Sorted by destination.
    offsets : ndarray of int64, shape (places + 1,)
        Rows of place j are ``offsets[j]:offsets[j + 1]``.
    """

    rows: Any
    offsets: Ints

    def __repr__(self) -> str:
        return f"Pieces({self.offsets[-1]} rows for {len(self.offsets) - 1} places)"

    def piece(self, place: int) -> Any:
        """The rows that go to one place."""
        start, end = int(self.offsets[place]), int(self.offsets[place + 1])
        if isinstance(self.rows, np.ndarray):
            return self.rows[start:end]
        if hasattr(self.rows, "iloc"):
            return self.rows.iloc[start:end]
        return self.rows.slice(start, end - start)


@dataclass(frozen=True, repr=False)
class Sent:
    """What a partition sent, and the row of the partition that each sent entry came from."""

    pieces: Pieces
    rows: Ints

    def __repr__(self) -> str:
        return f"Sent({self.pieces!r})"

    def piece(self, place: int) -> Any:
        """The entries that go to one place."""
        return self.pieces.piece(place)


def cut_by(rows: Any, targets: Ints, places: int) -> Sent:
    """Rows (an array or a record batch) sorted by the place each goes to.

    Examples
    --------
    >>> sent = cut_by(np.array([10, 11, 12]), np.array([1, 0, 1]), 2)
    >>> sent.piece(0).tolist(), sent.piece(1).tolist(), sent.rows.tolist()
    ([11], [10, 12], [1, 0, 2])
    """
    order, offsets = ordered_by_group(targets, places)
    return Sent(Pieces(rows[order] if isinstance(rows, np.ndarray) else rows.take(order), offsets), order)


def answers(values: Any, asked: Sequence[Any]) -> Pieces:
    """One value for each entry that came, cut by the partition it came from.

    Parameters
    ----------
    values : ndarray, shape (total entries,)
        In the order of the entries, partition after partition.
    asked : sequence
        The pieces that came, one from every partition.
    """
    lengths = [len(piece) for piece in asked]
    return Pieces(values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def meet(
    runtime: Runtime,
    name: str,
    pieces: Sequence[Node],
    places: int,
    function: Callable[..., Any],
    *shared: Node,
    each: Sequence[Sequence[Node]] | None = None,
) -> list[Node]:
    """One task a place: ``function(its pieces, one from every partition in order, *each[place], *shared)``.

    In one process a meeting place looks at all partitions' pieces where they are. Between processes the pieces
    are cut out first, so that only what is needed travels.
    """
    own = [[] if each is None else list(each[place]) for place in range(places)]
    meeting = runtime.place(function)
    if not runtime.distributed or all(piece.here for piece in pieces):
        return [
            runtime.task(name, _meet_here, meeting, list(pieces), *own[place], *shared, place=place)
            for place in range(places)
        ]
    cuts = [[runtime.task("cut pieces", _cut, source, place=place) for source in pieces] for place in range(places)]
    return [runtime.task(name, meeting, cut, *own[place], *shared) for place, cut in enumerate(cuts)]


def require_room_for_places(runtime: Runtime, sent: Sequence[Node], what: str) -> None:
    """Refuse pieces of which one place would get more than a task may take, before any of them travels.

    Raises
    ------
    EngineError
        With the bytes of the largest place.
    """
    sizes = runtime.compute("measure pieces", [runtime.task("measure pieces", place_bytes, part) for part in sent])
    most, limit = float(np.sum(sizes, axis=0).max()) if sizes else 0.0, runtime.task_limit
    if most > limit:
        raise too_large("dask", what, most, limit, MORE_ROOM, taker="one task of a worker")


def place_bytes(sent: Sent) -> Floats:
    """Bytes that go to each place, of rows as long as the average."""
    rows = sent.pieces.rows
    return np.diff(sent.pieces.offsets) * (rows.nbytes / max(1, len(rows)))


def _cut(pieces: Pieces | Sent, place: int) -> Any:
    return pieces.piece(place)


def _meet_here(function: Callable[..., Any], pieces: list[Pieces | Sent], *shared: Any, place: int) -> Any:
    return function([source.piece(place) for source in pieces], *shared)


SAMPLES_A_PLACE = 64
MORE_ROOM = (
    "give each worker more memory or fewer threads, raise `npartitions` under `engines.dask`, or use smaller groups "
    "(strata, segments, households)"
)


def ranked(
    runtime: Runtime,
    parts: Sequence[Node],
    places: int,
    column: str,
    stream: Stream,
    function: Callable[[RowBlock, Ints], pa.RecordBatch],
) -> list[Node]:
    """Partitions through `function` with each row's global rank by (value, keyed order); -1 for no value.

    Only values and order words travel, and ranks travel back: the rows stay where they are. A sample chooses
    the cut values; the ranks are counted.
    """
    keys = [runtime.task("take rank keys", rank_keys, part, column=column, stream=stream) for part in parts]
    sent = cut_ranges(runtime, keys, places)
    sizes = [runtime.task("count ranges", place_sizes, part) for part in sent]
    starts = runtime.task("add up ranges", range_starts, sizes)
    own = [[runtime.task("start of range", _At(place), starts)] for place in range(places)]
    replies = meet(runtime, "rank", sent, places, rank_pieces, each=own)
    each = [[part, out] for part, out in zip(parts, sent, strict=True)]
    return meet(runtime, "use ranks", replies, len(parts), _UseRanks(column, function), each=each)


def sorted_parts(runtime: Runtime, parts: Sequence[Node], places: int, columns: Sequence[str]) -> list[Node]:
    """The rows in the order of some columns: sorted within each part, and the parts ascending."""
    keys = [runtime.task("take sort keys", _Chosen(tuple(columns)), part) for part in parts]
    cuts = sampled_cuts(runtime, keys, places)
    sent = [runtime.task("cut by range", _CutRows(tuple(columns), places), part, cuts) for part in parts]
    return meet(runtime, "sort", sent, places, _SortPieces(tuple(columns)))


def rank_keys(batch: pa.RecordBatch, column: str, stream: Stream) -> pa.RecordBatch:
    """Values and order words of the rows that have a value."""
    values = group_key(batch.column(column))
    order = pa.array(stream.order(RowBlock(batch).record_ids))
    keys = pa.record_batch([values, order], names=["value", "order"])
    return keys.filter(pc.is_valid(values)) if values.null_count else keys


def cut_ranges(runtime: Runtime, keys: Sequence[Node], places: int) -> list[Node]:
    """Key batches cut into ranges of their columns, in ascending order of the places."""
    cuts = sampled_cuts(runtime, keys, places)
    return [runtime.task("cut by range", _CutKeys(places), part, cuts) for part in keys]


def sampled_cuts(runtime: Runtime, keys: Sequence[Node], places: int) -> Node:
    """Keys that cut a table into `places` ranges of about equal size."""
    samples = [runtime.task("sample keys", sample_of, part, rows=SAMPLES_A_PLACE * places) for part in keys]
    return runtime.task("choose cuts", chosen_cuts, samples, places=places)


def sample_of(keys: pa.RecordBatch, rows: int) -> tuple[pa.RecordBatch, int]:
    """Rows at even distances, and the number of rows they stand for."""
    found = keys.num_rows
    positions = np.unique(np.linspace(0, found - 1, min(rows, found)).astype(np.int64)) if found else np.empty(0, int)
    return keys.take(pa.array(positions, pa.int64())), found


def chosen_cuts(samples: list[tuple[pa.RecordBatch, int]], places: int) -> pa.RecordBatch:
    """At most ``places - 1`` keys at even distances of the weighted sample."""
    keys = joined([sample for sample, _rows in samples])
    if not keys.num_rows:
        return keys
    weights = np.concatenate([np.full(len(sample), rows / max(1, len(sample))) for sample, rows in samples])
    order = sorted_by(keys, keys.schema.names)
    heights = np.cumsum(weights[order])
    wanted = heights[-1] * np.arange(1, places) / places
    return keys.take(pa.array(order[np.searchsorted(heights, wanted)]))


def place_sizes(sent: Sent) -> Ints:
    """Entries that go to each place."""
    return np.diff(sent.pieces.offsets)


def range_starts(sizes: list[Ints]) -> Ints:
    """Entries in all places before each place."""
    total = np.sum(sizes, axis=0)
    return np.concatenate([[0], np.cumsum(total)[:-1]])


def rank_pieces(pieces: Sequence[pa.RecordBatch], start: int) -> Pieces:
    """Rank of each entry that came to one range, cut by where it came from."""
    keys = joined(pieces)
    ranks = np.empty(keys.num_rows, dtype=np.int64)
    ranks[sorted_by(keys, ["value", "order"])] = np.arange(start, start + keys.num_rows)
    return answers(ranks, pieces)


@dataclass(frozen=True)
class _At:
    place: int

    def __call__(self, values: Ints) -> int:
        return int(values[self.place])


@dataclass(frozen=True)
class _Chosen:
    columns: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(list(self.columns))


@dataclass(frozen=True)
class _CutKeys:
    places: int

    def __call__(self, keys: pa.RecordBatch, cuts: pa.RecordBatch) -> Sent:
        return cut_by(keys, range_targets(keys, cuts), self.places)


@dataclass(frozen=True)
class _CutRows:
    columns: tuple[str, ...]
    places: int

    def __call__(self, batch: pa.RecordBatch, cuts: pa.RecordBatch) -> Sent:
        return cut_by(batch, range_targets(batch.select(list(self.columns)), cuts), self.places)


@dataclass(frozen=True)
class _SortPieces:
    columns: tuple[str, ...]

    def __call__(self, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        rows = joined(pieces)
        return rows.take(pa.array(sorted_by(rows, self.columns)))


@dataclass(frozen=True)
class _UseRanks:
    column: str
    function: Callable[[RowBlock, Ints], pa.RecordBatch]

    def __call__(self, replies: Sequence[Ints], batch: pa.RecordBatch, sent: Sent) -> pa.RecordBatch:
        having = np.flatnonzero(group_key(batch.column(self.column)).is_valid().to_numpy(zero_copy_only=False))
        ranks = np.full(batch.num_rows, -1, dtype=np.int64)
        ranks[having[sent.rows]] = np.concatenate(replies)
        return self.function(RowBlock(batch), ranks)
