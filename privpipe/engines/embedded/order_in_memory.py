"""Rows in keyed order, where they fit into memory: one integer a row is sorted, then each column follows it.

DuckDB sorts whole rows; 10M of eleven columns take it twice the CPU seconds that this takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Stream
from privpipe.engines.base import part_files
from privpipe.engines.base.parallel import in_order
from privpipe.engines.base.part_files import files_of
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.table import EmbeddedTable, column_list

__all__ = ["OrderedRows", "places_in_order", "rows_in_memory", "sizes_of_files"]

SORT_BYTES = 16
"""Of a row, while it is sorted: its word, and one integer of word and place together."""
SOME = 1 << 20
"""Words that are looked at together."""
TEXT_BYTES = 32
"""Of a text that is no enumeration, until it is read."""
MOST_TEXT = 1 << 31
"""Bytes of a column of texts: Arrow counts them in 32 bits."""


@dataclass(frozen=True)
class OrderedRows:
    """Visible columns of rows, texts as the dictionaries that the table has of them, and the places of rows in order.

    Parameters
    ----------
    names : list of str
    columns : list of pyarrow.Array
        Of dictionaries the indices.
    dictionaries : list of pyarrow.Array or None
    places : ndarray of int64, shape (n,)
    sizes : ndarray of int64
        Rows of each part file.
    held : object
        Counts the rows as memory.
    """

    names: list[str]
    columns: list[pa.Array] = field(repr=False)
    dictionaries: list[pa.Array | None] = field(repr=False)
    places: NDArray[np.int64] = field(repr=False)
    sizes: NDArray[np.int64] = field(repr=False)
    held: object = field(repr=False)

    def __len__(self) -> int:
        return len(self.places)

    def each(
        self, start: int, stop: int, function: Callable[[pa.RecordBatch], pa.RecordBatch], threads: int
    ) -> Iterator[pa.RecordBatch]:
        """What a function makes of the rows from one place to another, a row group of a file at a time."""
        size = part_files.ROWS_PER_GROUP
        starts = range(start, stop, size)
        return in_order(lambda at: function(self.batch(at, min(at + size, stop))), starts, threads)

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows from one place to another."""
        chosen = pa.array(self.places[start:stop])
        columns = []
        for column, dictionary in zip(self.columns, self.dictionaries, strict=True):
            cells = pc.take(column, chosen, boundscheck=False)  # all places are of rows
            columns.append(cells if dictionary is None else pa.DictionaryArray.from_arrays(cells, dictionary))
        return pa.record_batch(columns, names=self.names)


def rows_in_memory(session: Session, table: EmbeddedTable, stream: Stream) -> OrderedRows | None:
    """All rows by keyed order.

    None where they do not fit, or where the ids have to decide: two order words are equal once in 2^64 pairs.
    """
    records = table.records(session)
    size = records * (sum(_width(table, each) for each in table.schema) + SORT_BYTES)
    if size > session.room():
        return None
    held = session.hold(size)
    files = files_of(records, len(table.schema))
    rows, sizes = _Rows(session.room()), np.zeros(files, np.int64)
    batches = session.stream(f"SELECT {column_list(table.all_columns)} FROM {table.compact}", table.frames)

    def laid(batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64], list[pa.Array]]:
        high, low = (batch.column(name).to_numpy() for name in ID_COLUMNS)
        words = stream.order(np.column_stack([high, low]))
        return words, sizes_of_files(words, files), [batch.column(name) for name in table.schema.names]

    for words, counts, columns in in_order(laid, batches, session.threads):
        sizes += counts
        if not rows.add(words, columns):
            return None
    places = places_in_order(rows.words, session.threads)
    if places is None:
        return None
    rows.words.clear()
    return OrderedRows(table.schema.names, rows.whole(session.threads), rows.dictionaries, places, sizes, held)


def sizes_of_files(words: NDArray[np.int64], files: int) -> NDArray[np.int64]:
    """How many of some rows lie in each part file, by their order words.

    Examples
    --------
    >>> sizes_of_files(np.array([-5, 7, -9]), 2).tolist()
    [2, 1]
    """
    from privpipe.kernels.grouping.word_groups import shares_of

    if files == 1:
        return np.array([len(words)])
    return np.bincount(shares_of(words, files), minlength=files)


def places_in_order(words: Sequence[NDArray[np.int64]], threads: int = 1) -> NDArray[np.int64] | None:
    """The places of some words, given in parts, in their order; None where two are equal.

    The high bits of a word and its place are one integer, which sorts five times as fast as places sort by words.

    Examples
    --------
    >>> places_in_order([np.array([5, -3]), np.array([9])]).tolist()
    [1, 0, 2]
    >>> places_in_order([np.array([5, 5])]) is None
    True
    """
    from privpipe.kernels.grouping.radix_sort import sort_numbers

    begins = np.cumsum([0, *map(len, words)])
    bits = np.uint64(max(1, int(begins[-1]) - 1).bit_length())
    # Pages that are written for the first time cost as much as the sort: one array serves all along.
    keys = np.empty(begins[-1], np.uint64)
    for part, first, last in zip(words, begins, begins[1:], strict=False):
        keys[first:last] = _unsigned(part) >> bits << bits | np.arange(first, last, dtype=np.uint64)
    sort_numbers(keys, threads)
    equal = np.concatenate(
        [
            np.zeros(0, np.int64),
            *(at + _equal_neighbours(keys[at : at + SOME + 1], bits) for at in range(0, len(keys), SOME)),
        ]
    )
    keys &= np.uint64((1 << int(bits)) - 1)
    places = keys.view(np.int64)
    if len(equal):
        again = np.unique(np.concatenate([equal, equal + 1]))
        few = places[again]
        whole = _taken(words, begins, few)
        order = np.argsort(whole)
        if (whole[order[1:]] == whole[order[:-1]]).any():
            return None
        places[again] = few[order]
    return places


def _unsigned(words: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Words as integers of the same order."""
    return words.view(np.uint64) ^ np.uint64(1 << 63)


def _equal_neighbours(keys: NDArray[np.uint64], bits: np.uint64) -> NDArray[np.int64]:
    high = keys >> bits
    return np.flatnonzero(high[1:] == high[:-1])


def _taken(
    words: Sequence[NDArray[np.int64]], begins: NDArray[np.int64], places: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Some of the words of all parts."""
    parts = np.searchsorted(begins, places, side="right") - 1
    return np.array([words[part][place - begins[part]] for part, place in zip(parts, places, strict=True)], np.int64)


@dataclass
class _Rows:
    """Rows as they came: order words, and the arrays of each column; of dictionaries the indices."""

    room: int
    words: list[NDArray[np.int64]] = field(default_factory=list)
    columns: list[list[pa.Array]] = field(default_factory=list)
    dictionaries: list[pa.Array | None] = field(default_factory=list)
    texts: int = 0

    def add(self, words: NDArray[np.int64], columns: list[pa.Array]) -> bool:
        """False where texts turn out larger than there is room for."""
        if not self.words:
            self.columns = [[] for _ in columns]
            self.dictionaries = [each.dictionary if pt.is_dictionary(each.type) else None for each in columns]
        self.words.append(words)
        for arrays, each in zip(self.columns, columns, strict=True):
            coded = pt.is_dictionary(each.type)
            arrays.append(each.indices if coded else each)
            self.texts += each.nbytes if pt.is_string(each.type) or pt.is_binary(each.type) else 0
        return self.texts < min(MOST_TEXT, self.room) or not self.texts

    def whole(self, threads: int) -> list[pa.Array]:
        """Each column in one array; the others are let go of."""

        def joined(arrays: list[pa.Array]) -> pa.Array:
            made = pa.concat_arrays(arrays)
            arrays.clear()
            return made

        return list(in_order(joined, self.columns, threads))


def _width(table: EmbeddedTable, column: pa.Field) -> int:
    digits = table.digits.get(column.name)
    if digits is not None and digits.texts is not None:
        return 1 if digits.size <= 1 << 8 else 2 if digits.size <= 1 << 16 else 4
    return TEXT_BYTES if pt.is_string(column.type) or pt.is_binary(column.type) else max(1, column.type.bit_width // 8)
