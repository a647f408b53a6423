"""One measure over the tables of all releases: every cell a sum of classes of persons who are in the same cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated, TableSpec
from privpipe.tables.audit_problem import Levels, Matrix, matrix_of
from privpipe.tables.cells import Cells, Dimension, LinkedCells
from privpipe.tables.differencing import nested_pairs
from privpipe.tables.entries import TableSet
from privpipe.tables.families import (
    Contributions,
    Family,
    Members,
    added_up,
    expanded,
    families,
    leaves_of_labels,
    merged_levels,
)
from privpipe.tables.implied_populations import ImpliedPopulations, implied_populations
from privpipe.tables.primary_rules import Rule, Settings, of_noisy, protection_levels
from privpipe.tables.table import Measure, Table
from privpipe.tables.table_history import PlacedTable

__all__ = ["MAX_CLASSES", "TooManyClasses", "UnionFamily", "counted_together", "seen_together"]

MAX_CLASSES = 5_000_000
CLASSES, DIFFERENCES = "(classes)", "(differences)"


NONE = np.empty(0, dtype=np.int64)
NOTHING, NO_ROWS = matrix_of(NONE, NONE, NONE, (0, 0)), Members(NONE, NONE, NONE)


class TooManyClasses(DataError):
    """Persons are in more combinations of cells than are judged together."""


@dataclass(frozen=True, eq=False)
class UnionFamily(Family):
    """One measure over the new tables and all earlier ones.

    The last of `tables` are the classes of persons (of a sum: of contributions) that are in the same cells of all
    tables; each is an unpublished variable. Cells of any two tables that hold the same classes are one
    variable, whatever they are called.

    Parameters
    ----------
    new : int
        How many of the tables are of the new release; they come first.
    releases : tuple of int
        The release of each published table.
    classes : csr_array of int64, shape (variables, classes)
        1 where a class is in a variable.
    rows : Members
        Class, as `leaves`, person and value of every contribution.
    fewest : int
        The greatest threshold of a frequency rule: differences with fewer contributors are looked for.
    """

    new: int = 0
    releases: tuple[int, ...] = ()
    classes: Matrix = field(default_factory=lambda: NOTHING, repr=False)
    rows: Members = field(default_factory=lambda: NO_ROWS, repr=False)
    fewest: int = 1

    @property
    def additive(self) -> bool:
        """Cells are sums of classes, even where contributors are in several leaf cells."""
        return True

    @property
    def follows_persons(self) -> bool:
        return True

    @cached_property
    def before(self) -> Bools:
        """Variables that earlier tables published."""
        return self._published(range(self.new, self.published))

    @cached_property
    def known_before(self) -> Bools:
        """Variables that earlier tables published unchanged."""
        return self._published(range(self.new, self.published), exactly=True)

    @cached_property
    def now(self) -> Bools:
        """Variables that the new tables publish."""
        return self._published(range(self.new))

    @property
    def counted_exactly_or_rounded(self) -> tuple[Bools, Bools]:
        """Variables that earlier tables published without noise, and that the new ones do."""
        plain = [at for at in range(self.published) if self.measures[at].status != "perturbed"]
        return self._published(at for at in plain if at >= self.new), self._published(
            at for at in plain if at < self.new
        )

    def _published(self, tables: Iterable[int], *, exactly: bool = False) -> Bools:
        found = np.zeros(self.cells.size, dtype=np.bool_)
        for at in tables:
            measure = self.measures[at]
            shown = ~measure.hidden & (measure.low == measure.high) if exactly else ~measure.hidden
            found[self.cells.variables[at][shown]] = True
        return found

    def pairs(self, *, exactly: bool) -> tuple[Ints, Ints]:
        """Pairs of published variables, one inside the other, that were in no table together so far.

        Those that differ by few contributors; of a sum also the closest ones, whatever they differ by.

        Parameters
        ----------
        exactly : bool
            Among figures that are published unchanged; else among rounded and perturbed ones too.
        """
        sources = [self._published(range(self.new, self.published), exactly=exactly)]
        sources += [self._published([at], exactly=exactly) for at in range(self.new)]
        # A person may be in a difference with several contributions, and is one contributor.
        most = int(np.bincount(self.rows.persons).max(initial=1))
        least = self.fewest * most
        return nested_pairs(self.classes, self.class_sizes, sources, least=least, closest=self.key != COUNT)

    def linked_relations(self, at: int) -> Matrix:
        """Relations of one table, over the variables."""
        return over_variables(self.tables[at].cells, self.cells.variables[at], self.cells.size)

    @cached_property
    def sizes(self) -> Ints:
        """Contributors of each variable."""
        found = np.zeros(self.cells.size, dtype=np.int64)
        for measure, variable in zip(self.measures, self.cells.variables, strict=True):
            found[variable] = measure.figures.contributors
        return found

    @cached_property
    def class_sizes(self) -> Ints:
        """Contributors of each class."""
        return self.measures[-1].figures.contributors

    @cached_property
    def populations(self) -> ImpliedPopulations:
        """Populations that follow from published cells, but not from those of only earlier releases.

        Hidden cells below published ones as in one release, and the differences of nested cells of two releases.
        """
        found = implied_populations(self.cells, self.hidden)
        return _joined(found, self._differences())

    @cached_property
    def nested(self) -> tuple[Ints, Ints]:
        """Pairs whose differences a reader computes; they are the last of `populations`."""
        return self.pairs(exactly=True)

    def _differences(self) -> ImpliedPopulations:
        outer, inner = self.nested
        own = self.cells.variables[-1]
        left = scipy.sparse.csr_array(self.classes[outer] - self.classes[inner])
        left.eliminate_zeros()
        entries = left.tocoo()
        ones = np.ones(entries.nnz, dtype=np.int64)
        shape = (len(outer), self.cells.size)
        sets = matrix_of(ones, entries.row.astype(np.int64), own[entries.col], shape)
        return ImpliedPopulations(outer, sets, np.ones(len(outer), dtype=np.bool_))

    def with_populations(self, populations: ImpliedPopulations) -> Family:
        other = replace(self)
        other.__dict__.update(self.__dict__, populations=populations)
        return other

    def implied_figures(self) -> CellFigures | None:
        """Figures of the implied populations, each person's contributions to one added first."""
        sets = self.populations
        if not len(sets):
            return None
        made = self._added_up(scipy.sparse.csr_array(sets.sets @ self.classes))
        return _figures_of(self.key, self.measures[0].figures, made, _flat("implied", len(sets)))

    def implied_failures(self, rules: Iterable[Rule]) -> Bools:
        failing = super().implied_failures(rules)
        if failing.any():
            earlier = implied_populations(self.cells, ~self.before)
            known = {frozenset(earlier.members(at).tolist()) for at in range(len(earlier))}
            for at in np.flatnonzero(failing).tolist():
                failing[at] = frozenset(self.populations.members(at).tolist()) not in known
        return failing

    def levels(self, rules: Mapping[str, Sequence[Rule]], settings: Settings) -> Levels:
        """Levels of new cells that the rules call unsafe, and of earlier ones that were hidden for what they are."""
        parts = [super().levels({table.name: rules.get(table.name, ()) for table in self.tables[: self.new]}, settings)]
        every = list({id(rule): rule for own in rules.values() for rule in own}.values())
        for measure, variable in zip(
            self.measures[self.new : self.published], self.cells.variables[self.new : self.published], strict=True
        ):
            if every:
                parts.append(
                    _earlier_levels(every, measure, variable, settings, measure.hidden & ~self.before[variable])
                )
                # What an earlier release showed by noise or rounding must not become one value by the new one.
                unsure = ~measure.hidden & (measure.low < measure.high) & ~self.known_before[variable]
                if self.key == COUNT or measure.status == "perturbed":
                    loosely = [of_noisy(rule) for rule in every]
                    parts.append(_earlier_levels(loosely, measure, variable, settings, unsure))
        for measure, variable in zip(
            self.measures[self.published : -1], self.cells.variables[self.published : -1], strict=True
        ):
            made = protection_levels(every, measure.figures, settings)
            parts.append(replace(made, variables=variable[made.variables]))
        return merged_levels(parts)

    def with_differences(self) -> UnionFamily:
        """The same with a variable for each difference of figures that are not published unchanged.

        What a reader knows of such a difference is an interval, which the audit finds.
        """
        if all((measure.hidden | (measure.low == measure.high)).all() for measure in self.measures[: self.published]):
            return self
        pairs = {tuple(pair) for pair in zip(*(each.tolist() for each in self.pairs(exactly=True)), strict=True)}
        every = zip(*(each.tolist() for each in self.pairs(exactly=False)), strict=True)
        more = np.array([pair for pair in every if pair not in pairs], dtype=np.int64).reshape(-1, 2)
        if not len(more):
            return self
        left = scipy.sparse.csr_array(self.classes[more[:, 0]] - self.classes[more[:, 1]])
        left.eliminate_zeros()
        size, number = self.cells.size, len(more)
        entries = left.tocoo()
        added = matrix_of(
            np.concatenate([np.ones(number, dtype=np.int64), -entries.data]),
            np.concatenate([np.arange(number), entries.row.astype(np.int64)]),
            np.concatenate([size + np.arange(number), self.cells.variables[-1][entries.col]]),
            (number, size + number),
        )
        old = self.cells.relations.tocoo()
        shape = (self.cells.relations.shape[0], size + number)
        whole = matrix_of(old.data, old.row.astype(np.int64), old.col.astype(np.int64), shape)
        made = self._added_up(left)
        table = _table(DIFFERENCES, self.key, self.measures[0].figures, made, number)
        first, last = slice(0, self.published), slice(self.published, None)
        variables = (*self.cells.variables[first], size + np.arange(number), *self.cells.variables[last])
        tables = (*self.cells.tables[first], table.cells, *self.cells.tables[last])
        return replace(
            self,
            tables=(*self.tables[first], table, *self.tables[last]),
            cells=LinkedCells(tables, variables, scipy.sparse.csr_array(scipy.sparse.vstack([whole, added]))),
            classes=scipy.sparse.csr_array(scipy.sparse.vstack([self.classes, left])),
        )

    def _added_up(self, inside: Matrix) -> Contributions:
        """Figures of sets of classes."""
        by_class = scipy.sparse.csc_array(inside)
        lengths = np.diff(by_class.indptr)[self.rows.leaves]
        row = np.repeat(np.arange(len(self.rows)), lengths)
        starts = np.repeat(by_class.indptr[:-1][self.rows.leaves], lengths)
        within = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        number = by_class.indices[starts + within].astype(np.int64)
        most = _most(self.tables[: self.published], self.key)
        waived = None if self.rows.waived is None else self.rows.waived[row]
        return added_up(number, self.rows.persons[row], self.rows.values[row], inside.shape[0], most, waived)


def _earlier_levels(
    rules: Sequence[Rule], measure: Measure, variable: Ints, settings: Settings, cells: Bools
) -> Levels:
    """Levels of some cells of an earlier table."""
    made = protection_levels(rules, measure.figures, settings)
    kept = cells[made.variables]
    return Levels(variable[made.variables[kept]], made.lower[kept], made.upper[kept], made.span[kept], made.denominator)


def seen_together(
    tables: TableSet, chosen: Mapping[str, Table], *, max_classes: int = MAX_CLASSES, zeros: bool = False
) -> Sequence[Family]:
    """The families of some tables of a release; with a ledger, over all releases that it remembers.

    Parameters
    ----------
    chosen : mapping of str to Table
    max_classes : int
    zeros : bool
        Empty cells may be hidden too, so that a reader does not know them to be empty.

    Raises
    ------
    TooManyClasses
    DataError
        The ledger's rows are not those of its cells.
    """
    history = tables.history
    if not history:
        return list(families(chosen, tables.joint))
    assert history is not None
    least = max((each.least for each in tables.guarantees), default=1)
    key = (tuple(map(id, chosen.values())), least, max_classes, zeros)
    if key not in history.judged:
        found = []
        for measure in dict.fromkeys(key for table in chosen.values() for key in table.shown_measures):
            placed = history.placed(chosen, measure)
            new = sum(each.release == len(history.earlier) for each in placed)
            found.append(_family(measure, placed, new, least=least, max_classes=max_classes, zeros=zeros))
        history.judged.clear()
        history.judged[key] = (tuple(chosen.values()), found)  # the tables stay alive, and so do their ids
    seen: list[Family] = history.judged[key][1]
    return seen


def counted_together(
    tables: TableSet, chosen: Mapping[str, Table], *, max_classes: int = MAX_CLASSES
) -> UnionFamily | None:
    """The contributors over all releases, with a ledger; None where no table shows them."""
    seen = seen_together(tables, chosen, max_classes=max_classes)
    return next((each for each in seen if isinstance(each, UnionFamily) and each.key == COUNT), None)


def _family(
    key: str, placed: Sequence[PlacedTable], new: int, *, least: int, max_classes: int, zeros: bool
) -> UnionFamily:
    parts = _classes_of_persons(placed) if key == COUNT else _classes_of_contributions(placed)
    parts = parts.with_empty(placed, key, zeros=zeros)
    if parts.number > max_classes:
        raise TooManyClasses(
            f"persons are in {parts.number:,} combinations of cells of {len(placed):,} tables, more than `max_atoms` "
            f"({max_classes:,})"
        )
    tables = [each.table for each in placed]
    variables, relations, classes = _linked(tables, key, parts)
    rows = parts.rows
    made = added_up(rows.leaves, rows.persons, rows.values, parts.number, _most(tables, key), rows.waived)
    table = _table(CLASSES, key, tables[0].measures[key].figures, made, parts.number)
    cells = LinkedCells((*(each.cells for each in tables), table.cells), variables, relations)
    return UnionFamily(
        key,
        (*tables, table),
        len(tables),
        cells,
        new=new,
        releases=tuple(each.release for each in placed),
        classes=classes,
        rows=parts.rows,
        fewest=least,
    ).with_differences()


def _table(name: str, key: str, like: CellFigures, made: Contributions, number: int) -> Table:
    """A table of sets of classes, never published."""
    flat = _flat("set", number)
    figures = _figures_of(key, like, made, flat)
    return Table(
        name=name,
        aggregated=Aggregated(TableSpec(by=("set",), responses=()), flat, {key: figures}),
        measures={key: Measure.exact(figures)},
        primary=np.zeros(number, dtype=np.bool_),
    )


def _most(tables: Sequence[Table], key: str) -> int:
    return max(int(table.measures[key].figures.largest.shape[1]) for table in tables)


def _flat(name: str, number: int) -> Cells:
    labels = tuple(map(str, range(number + 1)))
    dimension = Dimension(name, labels, (-1, *(0 for _ in labels[1:])))
    return Cells((dimension,), np.arange(1, number + 1, dtype=np.int64)[:, None])


def _figures_of(key: str, like: CellFigures, made: Contributions, cells: Cells) -> CellFigures:
    counting = key == COUNT
    return replace(
        like,
        cells=cells,
        contributors=made.contributors,
        records=made.contributors,
        totals=made.contributors if counting else made.totals,
        magnitudes=made.contributors if counting else made.magnitudes,
        negative=np.zeros_like(made.negative) if counting else made.negative,
        nonzero=made.contributors if counting else made.nonzero,
        single=made.single,
        largest=np.zeros_like(made.largest) if counting else made.largest,
        holders=np.zeros_like(made.holders) if counting else made.holders,
        unwaived=None if counting else made.unwaived,
        additive=True,
    )


@dataclass(frozen=True, repr=False)
class _Classes:
    """Classes of persons or contributions, and the cells of each table that each class is in.

    Parameters
    ----------
    number : int
    inside : tuple of csr_array, shape (classes, cells)
        Of each table; entries 1.
    rows : Members
    """

    number: int
    inside: tuple[Matrix, ...]
    rows: Members

    def with_empty(self, placed: Sequence[PlacedTable], key: str, *, zeros: bool) -> _Classes:
        """In addition a class without persons for each hidden empty leaf cell, which no reader knows to be empty.

        It is in the cells of all tables that its labels say; where they leave one open, there is none, as if readers
        knew.
        """
        parts = [_empty_classes(each, placed, key, zeros=zeros) for each in placed]
        empty = np.unique(np.concatenate(parts), axis=0)
        if not len(empty):
            return self
        inside = [
            scipy.sparse.csr_array(scipy.sparse.vstack([own, _cells_inside(each.table, empty[:, at], ())]))
            for at, (own, each) in enumerate(zip(self.inside, placed, strict=True))
        ]
        return _Classes(self.number + len(empty), tuple(inside), self.rows)


def _empty_classes(own: PlacedTable, placed: Sequence[PlacedTable], key: str, *, zeros: bool) -> Ints:
    """For each hidden empty leaf cell of a table the leaf cell of every table, -1 outside."""
    cells, measure = own.table.cells, own.table.measures[key]
    lowest = [np.isin(cells.codes[:, at], each.leaves) for at, each in enumerate(cells.dimensions)]
    empty = np.logical_and.reduce(lowest) & (measure.figures.contributors == 0)
    leaves = np.flatnonzero(empty & (measure.hidden | zeros))
    found = np.full((len(leaves), len(placed)), -1, dtype=np.int64)
    clear = np.ones(len(leaves), dtype=np.bool_)
    for at, each in enumerate(placed):
        found[:, at], known = leaves_of_labels(cells, leaves, each.table.cells)
        clear &= known
    return found[clear]


def _classes_of_persons(placed: Sequence[PlacedTable]) -> _Classes:
    """Persons by the set of leaf cells that they have in each table."""
    from privpipe.kernels.grouping.word_groups import group_rows

    persons = np.unique(np.concatenate([each.members.persons for each in placed]))
    codes = np.full((len(persons), len(placed)), -1, dtype=np.int64)
    sets = []
    for at, each in enumerate(placed):
        place = np.searchsorted(persons, each.members.persons)
        codes[:, at], found = _leaf_sets(place, each.members.leaves, len(persons), len(each.table))
        sets.append(found)
    number, firsts = group_rows(np.ascontiguousarray(codes)) if len(persons) else (persons, persons)
    number, firsts = _in_order(codes, number, firsts)
    inside = [_cells_inside(each.table, codes[firsts, at], sets[at]) for at, each in enumerate(placed)]
    rows = Members(persons, number, np.ones(len(persons), dtype=np.int64))
    return _Classes(len(firsts), tuple(inside), rows)


def _in_order(codes: Ints, number: Ints, firsts: Ints) -> tuple[Ints, Ints]:
    """Groups numbered by their codes, whatever order the rows are in."""
    if not len(firsts):
        return number.astype(np.int64), firsts
    order = np.lexsort(codes[firsts].T[::-1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[number], firsts[order]


def _leaf_sets(persons: Ints, leaves: Ints, size: int, cells: int) -> tuple[Ints, list[Ints]]:
    """For each person a number of its set of leaves: the leaf itself, a number beyond all cells, or -1 for none."""
    found = np.full(size, -1, dtype=np.int64)
    found[persons] = leaves
    several = np.flatnonzero(np.bincount(persons, minlength=size) > 1)
    if not len(several):
        return found, []
    chosen = np.isin(persons, several)
    order = np.lexsort((leaves[chosen], persons[chosen]))
    whose, which = persons[chosen][order], leaves[chosen][order]
    known: dict[bytes, int] = {}
    sets: list[Ints] = []
    starts = np.flatnonzero(np.diff(whose, prepend=-1))
    for person, own in zip(whose[starts].tolist(), np.split(which, starts[1:]), strict=True):
        at = known.setdefault(own.tobytes(), len(sets))
        if at == len(sets):
            sets.append(own)
        found[person] = cells + at
    return found, sets


def _cells_inside(table: Table, codes: Ints, sets: Sequence[Ints]) -> Matrix:
    """Cells of a table that each class is in."""
    size = len(table)
    single = np.flatnonzero((codes >= 0) & (codes < size))
    rows, leaves = [single], [codes[single]]
    for at in np.flatnonzero(codes >= size).tolist():
        own = sets[int(codes[at]) - size]
        rows.append(np.full(len(own), at))
        leaves.append(own)
    row, leaf = np.concatenate(rows).astype(np.int64), np.concatenate(leaves).astype(np.int64)
    place, cell = expanded(table.cells, leaf)
    pairs = np.unique(row[place] * size + cell)
    ones = np.ones(len(pairs), dtype=np.int64)
    return matrix_of(ones, pairs // max(size, 1), pairs % max(size, 1), (len(codes), size))


def _classes_of_contributions(placed: Sequence[PlacedTable]) -> _Classes:
    """Contributions by the leaf cell that each is in, in each table.

    Those of two releases are one where person and value are the same: a value that stayed.
    """
    from privpipe.kernels.grouping.word_groups import group_rows

    parts = [_contributions(placed, release) for release in sorted({each.release for each in placed})]
    whole = np.concatenate(parts)
    person, value, codes = whole[:, 0], whole[:, 1], whole[:, 4:]
    order = np.lexsort((*codes.T[::-1], whole[:, 2], value, person))
    same = np.diff(whole[order][:, :3], axis=0, prepend=-1).any(axis=1) if len(order) else np.zeros(0, dtype=np.bool_)
    starts = np.flatnonzero(same)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    keys = np.ascontiguousarray(np.column_stack([person, value, rank]))
    element, first = group_rows(keys) if len(keys) else (person, person)
    leaves = np.full((len(first), len(placed)), -1, dtype=np.int64)
    for at in range(len(placed)):
        there = codes[:, at] >= 0
        leaves[element[there], at] = codes[there, at]
    number, firsts = group_rows(np.ascontiguousarray(leaves)) if len(leaves) else (first, first)
    number, firsts = _in_order(leaves, number, firsts)
    inside = [_cells_inside(each.table, leaves[firsts, at], ()) for at, each in enumerate(placed)]
    waived = None
    if any(each.members.waived is not None for each in placed):
        # What was waived in one release and not in another is protected.
        waived = np.ones(len(first), dtype=np.int64)
        np.minimum.at(waived, element, whole[:, 3])
    return _Classes(len(firsts), tuple(inside), Members(person[first], number, value[first], waived))


def _contributions(placed: Sequence[PlacedTable], release: int) -> Ints:
    """Of one release: person, value, release, whether it is waived, and the leaf of each table; -1 outside."""
    own = [at for at, each in enumerate(placed) if each.release == release]
    rows = placed[own[0]].together
    found = np.full((len(rows), 4 + len(placed)), -1, dtype=np.int64)
    found[:, 0], found[:, 1], found[:, 2], found[:, 3] = rows[:, 0], rows[:, 1], release, rows[:, 2]
    for place, at in enumerate(own):
        found[:, 4 + at] = rows[:, 3 + place]
    return found


def _linked(tables: Sequence[Table], key: str, parts: _Classes) -> tuple[tuple[Ints, ...], Matrix, Matrix]:
    """The variable of each cell and class, their relations, and the classes in each variable."""
    draw = np.random.default_rng(36)
    words = draw.integers(1, 2**62, (parts.number, 2), dtype=np.int64)
    # Sums of words modulo 2^64: cells with the same classes have the same.
    marks = [np.column_stack([each.T @ word for word in words.T]).astype(np.int64) for each in parts.inside]
    whole = np.concatenate([*marks, words])
    _, first, variable = np.unique(whole, axis=0, return_index=True, return_inverse=True)
    variable = np.asarray(variable).reshape(-1).astype(np.int64)
    size = len(first)
    variables = np.split(variable, np.cumsum([len(each) for each in marks]))
    own = variables[-1]
    every = scipy.sparse.csr_array(
        scipy.sparse.vstack([*(each.T for each in parts.inside), scipy.sparse.eye_array(parts.number, dtype=np.int64)])
    )
    classes = scipy.sparse.csr_array(every[first])
    relations, seen = [], set()
    for table, variable in zip(tables, variables, strict=False):
        if variable.tobytes() in seen:
            continue
        seen.add(variable.tobytes())
        additive = table.measures[key].figures.additive or key != COUNT
        if additive and not any(dimension.overlapping for dimension in table.cells.dimensions):
            relations.append(over_variables(table.cells, variable, size))
            lowest = [np.isin(table.cells.codes[:, at], d.leaves) for at, d in enumerate(table.cells.dimensions)]
            below = np.unique(variable[np.logical_and.reduce(lowest)])
        else:
            below = np.unique(variable)
        inner = classes[below].tocoo()
        rows = np.concatenate([np.arange(len(below)), inner.row])
        columns = np.concatenate([below, own[inner.col]])
        values = np.concatenate([np.ones(len(below), dtype=np.int64), np.full(inner.nnz, -1, dtype=np.int64)])
        relations.append(matrix_of(values, rows, columns, (len(below), size)))
    matrix = scipy.sparse.csr_array(scipy.sparse.vstack(relations)).astype(np.int64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix = scipy.sparse.csr_array(matrix[np.diff(matrix.indptr) > 0])
    return tuple(variables), matrix, classes


def over_variables(cells: Cells, variables: Ints, size: int) -> Matrix:
    """The relations of a table's cells, over variables instead of cells."""
    entries = cells.relations.tocoo()
    shape = (cells.relations.shape[0], size)
    return matrix_of(entries.data, entries.row.astype(np.int64), variables[entries.col], shape)


def _joined(one: ImpliedPopulations, other: ImpliedPopulations) -> ImpliedPopulations:
    sets = scipy.sparse.csr_array(scipy.sparse.vstack([one.sets, other.sets])).astype(np.int64)
    return ImpliedPopulations(np.concatenate([one.of, other.of]), sets, np.concatenate([one.expanded, other.expanded]))
