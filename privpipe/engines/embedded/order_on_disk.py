"""Rows in keyed order, where they do not fit into memory: dealt by the high bits of their order words, then sorted.

The words are drawn evenly, so all buckets are about equally large. DuckDB sorts 100M such rows in twice the time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Stream
from privpipe.engines.base import part_files
from privpipe.engines.base.parallel import in_order
from privpipe.engines.base.part_files import files_of
from privpipe.engines.embedded.dealt_items import DealtItems, by_bucket
from privpipe.engines.embedded.order_in_memory import places_in_order, sizes_of_files
from privpipe.engines.embedded.session import LEAST_ROOM, Session
from privpipe.engines.embedded.table import EmbeddedTable, column_list
from privpipe.errors import EngineError

__all__ = ["DealtRows", "rows_on_disk"]

Words = NDArray[np.int64]
WORD = "__privpipe_word"
BUCKET_ROWS = 1 << 18
"""Rows of a bucket that are aimed at: while they are sorted they lie in the cache, but for their cells."""
MOST_BUCKETS_BITS = 16
STRETCH_ROWS = 1 << 19
"""Rows that are dealt at a time while these are not too many pieces of a bucket."""
MOST_STRETCHES = 256
STRETCH_COPIES, BUCKET_COPIES = 24, 10
"""Of a row in memory, at the most: of stretches that wait to be written, and of buckets that become batches."""
BYTE = 8


@dataclass(frozen=True)
class _Layout:
    """How a row lies in the file: its order word, a bit a column for missing cells, and its cells as they are.

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
        return cls(list(names), kinds, dictionaries) if kinds and all(map(_width, kinds)) else None

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


def _width(kind: pa.DataType) -> int:
    """Bytes of a cell; 0 where cells are not equally long."""
    if pt.is_boolean(kind):
        return 1
    fixed = pt.is_primitive(kind) or pt.is_decimal(kind)
    return kind.bit_width // BYTE if fixed else 0


def _cell(kind: pa.DataType) -> np.dtype[Any]:
    width = _width(kind)
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
    sizes: NDArray[np.int64] = field(repr=False)
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

    def dealt(batches: list[pa.RecordBatch]) -> tuple[NDArray[np.int64], NDArray[np.void], NDArray[np.int64]]:
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
    """Batches together, so many rows at the most, or one batch."""
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
