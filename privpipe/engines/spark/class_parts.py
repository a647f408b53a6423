"""Class tables by parts of classes: Python workers count the records they are handed, before anything is exchanged.

Spark's own aggregation takes about a microsecond a record where cells are many, and a second exchange to bring those
of a class together. Here only the words of the class and the sensitive values go to Python; what is exchanged is a
row for each class of a chunk, in which every column has its cells as one binary value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery
from privpipe.draws import Seed
from privpipe.engines.base.assembly import may_be_marked
from privpipe.engines.base.histograms import find_codes, group_key, not_covered
from privpipe.engines.spark.counting import (
    MARKED,
    WORDS,
    CellReader,
    cells_in,
    gathered,
    value_columns,
    whole_classes,
)
from privpipe.engines.spark.layout import as_type, physical
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.workers import map_raw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PartReader", "counted_where_they_lie"]

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
        Of the table, with the words of their class beside them.
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
