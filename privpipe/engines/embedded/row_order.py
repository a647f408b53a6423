"""Rows in keyed order: one integer per row is sorted, in memory or, dealt by its high bits, on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS
from privpipe.blocks.arrays import Ints
from privpipe.draws import Stream
from privpipe.engines.base import part_files
from privpipe.engines.base.batches import in_order
from privpipe.engines.base.part_files import files_of
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.session import LEAST_ROOM, Session, column_list
from privpipe.engines.embedded.sorted_words import DealtItems, by_bucket
from privpipe.errors import EngineError

__all__ = ["DealtRows", "OrderedRows", "places_in_order", "rows_in_memory", "rows_on_disk", "sizes_of_files"]


SORT_BYTES = 16
"""Of a row, while it is sorted: its word, and one integer of word and place together."""
SOME = 1 << 20
"""Words that are looked at together."""
TEXT_BYTES = 32
"""Of a text that is not an enumeration, until it is read."""
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
    places: Ints = field(repr=False)
    sizes: Ints = field(repr=False)
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

    def laid(batch: pa.RecordBatch) -> tuple[Ints, Ints, list[pa.Array]]:
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


def sizes_of_files(words: Ints, files: int) -> Ints:
    """How many of some rows are in each part file, by their order words.

    Examples
    --------
    >>> sizes_of_files(np.array([-5, 7, -9]), 2).tolist()
    [2, 1]
    """
    from privpipe.kernels.grouping.word_groups import shares_of

    if files == 1:
        return np.array([len(words)])
    return np.bincount(shares_of(words, files), minlength=files)


def places_in_order(words: Sequence[Ints], threads: int = 1) -> Ints | None:
    """The places of some words, given in parts, in their order; None where two are equal.

    The high bits of a word and its place are one integer, which sorts five times as fast as places sort by words.

    Examples
    --------
    >>> places_in_order([np.array([5, -3]), np.array([9])]).tolist()
    [1, 0, 2]
    >>> places_in_order([np.array([5, 5])]) is None
    True
    """
    from privpipe.kernels.grouping.sorting import sort_numbers

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


def _unsigned(words: Ints) -> NDArray[np.uint64]:
    """Words as integers of the same order."""
    return words.view(np.uint64) ^ np.uint64(1 << 63)


def _equal_neighbours(keys: NDArray[np.uint64], bits: np.uint64) -> Ints:
    high = keys >> bits
    return np.flatnonzero(high[1:] == high[:-1])


def _taken(words: Sequence[Ints], begins: Ints, places: Ints) -> Ints:
    """Some of the words of all parts."""
    parts = np.searchsorted(begins, places, side="right") - 1
    return np.array([words[part][place - begins[part]] for part, place in zip(parts, places, strict=True)], np.int64)


@dataclass
class _Rows:
    """Rows as they came: order words, and the arrays of each column; of dictionaries the indices."""

    room: int
    words: list[Ints] = field(default_factory=list)
    columns: list[list[pa.Array]] = field(default_factory=list)
    dictionaries: list[pa.Array | None] = field(default_factory=list)
    texts: int = 0

    def add(self, words: Ints, columns: list[pa.Array]) -> bool:
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


Words = Ints
WORD = "__privpipe_word"
BUCKET_ROWS = 1 << 18
"""Rows of a bucket that are aimed at: while being sorted they are in the cache, except for their cells."""
MOST_BUCKETS_BITS = 16
STRETCH_ROWS = 1 << 19
"""Rows that are dealt at a time while these are not too many pieces of a bucket."""
MOST_STRETCHES = 256
STRETCH_COPIES, BUCKET_COPIES = 24, 10
"""Of a row in memory, at most: of stretches that wait to be written, and of buckets that become batches."""
BYTE = 8


@dataclass(frozen=True)
class _Layout:
    """How a row is in the file: its order word, one bit per column for missing cells, and its cells as they are.

    Parameters
    ----------
    names : list of str
    kinds : list of pyarrow.DataType
        Of dictionaries that of their indices.
    dictionaries : list of pyarrow.Array or None
    """

    names: list[str]
    kinds: list[pa.DataType]
    dictionaries: list[pa.Array | None] = field(repr=False)

    @classmethod
    def of(cls, batch: pa.RecordBatch, names: Sequence[str]) -> _Layout | None:
        """None where the cells of a column are not all equally long."""
        columns = [batch.column(name) for name in names]
        dictionaries = [each.dictionary if pt.is_dictionary(each.type) else None for each in columns]
        kinds = [each.type.index_type if pt.is_dictionary(each.type) else each.type for each in columns]
        return cls(list(names), kinds, dictionaries) if kinds and all(map(_cell_width, kinds)) else None

    @property
    def row(self) -> np.dtype[Any]:
        """A row as a structure."""
        missing = [(f"missing {at}", np.uint8) for at in range(-(-len(self.kinds) // BYTE))]
        cells = [(f"cell {at}", _cell(kind)) for at, kind in enumerate(self.kinds)]
        return np.dtype([(WORD, np.int64), *missing, *cells])

    def packed(self, batch: pa.RecordBatch, words: Words) -> NDArray[np.void]:
        """Rows as structures."""
        rows = np.empty(len(batch), self.row)
        rows[WORD] = words
        for at in range(-(-len(self.kinds) // BYTE)):
            rows[f"missing {at}"] = 0
        for at, name in enumerate(self.names):
            column = batch.column(name)
            cells = column.indices if pt.is_dictionary(column.type) else column
            rows[f"cell {at}"] = _values(cells)
            if cells.null_count:
                absent = cells.is_null().to_numpy(zero_copy_only=False)
                rows[f"missing {at // BYTE}"] |= absent.astype(np.uint8) << np.uint8(at % BYTE)
        return rows

    def columns(self, rows: NDArray[np.void]) -> list[pa.Array]:
        """The columns of rows, of dictionaries the indices."""
        found = []
        for at, kind in enumerate(self.kinds):
            cells = np.ascontiguousarray(rows[f"cell {at}"])
            absent = rows[f"missing {at // BYTE}"] >> np.uint8(at % BYTE) & np.uint8(1)
            valid = pa.array(absent == 0).buffers()[1] if absent.any() else None
            data = pa.array(cells.astype(np.bool_)).buffers()[1] if pt.is_boolean(kind) else pa.py_buffer(cells)
            found.append(pa.Array.from_buffers(kind, len(rows), [valid, data]))
        return found

    def batch(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Columns with the dictionaries of the table."""
        whole = [
            cells if dictionary is None else pa.DictionaryArray.from_arrays(cells, dictionary)
            for cells, dictionary in zip(columns, self.dictionaries, strict=True)
        ]
        return pa.record_batch(whole, names=self.names)


def _cell_width(kind: pa.DataType) -> int:
    """Bytes of a cell; 0 where cells are not equally long."""
    if pt.is_boolean(kind):
        return 1
    fixed = pt.is_primitive(kind) or pt.is_decimal(kind)
    return kind.bit_width // BYTE if fixed else 0


def _cell(kind: pa.DataType) -> np.dtype[Any]:
    width = _cell_width(kind)
    return np.dtype(f"u{width}") if width in {1, 2, 4, 8} else np.dtype((np.void, width))


def _values(cells: pa.Array) -> NDArray[Any]:
    if pt.is_boolean(cells.type):
        filled = cells.fill_null(False) if cells.null_count else cells
        return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.uint8)
    own = np.frombuffer(cells.buffers()[1], _cell(cells.type))
    return own[cells.offset : cells.offset + len(cells)]


@dataclass
class DealtRows:
    """Rows in buckets of ascending order words.

    Parameters
    ----------
    layout : _Layout
    items : DealtItems
    sizes : ndarray of int64
        Rows of each part file.
    tied : callable
        Gives the rows of some order words with their ids.
    """

    layout: _Layout
    items: DealtItems = field(repr=False)
    sizes: Ints = field(repr=False)
    tied: Callable[[Words], list[pa.RecordBatch]] = field(repr=False)

    def __post_init__(self) -> None:
        self._starts = np.concatenate([[0], np.cumsum(self.items.sizes)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def each(
        self, start: int, stop: int, function: Callable[[pa.RecordBatch], pa.RecordBatch], threads: int
    ) -> Iterator[pa.RecordBatch]:
        """See `OrderedRows.each`.

        Raises
        ------
        EngineError
            The disk cannot be read.
        """
        return in_order(function, self._batches(start, stop, threads), threads)

    def _batches(self, start: int, stop: int, threads: int) -> Iterator[pa.RecordBatch]:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        held: list[list[pa.Array]] = []
        size = 0
        for at, columns in zip(
            self._starts[first:last], in_order(self._sorted, range(first, last), threads), strict=True
        ):
            begin, end = max(start - int(at), 0), min(stop - int(at), len(columns[0]))
            held.append([each.slice(begin, end - begin) for each in columns])
            size += end - begin
            if size >= part_files.ROWS_PER_GROUP:
                whole, rest = _joined(held), size % part_files.ROWS_PER_GROUP
                yield from self._cut(whole, size - rest)
                held, size = ([[each.slice(size - rest) for each in whole]] if rest else []), rest
        if size:
            yield self.layout.batch(_joined(held))

    def _cut(self, columns: list[pa.Array], stop: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, stop, part_files.ROWS_PER_GROUP):
            yield self.layout.batch([each.slice(start, part_files.ROWS_PER_GROUP) for each in columns])

    def _sorted(self, bucket: int) -> list[pa.Array]:
        rows = self.items.read(bucket)
        words = np.ascontiguousarray(rows[WORD])
        places = places_in_order([words])
        return self.layout.columns(rows.take(places) if places is not None else self._by_id(rows))

    def _by_id(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Rows of which some have equal words: these go by their ids, which the table is asked for."""
        order = np.argsort(rows[WORD], kind="stable")
        rows = rows.take(order)
        words = rows[WORD]
        equal = np.unique(words[1:][words[1:] == words[:-1]])
        found = pa.Table.from_batches(self.tied(equal)).combine_chunks().to_batches()[0]
        high, low = (found.column(name).to_numpy() for name in ID_COLUMNS)
        own = found.column(WORD).to_numpy()
        again = found.take(pa.array(np.lexsort((low, high, own))))
        rows[np.isin(words, equal)] = self.layout.packed(again, again.column(WORD).to_numpy())
        return rows


@contextlib.contextmanager
def rows_on_disk(session: Session, table: EmbeddedTable, stream: Stream) -> Iterator[DealtRows | None]:
    """All rows by keyed order, for as long as the context lasts.

    None where cells are not equally long: DuckDB sorts those.

    Raises
    ------
    EngineError
        The disk is full, or the table has other rows than before.
    """
    records = table.records(session)
    query = f"SELECT {column_list(table.all_columns)} FROM {table.compact}"
    layout = _layout(session, table, query)
    if layout is None:
        yield None
        return
    row = layout.row
    most = max(session.room(), LEAST_ROOM) // row.itemsize
    stretch = max(1, min(max(STRETCH_ROWS, records // MOST_STRETCHES), most // STRETCH_COPIES))
    bucket = max(1, min(BUCKET_ROWS, most // BUCKET_COPIES))
    bits = min(MOST_BUCKETS_BITS, max(1, (records // bucket).bit_length()))
    shift, sizes = np.uint64(64 - bits), np.zeros(files_of(records, len(table.schema)), np.int64)

    def order(batch: pa.RecordBatch) -> Words:
        high, low = (batch.column(name).to_numpy() for name in ID_COLUMNS)
        found: Words = stream.order(np.column_stack([high, low]))
        return found

    def dealt(batches: list[pa.RecordBatch]) -> tuple[Ints, NDArray[np.void], Ints]:
        words = [order(batch) for batch in batches]
        files = np.sum([sizes_of_files(each, len(sizes)) for each in words], axis=0)
        rows = np.concatenate([layout.packed(*each) for each in zip(batches, words, strict=True)])
        buckets = ((rows[WORD].view(np.uint64) ^ np.uint64(1 << 63)) >> shift).astype(np.uint16)
        return files, *by_bucket(rows, buckets, 1 << bits)

    def tied(words: Words) -> list[pa.RecordBatch]:
        found = []
        for batch in session.stream(query, table.frames):
            own = order(batch)
            chosen = pa.array(np.flatnonzero(np.isin(own, words)))
            found.append(batch.append_column(WORD, pa.array(own)).take(chosen))
        return found

    with DealtItems.below(session.folder, row, 1 << bits) as items:
        stretches = _stretches(session.stream(query, table.frames), stretch)
        for files, rows, counts in in_order(dealt, stretches, session.threads):
            sizes += files
            items.add(rows, counts)
        made = DealtRows(layout, items, sizes, tied)
        if len(made) != records:
            raise EngineError(f"the table had {records:,} records before it was written, and has other ones now")
        yield made


def _layout(session: Session, table: EmbeddedTable, query: str) -> _Layout | None:
    first = session.table(f"{query} LIMIT 1", table.frames).combine_chunks().to_batches()
    return _Layout.of(first[0], table.schema.names) if first else None


def _stretches(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches together, so many rows at most, or one batch."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for start in range(0, len(batch), most):
            piece = batch.slice(start, most)
            if held and size + len(piece) > most:
                yield held
                held, size = [], 0
            held.append(piece)
            size += len(piece)
    if held:
        yield held


def _joined(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    if len(parts) == 1:
        return list(parts[0])
    return [pa.concat_arrays(list(each)) for each in zip(*parts, strict=True)]
