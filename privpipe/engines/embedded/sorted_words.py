"""One integer a row, sorted in this process: equal ones stand side by side, and lie in memory once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.engines.base.parallel import in_order
from privpipe.engines.embedded.dealt_items import DealtItems, by_bucket
from privpipe.engines.embedded.file_codes import CodedColumn, Piece
from privpipe.engines.embedded.session import LEAST_ROOM, Session
from privpipe.engines.embedded.table import EmbeddedTable
from privpipe.errors import EngineError

__all__ = ["parts_of", "sorted_codes", "sorted_slices", "sorted_words"]

Ints = NDArray[np.int64]
WORD_BYTES = 8
SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 by the golden ratio, odd: products of neighbours lie far apart in their high bits (Knuth, TAOCP 3, 6.4)."""
SLICE_ROWS = 1 << 18
"""Rows that are handed on at a time, and those of one key; what is made of them lies in memory besides."""


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
    """As `sorted_words`, of columns of files, which are read again where their codes do not lie in memory.

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
    """Words that lie in memory, sorted in place, in slices of whole keys."""
    from privpipe.kernels.grouping.radix_sort import sort_numbers

    sort_numbers(words, threads)
    yield from (words[each] for each in _slices(words, 1))


def parts_of(session: Session, table: EmbeddedTable, columns: int = 1) -> int:
    """In how many parts words are sorted, so many of a row at once, in the room there is now."""
    return max(1, -(-WORD_BYTES * columns * table.records(session) // max(session.room(), LEAST_ROOM)))


def _sorted(
    session: Session, pieces: Iterable[NDArray[Any]], parts: int, room: NDArray[Any], radix: int
) -> Iterator[NDArray[Any]]:
    """Each part in turn in one array, of which pages that nothing is written to take no memory."""
    from privpipe.kernels.grouping.radix_sort import sort_numbers

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

    def dealt(words: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
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
