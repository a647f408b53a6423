"""One integer a row, sorted in this process: equal ones stand side by side, and lie in memory once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.engines.base.parallel import in_order
from privpipe.engines.embedded.file_codes import CodedColumn, Piece
from privpipe.engines.embedded.nameless_file import NamelessFile
from privpipe.engines.embedded.table import EmbeddedTable

if TYPE_CHECKING:
    from privpipe.engines.embedded.session import Session

__all__ = ["sorted_codes", "sorted_slices", "sorted_words"]

Ints = NDArray[np.int64]
WORD_BYTES = 8
LEAST_ROOM = 32 << 20
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
    columns: int = 1,
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
    columns : int
        How many such iterators are followed at once.
    """
    sql = f"SELECT {word} AS word FROM {table.compact}"
    words = (batch.column(0).to_numpy() for batch in session.stream(sql, table.frames))
    return _sorted(session, words, _parts(session, table, columns), np.empty(table.records(session), kind), radix)


def sorted_codes(
    session: Session, table: EmbeddedTable, columns: Sequence[tuple[str, CodedColumn]], radix: int, together: int = 1
) -> Iterator[Ints]:
    """As `sorted_words`, of columns of files, which are read again where their codes do not lie in memory.

    Parameters
    ----------
    columns : sequence of (str, CodedColumn)
        From the first digit of a word to the last; a column may be asked for twice.
    together : int
        How many such iterators are followed at once.

    Raises
    ------
    EngineError
        The files changed meanwhile.
    """
    records, parts = table.records(session), _parts(session, table, together)
    unread = {name: column for name, column in columns if column.codes is None}
    texts = [name for name, column in unread.items() if column.text]
    pieces = table.files.pieces(records) if table.files is not None else []

    def packed(piece: Piece) -> Ints:
        rows = piece.read_again(list(unread), texts) if unread else None
        words = np.zeros(piece.rows, np.int64)
        for name, column in columns:
            words *= column.digits.size
            words += column.digits_of(piece, None if rows is None or name not in unread else rows.column(name))
        return words

    return _sorted(session, in_order(packed, pieces, session.threads), parts, np.empty(records, np.int64), radix)


def sorted_slices(words: NDArray[Any], threads: int) -> Iterator[NDArray[Any]]:
    """Words that lie in memory, sorted in place, in slices of whole keys."""
    from privpipe.kernels.grouping.radix_sort import sort_numbers

    sort_numbers(words, threads)
    yield from (words[each] for each in _slices(words, 1))


def _parts(session: Session, table: EmbeddedTable, columns: int) -> int:
    return max(1, -(-WORD_BYTES * columns * table.records(session) // max(session.room(), LEAST_ROOM)))


def _sorted(
    session: Session, pieces: Iterable[NDArray[Any]], parts: int, room: NDArray[Any], radix: int
) -> Iterator[NDArray[Any]]:
    """Each part in turn in one array, of which pages that nothing is written to take no memory."""
    from privpipe.kernels.grouping.radix_sort import sort_numbers

    for count, words in _whole(pieces, room) if parts == 1 else _dealt(session, pieces, parts, room, radix):
        sort_numbers(words[:count], session.threads)
        # Who looks at words of one part may still do so when the next one takes their place.
        yield from (words[each] if parts == 1 else words[each].copy() for each in _slices(words[:count], radix))


def _whole(pieces: Iterable[NDArray[Any]], room: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    count = 0
    for piece in pieces:
        if count + len(piece) > len(room):  # more rows than were counted: let what follows see them all
            room = np.concatenate([room[:count], np.empty(len(piece) + len(room), room.dtype)])
        room[count : count + len(piece)] = piece
        count += len(piece)
    yield count, room


def _dealt(
    session: Session, pieces: Iterable[NDArray[Any]], parts: int, room: NDArray[Any], radix: int
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Words by their part, through a file: to scan the rows again for each part costs more than to write words down."""

    def dealt(words: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        part = _part(words, radix, parts)
        order = np.argsort(part, kind="stable")
        return words.take(order), np.bincount(part, minlength=parts)

    with NamelessFile.below(session.folder) as file:
        counts = [np.zeros(parts, np.int64)]
        for words, found in in_order(dealt, pieces, session.threads):
            file.append(words)
            counts.append(found)
        of_piece = np.array(counts)
        before = np.cumsum(of_piece.ravel()).reshape(of_piece.shape) - of_piece
        for part in range(parts):
            count = int(of_piece[:, part].sum())
            if count > len(room):
                room = np.empty(count, room.dtype)
            stretches = zip(before[:, part].tolist(), (before + of_piece)[:, part].tolist(), strict=True)
            file.read(room[:count], list(stretches))
            yield count, room


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
