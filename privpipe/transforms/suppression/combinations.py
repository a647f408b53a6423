"""Distinct combinations as the rule of suppression sees them, and the class table they make at some levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Histogram
from privpipe.blocks.held_values import HeldValues
from privpipe.blocks.label_information import INFORMATION

__all__ = ["Classes", "Combinations", "Counted", "Persons", "apart_by_person"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Persons:
    """Whom the combinations are about, where one person may have several of them.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Number of the person; combinations of the same person share it.
    counts : ndarray of int64, shape (t,)
        Persons a combination stands for: more than 1 only where none of them has another one.
    """

    numbers: Ints = field(repr=False)
    counts: Ints = field(repr=False)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Places of the combinations by person."""
        return np.argsort(self.numbers, kind="stable")


@dataclass(frozen=True)
class Combinations:
    """Distinct combinations of quasi-identifiers and sensitive values.

    Parameters
    ----------
    counts : ndarray of int64, shape (t,)
        Records of each.
    sensitive : mapping of column to ndarray of int64, shape (t,)
        Codes of sensitive values: positions in the base distribution where there is one.
    persons : Persons, optional
        Whom to count instead of records; a combination then occurs once a person, or once for all who have no other.
    """

    counts: Ints
    sensitive: Mapping[str, Ints] = field(default_factory=dict)
    persons: Persons | None = None

    def take(self, some: NDArray[np.intp], *, sensitive: bool = True) -> Combinations:
        """Some of them; without `sensitive`, without their values."""
        kept = {column: codes[some] for column, codes in self.sensitive.items()} if sensitive else {}
        who = self.persons
        persons = None if who is None else Persons(who.numbers[some], who.counts[some])
        return Combinations(self.counts[some], kept, persons)

    @cached_property
    def by_code(self) -> Mapping[str, NDArray[np.intp]]:
        """Places of the combinations in the order of each sensitive column's codes, then of persons."""
        if self.persons is None:
            return {column: np.argsort(codes, kind="stable") for column, codes in self.sensitive.items()}
        return {column: np.lexsort((self.persons.numbers, codes)) for column, codes in self.sensitive.items()}

    @cached_property
    def owners(self) -> Mapping[str, Ints]:
        """Of each sensitive column, a number for each pair of value and person."""
        found: dict[str, Ints] = {}
        if self.persons is None:
            return found
        for column, order in self.by_code.items():
            codes, numbers = self.sensitive[column][order], self.persons.numbers[order]
            fresh = np.ones(len(order), dtype=np.int64)
            fresh[1:] = (codes[1:] != codes[:-1]) | (numbers[1:] != numbers[:-1])
            found[column] = np.empty(len(order), dtype=np.int64)
            found[column][order] = np.cumsum(fresh)
        return found


@dataclass(frozen=True)
class Classes:
    """The classes over one set of keys.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Class of each combination.
    count : int
        Classes, those of a population without a combination among them.
    population : ndarray of int64, shape (count,), or None
        F_c, records of the population in each class.
    information : ndarray of float64, shape (t,), or None
        What the labels of each combination lose, the same throughout a class.
    """

    numbers: Ints
    count: int
    population: Ints | None = None
    information: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Counted:
    """What is left of some combinations, counted by class: in records, or in persons where they are distinguished.

    Parameters
    ----------
    left : ndarray of int64, shape (t,)
        Records of each combination that form classes.
    sizes : ndarray of int64, shape (classes.count,)
    """

    rows: Combinations
    classes: Classes
    left: Ints = field(repr=False)
    sizes: Ints = field(repr=False)

    @classmethod
    def of(cls, rows: Combinations, classes: Classes, gone: NDArray[np.bool_]) -> Counted:
        """Count the combinations that are not gone."""
        from privpipe.kernels.classes.persons import counted_once
        from privpipe.kernels.lattice.tuple_classes import class_totals

        left = np.where(gone, 0, rows.counts)
        who = rows.persons
        adds = left
        if who is not None:
            adds = counted_once(classes.numbers, classes.count, who.order, who.numbers, who.counts, left)
        return cls(rows, classes, left, class_totals(classes.numbers, classes.count, adds))

    def block(self, models: Sequence[ClassModel], facts: Facts) -> tuple[NDArray[np.bool_], ClassBlock, Facts]:
        """Which classes have something left, the class table of these, and the facts to read it by."""
        present = self.sizes > 0
        cells, held = {}, {}
        for column in dict.fromkeys(column for model in models for column in model.sensitive_columns()):
            found = self._cells(column)
            cells[column] = found if present.all() else found.take(present)
            if self.rows.persons is not None:
                held[column] = self._held(column, self.rows.persons).take(present)
        if self.classes.information is not None:
            cells[INFORMATION], facts = self._information(self.classes.information, present, facts)
        population = None if self.classes.population is None else self.classes.population[present]
        return present, ClassBlock(self.sizes[present], cells, population=population, held=held), facts

    def strangers(self) -> ClassBlock:
        """The classes of the population without a record."""
        assert self.classes.population is not None
        alone = (self.sizes == 0) & (self.classes.population > 0)
        return ClassBlock(self.sizes[alone], population=self.classes.population[alone])

    def _cells(self, column: str) -> Cells:
        from privpipe.kernels.classes.persons import counted_once
        from privpipe.kernels.lattice.tuple_classes import class_cells

        rows, numbers, count = self.rows, self.classes.numbers, self.classes.count
        codes, order, adds = rows.sensitive[column], rows.by_code[column], self.left
        if rows.persons is not None:
            adds = counted_once(numbers, count, order, rows.owners[column], rows.persons.counts, self.left)
        return Cells(*class_cells(numbers, count, order, codes, adds))

    def _held(self, column: str, who: Persons) -> HeldValues:
        there = self.left > 0
        codes = self.rows.sensitive[column]
        return HeldValues(self.classes.numbers[there], who.numbers[there], codes[there], who.counts[there])

    def _information(
        self, information: NDArray[np.float64], present: NDArray[np.bool_], facts: Facts
    ) -> tuple[Cells, Facts]:
        """One cell a class: the place of its loss among all that occur."""
        import pyarrow as pa

        of_class = np.zeros(self.classes.count)
        of_class[self.classes.numbers] = information
        values, codes = np.unique(of_class[present], return_inverse=True)
        sizes = self.sizes[present]
        histogram = Histogram(pa.array(values), np.bincount(codes, minlength=len(values)).astype(np.int64))
        cells = Cells(np.arange(len(sizes) + 1, dtype=np.int64), codes.astype(np.int64), sizes)
        return cells, replace(facts, histograms={**facts.histograms, INFORMATION: histogram})


def apart_by_person(combinations: Ints, persons: Ints, counts: Ints) -> tuple[NDArray[np.intp], Ints, Persons]:
    """Combinations by person, those who have but one combination together: it is enough to know how many they are.

    Parameters
    ----------
    combinations : ndarray of int64, shape (n,)
        Number of the combination of each pair (combination, person), none twice.
    persons : ndarray of int64, shape (n,)
        Number of its person, from 0 on.
    counts : ndarray of int64, shape (n,)
        Its records.

    Returns
    -------
    (ndarray of int64, shape (t,), ndarray of int64, shape (t,), Persons)
        Pairs that stand for all, ascending; their records; whom they are about.

    Examples
    --------
    >>> kept, counts, who = apart_by_person(np.array([0, 0, 0, 1]), np.array([5, 6, 7, 7]), np.array([1, 1, 2, 4]))
    >>> kept.tolist(), counts.tolist(), who.counts.tolist()
    ([0, 2, 3], [2, 2, 4], [2, 1, 1])
    """
    alone = np.bincount(persons)[persons] == 1 if len(persons) else np.zeros(0, dtype=np.bool_)
    single = np.flatnonzero(alone)
    _, first, owner = np.unique(combinations[single], return_index=True, return_inverse=True)
    total, people = counts.copy(), np.ones(len(counts), dtype=np.int64)
    heads = single[first]
    total[heads] = 0
    np.add.at(total, heads[owner], counts[single])
    people[heads] = np.bincount(owner, minlength=len(heads))
    chosen = ~alone
    chosen[heads] = True
    kept = np.flatnonzero(chosen)
    return kept, total[kept], Persons(persons[kept].astype(np.int64), people[kept])
