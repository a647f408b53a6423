"""One integer per row, sorted in this process so that equal ones are adjacent; dealt to a file beyond memory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.engines.base.batches import in_order
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.file_codes import CodedColumn, Piece
from privpipe.engines.embedded.session import LEAST_ROOM, Session
from privpipe.errors import EngineError

__all__ = ["DealtItems", "by_bucket", "parts_of", "sorted_codes", "sorted_slices", "sorted_words"]


def by_bucket(items: NDArray[Any], buckets: NDArray[np.uint16], number: int) -> tuple[NDArray[Any], Ints]:
    """Some items by bucket, in their order within each, and how many each bucket has.

    Examples
    --------
    >>> [found.tolist() for found in by_bucket(np.array([5, 6, 7]), np.array([1, 0, 1], np.uint16), 3)]
    [[6, 5, 7], [1, 2, 0]]
    """
    # NumPy gathers structures by `take` fifty times as fast as by an index in brackets.
    return items.take(np.argsort(buckets, kind="stable")), np.bincount(buckets, minlength=number)


class DealtItems:
    """Items of one type in a file; buckets are read from any thread once all are there.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder, DealtItems.below(Path(folder), np.dtype(np.int64), 2) as dealt:
    ...     for items in ([3, 8, 5], [2, 7]):
    ...         dealt.add(*by_bucket(np.array(items), np.array(items, np.uint16) % np.uint16(2), 2))
    ...     os.listdir(folder), dealt.sizes.tolist(), [dealt.read(bucket).tolist() for bucket in (0, 1)]
    ([], [2, 3], [[8, 2], [3, 5, 7]])
    """

    def __init__(self, file: IO[bytes], kind: np.dtype[Any], number: int) -> None:
        self._file, self._kind = file, kind
        self._added = [np.zeros(number, np.int64)]

    @classmethod
    @contextlib.contextmanager
    def below(cls, folder: Path, kind: np.dtype[Any], number: int) -> Iterator[DealtItems]:
        """None yet, on the disk of a folder, for so many buckets and as long as the context lasts.

        Raises
        ------
        EngineError
            The disk cannot be written; so do the methods.
        """
        with contextlib.ExitStack() as stack:
            with _on_disk():
                file = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
            yield cls(file, kind, number)

    def add(self, items: NDArray[Any], counts: Ints) -> None:
        """Write a stretch, as `by_bucket` gives it."""
        data = items.view(np.uint8).data
        while data:
            with _on_disk():
                data = data[os.write(self._file.fileno(), data) :]
        self._added.append(counts)

    @cached_property
    def counts(self) -> Ints:
        """Items of each bucket in each stretch, shape (stretches + 1, buckets); the first stretch is empty."""
        return np.array(self._added)

    @cached_property
    def sizes(self) -> Ints:
        """Items of each bucket."""
        found: Ints = self.counts.sum(axis=0)
        return found

    @cached_property
    def _ends(self) -> Ints:
        """The place behind each stretch of each bucket."""
        return np.cumsum(self.counts.ravel()).reshape(self.counts.shape)

    def read(self, bucket: int, room: NDArray[Any] | None = None) -> NDArray[Any]:
        """The items of a bucket, in the order in which they came; in an array of one's own where they fit into it."""
        count, size, done = int(self.sizes[bucket]), self._kind.itemsize, 0
        items = np.empty(count, self._kind) if room is None or count > len(room) else room[:count]
        target = items.view(np.uint8).data
        for own, end in zip(self.counts[:, bucket].tolist(), self._ends[:, bucket].tolist(), strict=True):
            at, stop = (end - own) * size, done + own * size
            while done < stop:
                with _on_disk():
                    got = os.preadv(self._file.fileno(), [target[done:stop]], at)
                if not got:
                    raise EngineError("the rows that were staged on disk are not whole any more")
                done, at = done + got, at + got
        return items


@contextlib.contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EngineError(f"rows cannot be staged on disk, below temp_directory: {reason}") from None


WORD_BYTES = 8
SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 by the golden ratio, odd: products of neighbours lie far apart in their high bits (Knuth, TAOCP 3, 6.4)."""
SLICE_ROWS = 1 << 18
"""Rows that are handed on at a time, and those of one key; what is made of them is in memory too."""


def sorted_words(
    session: Session,
    table: EmbeddedTable,
    word: str,
    *,
    radix: int = 1,
    kind: Any = np.int64,
    parts: int | None = None,
) -> Iterator[NDArray[Any]]:
    """The words of all rows, ascending, in slices of whole keys; in parts of other keys where memory asks for it.

    Parameters
    ----------
    word : str
        Numbers as SQL over `EmbeddedTable.compact`.
    radix : int
        So many words have one key: it is their quotient.
    kind : dtype
        Of words: int64, or float64 with a radix of 1.
    parts : int, optional
        From `parts_of`, one number for all iterators that are followed at once: else their slices do not match.

    Raises
    ------
    EngineError
        A row has no word.
    """
    sql = f"SELECT {word} AS word FROM {table.compact}"
    words = (_present(batch.column(0)) for batch in session.stream(sql, table.frames))
    room = np.empty(table.records(session), kind)
    return _sorted(session, words, parts_of(session, table) if parts is None else parts, room, radix)


def _present(words: pa.Array) -> NDArray[Any]:
    if words.null_count:
        raise EngineError("the source changed while it was read: a column misses values that it had before")
    return words.to_numpy()


def sorted_codes(
    session: Session, table: EmbeddedTable, columns: Sequence[tuple[str, CodedColumn]], radix: int, parts: int
) -> Iterator[Ints]:
    """As `sorted_words`, of columns of files, which are read again where their codes are not in memory.

    Parameters
    ----------
    columns : sequence of (str, CodedColumn)
        From the first digit of a word to the last; a column may be asked for twice.
    parts : int
        As in `sorted_words`.

    Raises
    ------
    EngineError
        The files changed meanwhile.
    """
    records = table.records(session)
    unread = {name: column for name, column in columns if column.codes is None}
    texts = [name for name, column in unread.items() if column.text]
    pieces = table.files.pieces(records) if table.files is not None else []

    def packed(piece: Piece) -> Ints:
        rows = piece.read_again(list(unread), texts) if unread else None
        words = np.zeros(piece.rows, np.int64)
        for name, column in columns:
            column.append_to(words, piece, None if rows is None or name not in unread else rows.column(name))
        return words

    return _sorted(session, in_order(packed, pieces, session.threads), parts, np.empty(records, np.int64), radix)


def sorted_slices(words: NDArray[Any], threads: int) -> Iterator[NDArray[Any]]:
    """Words that are in memory, sorted in place, in slices of whole keys."""
    from privpipe.kernels.grouping.sorting import sort_numbers

    sort_numbers(words, threads)
    yield from (words[each] for each in _slices(words, 1))


def parts_of(session: Session, table: EmbeddedTable, columns: int = 1) -> int:
    """In how many parts words are sorted, so many of a row at once, in the room there is now."""
    return max(1, -(-WORD_BYTES * columns * table.records(session) // max(session.room(), LEAST_ROOM)))


def _sorted(
    session: Session, pieces: Iterable[NDArray[Any]], parts: int, room: NDArray[Any], radix: int
) -> Iterator[NDArray[Any]]:
    """Each part in turn in one array, of which pages that nothing is written to take no memory."""
    from privpipe.kernels.grouping.sorting import sort_numbers

    for words in [_whole(pieces, room)] if parts == 1 else _dealt(session, pieces, parts, room, radix):
        sort_numbers(words, session.threads)
        # Who looks at words of one part may still do so when the next one takes their place.
        yield from (words[each] if parts == 1 else words[each].copy() for each in _slices(words, radix))


def _whole(pieces: Iterable[NDArray[Any]], room: NDArray[Any]) -> NDArray[Any]:
    count = 0
    for piece in pieces:
        if count + len(piece) > len(room):  # more rows than were counted: let what follows see them all
            room = np.concatenate([room[:count], np.empty(len(piece) + len(room), room.dtype)])
        room[count : count + len(piece)] = piece
        count += len(piece)
    return room[:count]


def _dealt(
    session: Session, pieces: Iterable[NDArray[Any]], parts: int, room: NDArray[Any], radix: int
) -> Iterator[NDArray[Any]]:
    """Words by their part, through a file: to scan the rows again for each part costs more than to write words down."""

    def dealt(words: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
        return by_bucket(words, _part(words, radix, parts), parts)

    with DealtItems.below(session.folder, room.dtype, parts) as items:
        for words, counts in in_order(dealt, pieces, session.threads):
            items.add(words, counts)
        for part in range(parts):
            yield items.read(part, room)


def _part(words: NDArray[Any], radix: int, parts: int) -> NDArray[np.uint16]:
    """The part of each word, a function of its key that spreads keys evenly."""
    keys = (words + 0.0).view(np.int64) if words.dtype == np.float64 else words // radix if radix > 1 else words
    mixed = keys.view(np.uint64) * SPREAD
    return ((mixed >> np.uint64(32)) % np.uint64(parts)).astype(np.uint16)


def _slices(words: NDArray[Any], radix: int) -> Iterator[slice]:
    """Consecutive words, cut where keys change."""
    start = 0
    while start < len(words):
        stop = min(start + SLICE_ROWS, len(words))
        last = words[stop - 1]
        if radix > 1:
            stop = int(np.searchsorted(words, (int(last) // radix + 1) * radix))
        else:
            stop = int(np.searchsorted(words, last, side="right"))
        yield slice(start, stop)
        start = stop
