"""Classes in parts: what each partition counts of them, and the blocks of whole classes that parts or cells make.

Parts of a class come as a batch with the words of the class, its records, and for each sensitive column its cells as
one binary value. Where persons or weights are counted, joint cells come: words, values and records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, FactsRequest
from privpipe.blocks.arrays import Bools, Ints, read_only
from privpipe.draws import Seed
from privpipe.engines.base.batches import as_type, whole_array
from privpipe.engines.base.class_blocks import COUNT, block_of_cells, find_codes, grouping_columns, not_covered
from privpipe.engines.distributed.codes import Encoded, encode, value_hashes
from privpipe.engines.distributed.columns import column_name
from privpipe.errors import DataError
from privpipe.kernels.classes.cells import boundaries, merged_cells, row_cells, sum_by_class
from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group

__all__ = [
    "SIZE",
    "WORDS",
    "CellReader",
    "Met",
    "PartReader",
    "explained",
    "in_order",
    "met",
    "reader_of",
    "value_columns",
    "whole_classes",
]


R = TypeVar("R")
WORDS: Final = ("__privpipe_k0", "__privpipe_k1")
"""Hidden columns with the 128 bits that stand for a class."""
SIZE: Final = "__privpipe_size"
CHUNK_ROWS = 1 << 19
CHUNK_BYTES = 1 << 26
BLOCK_BYTES = 1 << 23
BLOCK_CELLS = 1 << 18


def value_columns(query: ClassQuery) -> list[str]:
    """Columns of the query that are counted inside a class: sensitive values, weight, person."""
    return list(grouping_columns(replace(query, keys=())))


@dataclass(frozen=True, repr=False)
class Met:
    """Which rows are of one class.

    Parameters
    ----------
    words : ndarray of int64, shape (n_classes, 2)
    classes : ndarray of int64, shape (n_rows,)
        The class of each row.
    order : ndarray of int64, shape (n_rows,)
        Rows class by class; those of class c are ``order[offsets[c]:offsets[c + 1]]``.
    offsets : ndarray of int64, shape (n_classes + 1,)
    """

    words: Ints
    classes: Ints
    order: Ints
    offsets: Ints


def met(rows: pa.Table | pa.RecordBatch) -> Met:
    """The classes of rows in any order, by their words."""
    words = words_of(rows)
    classes, firsts = group_rows(words)
    return Met(words[firsts], classes, *ordered_by_group(classes, len(firsts)))


def in_order(rows: pa.Table | pa.RecordBatch) -> Met:
    """The classes of rows that are sorted by their words, in that order."""
    words = words_of(rows)
    fresh = np.ones(len(words), np.bool_)
    fresh[1:] = (words[1:] != words[:-1]).any(axis=1)
    return Met(words[fresh], np.cumsum(fresh) - 1, np.arange(len(words)), boundaries(fresh))


def words_of(rows: pa.Table | pa.RecordBatch) -> Ints:
    """The words of the class of each row, shape (n, 2)."""
    return np.column_stack([rows.column(name).to_numpy() for name in WORDS])


@dataclass(frozen=True)
class _Reader(ABC):
    """What a class is made of, and class blocks from it.

    Parameters
    ----------
    query : ClassQuery
    types : tuple of pyarrow.DataType
        Of `value_columns(query)`.
    marked : (int, int), optional
        Words of the class of nothing but the mark, where that is asked for.
    """

    query: ClassQuery = field(repr=False)
    types: tuple[pa.DataType, ...]
    marked: tuple[int, int] | None = field(default=None, repr=False)

    @abstractmethod
    def block(self, rows: pa.Table, found: Met) -> ClassBlock:
        """The block of rows that make whole classes, in the order of these."""

    @abstractmethod
    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Whole classes from batches sorted by the first word of their class, sorted by both."""

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[ClassBlock, Ints]]:
        """Blocks of whole classes from batches sorted by their first word, each with the words of its classes."""
        for rows in self.pieces(batches):
            found = in_order(rows)
            yield self.block(rows, found), found.words

    def sorted_blocks(self, rows: pa.Table) -> Iterator[tuple[ClassBlock, Ints]]:
        """As `blocks`, of collected rows, which come in any order."""
        words = words_of(rows)
        rows = rows.take(pa.array(np.lexsort((words[:, 1], words[:, 0]))))
        yield from self.blocks(iter(rows.combine_chunks().to_batches(max_chunksize=BLOCK_CELLS)))

    def measured(self, measure: Callable[[ClassBlock], R]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[R]]:
        """A function from the sorted batches of a partition to the figures of its blocks."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[R]:
            for block, _ in self.blocks(batches):
                yield measure(block)

        return run

    def marks(self, words: Ints) -> Bools | None:
        """Which class holds nothing but the suppression mark; None where that is not asked for."""
        return None if self.marked is None else np.all(words == np.array(self.marked), axis=1)


class CellReader(_Reader):
    """Class blocks from joint cells."""

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        return whole_classes(batches, lambda batch: batch.num_rows, BLOCK_CELLS)

    def cells(self, words: Ints, values: Sequence[pa.Array], counts: Ints) -> pa.RecordBatch:
        """Joint cells as they travel: the words of their classes, their values, their records."""
        names = [*WORDS, *(column_name(at) for at in range(len(values))), COUNT]
        return pa.record_batch([*_columns(words), *values, pa.array(counts)], names=names)

    def block(self, rows: pa.Table, found: Met) -> ClassBlock:
        columns = {COUNT: rows.column(COUNT)}
        for at, (name, kind) in enumerate(zip(value_columns(self.query), self.types, strict=True)):
            columns[name] = as_type(rows.column(column_name(at)), kind)
        block = block_of_cells(pa.table(columns), replace(self.query, keys=(), mark=None), found.classes)
        return replace(block, marked=self.marks(found.words))


@dataclass(frozen=True)
class PartReader(_Reader):
    """Parts of classes from batches of records, and class blocks from parts; neither persons nor weights are counted.

    A cell is two 32-bit integers, code and count; of a column without a dictionary three of 64: a keyed hash of the
    value in two words, and the count.

    Parameters
    ----------
    seed : Seed
        One-time key of the hashes.
    packing : pyarrow.DataType
        Of the binary values; large, where a partition is not cut into chunks.
    """

    seed: Seed = field(default_factory=Seed.from_os, repr=False)
    packing: pa.DataType = field(default_factory=pa.binary)

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        return whole_classes(batches, lambda batch: int(batch.nbytes), BLOCK_BYTES)

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The parts of the classes of a partition, chunk after chunk; its records come with their words."""
        waiting: list[pa.RecordBatch] = []
        rows = held = 0
        for batch in batches:
            for start in range(0, batch.num_rows, CHUNK_ROWS):  # a session may set no limit to a batch
                waiting.append(batch.slice(start, CHUNK_ROWS))
                rows += waiting[-1].num_rows
                held += waiting[-1].nbytes
                if rows >= CHUNK_ROWS or held >= CHUNK_BYTES:
                    yield self._parts_of(pa.Table.from_batches(waiting))
                    waiting, rows, held = [], 0, 0
        if rows:
            yield self._parts_of(pa.Table.from_batches(waiting))

    def _parts_of(self, rows: pa.Table) -> pa.RecordBatch:
        found = met(rows)
        columns = [as_type(rows.column(column_name(at)), kind) for at, kind in enumerate(self.types)]
        return self.counted(found, [encode(whole_array(column)) for column in columns])

    def counted(self, found: Met, columns: Sequence[Encoded]) -> pa.RecordBatch:
        """The parts of classes whose records have these values in `value_columns(query)`."""
        pairs = zip(columns, value_columns(self.query), strict=True)
        packed = [self._packed(column, name, found) for column, name in pairs]
        names = [*WORDS, SIZE, *(column_name(at) for at in range(len(packed)))]
        return pa.record_batch([*_columns(found.words), pa.array(np.diff(found.offsets)), *packed], names=names)

    def _packed(self, column: Encoded, name: str, found: Met) -> pa.Array:
        """The cells of every class, as one binary value each."""
        codes, number = column.codes, len(column.values)
        dictionary = self.query.dictionaries.get(name)
        if dictionary is not None:
            number = len(dictionary.values)
            known = find_codes(column.values, dictionary)
            # A task that fails here would fill the logs; the reader of the parts raises.
            codes, number = np.where(known < 0, number, known)[codes], number + 1
        by_class = read_only(codes.astype(np.int32, copy=False)[found.order], np.int32)
        starts, cells, counts = row_cells(read_only(found.offsets, np.int64), by_class, number)
        if dictionary is not None:
            return self._binary(starts, np.column_stack([cells, counts]))
        hashes = value_hashes(column.values, self.seed)
        hashed = np.column_stack([hashes, np.zeros(len(hashes), np.int64)])[cells]
        hashed[:, 2] = counts
        return self._binary(starts, hashed)

    def _binary(self, starts: NDArray[np.int32], cells: NDArray[Any]) -> pa.Array:
        """One binary value for each class, of the cells ``starts[c]:starts[c + 1]``; no bytes are copied."""
        # A chunk's cells stay far below 2^31 bytes.
        word = np.int64 if self.packing == pa.large_binary() else np.int32
        offsets = (starts.astype(np.int64) * (cells.dtype.itemsize * cells.shape[1])).astype(word)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells))]
        return pa.Array.from_buffers(self.packing, len(starts) - 1, buffers)

    def block(self, rows: pa.Table, found: Met) -> ClassBlock:
        sizes = read_only(rows.column(SIZE).to_numpy()[found.order], np.int64)
        cells = {
            name: self._cells(rows.column(column_name(at)), name, found)
            for at, name in enumerate(value_columns(self.query))
        }
        sums = sum_by_class(read_only(found.offsets, np.int64), sizes)
        return ClassBlock(np.asarray(sums), cells, self.marks(found.words))

    def _cells(self, values: pa.ChunkedArray, name: str, found: Met) -> Cells:
        dictionary = self.query.dictionaries.get(name)
        if dictionary is not None:
            starts, cells = _unpacked(values, np.dtype(np.int32), 2)
            codes, number = cells[:, 0], len(dictionary.values)
            if (codes == number).any():
                raise not_covered(name, 1)
        else:
            starts, cells = _unpacked(values, np.dtype(np.int64), 3)
            codes, firsts = group_rows(cells[:, :2])
            number = len(firsts)
        lists = (read_only(part, np.int64) for part in (found.offsets, found.order, starts))
        return Cells(*merged_cells(*lists, *(read_only(part, np.int32) for part in (codes, cells[:, -1])), number))


def reader_of(query: ClassQuery, schema: pa.Schema, marked: tuple[int, int] | None) -> CellReader | PartReader:
    """The reader of a query: of joint cells where persons or weights are counted, else of parts."""
    types = tuple(schema.field(name).type for name in value_columns(query))
    reader = PartReader if query.person is None and query.weight is None else CellReader
    return reader(query, types, marked)


@contextmanager
def explained(query: ClassQuery, learn: Callable[[FactsRequest], Facts]) -> Iterator[None]:
    """What one place finds amiss is counted over the whole table, so that every partitioning says the same.

    Raises
    ------
    DataError
        Records without a person or a weight, values that a dictionary lacks.
    """
    try:
        yield
    except DataError:
        problem = _misfit(query, learn)
        if problem is None:
            raise
    else:
        return
    raise problem from None


def _misfit(query: ClassQuery, learn: Callable[[FactsRequest], Facts]) -> DataError | None:
    needed = [(name, what) for name, what in ((query.person, "person"), (query.weight, "weight")) if name is not None]
    coded = [name for name in dict.fromkeys(query.columns) if name in query.dictionaries]
    found = learn(FactsRequest(histograms=tuple(coded), nulls=tuple(name for name, _what in needed)))
    for name, what in needed:
        if found.nulls[name]:
            return DataError(
                f"{what} column {name!r} has {found.nulls[name]:,} missing values; a record needs a {what}"
            )
    for name in coded:
        missing = int((find_codes(found.histograms[name].values, query.dictionaries[name]) < 0).sum())
        if missing:
            return not_covered(name, missing)
    return None


def whole_classes(
    batches: Iterator[pa.RecordBatch], weigh: Callable[[pa.RecordBatch], int], least: int
) -> Iterator[pa.Table]:
    """Rows sorted by the first word of their class, cut between classes as soon as there are enough by weight.

    They come out sorted by both words: classes that share the first by chance would be counted in pieces.
    """
    waiting: list[pa.RecordBatch] = []
    weight, enough = 0, least
    for batch in batches:
        waiting.append(batch)
        weight += weigh(batch)
        if weight < enough:
            continue
        rows = pa.Table.from_batches(waiting)
        border = _last_border(words_of(rows))
        if border:
            yield _sorted_by_both(rows.slice(0, border))
            waiting = rows.slice(border).to_batches()
            weight, enough = sum(map(weigh, waiting)), least
        else:
            enough = 2 * weight  # one huge class: look again when there is as much once more
    if any(batch.num_rows for batch in waiting):
        yield _sorted_by_both(pa.Table.from_batches(waiting))


def _sorted_by_both(rows: pa.Table) -> pa.Table:
    """Rows in order of the first word, in order of both."""
    words = words_of(rows)
    falls = (words[1:, 0] == words[:-1, 0]) & (words[1:, 1] < words[:-1, 1])
    return rows.take(pa.array(np.lexsort((words[:, 1], words[:, 0])))) if falls.any() else rows


def _last_border(words: Ints) -> int:
    """Where the last classes of one first word start; more of them may follow."""
    changes = np.flatnonzero(words[1:, 0] != words[:-1, 0])
    return int(changes[-1]) + 1 if len(changes) else 0


def _columns(words: Ints) -> list[pa.Array]:
    return [pa.array(np.ascontiguousarray(words[:, at])) for at in range(2)]


def _unpacked(values: pa.ChunkedArray, kind: np.dtype[Any], columns: int) -> tuple[Ints, NDArray[Any]]:
    """The cells of all classes, and where those of each start."""
    width = kind.itemsize * columns
    starts, cells = [np.zeros(1, np.int64)], []
    for chunk in filter(len, values.chunks):
        chunk = chunk.cast(pa.large_binary())
        ends = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk) + 1, 8 * chunk.offset)
        data = chunk.buffers()[2]
        cells.append(np.frombuffer(data, kind, int(ends[-1] - ends[0]) // kind.itemsize, int(ends[0])))
        starts.append(starts[-1][-1] + (ends[1:] - ends[0]) // width)
    return np.concatenate(starts), np.concatenate(cells).reshape(-1, columns)
