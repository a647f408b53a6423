"""The growth of a tree of cuts under any rules that classes must meet by themselves, and the codes it is grown from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Histogram, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.class_block import HeldValues
from privpipe.models import KAnonymity
from privpipe.transforms.base import StageContext
from privpipe.transforms.mondrian.cut_columns import CutColumn, order_of_values, value_codes
from privpipe.transforms.mondrian.cut_tree import CutTree, order_keys
from privpipe.transforms.suppression.combinations import Combinations, Persons, apart_by_person, person_numbers
from privpipe.transforms.suppression.record_suppression import sensitive_codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CutProblem",
    "Parts",
    "by_combination",
    "by_record",
    "cut_tables",
    "grow",
    "histograms_of",
    "with_persons",
    "with_population",
]

NARROW_FROM = 1 << 20
"""Rows from which codes of two bytes are worth kernels compiled for them in addition."""


class Parts(NamedTuple):
    """A tree and the contents of its leaves.

    Parameters
    ----------
    tree : CutTree
    sizes : ndarray of int64, shape (leaves,)
        Records of the table.
    rows : ndarray of int64, or None
        Leaf of each row of the table, where it is known.
    population : ndarray of int64, shape (leaves,), or None
        Records of the population, where there is one.
    """

    tree: CutTree
    sizes: Ints
    rows: Ints | None
    population: Ints | None = None

    def folded(self, tree: CutTree, numbers: Ints) -> Parts:
        """With leaves put together: of a tree in which each old leaf is in the leaf of this number."""
        sizes, population = (
            None if each is None else np.bincount(numbers, weights=each).astype(np.int64)
            for each in (self.sizes, self.population)
        )
        assert sizes is not None
        return Parts(tree, sizes, None if self.rows is None else numbers[self.rows], population)


@dataclass(frozen=True)
class CutProblem:
    """What a tree is grown from; the arrays are moved about in place while it grows.

    Counted in persons a side of a cut holds everyone with a record there. A rule that is convex in records is then
    convex no more, unless it is hereditary too: of a part that fails it both sides may meet it, so that a further cut
    mends it.

    With a population the combinations of both are rows: a side holds those it holds of either, and what a leaf is
    called covers everyone in it.

    Parameters
    ----------
    columns : tuple of CutColumn
        Those to be cut, then those that stay unchanged.
    cut : int
        How many are to be cut.
    codes : ndarray of int32, or of uint16 for many rows, shape (t, c + s), (t, c + s + 1) or (t, c + s + 2)
        Codes of the columns, then of the sensitive ones; with a population, how many of it a row is; where persons
        are counted, the number of a row's person and how many persons it represents.
    counts : ndarray of int64, shape (t,)
        Records; 0 for rows of the population.
    keys : ndarray of int64, shape (t,)
        Relaxed: the order of the records, each as a separate row; strict: empty.
    sensitive : mapping of column to (int, int)
        Place in `codes`, and how many values there are.
    models : tuple of ClassModel
        Rules that both sides of a cut must meet.
    facts : Facts
    by_loss : bool
    persons : int
        Where persons are counted, how many of them are distinguished; 0: records are counted.
    mended : tuple of ClassModel
        Those of the models for which a side that fails may be cut once more, into sides that do not.
    beside : bool
        Whether rows of a population are among the rows.
    """

    columns: tuple[CutColumn, ...]
    cut: int
    codes: NDArray[Any] = field(repr=False)
    counts: Ints = field(repr=False)
    keys: Ints = field(repr=False)
    sensitive: Mapping[str, tuple[int, int]]
    models: tuple[ClassModel, ...]
    facts: Facts = field(repr=False)
    by_loss: bool = False
    persons: int = 0
    mended: tuple[ClassModel, ...] = ()
    beside: bool = False

    @property
    def records(self) -> int:
        """Records of the table."""
        return int(self.counts.sum())

    @property
    def tuples(self) -> int | None:
        """Distinct combinations, where they are known."""
        return int(np.count_nonzero(self.counts))

    @property
    def counted(self) -> int:
        """Records of the table; where persons are counted, the persons."""
        if not self.persons:
            return self.records
        _, first = np.unique(self.codes[:, -2], return_index=True)
        return int(self.codes[first, -1].sum())

    @property
    def rows(self) -> Combinations:
        """The rows of the table as they lie, for those who count classes of them."""
        codes, counts = self.codes, self.counts
        if self.beside:
            codes, counts = codes[counts > 0], counts[counts > 0]
        sensitive = {name: codes[:, place].astype(np.int64) for name, (place, _) in self.sensitive.items()}
        who = Persons(*codes[:, -2:].T.astype(np.int64)) if self.persons else None
        return Combinations(counts, sensitive, who)

    def grown(self, least: int) -> Parts:
        """The tree of parts of at least `least` records, or persons where these are counted."""
        from privpipe.kernels.lattice.node_classes import class_totals

        tree, starts = grow(self, least)
        leaves = len(starts)
        rows = np.repeat(np.arange(leaves), np.diff(np.append(starts, len(self.counts))))
        sizes = class_totals(rows, leaves, self.counts)
        if not self.beside:
            return Parts(tree, sizes, rows)
        population = class_totals(rows, leaves, self.codes[:, -1].astype(np.int64))
        return Parts(tree, sizes, rows[self.counts > 0], population)

    def passing(self, block: ClassBlock, *, hopeful: bool = False) -> Bools:
        """Which classes meet every rule; `hopeful`: every one but those that a further cut may mend."""
        passed = np.ones(len(block), dtype=np.bool_)
        for model in self.models:
            if not (hopeful and model in self.mended):
                passed &= model.passing(block, self.facts)
        return passed


def grow(problem: CutProblem, least: int) -> tuple[CutTree, Ints]:
    """The tree in which both sides of every cut have `least` records (or persons) and meet the rules.

    Returns
    -------
    (CutTree, ndarray of int64, shape (leaves,))
        The tree, and where the rows of each leaf begin.
    """
    from privpipe.kernels.mondrian.tree import grown

    tables = cut_tables(problem.columns, problem.cut, problem.by_loss, problem.persons, problem.beside)
    # Half of the records shows nothing about how many persons they are.
    sizes_alone = not (problem.persons and len(problem.keys))
    if sizes_alone and all(isinstance(model, KAnonymity) for model in problem.models):
        workers = min(8, os.cpu_count() or 1)
        nodes = grown(problem.codes, problem.counts, least, tables, keys=problem.keys, workers=workers)
    else:
        nodes = _grown_under_rules(problem, least, tables)
    leaves = nodes.columns < 0
    starts = nodes.starts[leaves]
    width = len(problem.columns)
    lows, highs = np.empty((len(starts), width), np.int64), np.empty((len(starts), width), np.int64)
    for at in range(width):
        codes = np.ascontiguousarray(problem.codes[:, at])
        lows[:, at], highs[:, at] = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
    return CutTree(nodes.columns, nodes.cuts, nodes.ties, lows, highs), starts


def cut_tables(columns: tuple[CutColumn, ...], cut: int, by_loss: bool, persons: int = 0, beside: bool = False) -> Any:
    """What the kernel must know of the columns."""
    from privpipe.kernels.mondrian.tree import Columns

    sizes = np.array([column.size for column in columns], dtype=np.int64)
    spans = np.where(np.arange(len(columns)) < cut, sizes - 1, 0).astype(np.float64)
    groups = [column.groups if at < cut else np.arange(column.size) for at, column in enumerate(columns)]
    levels, labels, shares = [], [], []
    for column in columns:
        hierarchy = column.hierarchy
        used = range(0) if hierarchy is None else range(hierarchy.min_level, hierarchy.height + 1)
        levels.append(len(used))
        if hierarchy is not None:
            labels += [hierarchy.codes(level)[column.leaves].astype(np.int64) for level in used]
            shares += [hierarchy.shares(level)[column.leaves] for level in used]
    domains = np.array([column.domain_size for column in columns])
    units = np.where(domains > 1, domains / np.maximum(domains - 1, 1e-300), 0.0)
    units[cut:] = 0.0
    none = np.empty(0)
    return Columns(
        spans=spans,
        groups=np.concatenate([*groups, none]).astype(np.int64),
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        levels=np.array(levels, dtype=np.int64),
        labels=np.concatenate([*labels, none]).astype(np.int64),
        shares=np.concatenate([*shares, none]),
        places=np.concatenate([[0], np.cumsum(sizes * np.array(levels))])[:-1],
        units=units,
        by_loss=by_loss,
        persons=persons,
        beside=beside,
    )


def _grown_under_rules(problem: CutProblem, least: int, tables: Any) -> Any:
    """All segments of one depth at a time: a rule is evaluated for many sides at once."""
    from privpipe.kernels.mondrian.tree import Nodes, Rows, cuts_of, divided

    table = Rows(problem.codes, problem.counts, problem.keys)
    segments = np.array([[0, len(table.codes)]], dtype=np.int64)
    parts = []
    while len(segments):
        cuts, forced = cuts_of(table, segments, least, tables)
        tried = np.stack(cuts, axis=2)
        chosen = _chosen(problem, segments, tried, forced, least)
        if problem.mended and len(left := np.flatnonzero(chosen < 0)):
            chosen[left] = _looked_ahead(problem, table, segments[left], tried[left], least, tables)
        rows = np.zeros((len(segments), 5), dtype=np.int64)
        rows[:, :2], rows[:, 2] = segments, -1
        made = chosen >= 0
        rows[made, 2], rows[made, 3], rows[made, 4] = (taken[made, chosen[made]] for taken in cuts)
        parts.append(rows)
        following = []
        for start, stop, column, cut, tie in rows[made].tolist():
            middle = divided(table, (start, stop), (column, cut, tie))
            following += [(start, middle), (middle, stop)]
        segments = np.array(following, dtype=np.int64).reshape(-1, 2)
    return Nodes.of(parts)


def _chosen(problem: CutProblem, segments: Ints, cuts: Ints, forced: Bools, least: int) -> Ints:
    """The first cut of each segment whose both sides meet the rules; -1: none does."""
    chosen = np.where(forced, 0, -1)
    undecided = np.flatnonzero(~forced & (cuts[:, 0, 0] >= 0))
    attempt = 0
    while len(undecided):
        own = np.ascontiguousarray(segments[undecided]), np.ascontiguousarray(cuts[undecided, attempt])
        sides = _sides(problem, *own)
        passed = (problem.passing(sides) & (sides.sizes >= least)).reshape(-1, 2).all(axis=1)
        chosen[undecided[passed]] = attempt
        attempt += 1
        undecided = undecided[~passed]
        if attempt == cuts.shape[1]:
            break
        undecided = undecided[cuts[undecided, attempt, 0] >= 0]
    return chosen


def _looked_ahead(problem: CutProblem, table: Any, segments: Ints, cuts: Ints, least: int, tables: Any) -> Ints:
    """The first cut of each segment whose sides meet the rules or have a further cut whose sides do; -1: none.

    Rows are moved within their segment. A side that fails is cut by that further cut when its turn comes.
    """
    from privpipe.kernels.mondrian.tree import cuts_of, divided

    chosen = np.full(len(segments), -1, dtype=np.int64)
    for attempt in range(cuts.shape[1]):
        undecided = np.flatnonzero((chosen < 0) & (cuts[:, attempt, 0] >= 0))
        if not len(undecided):
            break
        own = np.ascontiguousarray(segments[undecided]), np.ascontiguousarray(cuts[undecided, attempt])
        sides = _sides(problem, *own)
        large = sides.sizes >= least
        passed = problem.passing(sides) & large
        hopeful = (problem.passing(sides, hopeful=True) & large).reshape(-1, 2).all(axis=1)
        undecided, passed = undecided[hopeful], passed.reshape(-1, 2)[hopeful]
        halves = []
        for (start, stop), cut in zip(segments[undecided].tolist(), cuts[undecided, attempt].tolist(), strict=True):
            middle = divided(table, (start, stop), tuple(cut))
            halves += [(start, middle), (middle, stop)]
        failing = np.array(halves, dtype=np.int64).reshape(-1, 2)[~passed.ravel()]
        if len(failing):
            further, forced = cuts_of(table, failing, least, tables)
            passed[~passed] = _chosen(problem, failing, np.stack(further, axis=2), forced, least) >= 0
        chosen[undecided[passed.all(axis=1)]] = attempt
    return chosen


def _sides(problem: CutProblem, segments: Ints, cuts: Ints) -> ClassBlock:
    """Records, or persons, on both sides of a cut of each segment, those of each sensitive value, and strangers."""
    from privpipe.kernels.mondrian.sides import (
        side_beside,
        side_cells,
        side_cells_of_persons,
        side_numbers,
        side_persons,
        side_sizes,
    )

    codes, counts, keys, many = problem.codes, problem.counts, problem.keys, problem.persons
    if not many:
        asked = (codes, counts, keys, segments, cuts)
        cells = {name: Cells(*side_cells(*asked, place, values)) for name, (place, values) in problem.sensitive.items()}
        population = side_beside(codes, segments, cuts) if problem.beside else None
        return ClassBlock(side_sizes(*asked), cells, population=population)
    cells = {
        name: Cells(*side_cells_of_persons(codes, keys, segments, cuts, place, values, many))
        for name, (place, values) in problem.sensitive.items()
    }
    held = {}
    if cells:
        rows, sides = side_numbers(codes, keys, segments, cuts)
        who, stands_for = codes[rows, -2].astype(np.int64), codes[rows, -1].astype(np.int64)
        for name, (place, _) in problem.sensitive.items():
            held[name] = HeldValues(sides, who, codes[rows, place].astype(np.int64), stands_for)
    return ClassBlock(side_persons(codes, keys, segments, cuts, many), cells, held=held)


MOST_OF_ONE = (1 << 31) - 1
"""Of a population that one row of codes represents."""


def by_combination(
    distinct: pa.Table,
    columns: tuple[CutColumn, ...],
    cut: int,
    models: tuple[ClassModel, ...],
    sensitive: tuple[str, ...],
    context: StageContext,
    *,
    by_loss: bool = False,
    person: str | None = None,
) -> CutProblem:
    """The problem over distinct combinations, as an engine counts them.

    Parameters
    ----------
    person : str, optional
        Column by which persons are counted, the last grouping column of the combinations.
    """
    counts = distinct["__count"].to_numpy().astype(np.int64)
    codes, places = _coded(distinct, columns, sensitive, context)
    persons = 0
    if person is not None:
        fresh = np.ones(len(codes), dtype=np.int64)
        fresh[1:] = (codes[1:] != codes[:-1]).any(axis=1)
        kept, counts, who = apart_by_person(np.cumsum(fresh), person_numbers(distinct[person], person), counts)
        codes, persons = with_persons(codes[kept], who.numbers, who.counts)
    return CutProblem(
        columns=columns,
        cut=cut,
        codes=codes,
        counts=counts,
        keys=np.empty(0, np.int64),
        sensitive=places,
        models=models,
        facts=context.base,
        by_loss=by_loss,
        persons=persons,
    )


def with_population(problem: CutProblem, beside: pa.Table) -> CutProblem:
    """The problem with the distinct combinations of a population among its rows."""
    codes, counts, columns = problem.codes, problem.counts, problem.columns
    many = beside["__count"].to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(many)), -(-many // MOST_OF_ONE))
    first = np.r_[True, rows[1:] != rows[:-1]][: len(rows)]
    own = np.where(first, many[rows] - (-(-many[rows] // MOST_OF_ONE) - 1) * MOST_OF_ONE, MOST_OF_ONE)
    none = np.zeros(len(rows), dtype=np.int64)
    theirs = [value_codes(column, beside[column.name])[rows] for column in columns]
    theirs += [none] * (codes.shape[1] - len(columns))
    joined = [np.concatenate([mine, other]) for mine, other in zip(codes.T, theirs, strict=True)]
    rows_of_both = _matrix([*joined, np.concatenate([np.zeros_like(counts), own])])
    return replace(problem, codes=rows_of_both, counts=np.concatenate([counts, none]), beside=True)


def with_persons(codes: NDArray[Any], who: Ints, many: Ints) -> tuple[NDArray[Any], int]:
    """Codes with two more columns, the number of each row's person and how many it represents; how many there are.

    At least 1, which distinguishes persons from records.
    """
    known, numbers = np.unique(who, return_inverse=True)
    return _matrix([*codes.T, numbers.reshape(-1), many]), max(1, len(known))


def histograms_of(distinct: pa.Table, columns: Iterable[str]) -> dict[str, Histogram]:
    """Histograms of some columns of distinct combinations, as an engine would count them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": ["y", "x", None, "y"], "__count": [1, 2, 3, 4]})
    >>> own = histograms_of(table, ["a"])["a"]
    >>> own.values.to_pylist(), own.counts.tolist()
    (['x', 'y', None], [2, 5, 3])
    """
    import pyarrow as pa

    counts = distinct["__count"].to_numpy()
    found = {}
    for name in columns:
        encoded = distinct[name].combine_chunks().dictionary_encode(null_encoding="encode")
        values = encoded.dictionary
        order = order_of_values(values)
        totals = np.bincount(encoded.indices.to_numpy(), weights=counts, minlength=len(values))
        found[name] = Histogram(values.take(pa.array(order)), totals[order].astype(np.int64))
    return found


def by_record(
    engine: Any,
    table: Any,
    columns: tuple[CutColumn, ...],
    cut: int,
    models: tuple[ClassModel, ...],
    sensitive: tuple[str, ...],
    context: StageContext,
    *,
    person: str | None = None,
) -> CutProblem:
    """The problem over single records, in the order of their keys: the same on every engine, however it is there.

    Records that a key orders are coded on the engine, so that the driver holds some bytes per record.
    """
    import pyarrow as pa

    beside = tuple(dict.fromkeys([*sensitive, *([] if person is None else [person])]))
    names = list(dict.fromkeys([*(column.name for column in columns), *beside]))
    found = engine.reduce_rows(table, names, _Gathered(columns, beside), Facts())
    blocks = found.blocks if found is not None else ()
    keys = np.concatenate([np.empty(0, np.int64), *(block.keys for block in blocks)])
    order = np.argsort(keys, kind="stable")
    coded = np.concatenate([np.empty((0, len(columns)), np.int32), *(block.codes for block in blocks)])[order]
    values: list[NDArray[Any]] = []
    persons = 0
    if beside and blocks:
        rows = pa.Table.from_batches([block.beside for block in blocks]).take(order)
        values = [sensitive_codes(rows[name], name, context.base) for name in sensitive]
    codes, places = _beside(list(coded.T), sensitive, values)
    if person is not None and blocks:
        who = person_numbers(rows[person], person)
        codes, persons = with_persons(codes, who, np.ones_like(who))
    return CutProblem(
        columns=columns,
        cut=cut,
        codes=codes,
        counts=np.ones(len(keys), dtype=np.int64),
        keys=keys[order],
        sensitive=places,
        models=models,
        facts=context.base,
        persons=persons,
    )


@dataclass(frozen=True)
class _Block:
    """Records of one block: codes of the columns, their order keys, their sensitive values and their persons."""

    codes: NDArray[Any] = field(repr=False)
    keys: Ints = field(repr=False)
    beside: pa.RecordBatch = field(repr=False)


@dataclass(frozen=True)
class _Held:
    blocks: tuple[_Block, ...] = field(repr=False)


@dataclass(frozen=True)
class _Gathered:
    """A reduction that brings all records together, coded."""

    columns: tuple[CutColumn, ...]
    beside: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> _Held:
        codes = np.empty((len(block.record_ids), len(self.columns)), dtype=np.int32)
        for at, column in enumerate(self.columns):
            codes[:, at] = value_codes(column, block.column(column.name))
        return _Held((_Block(codes, order_keys(block.record_ids), block.batch.select(list(self.beside))),))

    def merge(self, left: _Held, right: _Held) -> _Held:
        return _Held((*left.blocks, *right.blocks))


def _coded(
    rows: pa.Table, columns: tuple[CutColumn, ...], sensitive: tuple[str, ...], context: StageContext
) -> tuple[NDArray[Any], dict[str, tuple[int, int]]]:
    """Codes of the columns, then of the sensitive ones; place and number of values of each of these."""
    coded = [value_codes(column, rows[column.name]) for column in columns]
    return _beside(coded, sensitive, [sensitive_codes(rows[name], name, context.base) for name in sensitive])


def _beside(
    coded: list[NDArray[Any]], sensitive: tuple[str, ...], values: list[NDArray[Any]]
) -> tuple[NDArray[Any], dict[str, tuple[int, int]]]:
    """One matrix of the columns' codes and of the sensitive ones; place and number of values of each of these."""
    places = {
        name: (len(coded) + at, int(codes.max(initial=0)) + 1)
        for at, (name, codes) in enumerate(zip(sensitive, values, strict=False))
    }
    return _matrix([*coded, *values]), places


def _matrix(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Columns of codes next to one another."""
    rows = len(columns[0]) if columns else 0
    narrow = rows > NARROW_FROM and max(int(codes.max(initial=0)) for codes in columns) < 1 << 16
    matrix = np.empty((rows, len(columns)), dtype=np.uint16 if narrow else np.int32)
    for at, codes in enumerate(columns):
        matrix[:, at] = codes
    return matrix
