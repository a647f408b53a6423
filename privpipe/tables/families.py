"""Families of figures: one measure over all tables of a release, as its readers see it together, overlapping
parts too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Insider, Integers, Levels, Matrix, matrix_of
from privpipe.tables.cells import Cells, Dimension, LinkedCells, linked
from privpipe.tables.implied_populations import ImpliedPopulations, implied_populations
from privpipe.tables.primary_rules import Rule, Settings, of_implied, of_noisy, protection_levels
from privpipe.tables.table import Measure, Table

__all__ = [
    "Contributions",
    "Family",
    "Members",
    "added_up",
    "expanded",
    "families",
    "leaves_of_labels",
    "merged_levels",
    "with_overlaps",
]


@dataclass(frozen=True, repr=False)
class Members:
    """Persons, the leaf cell of a table that each of their records is in, and their contributions.

    Parameters
    ----------
    persons, leaves, values : ndarray of int64, shape (n,)
        One row for each person and leaf cell; of a count the values are 1.
    waived : ndarray of int64, shape (n,), optional
        1 where the protection of the contribution is waived; None: of none.
    """

    persons: Ints
    leaves: Ints
    values: Ints
    waived: Ints | None = None

    def __len__(self) -> int:
        return len(self.persons)


@dataclass(frozen=True, repr=False)
class Contributions:
    """Figures of some sets of persons, each person's contributions to a set added first.

    Parameters
    ----------
    contributors, totals, magnitudes, negative, nonzero, single : ndarray of int64, shape (sets,)
        As in `CellFigures`.
    largest, holders : ndarray of int64, shape (sets, m)
    unwaived : ndarray of int64, shape (sets,), optional
    """

    contributors: Ints
    totals: Ints
    magnitudes: Ints
    negative: Ints
    nonzero: Ints
    single: Ints
    largest: Ints
    holders: Ints
    unwaived: Ints | None = None


def ancestors(dimension: Dimension) -> Ints:
    """For each label itself and the labels above it, -1 where there is none left; shape (labels, levels)."""
    depth = int(dimension.depth.max(initial=0)) + 1
    found = np.full((len(dimension.labels), depth), -1, dtype=np.int64)
    parent = np.asarray(dimension.parent, dtype=np.int64)
    code = np.arange(len(dimension.labels))
    for step in range(depth):
        found[:, step] = code
        code = np.where(code >= 0, parent[code], -1)
    return found


def expanded(cells: Cells, leaves: Ints) -> tuple[Ints, Ints]:
    """Each of some cells with every cell that it is in, itself too: place in `leaves`, and cell.

    Raises
    ------
    DataError
        The table does not hold all combinations of its labels in their order.
    """
    if not np.array_equal(cells.keys, np.arange(len(cells))):
        raise DataError("a table of a ledger must hold every combination of labels")
    rows, keys = np.arange(len(leaves)), np.zeros(len(leaves), dtype=np.int64)
    for place, dimension in enumerate(cells.dimensions):
        above = ancestors(dimension)[cells.codes[leaves[rows], place]]
        one, depth = np.nonzero(above >= 0)
        rows, keys = rows[one], keys[one] * len(dimension.labels) + above[one, depth]
    return rows, keys


def leaves_of_labels(own: Cells, leaves: Ints, other: Cells) -> tuple[Ints, NDArray[np.bool_]]:
    """The leaf cell of another table that each of some leaf cells is in by its labels, and whether these say it.

    Returns
    -------
    cells : ndarray of int64
        -1 where the other table's `only` leaves it out, and where the labels do not say.
    known : ndarray of bool
    """
    names = [dimension.name for dimension in own.dimensions]
    found, known = np.zeros(len(leaves), dtype=np.int64), np.ones(len(leaves), dtype=np.bool_)
    inside = np.ones(len(leaves), dtype=np.bool_)
    for dimension in other.dimensions:
        lowest = {dimension.labels[code]: code for code in dimension.leaves.tolist()}
        code = np.full(len(leaves), lowest.get(own.only.get(dimension.name, ""), -1), dtype=np.int64)
        if dimension.name in names:
            place = names.index(dimension.name)
            labels = own.dimensions[place].labels
            above = ancestors(own.dimensions[place])
            book = [[lowest.get(labels[each], -1) for each in path if each >= 0] for path in above.tolist()]
            code = np.array([max(each) for each in book], dtype=np.int64)[own.codes[leaves, place]]
        known &= code >= 0
        found = found * len(dimension.labels) + np.maximum(code, 0)
    for column, label in other.only.items():
        if column in names:
            place = names.index(column)
            labels = own.dimensions[place].labels
            above = ancestors(own.dimensions[place])
            bears = np.array([any(each >= 0 and labels[each] == label for each in path) for path in above.tolist()])
            inside &= bears[own.codes[leaves, place]]
        elif column in own.only:
            inside &= own.only[column] == label
        else:
            known &= False
    return np.where(known & inside, found, -1), known


def added_up(
    sets: Ints, persons: Ints, values: Ints, size: int, most: int, waived: Ints | None = None
) -> Contributions:
    """Figures of sets from rows of set, person and value.

    Parameters
    ----------
    size : int
        Number of sets.
    most : int
        Largest contributions that are kept of each.
    waived : ndarray of int64, optional
        1 where a row's protection is waived; a person's is if that of all its rows in a set is.
    """
    order = np.lexsort((persons, sets))
    sets, persons, values = sets[order], persons[order], values[order]
    waived = None if waived is None else waived[order]
    first = np.flatnonzero((np.diff(sets, prepend=-1) != 0) | (np.diff(persons, prepend=-1) != 0))
    if len(first):
        sets, persons, values = sets[first], persons[first], np.add.reduceat(values, first)
        waived = None if waived is None else np.minimum.reduceat(waived, first)
    codes = persons + 1
    contributors = np.bincount(sets, minlength=size).astype(np.int64)
    arrays = {name: np.zeros(size, dtype=np.int64) for name in ("totals", "magnitudes", "single")}
    np.add.at(arrays["totals"], sets, values)
    np.add.at(arrays["magnitudes"], sets, np.abs(values))
    np.maximum.at(arrays["single"], sets, codes)
    arrays["single"][contributors != 1] = 0
    largest, holders = (np.zeros((size, most), dtype=np.int64) for _ in range(2))
    order = np.lexsort((codes, -np.abs(values), sets))
    ranked = sets[order]
    rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    chosen = (rank < most) & (values[order] != 0)
    largest[ranked[chosen], rank[chosen]] = np.abs(values[order])[chosen]
    holders[ranked[chosen], rank[chosen]] = codes[order][chosen]
    unwaived = None
    if waived is not None:
        unwaived = np.full(size, -1, dtype=np.int64)
        np.maximum.at(unwaived, sets[waived == 0], np.abs(values[waived == 0]))
    return Contributions(
        contributors=contributors,
        unwaived=unwaived,
        negative=np.bincount(sets[values < 0], minlength=size).astype(np.int64),
        nonzero=np.bincount(sets[values != 0], minlength=size).astype(np.int64),
        largest=largest,
        holders=holders,
        **arrays,
    )


def with_overlaps(cells: LinkedCells, true: Integers | None = None) -> tuple[Matrix, Integers | None]:
    """The relations of some tables, and for each total along an overlapping dimension: part <= total <= sum of parts.

    Each inequality has one more variable, which is at least 0.

    Parameters
    ----------
    true : ndarray of int64, shape (variables,), optional

    Returns
    -------
    csr_array
        Over the variables of the cells, then those of inequalities.
    ndarray of int64 or None
        The true figures of the latter, where the others are known.
    """
    overlaps = overlaps_of(cells)
    if not overlaps.shape[0]:
        return cells.relations, None if true is None else np.empty(0, dtype=np.int64)
    entries = overlaps.tocoo()
    rows, size = overlaps.shape
    whole = np.zeros(rows, dtype=np.int64)
    whole[entries.row[entries.data > 0]] = entries.col[entries.data > 0]
    part = np.flatnonzero(entries.data < 0)
    every, pairs = np.arange(rows), np.arange(len(part))
    above, below = whole[entries.row[part]], entries.col[part].astype(np.int64)
    ones = np.ones(len(part), dtype=np.int64)
    more = rows + len(part)
    # Total - parts + slack = 0, and total - part - slack = 0.
    inequalities = matrix_of(
        np.concatenate([entries.data, np.ones(rows, dtype=np.int64), ones, -ones, -ones]),
        np.concatenate([entries.row.astype(np.int64), every, rows + pairs, rows + pairs, rows + pairs]),
        np.concatenate([entries.col.astype(np.int64), size + every, above, below, size + rows + pairs]),
        (more, size + more),
    )
    own = cells.relations.tocoo()
    shape = (cells.relations.shape[0], size + more)
    wider = matrix_of(own.data, own.row.astype(np.int64), own.col.astype(np.int64), shape)
    distances = None
    if true is not None:
        distances = np.concatenate([-(overlaps @ true), true[above] - true[below]]).astype(np.int64)
    return scipy.sparse.csr_array(scipy.sparse.vstack([wider, inequalities])), distances


def overlaps_of(cells: LinkedCells) -> Matrix:
    """Totals along overlapping dimensions and their parts, over all variables."""
    parts = []
    for table, variables in zip(cells.tables, cells.variables, strict=True):
        entries = table.overlaps.tocoo()
        shape = (table.overlaps.shape[0], cells.size)
        parts.append(matrix_of(entries.data, entries.row.astype(np.int64), variables[entries.col], shape))
    return scipy.sparse.csr_array(scipy.sparse.vstack(parts))


MOST = UNBOUNDED // 4
"""Absolute values up to which bounds and levels are handed to the audit."""


@dataclass(frozen=True, eq=False)
class Family:
    """One measure over the tables that show it.

    Parameters
    ----------
    key : str
        `COUNT`, or the column that is added up.
    tables : tuple of Table
        Those that are published, and at the end the joint table of all, if there is one.
    published : int
        How many of them are published.
    cells : LinkedCells
        Cells with the same restriction are one variable.
    """

    key: str
    tables: tuple[Table, ...]
    published: int
    cells: LinkedCells

    @property
    def new(self) -> int:
        """How many of its tables are of the release that is judged; they come first."""
        return self.published

    @property
    def follows_persons(self) -> bool:
        """Whether codes of contributors are those of one person in all tables."""
        return False

    @property
    def whole(self) -> bool:
        """Whether figures are whole numbers for anyone who reads them."""
        return self.key == COUNT and self.measures[0].places == 0

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        return tuple(table.measures[self.key] for table in self.tables)

    @property
    def additive(self) -> bool:
        """Whether parts add up to their totals, along all dimensions."""
        return self.key != COUNT or all(measure.figures.additive for measure in self.measures)

    @property
    def adds_up(self) -> bool:
        """Whether parts add up to their totals along some dimension, so that hidden parts imply a population."""
        return self.additive or bool(self._equalities.any())

    @cached_property
    def _equalities(self) -> Bools:
        """Relations along dimensions of which no contributor is in two labels, as readers know of a region.

        A dimension that is one in some tables and not in others is not.
        """
        names = sorted({dimension.name for table in self.tables for dimension in table.cells.dimensions})
        along = np.concatenate([table.cells.relations_along(names) for table in self.tables])
        overlapping = along[self.cells.relations @ self.true != 0].any(axis=0)
        return np.asarray(~along[:, overlapping].any(axis=1), dtype=np.bool_)

    @cached_property
    def true(self) -> Ints:
        """The true figure of each variable."""
        found = np.zeros(self.cells.size, dtype=np.int64)
        for measure, variable in zip(self.measures, self.cells.variables, strict=True):
            found[variable] = measure.figures.totals
        return found

    @cached_property
    def hidden(self) -> Bools:
        """Variables that no table publishes."""
        found = np.ones(self.cells.size, dtype=np.bool_)
        for measure, variable in self._shown():
            found[variable[~measure.hidden]] = False
        return found

    @cached_property
    def known_empty(self) -> Bools:
        """Variables of combinations without a contributor, which readers are taken to know.

        Those of the joint table whose cell in each published table is shown, or is not empty: a hidden empty cell is
        not known to be so.
        """
        found = np.zeros(self.cells.size, dtype=np.bool_)
        for at in range(self.published, len(self.tables)):
            own = self.tables[at].cells
            lowest = [np.isin(own.codes[:, place], each.leaves) for place, each in enumerate(own.dimensions)]
            empty = np.logical_and.reduce(lowest) & (self.measures[at].figures.contributors == 0)
            leaves = np.flatnonzero(empty)
            open_ = np.zeros(len(leaves), dtype=np.bool_)
            for table, measure in zip(self.tables[: self.published], self.measures, strict=False):
                cell, known = leaves_of_labels(own, leaves, table.cells)
                blank = measure.hidden & (measure.figures.contributors == 0)
                open_ |= known & (cell >= 0) & blank[np.maximum(cell, 0)]
            found[self.cells.variables[at][leaves[~open_]]] = True
        return found

    @cached_property
    def unseen(self) -> Bools:
        """Variables that are in no published table."""
        found = np.ones(self.cells.size, dtype=np.bool_)
        for variable in self.cells.variables[: self.published]:
            found[variable] = False
        return found

    def _shown(self) -> Iterator[tuple[Measure, Ints]]:
        yield from zip(self.measures[: self.published], self.cells.variables[: self.published], strict=True)

    @cached_property
    def least(self) -> int | None:
        """What readers know no figure to be below; None: nothing."""
        return None if any((measure.figures.negative > 0).any() for measure in self.measures) else 0

    def bounds(self, prior: Fraction | None = None) -> tuple[Ints, Ints]:
        """What a reader knows of each variable before relations; by `prior` each hidden figure to within that share."""
        low = np.full(self.cells.size, UNBOUNDED if self.least is None else self.least, dtype=np.int64)
        high = np.full(self.cells.size, UNBOUNDED, dtype=np.int64)
        if prior is not None:
            away = _products(np.abs(self.true), prior.numerator)
            below = _products(self.true, prior.denominator) - away
            above = _products(self.true, prior.denominator) + away
            low_known = np.array([-(-int(each) // prior.denominator) for each in below], dtype=np.int64)
            high_known = np.array([int(each) // prior.denominator for each in above], dtype=np.int64)
            low = low_known if self.least is None else np.maximum(low, low_known)
            high = high_known
        for measure, variable in self._shown():
            shown = np.flatnonzero(~measure.hidden)
            at = variable[shown]
            low[at] = np.where(low[at] == UNBOUNDED, measure.low[shown], np.maximum(low[at], measure.low[shown]))
            high[at] = np.minimum(high[at], measure.high[shown])
            if measure.blank is not None:
                gone = np.flatnonzero(measure.hidden)
                at, (least, most) = variable[gone], measure.blank
                low[at] = np.where(low[at] == UNBOUNDED, least[gone], np.maximum(low[at], least[gone]))
                high[at] = np.minimum(high[at], most[gone])
        low[self.known_empty] = high[self.known_empty] = 0
        exact = np.flatnonzero(~self.hidden)
        crossed = int((low[exact] > high[exact]).sum())
        if crossed:
            raise DataError(f"{crossed:,} cells are published with figures that no table can have together")
        return low, high

    def problem(
        self, levels: Levels, *, prior: Fraction | None, knowing: Sequence[Insider], implied: Bools
    ) -> AuditProblem:
        """What a reader sees of the family, and what must not be inferable from it."""
        low, high = self.bounds(prior)
        relations, slack = self._relations()
        size = relations.shape[1]
        spare = np.full(size - len(high), UNBOUNDED, dtype=np.int64)
        if not self.additive:
            spare[: len(self._equalities)][self._equalities] = 0
        return AuditProblem(
            relations=relations,
            low=np.concatenate([low, np.zeros(size - len(low), dtype=np.int64)]),
            high=np.concatenate([high, spare]),
            whole=self.whole,
            true=np.concatenate([self.true, slack]),
            levels=levels,
            knowing=tuple(knowing),
            implied=implied,
        )

    def _relations(self) -> tuple[scipy.sparse.csr_array, Ints]:
        """Relations of the variables; where parts overlap, with one slack variable for each inequality."""
        if self.additive:
            matrix, distances = (
                with_overlaps(self.cells, self.true) if self.least == 0 else (self.cells.relations, None)
            )
            return matrix, np.empty(0, dtype=np.int64) if distances is None else distances
        matrix = scipy.sparse.csr_array(scipy.sparse.vstack([self.cells.relations, overlaps_of(self.cells)]))
        entries = matrix.tocoo()
        rows, size = matrix.shape
        parent = np.full(rows, -1, dtype=np.int64)
        parent[entries.row[entries.data > 0]] = entries.col[entries.data > 0]
        child = np.flatnonzero(entries.data < 0)
        kept = child[parent[entries.row[child]] >= 0]
        # Total - parts + slack = 0, and total - part - slack = 0: the largest part <= total <= the sum of the parts.
        every = np.arange(rows)
        pairs = np.arange(len(kept))
        row = np.concatenate([entries.row, every, rows + pairs, rows + pairs, rows + pairs])
        column = np.concatenate(
            [entries.col, size + every, parent[entries.row[kept]], entries.col[kept], size + rows + pairs]
        )
        ones = np.ones(len(kept), dtype=np.int64)
        data = np.concatenate([entries.data, np.ones(rows, dtype=np.int64), ones, -ones, -ones])
        shape = (rows + len(kept), size + rows + len(kept))
        whole = matrix_of(data, row.astype(np.int64), column.astype(np.int64), shape)
        spare = -(matrix @ self.true)
        gaps = self.true[parent[entries.row[kept]]] - self.true[entries.col[kept]]
        return whole, np.concatenate([spare, gaps]).astype(np.int64)

    @cached_property
    def populations(self) -> ImpliedPopulations:
        """Sets of hidden variables whose sum follows from published ones."""
        return implied_populations(self.cells, self.hidden, empty=self.known_empty, unseen=self.unseen)

    def with_populations(self, populations: ImpliedPopulations) -> Family:
        """The same family with other sets of hidden variables."""
        other = Family(self.key, self.tables, self.published, self.cells)
        other.__dict__["populations"] = populations
        return other

    def knowing(self, determined: Ints) -> Family:
        """The same family for a reader who has computed some of its hidden variables."""
        still = self.hidden.copy()
        still[determined[determined < len(still)]] = False
        return self.with_populations(
            implied_populations(self.cells, still, empty=self.known_empty & still, unseen=self.unseen)
        )

    def implied_figures(self) -> CellFigures | None:
        """Figures of the implied populations; None where there is none.

        Where contributors may be in several cells of one set, the contributors are the fewest, and the largest
        contributions the greatest, that they can be.
        """
        if not len(self.populations):
            return None
        others = {column: self._implied(column) for column in self.measures[0].figures.others}
        return replace(self._implied(None), others=others)

    def _implied(self, holding: str | None) -> CellFigures:
        """The same of contributors, or of the values of a column in their place."""
        sets, figures = self.populations, self._figures(holding)
        apart = figures.additive
        sums: dict[str, Any] = {
            name: sets.sums(getattr(figures, name)) for name in ("totals", "magnitudes", "records", "negative")
        }
        joined = sets.sums if apart else sets.greatest
        contributors, nonzero = joined(figures.contributors), joined(figures.nonzero)
        if figures.unwaived is not None:
            unwaived = sets.greatest(figures.unwaived)
            if not apart:  # one contributor may have the largest of every cell
                unwaived = np.where(unwaived < 0, -1, sets.sums(np.maximum(figures.unwaived, 0)))
        weighted = figures.weighted
        if apart and weighted is None:
            largest, holders = sets.largest(figures.largest, figures.holders)
        else:
            largest = np.column_stack([sets.sums(each) for each in figures.largest.T]).astype(np.int64)
            holders = np.zeros_like(largest)
            if weighted is not None:
                weighted = np.column_stack([sets.sums(each) for each in weighted.T]).astype(np.int64)
        labels = tuple(map(str, range(len(sets) + 1)))
        dimension = Dimension("implied", labels, (-1, *(0 for _ in labels[1:])))
        return replace(
            figures,
            cells=Cells((dimension,), np.arange(1, len(sets) + 1, dtype=np.int64)[:, None]),
            contributors=contributors,
            nonzero=nonzero,
            largest=largest,
            holders=holders,
            weighted=weighted,
            single=np.zeros(len(sets), dtype=np.int64),
            population=None if figures.population is None else joined(figures.population),
            unwaived=None if figures.unwaived is None else unwaived,
            **sums,
        )

    def _figures(self, holding: str | None = None) -> CellFigures:
        """Figures of the variables."""
        every = [each.figures if holding is None else each.figures.others[holding] for each in self.measures]
        first = every[0]
        labels = tuple(map(str, range(self.cells.size)))
        dimension = Dimension("variable", labels, (-1, *(0 for _ in labels[1:])))
        most = min(each.largest.shape[1] for each in every)
        arrays: dict[str, Any] = {}
        for name in ("contributors", "records", "totals", "magnitudes", "negative", "nonzero", "single"):
            arrays[name] = np.zeros(self.cells.size, dtype=np.int64)
        for name in ("largest", "holders", "weighted"):
            if getattr(first, name) is not None:
                arrays[name] = np.zeros((self.cells.size, most), dtype=np.int64)
        for name in ("population", "unwaived"):
            if getattr(first, name) is not None:
                arrays[name] = np.zeros(self.cells.size, dtype=np.int64)
        for figures, variable in zip(every, self.cells.variables, strict=True):
            for name, array in arrays.items():
                given = getattr(figures, name)
                array[variable] = given[:, :most] if array.ndim == 2 else given
        cells = Cells((dimension,), np.arange(self.cells.size, dtype=np.int64)[:, None])
        additive = all(each.additive for each in every)
        return replace(first, cells=cells, additive=additive, others={}, **arrays)

    def implied_failures(self, rules: Iterable[Rule]) -> Bools:
        """Which implied populations the primary rules call unsafe."""
        figures = self.implied_figures()
        if figures is None:
            return np.zeros(0, dtype=np.bool_)
        found = np.zeros(len(figures), dtype=np.bool_)
        for rule in rules:
            found |= of_implied(rule).unsafe(figures)
        return found

    def levels(self, rules: Mapping[str, Sequence[Rule]], settings: Settings) -> Levels:
        """Levels of the variables that the rules of each table call unsafe."""
        parts = []
        for table, measure, variable in zip(self.tables, self.measures, self.cells.variables, strict=False):
            own = rules.get(table.name, ())
            if measure.noise is not None:
                own = [of_noisy(each) for each in own]
            if own:
                made = protection_levels(own, measure.figures, settings)
                parts.append(replace(made, variables=variable[made.variables]))
        return merged_levels(parts)


def merged_levels(parts: Sequence[Levels]) -> Levels:
    """Levels of several sources: the greatest for each variable."""
    denominator = lcm(*(part.denominator for part in parts)) if parts else 1
    variables = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(part.variables for part in parts)]))
    sides = {name: np.zeros(len(variables), dtype=np.int64) for name in ("lower", "upper", "span")}
    for part in parts:
        factor = denominator // part.denominator
        at = np.searchsorted(variables, part.variables)
        for name, side in sides.items():
            values = _products(getattr(part, name), factor)
            if len(values) and max(abs(int(each)) for each in (values.min(), values.max())) > MOST:
                raise DataError("protection levels exceed integers of 64 bits; declare fewer `decimals`")
            np.maximum.at(side, at, values.astype(np.int64))
    return Levels(variables.astype(np.int64), sides["lower"], sides["upper"], sides["span"], denominator)


def _products(values: Ints, factor: int) -> NDArray[np.object_] | Ints:
    most = int(np.abs(values).max(initial=0))
    return values * np.int64(factor) if most * factor < MOST else values.astype(object) * factor


def families(tables: Mapping[str, Table], joint: Table | None = None) -> Iterator[Family]:
    """The families of tables of one release.

    Parameters
    ----------
    joint : Table, optional
        All combinations of the dimensions of all tables, never published: it shows how their
        populations are nested.
    """
    for key in dict.fromkeys(key for table in tables.values() for key in table.shown_measures):
        own = [table for table in tables.values() if key in table.shown_measures]
        every = own if joint is None else [*own, joint]
        yield Family(key, tuple(every), len(own), linked([table.cells for table in every]))
