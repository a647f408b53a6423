"""A shuffle: every partition cuts its rows by destination, every destination gathers its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.kernels.grouping.word_groups import ordered_by_group

__all__ = ["Pieces", "Sent", "answers", "cut_by", "meet"]


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
    offsets: NDArray[np.int64]

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
    rows: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"Sent({self.pieces!r})"

    def piece(self, place: int) -> Any:
        """The entries that go to one place."""
        return self.pieces.piece(place)


def cut_by(rows: Any, targets: NDArray[np.int64], places: int) -> Sent:
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


def _cut(pieces: Pieces | Sent, place: int) -> Any:
    return pieces.piece(place)


def _meet_here(function: Callable[..., Any], pieces: list[Pieces | Sent], *shared: Any, place: int) -> Any:
    return function([source.piece(place) for source in pieces], *shared)
