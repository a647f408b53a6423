"""The class table of the Dask engine: cells counted in partitions, and classes measured, collected or kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, Histogram
from privpipe.blocks.class_block import HeldValues
from privpipe.draws import Seed
from privpipe.engines.base.class_blocks import grouping_columns, may_be_marked, require_query_columns
from privpipe.engines.base.histograms import find_codes, group_key, not_covered
from privpipe.engines.dask.codes import Encoded, encode, grouped, tuple_hashes
from privpipe.engines.dask.dask_table import DaskTable
from privpipe.engines.dask.exchange import Pieces, answers, meet
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.errors import DataError
from privpipe.kernels.classes.cells import marginal_cells, merged_cells, row_cells, sum_by_class
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group, split_order
from privpipe.kernels.weight_sums import exact_sum_by_class

__all__ = [
    "CellPlan",
    "ClassParts",
    "Located",
    "Unfit",
    "assemble",
    "class_block",
    "class_parts",
    "codes_in",
    "collected_blocks",
    "count_cells",
    "kept_parts",
    "locate_cells",
    "marked_classes",
    "measured_classes",
    "met_classes",
]


Ints = NDArray[np.int64]
KEY_WORDS = 2


class Unfit(DataError):
    """A partition cannot be counted as asked; the engine then looks at all of them to say how much is amiss."""


@dataclass(frozen=True, repr=False)
class CellPlan:
    """How a class query is counted: what the words of a cell are.

    A cell is a row of words: two for the class (a keyed hash of its key), for each sensitive column one (its
    code in the dictionary) or two (a hash of the value, where there is no dictionary), two for the person, one
    for the weight (the bits of the float); then the number of records.

    Parameters
    ----------
    query : ClassQuery
    places : int
        Meeting places over which classes are spread.
    seed : Seed
        One-time key of the hashes.
    types : tuple of pyarrow.DataType, or None
        Of the keys, where the class of nothing but the mark is marked.
    """

    query: ClassQuery
    places: int
    seed: Seed = field(default_factory=Seed.from_os)
    types: tuple[pa.DataType, ...] | None = None

    def salted(self, purpose: str) -> Seed:
        """The key of one purpose's hashes."""
        return Seed(self.seed.key(purpose))

    def marked_hash(self) -> Ints:
        """Hash of the class whose every key is the suppression mark, or missing where it is not text."""
        marks = [pa.array([self.query.mark if pa.types.is_string(kind) else None], kind) for kind in self.types or ()]
        return tuple_hashes([encode(mark) for mark in marks], self.salted("class"), 1)[0]


@dataclass(frozen=True, repr=False)
class Located:
    """One partition's cells, and where the cell of each of its rows lies among them."""

    pieces: Pieces
    positions: Ints

    def piece(self, place: int) -> Ints:
        """The cells that go to one place."""
        cells: Ints = self.pieces.piece(place)
        return cells


def count_cells(batch: pa.RecordBatch, plan: CellPlan) -> Pieces:
    """The partition's cells, each with its count, cut by the place of its class."""
    return locate_cells(batch, plan).pieces


def locate_cells(batch: pa.RecordBatch, plan: CellPlan) -> Located:
    """As `count_cells`, with the way back from rows to cells."""
    encoded = {name: encode(batch.column(name)) for name in grouping_columns(plan.query)}
    groups, firsts = grouped(list(encoded.values()), batch.num_rows)
    chosen = {name: column.take(firsts) for name, column in encoded.items()}
    keys = tuple_hashes([chosen[name] for name in plan.query.keys], plan.salted("class"), len(firsts))
    counts = np.bincount(groups, minlength=len(firsts))
    cells = np.concatenate([keys, *_value_words(chosen, plan, len(firsts)), counts[:, None]], axis=1)
    order, offsets = split_order(keys[:, 0], plan.places)
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = np.arange(len(order))
    return Located(Pieces(cells[order], offsets), positions[groups])


def _value_words(chosen: dict[str, Encoded], plan: CellPlan, rows: int) -> list[Ints]:
    words = []
    for name in dict.fromkeys(plan.query.columns):
        dictionary = plan.query.dictionaries.get(name)
        if dictionary is None:
            words.append(tuple_hashes([chosen[name]], plan.salted("value"), rows))
        else:
            words.append(codes_in(chosen[name], dictionary)[:, None])
    if plan.query.person is not None:
        _refuse_nulls(chosen[plan.query.person], plan.query.person, "person")
        words.append(tuple_hashes([chosen[plan.query.person]], plan.salted("person"), rows))
    if plan.query.weight is not None:
        _refuse_nulls(chosen[plan.query.weight], plan.query.weight, "weight")
        words.append(_float_bits(chosen[plan.query.weight])[:, None])
    return words


def codes_in(column: Encoded, dictionary: Histogram) -> Ints:
    """Positions of a column's values in a dictionary.

    Raises
    ------
    Unfit
        It lacks one of them.
    """
    codes = find_codes(column.values, dictionary)
    if (codes < 0).any():
        raise Unfit("a value that the dictionary lacks")
    return codes[column.codes]


def _refuse_nulls(column: Encoded, name: str, what: str) -> None:
    if column.values.null_count:
        raise Unfit(f"{what} column {name!r} has missing values; a record needs a {what} to be counted by")


def _float_bits(column: Encoded) -> Ints:
    values = column.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values, dtype=np.float64).view(np.int64)[column.codes]


def class_block(pieces: Sequence[Ints], plan: CellPlan) -> ClassBlock:
    """The whole classes of one place."""
    return assemble(pieces, plan)[0]


def assemble(pieces: Sequence[Ints], plan: CellPlan) -> tuple[ClassBlock, Ints]:
    """The whole classes of one place, and the class of each cell that came."""
    cells = np.concatenate(pieces)
    classes, firsts = group_rows(cells[:, :KEY_WORDS])
    coded, at = {}, KEY_WORDS
    for name in dict.fromkeys(plan.query.columns):
        width = 1 if name in plan.query.dictionaries else 2
        words = cells[:, at : at + width]
        coded[name] = words[:, 0] if width == 1 else group_rows(words)[0]
        at += width
    marked = marked_classes(cells[firsts, :KEY_WORDS], plan)
    if plan.query.person is not None:
        persons = group_rows(cells[:, at : at + 2])[0]
        sizes, found, held = _in_persons(classes, coded, persons, len(firsts))
        return ClassBlock(sizes, found, marked, held=held), classes
    order, offsets = ordered_by_group(classes, len(firsts))
    counts = read_only(cells[order, -1], np.int64)
    sizes = np.asarray(sum_by_class(read_only(offsets, np.int64), counts))
    found = {name: _marginal(offsets, codes[order], counts) for name, codes in coded.items()}
    weights = None if plan.query.weight is None else _weights(offsets, cells[order, -2], counts)
    return ClassBlock(sizes, found, marked, weights=weights), classes


def _in_persons(
    classes: Ints, coded: Mapping[str, Ints], persons: Ints, number: int
) -> tuple[Ints, dict[str, Cells], dict[str, HeldValues]]:
    """Sizes and cells in distinct persons, one of whom counts once a class and once a value; and who holds which."""
    _groups, once = group_rows(np.column_stack([classes, persons]))
    found, held = {}, {}
    for name, codes in coded.items():
        _groups, kept = group_rows(np.column_stack([classes, codes, persons]))
        order, offsets = ordered_by_group(classes[kept], number)
        found[name] = _marginal(offsets, codes[kept][order], np.ones(len(kept), dtype=np.int64))
        held[name] = HeldValues(classes[kept], persons[kept], codes[kept])
    return np.bincount(classes[once], minlength=number), found, held


def _marginal(offsets: Ints, codes: Ints, counts: Ints) -> Cells:
    return Cells(*marginal_cells(*(read_only(part, np.int64) for part in (offsets, codes, counts))))


def marked_classes(keys: Ints, plan: CellPlan) -> NDArray[np.bool_] | None:
    """Which class, given by its hash, holds nothing but the suppression mark; None where it is not needed."""
    return None if plan.types is None else np.all(keys == plan.marked_hash(), axis=1)


def _weights(offsets: Ints, bits: Ints, counts: Ints) -> NDArray[np.float64]:
    """Weight of each class, exact and rounded once, so that every engine and partitioning gives the same double."""
    values = read_only(np.ascontiguousarray(bits).view(np.float64), np.float64)
    sums = exact_sum_by_class(read_only(offsets, np.int64), values, read_only(counts, np.int64))
    return np.asarray(sums, dtype=np.float64)


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


def measured_classes(
    runtime: Runtime, table: DaskTable, query: ClassQuery, reduction: Any, facts: Facts, places: int
) -> list[Any]:
    """The figure of each meeting place's classes, None where it has none."""
    plan, sent = _sent(runtime, table, query, places)
    shared = (runtime.place(plan), runtime.place(facts))
    tasks = meet(runtime, "measure classes", sent, places, _Measure(reduction), *shared)
    return list(_computed(runtime, table, query, "measure classes", tasks))


def collected_blocks(runtime: Runtime, table: DaskTable, query: ClassQuery, places: int) -> list[ClassBlock]:
    """The class table, a block a meeting place; none without classes."""
    plan, sent = _sent(runtime, table, query, places)
    tasks = meet(runtime, "collect classes", sent, places, _block, runtime.place(plan))
    return [block for block in _computed(runtime, table, query, "collect classes", tasks) if len(block)]


def kept_parts(
    runtime: Runtime,
    table: DaskTable,
    query: ClassQuery,
    passing: Callable[[ClassBlock], NDArray[np.bool_]],
    places: int,
) -> list[Node]:
    """Partitions with the records of passing classes; only answers travel back, no keys are joined."""
    require_query_columns(table.schema, query)
    plan = runtime.place(_plan(table, query, places))
    sent = [runtime.task("count cells", locate_cells, part, plan) for part in table.parts]
    replies = meet(runtime, "judge classes", sent, places, _Judge(passing), plan)
    each = [[part, out] for part, out in zip(table.parts, sent, strict=True)]
    return meet(runtime, "keep records", replies, len(sent), kept_rows, each=each)


def kept_rows(replies: Sequence[NDArray[np.bool_]], batch: pa.RecordBatch, located: Located) -> pa.RecordBatch:
    """The records whose cell was answered with a yes."""
    return batch.filter(pa.array(np.concatenate(replies)[located.positions]))


@dataclass(frozen=True, repr=False)
class _Measure:
    reduction: Any

    def __call__(self, pieces: Sequence[Any], plan: CellPlan, facts: Facts) -> Any:
        block = _block(pieces, plan)
        return self.reduction.measure(block, facts) if len(block) else None


@dataclass(frozen=True, repr=False)
class _Judge:
    passing: Callable[[ClassBlock], NDArray[np.bool_]]

    def __call__(self, pieces: Sequence[Ints], plan: CellPlan) -> Pieces:
        block, class_of_cell = assemble(pieces, plan)
        passes = np.asarray(self.passing(block), dtype=np.bool_) if len(block) else np.empty(0, dtype=np.bool_)
        return answers(passes[class_of_cell], pieces)


def _plan(table: DaskTable, query: ClassQuery, places: int) -> CellPlan:
    types = tuple(table.schema.field(name).type for name in query.keys) if may_be_marked(query) else None
    return CellPlan(query, places, types=types)


def _sent(runtime: Runtime, table: DaskTable, query: ClassQuery, places: int) -> tuple[CellPlan, list[Node]]:
    require_query_columns(table.schema, query)
    plan = _plan(table, query, places)
    shared = runtime.place(plan)
    parts = table.coded(grouping_columns(query))
    count = count_cells if _joint(query) else class_parts
    return plan, [runtime.task("count cells", count, part, shared) for part in parts]


def _joint(query: ClassQuery) -> bool:
    """Whether the classes are made of joint cells."""
    return query.person is not None or query.weight is not None


def _block(pieces: Sequence[Any], plan: CellPlan) -> ClassBlock:
    return class_block(pieces, plan) if _joint(plan.query) else met_classes(pieces, plan)


def _computed(runtime: Runtime, table: DaskTable, query: ClassQuery, step: str, tasks: Sequence[Node]) -> list[Any]:
    try:
        return runtime.compute(step, tasks)
    except Unfit:
        pass  # one partition knows that something is amiss; say how much over all of them
    raise misfit(runtime, table, query)


def misfit(runtime: Runtime, table: DaskTable, query: ClassQuery) -> DataError:
    """What is wrong with the columns of a query, counted over the whole table."""
    needed = [name for name in (query.person, query.weight) if name is not None]
    columns = [*needed, *query.dictionaries]
    tasks = [runtime.task("look for misfits", misfits_of, part, query=query) for part in table.holding(columns)]
    found = runtime.compute("look for misfits", tasks)
    for name in needed:
        missing = sum(nulls[name] for nulls, _lacking in found)
        if missing:
            what = "weight" if name == query.weight else "person"
            return DataError(f"{what} column {name!r} has {missing:,} missing values; a record needs a {what}")
    for name in query.columns:
        lacking = [values[name] for _nulls, values in found if name in values]
        distinct = len(pa.chunked_array(lacking).unique()) if lacking else 0
        if distinct:
            return not_covered(name, distinct)
    return DataError("the table changed while it was read")


def misfits_of(batch: pa.RecordBatch, query: ClassQuery) -> tuple[dict[str, int], dict[str, pa.Array]]:
    """Nulls where none may be, and the distinct values that a dictionary lacks."""
    nulls = {
        name: group_key(batch.column(name)).null_count for name in (query.person, query.weight) if name is not None
    }
    lacking = {}
    for name, dictionary in query.dictionaries.items():
        values = pc.unique(group_key(batch.column(name)))
        lacking[name] = values.filter(pa.array(find_codes(values, dictionary) < 0))
    return nulls, lacking
