"""Cells of classes: counted by Spark or by Python workers, and brought together by class."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery
from privpipe.draws import Seed
from privpipe.engines.base.class_blocks import COUNT, block_of_cells, grouping_columns, may_be_marked
from privpipe.engines.base.histograms import find_codes, group_key, not_covered
from privpipe.engines.spark.spark_table import SparkTable, as_type, physical
from privpipe.engines.spark.workers import map_raw

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "MARKED",
    "WORDS",
    "CellReader",
    "PartReader",
    "cells_in",
    "cells_of",
    "class_words",
    "counted_where_they_lie",
    "gathered",
    "new_salt",
    "value_columns",
    "whole_classes",
]


WORDS = ("__privpipe_k0", "__privpipe_k1")
"""Hidden columns with the 128 bits that stand for a class."""
MARKED = (-0x1E3779B97F4A7C15, 0x7F4A7C15BF58476D)
"""Words of the class of nothing but the mark, as unlikely as any other two for a class that is not."""
CLASS = "__privpipe_class"
BLOCK_CELLS = 1 << 18


def class_words(table: SparkTable, query: ClassQuery, salt: int) -> tuple[Column, Column]:
    """Two 64-bit words that distinguish classes, for any types and with nulls as separate values.

    Grouping on words instead of columns makes the shuffle and the sort some three times cheaper.
    """
    from pyspark.sql import functions as sf

    if not query.keys:
        return sf.lit(0).cast("long").alias(WORDS[0]), sf.lit(0).cast("long").alias(WORDS[1])
    keys = [table.counted(name) for name in query.keys]
    # The hash skips nulls, so ('a', null) and (null, 'a') differ by this mask alone.
    masks = [
        sum(
            (sf.isnull(key).cast("long") * (1 << bit) for bit, key in enumerate(keys[start : start + 62])),
            sf.lit(0).cast("long"),
        )
        for start in range(0, len(keys), 62)
    ]
    # The salt is not secret; whoever wrote the data before it was drawn cannot have aimed at a collision.
    # As text it stays out of the code that Spark generates, which then serves every query of this shape.
    seed = sf.lit(f"{salt:016x}")
    words = [sf.xxhash64(seed, *masks, *keys), sf.xxhash64(*reversed(keys), *masks, seed)]
    if may_be_marked(query):
        bears_mark = sf.lit(True)
        for name, key in zip(query.keys, keys, strict=True):
            text = pa.types.is_string(table.schema.field(name).type)
            bears_mark &= sf.coalesce(key == sf.lit(query.mark), sf.lit(False)) if text else sf.isnull(key)
        words = [sf.when(bears_mark, sf.lit(mark)).otherwise(word) for mark, word in zip(MARKED, words, strict=True)]
    return words[0].alias(WORDS[0]), words[1].alias(WORDS[1])


def cells_of(table: SparkTable, query: ClassQuery, salt: int) -> DataFrame:
    """Joint cells: class words, the query's other columns by position, the number of records."""
    return cells_in(table.frame.select("*", *class_words(table, query, salt)), table, query)


def cells_in(rows: DataFrame, table: SparkTable, query: ClassQuery) -> DataFrame:
    """The same of rows of a table that have the words of their class next to them."""
    from pyspark.sql import functions as sf

    names = value_columns(query)
    columns = [table.counted(name).alias(physical(at)) for at, name in enumerate(names)]
    grouped = rows.select(*WORDS, *columns).groupBy(*WORDS, *(physical(at) for at in range(len(names))))
    return grouped.agg(sf.count(sf.lit(1)).alias(COUNT))


def gathered(cells: DataFrame) -> DataFrame:
    """The cells with those of a class in one partition, sorted by its first word; see `whole_classes`.

    Spark sorts by one integer in a third of the time that it takes for two.
    """
    return cells.repartition(WORDS[0]).sortWithinPartitions(WORDS[0])


def new_salt() -> int:
    """A salt for one query."""
    return secrets.randbits(63)


def value_columns(query: ClassQuery) -> list[str]:
    """Columns of the query that are counted inside a class: sensitive values, weight, person."""
    return list(grouping_columns(replace(query, keys=())))


@dataclass(frozen=True)
class CellReader:
    """Class blocks from batches of sorted cells.

    Parameters
    ----------
    query : ClassQuery
    types : tuple of pyarrow.DataType
        Of `value_columns(query)`.
    markable : bool
    """

    query: ClassQuery = field(repr=False)
    types: tuple[pa.DataType, ...]
    markable: bool

    @classmethod
    def of(cls, table: SparkTable, query: ClassQuery) -> CellReader:
        """The reader of a query on a table."""
        types = tuple(table.schema.field(name).type for name in value_columns(query))
        return cls(query, types, may_be_marked(query))

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """Blocks of whole classes, each with the words of its classes, shape (n_classes, 2)."""
        for cells in whole_classes(batches, lambda batch: batch.num_rows, BLOCK_CELLS):
            yield self.block(cells)

    def block(self, cells: pa.Table) -> tuple[ClassBlock, NDArray[np.int64]]:
        """The block of sorted cells, and its classes' words."""
        words = _words(cells)
        fresh = np.ones(len(words), np.bool_)
        fresh[1:] = (words[1:] != words[:-1]).any(axis=1)
        names = value_columns(self.query)
        columns = {CLASS: pa.array(np.cumsum(fresh)), COUNT: cells.column(COUNT)}
        for at, (name, kind) in enumerate(zip(names, self.types, strict=True)):
            columns[name] = as_type(cells.column(physical(at)), kind)
        # Numbered as they come, the classes keep their order.
        block = block_of_cells(pa.table(columns), replace(self.query, keys=(CLASS,), mark=None))
        classes = words[fresh]
        if self.markable:
            block = replace(block, marked=(classes == np.array(MARKED)).all(axis=1))
        return block, classes

    def sorted_blocks(self, cells: pa.Table) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """As `blocks`, of collected cells, which come in any order."""
        words = _words(cells)
        cells = cells.take(pa.array(np.lexsort((words[:, 1], words[:, 0]))))
        yield from self.blocks(iter(cells.combine_chunks().to_batches(max_chunksize=BLOCK_CELLS)))

    def measured(self, measure: Callable[[ClassBlock], Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
        """A function from the batches of a partition to the figures of its blocks."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
            for block, _ in self.blocks(batches):
                yield measure(block)

        return run


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
        border = _last_border(_words(rows))
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
    words = _words(rows)
    falls = (words[1:, 0] == words[:-1, 0]) & (words[1:, 1] < words[:-1, 1])
    return rows.take(pa.array(np.lexsort((words[:, 1], words[:, 0])))) if falls.any() else rows


def _words(cells: pa.Table) -> NDArray[np.int64]:
    return np.column_stack([cells.column(name).to_numpy() for name in WORDS])


def _last_border(words: NDArray[np.int64]) -> int:
    """Where the last classes of one first word start; more of them may follow."""
    changes = np.flatnonzero(words[1:, 0] != words[:-1, 0])
    return int(changes[-1]) + 1 if len(changes) else 0


Ints = NDArray[np.int64]
CHUNK_ROWS = 1 << 19
CHUNK_BYTES = 1 << 26
BLOCK_BYTES = 1 << 23
SIZE = "__privpipe_size"


def counted_where_they_lie(
    rows: DataFrame, table: SparkTable, query: ClassQuery
) -> tuple[CellReader | PartReader, DataFrame]:
    """What a class is made of, side by side in one partition, and who reads classes from it.

    Parts of classes, or cells where persons or weights are counted.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame
        Of the table, with the words of their class next to them.
    """
    if query.person is None and query.weight is None:
        reader = PartReader.of(table, query)
        return reader, _parts(rows, table, reader)
    return CellReader.of(table, query), gathered(cells_in(rows, table, query))


def _parts(rows: DataFrame, table: SparkTable, reader: PartReader) -> DataFrame:
    names = value_columns(reader.query)
    columns = [table.counted(name).alias(physical(at)) for at, name in enumerate(names)]
    schema = [f"{name} long" for name in (*WORDS, SIZE)] + [f"{physical(at)} binary" for at in range(len(names))]
    return gathered(map_raw(rows.select(*WORDS, *columns), reader.parts, ", ".join(schema)))


@dataclass(frozen=True)
class PartReader:
    """Parts of classes from batches of records, and class blocks from batches of sorted parts.

    A cell is two 32-bit integers, code and count; of a column without a dictionary three of 64: a keyed hash of the
    value in two words, and the count.

    Parameters
    ----------
    query : ClassQuery
        Without a person and a weight.
    types : tuple of pyarrow.DataType
        Of the columns of the query.
    markable : bool
    seed : Seed
        One-time key of the hashes.
    """

    query: ClassQuery = field(repr=False)
    types: tuple[pa.DataType, ...]
    markable: bool
    seed: Seed = field(default_factory=Seed.from_os, repr=False)

    @classmethod
    def of(cls, table: SparkTable, query: ClassQuery) -> PartReader:
        """The reader of a query on a table."""
        types = tuple(table.schema.field(name).type for name in value_columns(query))
        return cls(query, types, may_be_marked(query))

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The parts of the classes of a partition, chunk after chunk."""
        waiting: list[pa.RecordBatch] = []
        rows = held = 0
        for batch in batches:
            for start in range(0, batch.num_rows, CHUNK_ROWS):  # a session may set no limit to a batch
                waiting.append(batch.slice(start, CHUNK_ROWS))
                rows += waiting[-1].num_rows
                held += waiting[-1].nbytes
                if rows >= CHUNK_ROWS or held >= CHUNK_BYTES:
                    yield self._counted(pa.Table.from_batches(waiting))
                    waiting, rows, held = [], 0, 0
        if rows:
            yield self._counted(pa.Table.from_batches(waiting))

    def _counted(self, rows: pa.Table) -> pa.RecordBatch:
        from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group

        words = np.column_stack([rows.column(name).to_numpy() for name in WORDS])
        groups, firsts = group_rows(words)
        order, offsets = ordered_by_group(groups, len(firsts))
        keys = words[firsts]
        columns = [pa.array(keys[:, 0]), pa.array(keys[:, 1]), pa.array(np.diff(offsets))]
        for at, (name, kind) in enumerate(zip(value_columns(self.query), self.types, strict=True)):
            columns.append(self._packed(as_type(rows.column(physical(at)), kind), name, order, offsets))
        names = [*WORDS, SIZE, *(physical(at) for at in range(len(self.types)))]
        return pa.record_batch(columns, names=names)

    def _packed(self, values: Any, name: str, order: Ints, offsets: Ints) -> pa.Array:
        """The cells of every class, as one binary value each."""
        from privpipe.kernels.classes.cells import row_cells
        from privpipe.kernels.columns.arrays import read_only
        from privpipe.kernels.ids.record_ids import content_hash

        coded = pc.dictionary_encode(group_key(_whole(values)), null_encoding="encode")
        codes, number = coded.indices.to_numpy(zero_copy_only=False), len(coded.dictionary)
        dictionary = self.query.dictionaries.get(name)
        if dictionary is not None:
            number = len(dictionary.values)
            known = find_codes(coded.dictionary, dictionary)
            # A task that fails here would fill the logs; who gathers the parts raises.
            codes, number = np.where(known < 0, number, known)[codes], number + 1
        by_class = read_only(codes[order], np.int32)
        starts, found, counts = row_cells(read_only(offsets, np.int64), by_class, number)
        if dictionary is not None:
            return _binary(starts, np.column_stack([found, counts]))
        hashes = content_hash(pa.record_batch([coded.dictionary], names=["value"]), self.seed)
        return _binary(starts, np.column_stack([hashes[found], counts.astype(np.int64)]))

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[ClassBlock, Ints]]:
        """Blocks of whole classes, each with the words of its classes, shape (n_classes, 2)."""
        for parts in whole_classes(batches, lambda batch: int(batch.nbytes), BLOCK_BYTES):
            yield self.block(parts)

    def block(self, parts: pa.Table) -> tuple[ClassBlock, Ints]:
        """The block of sorted parts, and its classes' words."""
        from privpipe.kernels.classes.cells import boundaries, sum_by_class
        from privpipe.kernels.columns.arrays import read_only

        words = np.column_stack([parts.column(name).to_numpy() for name in WORDS])
        fresh = np.ones(len(words), np.bool_)
        fresh[1:] = (words[1:] != words[:-1]).any(axis=1)
        offsets = boundaries(fresh)
        sizes = sum_by_class(*(read_only(part, np.int64) for part in (offsets, parts.column(SIZE).to_numpy())))
        names = dict.fromkeys(value_columns(self.query))
        classes = words[fresh]
        marked = (classes == np.array(MARKED)).all(axis=1) if self.markable else None
        cells = {name: self._cells(parts.column(physical(at)), name, offsets) for at, name in enumerate(names)}
        return ClassBlock(np.asarray(sizes), cells, marked), classes

    def _cells(self, values: pa.ChunkedArray, name: str, offsets: Ints) -> Cells:
        from privpipe.kernels.classes.cells import merged_cells
        from privpipe.kernels.columns.arrays import read_only
        from privpipe.kernels.grouping.word_groups import group_rows

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
        lists = (read_only(part, np.int64) for part in (offsets, np.arange(len(starts) - 1), starts))
        return Cells(*merged_cells(*lists, *(read_only(part, np.int32) for part in (codes, cells[:, -1])), number))

    def measured(self, measure: Callable[[ClassBlock], Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
        """A function from the batches of a partition to the figures of its blocks."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
            for block, _ in self.blocks(batches):
                yield measure(block)

        return run


def _whole(values: Any) -> pa.Array:
    return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values


def _binary(starts: NDArray[np.int32], cells: NDArray[Any]) -> pa.Array:
    """One binary value for each class, of the cells ``starts[c]:starts[c + 1]``; no bytes are copied."""
    width = cells.dtype.itemsize * cells.shape[1]
    data = np.ascontiguousarray(cells)
    offsets = starts * np.int32(width)  # a chunk's cells stay far below 2^31 bytes
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _unpacked(values: pa.ChunkedArray, kind: np.dtype[Any], columns: int) -> tuple[Ints, NDArray[Any]]:
    """The cells of all classes, and where those of each start."""
    width = kind.itemsize * columns
    starts, cells = [np.zeros(1, np.int64)], []
    for chunk in values.chunks:
        chunk = chunk.cast(pa.large_binary())
        ends = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk) + 1, 8 * chunk.offset)
        data = chunk.buffers()[2]
        cells.append(np.frombuffer(data, kind, int(ends[-1] - ends[0]) // kind.itemsize, int(ends[0])))
        starts.append(starts[-1][-1] + (ends[1:] - ends[0]) // width)
    return np.concatenate(starts), np.concatenate(cells).reshape(-1, columns)
