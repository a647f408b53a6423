"""Distinct combinations as the rule of suppression reads them: counted over a table, and the class table they make at
some levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import (
    Cells,
    ClassBlock,
    ClassModel,
    Facts,
    FactsRequest,
    Guarantee,
    Histogram,
    Primitives,
    RowBlock,
    prepared,
)
from privpipe.blocks.arrays import Bools, Codes, Floats, Ints
from privpipe.blocks.class_block import INFORMATION, HeldValues
from privpipe.errors import DataError
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.judged_sets import JudgedSets, Keys

__all__ = [
    "Classes",
    "Combinations",
    "Counted",
    "CountedTable",
    "Persons",
    "apart_by_person",
    "count_combinations",
    "person_numbers",
    "sensitive_codes",
    "text_ranks",
]


@dataclass(frozen=True)
class Persons:
    """The persons of the combinations, where one person may have several of them.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Number of the person; combinations of the same person share it.
    counts : ndarray of int64, shape (t,)
        Persons that a combination represents: more than 1 only where none of them has another one.
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
        What to count instead of records; a combination then occurs once per person, or once for all who have no other.
    """

    counts: Ints
    sensitive: Mapping[str, Ints] = field(default_factory=dict)
    persons: Persons | None = None

    def take(self, some: NDArray[np.intp]) -> Combinations:
        """Some of them."""
        kept = {column: codes[some] for column, codes in self.sensitive.items()}
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
        """For each sensitive column, a number for each pair of value and person."""
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
    information: Floats | None = None


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
    def of(cls, rows: Combinations, classes: Classes, gone: Bools) -> Counted:
        """Count the combinations that are not gone."""
        from privpipe.kernels.classes.cells import counted_once
        from privpipe.kernels.lattice.node_classes import class_totals

        left = np.where(gone, 0, rows.counts)
        who = rows.persons
        adds = left
        if who is not None:
            adds = counted_once(classes.numbers, classes.count, who.order, who.numbers, who.counts, left)
        return cls(rows, classes, left, class_totals(classes.numbers, classes.count, adds))

    def block(self, models: Sequence[ClassModel], facts: Facts) -> tuple[Bools, ClassBlock, Facts]:
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
        from privpipe.kernels.classes.cells import counted_once
        from privpipe.kernels.lattice.node_classes import class_cells

        rows, numbers, count = self.rows, self.classes.numbers, self.classes.count
        codes, order, adds = rows.sensitive[column], rows.by_code[column], self.left
        if rows.persons is not None:
            adds = counted_once(numbers, count, order, rows.owners[column], rows.persons.counts, self.left)
        return Cells(*class_cells(numbers, count, order, codes, adds))

    def _held(self, column: str, who: Persons) -> HeldValues:
        there = self.left > 0
        codes = self.rows.sensitive[column]
        return HeldValues(self.classes.numbers[there], who.numbers[there], codes[there], who.counts[there])

    def _information(self, information: Floats, present: Bools, facts: Facts) -> tuple[Cells, Facts]:
        """One cell per class: the place of its loss among all that occur."""
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
        Pairs that represent all, ascending; their records; their persons.

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


@dataclass(frozen=True)
class CountedTable:
    """Combinations of a table, its classes over every judged set, and the facts to judge them by.

    Parameters
    ----------
    keys : pyarrow.Table
        Quasi-identifiers of each combination.
    codes : mapping of column to ndarray of int32
        Rank of each of their texts, null last.
    rows : Combinations
    classes : mapping of keys to Classes
    facts : Facts
    """

    keys: Any = field(repr=False)
    codes: Mapping[str, Codes] = field(repr=False)
    rows: Combinations = field(repr=False)
    classes: Mapping[Keys, Classes] = field(repr=False)
    facts: Facts = field(repr=False)


def count_combinations(engine: Primitives, table: Any, sets: JudgedSets, context: StageContext) -> CountedTable | None:
    """Count a table, and the population where one is compared with, in one group-by each; None without records.

    Raises
    ------
    DataError
        A record without a person, a value that the base distribution lacks.
    """
    from privpipe.kernels.lattice.node_classes import class_numbers, class_totals

    columns = sets.columns or tuple(table.schema.names[:1])  # one class of all records has no key
    person = [] if sets.person is None else [sets.person]
    found = engine.distinct(table, list(dict.fromkeys([*columns, *sets.sensitive, *person])))
    if not found.num_rows:
        return None
    rows, found = _combinations(
        found,
        {column: sensitive_codes(found[column], column, context.base) for column in sets.sensitive},
        list(dict.fromkeys([*columns, *sets.sensitive])),
        sets.person,
    )
    keys = found.select(list(columns))
    population, theirs = _population(engine, sets, context)
    codes, lookups = {}, {}
    for place, column in enumerate(columns):
        beside = population[column] if column in population.schema.names else None
        codes[column], labels = _text_codes(keys[column], beside, column, len(theirs))
        lookups[column] = place, np.arange(labels), labels
    matrix = np.stack(list(codes.values()), axis=1)
    facts = _facts(engine, table, sets, context)
    classes = {}
    for names in sets.keys:
        compared = names in sets.compared
        joint, count = class_numbers(matrix if compared else matrix[: len(keys)], [lookups[name] for name in names])
        classes[names] = Classes(
            joint[: len(keys)],
            count,
            class_totals(joint[len(keys) :], count, theirs) if compared else None,
            _information(sets, names, keys, facts) if names in sets.labels else None,
        )
    return CountedTable(keys, {column: each[: len(keys)] for column, each in codes.items()}, rows, classes, facts)


def person_numbers(values: Any, column: str) -> Ints:
    """A number for each person.

    Parameters
    ----------
    values : pyarrow.ChunkedArray

    Raises
    ------
    DataError
        A record without one.
    """
    encoded = values.combine_chunks().dictionary_encode()
    if encoded.null_count:
        raise DataError(f"person column {column!r} has missing values; a record needs a person to be counted by")
    found: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def sensitive_codes(values: Any, column: str, facts: Facts) -> Ints:
    """Codes of sensitive values: positions in the base distribution where there is one.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray

    Raises
    ------
    DataError
        A value that the base lacks.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if column not in facts.histograms:
        codes = array.dictionary_encode(null_encoding="encode").indices
        return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)
    found = pc.index_in(array, value_set=facts.histograms[column].values.cast(array.type))
    if found.null_count:
        raise DataError(f"the base distribution of {column!r} does not cover the values of the table")
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def text_ranks(texts: Sequence[str | None]) -> Ints:
    """Rank of each text by code points, null last; equal texts share one.

    Examples
    --------
    >>> text_ranks(["b", None, "a", "b"]).tolist()
    [1, 2, 0, 1]
    """
    known = sorted({text for text in texts if text is not None})
    ranks = {text: rank for rank, text in enumerate(known)}
    return np.array([len(known) if text is None else ranks[text] for text in texts], dtype=np.int64)


def _combinations(
    found: Any, sensitive: Mapping[str, Ints], columns: list[str], person: str | None
) -> tuple[Combinations, Any]:
    """The combinations, distinguished by person as far as necessary, and the rows of the count that represent them."""
    counts = found["__count"].to_numpy().astype(np.int64)
    if person is None:
        return Combinations(counts, sensitive), found
    # Sorted, the person last, so that equal combinations are adjacent.
    fresh = np.zeros(len(counts), dtype=np.int64)
    for column in columns:
        codes = found[column].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        fresh[1:] |= codes[1:] != codes[:-1]
    kept, counts, persons = apart_by_person(np.cumsum(fresh), person_numbers(found[person], person), counts)
    return Combinations(counts, {name: codes[kept] for name, codes in sensitive.items()}, persons), found.take(kept)


def _population(engine: Primitives, sets: JudgedSets, context: StageContext) -> tuple[Any, Ints]:
    """Combinations of the population over the compared quasi-identifiers, and their records."""
    import pyarrow as pa

    compared = list(dict.fromkeys(key for keys in sets.compared for key in keys))
    if not sets.compared:
        return pa.table({}), np.zeros(0, dtype=np.int64)
    if not compared:
        return pa.table({}), np.array([engine.count(context.population)], dtype=np.int64)
    found = engine.distinct(context.population, compared)
    return found.select(compared), found["__count"].to_numpy().astype(np.int64)


def _text_codes(values: Any, beside: Any, column: str, more: int) -> tuple[Codes, int]:
    """Ranks of the table's texts, then codes of the population's (0 where it is not compared), and how many there are.

    The table's own come first, so that their order does not hang on the population.
    """
    from privpipe.hierarchies import canonical_text
    from privpipe.roles import column_type_of

    kind = column_type_of(values.type)
    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    texts = canonical_text(encoded.dictionary, kind, column=column).to_pylist()
    ranks = text_ranks(texts)
    mine = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
    known = dict(zip(texts, ranks.tolist(), strict=True))
    labels = max(known.values(), default=-1) + 1
    if beside is None:
        return np.concatenate([mine, np.zeros(more, dtype=np.int64)]).astype(np.int32), labels
    encoded = beside.combine_chunks().dictionary_encode(null_encoding="encode")
    theirs = []
    for text in canonical_text(encoded.dictionary, kind, column=column).to_pylist():
        theirs.append(known.setdefault(text, labels))
        labels = max(labels, theirs[-1] + 1)
    codes = np.array(theirs, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    return np.concatenate([mine, codes]).astype(np.int32), labels


def _facts(engine: Primitives, table: Any, sets: JudgedSets, context: StageContext) -> Facts:
    """The base, and what rules on labels learn from those of the table."""
    columns_used_by = tuple(dict.fromkeys(key for keys in sets.labels for key in keys))
    if not columns_used_by:
        return context.base
    seen = engine.facts(table, FactsRequest(histograms=columns_used_by)).histograms
    known = replace(context.base, histograms={**context.base.histograms, **seen}, hierarchies=dict(context.hierarchies))
    return prepared(known, _looking(sets, sets.labels))


def _looking(sets: JudgedSets, over: Iterable[Keys]) -> list[Guarantee]:
    return [model for keys in over for model in sets.class_models[keys] if model.counted_columns(keys)]


def _information(sets: JudgedSets, names: Keys, keys: Any, facts: Facts) -> Floats:
    """The loss of the labels of each combination, by the same function as in the gate."""
    chosen = keys.select(list(names)).combine_chunks()
    made = next(model.row_column(facts) for model in _looking(sets, [names]))  # type: ignore[attr-defined]
    lost = made(RowBlock(chosen.to_batches()[0], None)).batch.column(INFORMATION)
    found: Floats = lost.to_numpy(zero_copy_only=False)
    return found
