"""Class tables by class: each partition counts its classes and sends the cells of each column separately.

Joint cells of all columns would be nearly as many as records where several columns are counted in few classes. A
class travels under two words of a keyed hash; counts and codes in 32 bits, for no batch has more rows than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock
from privpipe.engines.dask.cells import CellPlan, codes_in, marked_classes
from privpipe.engines.dask.encode import Encoded, encode, grouped, tuple_hashes
from privpipe.engines.dask.exchange import Pieces
from privpipe.kernels.classes.cells import merged_cells, row_cells, sum_by_class
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group, split_order

__all__ = ["ClassParts", "class_parts", "met_classes"]

Ints = NDArray[np.int64]
Shorts = NDArray[np.int32]


@dataclass(frozen=True, repr=False)
class ColumnParts:
    """Cells of one column: those of class c are ``starts[c]:starts[c + 1]``.

    Codes are positions in the query's dictionary or, without one, among `hashes`, a keyed hash of each value.
    """

    starts: Shorts
    codes: Shorts
    counts: Shorts
    hashes: Ints | None

    def piece(self, start: int, end: int) -> ColumnParts:
        """The cells of some classes."""
        first, last = int(self.starts[start]), int(self.starts[end])
        codes, hashes = self.codes[first:last], self.hashes
        if hashes is not None and len(hashes) > len(codes):  # of a near-unique column only what is met there travels
            used, places = np.unique(codes, return_inverse=True)
            codes, hashes = places.astype(np.int32), hashes[used]
        return ColumnParts(self.starts[start : end + 1] - first, codes, self.counts[first:last], hashes)


@dataclass(frozen=True, repr=False)
class ClassParts:
    """Parts of classes: their hashes, shape (n, 2), their records and the cells of each column."""

    keys: Ints
    sizes: Shorts
    columns: Mapping[str, ColumnParts]

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, length: int) -> ClassParts:
        """Some of the classes."""
        end = start + length
        columns = {name: column.piece(start, end) for name, column in self.columns.items()}
        return ClassParts(self.keys[start:end], self.sizes[start:end], columns)


def class_parts(batch: pa.RecordBatch, plan: CellPlan) -> Pieces:
    """The classes of a partition, cut by the place each goes to."""
    query, rows = plan.query, batch.num_rows
    names = dict.fromkeys([*query.keys, *query.columns])
    encoded = {name: encode(batch.column(name)) for name in names}
    keys = [encoded[name] for name in query.keys]
    groups, firsts = grouped(keys, rows)
    hashes = tuple_hashes([column.take(firsts) for column in keys], plan.salted("class"), len(firsts))
    by_place, cuts = split_order(hashes[:, 0], plan.places)
    ranks = np.empty(len(by_place), dtype=np.int64)
    ranks[by_place] = np.arange(len(by_place))
    order, offsets = ordered_by_group(ranks[groups], len(firsts))
    columns = {name: _counted(encoded[name], name, plan, order, offsets) for name in dict.fromkeys(query.columns)}
    return Pieces(ClassParts(hashes[by_place], np.diff(offsets).astype(np.int32), columns), cuts)


def _counted(column: Encoded, name: str, plan: CellPlan, order: Ints, offsets: Ints) -> ColumnParts:
    dictionary = plan.query.dictionaries.get(name)
    if dictionary is None:
        values = Encoded(np.arange(len(column.values)), column.values)
        codes, number = column.codes, len(column.values)
        hashes = tuple_hashes([values], plan.salted("value"), number)
    else:
        codes, number, hashes = codes_in(column, dictionary), len(dictionary.values), None
    by_class = read_only(codes.astype(np.int32)[order], np.int32)
    starts, found, counts = row_cells(read_only(offsets, np.int64), by_class, number)
    return ColumnParts(starts, found, counts, hashes)


def met_classes(pieces: Sequence[ClassParts], plan: CellPlan) -> ClassBlock:
    """The whole classes of one place."""
    keys = np.concatenate([piece.keys for piece in pieces])
    classes, firsts = group_rows(keys)
    order, offsets = ordered_by_group(classes, len(firsts))
    sizes = np.concatenate([piece.sizes for piece in pieces]).astype(np.int64)
    return ClassBlock(
        np.asarray(sum_by_class(read_only(offsets, np.int64), read_only(sizes[order], np.int64))),
        {
            name: _met([piece.columns[name] for piece in pieces], name, plan, order, offsets)
            for name in dict.fromkeys(plan.query.columns)
        },
        marked_classes(keys[firsts], plan),
    )


def _met(parts: Sequence[ColumnParts], name: str, plan: CellPlan, order: Ints, offsets: Ints) -> Cells:
    codes = np.concatenate([part.codes for part in parts])
    if name in plan.query.dictionaries:
        number = len(plan.query.dictionaries[name].values)
    else:
        tables = [part.hashes for part in parts if part.hashes is not None]
        numbers, firsts = group_rows(np.concatenate(tables))
        shifts = np.cumsum([0, *(len(table) for table in tables)])[:-1]
        codes = numbers[codes + np.repeat(shifts, [len(part.codes) for part in parts])]
        number = len(firsts)
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    counts = np.concatenate([part.counts for part in parts])
    lists = (read_only(part, np.int64) for part in (offsets, order, starts))
    return Cells(*merged_cells(*lists, *(read_only(part, np.int32) for part in (codes, counts)), number))
