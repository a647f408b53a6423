"""Counting over related tables: persons, what an intruder may know of them, and how many share each knowledge."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.relations.knowledge import (
    GROUP,
    LINK,
    LINKED,
    MARKS,
    PERSON,
    TABLE,
    VALUE,
    Bucket,
    Known,
    Knows,
    LinkedMarks,
    Marked,
    Marks,
    PersonMarks,
    group_schema,
)
from privpipe.relations.schema import Tree

__all__ = ["MOST_PICKS", "Census", "CountedSet", "Groups", "Orphans", "RelatedTables", "Sensitive"]

MOST_PICKS = 10**9
Orphans = Literal["refuse", "drop"]
Sensitive = tuple[str, str]
"""A table and a column of it."""


@dataclass(frozen=True)
class Groups:
    """Some groups of persons that share a knowledge.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n,)
        Persons of each group.
    offsets : ndarray of int64, shape (n + 1,)
        Values of group g are ``offsets[g]:offsets[g + 1]``; a group may have none.
    codes : ndarray of int64, shape (v,)
        Place of each value among the distinct values of the column.
    counts : ndarray of int64, shape (v,)
        Persons of the group with at least one row of the value.
    """

    sizes: Ints
    offsets: Ints = field(repr=False, default_factory=lambda: np.zeros(0, np.int64))
    codes: Ints = field(repr=False, default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = field(repr=False, default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, block: ClassBlock) -> Groups:
        """The groups of a block of classes: the code 0 stands for the persons themselves."""
        if VALUE not in block.cells:
            return cls(block.sizes)
        cells = block.cells[VALUE]
        persons = cells.codes == 0
        lengths = np.diff(cells.offsets) - 1
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(cells.counts[persons], offsets, cells.codes[~persons] - 1, cells.counts[~persons])

    @property
    def valued(self) -> Bools:
        """Which groups have any value."""
        found: Bools = np.diff(self.offsets) > 0
        return found


Scored = Callable[[Groups, Facts], tuple[Any, Bools]]
"""Figures of groups that have one, and which of all groups fail."""


@dataclass(frozen=True)
class GroupTally:
    """The worst figure, and how many groups were judged and fail."""

    least: Any = None
    most: Any = None
    groups: int = 0
    failing: int = 0


@dataclass(frozen=True)
class Judged:
    """The figures of groups, as a reduction."""

    score: Scored = field(repr=False)

    def measure(self, block: ClassBlock, facts: Facts) -> GroupTally:
        figures, failing = self.score(Groups.of(block), facts)
        if not len(figures):
            return GroupTally(failing=int(failing.sum()))
        return GroupTally(figures.min().item(), figures.max().item(), len(figures), int(failing.sum()))

    def merge(self, left: GroupTally, right: GroupTally) -> GroupTally:
        least = [each.least for each in (left, right) if each.least is not None]
        most = [each.most for each in (left, right) if each.most is not None]
        return GroupTally(
            min(least, default=None),
            max(most, default=None),
            left.groups + right.groups,
            left.failing + right.failing,
        )


@dataclass(frozen=True)
class Fails:
    """Which classes fail, for the filter of an engine."""

    score: Scored = field(repr=False)
    facts: Facts = field(repr=False)

    def __call__(self, block: ClassBlock) -> Bools:
        return self.score(Groups.of(block), self.facts)[1]


@dataclass(frozen=True)
class _Classes:
    """How many classes there are."""

    def measure(self, block: ClassBlock, facts: Facts) -> int:
        return len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right


@dataclass(frozen=True)
class Census:
    """Persons and rows of related tables, before anything is picked.

    Parameters
    ----------
    persons : int
    repeated : int
        Keys that several rows of the root have.
    orphans : mapping of int to int
        Rows of each table that belong to no person.
    rows : mapping of tuple of int to int
        For each number of rows that a person has of every other table, in their order, the persons that have it.
    """

    persons: int = 0
    repeated: int = 0
    orphans: Counter[int] = field(default_factory=Counter)
    rows: Counter[tuple[int, ...]] = field(default_factory=Counter)

    def picks(self, knows: Mapping[int, Knows]) -> int:
        """How many picks all persons have together: sum over persons of prod_c C(n_c, <= m_c)."""
        return sum(
            many
            * math.prod(
                1 if most == "all" else sum(math.comb(rows[table - 1], size) for size in range(int(most) + 1))
                for table, most in knows.items()
            )
            for rows, many in self.rows.items()
        )


@dataclass(frozen=True)
class _Counted:
    """A census of classes over persons with the tables of their rows."""

    tables: int

    def measure(self, block: ClassBlock, facts: Facts) -> Census:
        cells = block.cells[TABLE]
        owners = np.repeat(np.arange(len(block)), np.diff(cells.offsets))
        many = np.zeros((len(block), self.tables), np.int64)
        many[owners, cells.codes] = cells.counts
        known = many[:, 0] > 0
        lost = many[~known].sum(axis=0)
        kinds, persons = np.unique(many[known][:, 1:], axis=0, return_counts=True)
        return Census(
            int(known.sum()),
            int((many[:, 0] > 1).sum()),
            Counter({at: int(count) for at, count in enumerate(lost) if count}),
            Counter(dict(zip(map(tuple, kinds.tolist()), persons.tolist(), strict=True))),
        )

    def merge(self, left: Census, right: Census) -> Census:
        return Census(
            left.persons + right.persons,
            left.repeated + right.repeated,
            left.orphans + right.orphans,
            left.rows + right.rows,
        )


@dataclass(frozen=True)
class _OfPersons:
    """Which classes over persons have a row of the root."""

    def __call__(self, block: ClassBlock) -> Bools:
        cells = block.cells[TABLE]
        found: Bools = cells.codes[cells.offsets[:-1]] == 0
        return found


@dataclass(frozen=True)
class CountedSet:
    """How far the groups of a set reach.

    Parameters
    ----------
    tally : GroupTally
    persons : int
        Of the set.
    failing : int
        Persons of whom some knowledge is true whose group fails.
    """

    tally: GroupTally
    persons: int
    failing: int


@dataclass(frozen=True)
class RelatedTables:
    """Tables of one engine that belong together.

    Parameters
    ----------
    engine : Engine
    tree : Tree
    tables : mapping of str to table of the engine
    orphans : {"refuse", "drop"}
        What becomes of rows that belong to no person.
    most_picks : int
        More picks are not made.
    """

    engine: Engine
    tree: Tree
    tables: Mapping[str, Any] = field(repr=False)
    orphans: Orphans = "refuse"
    most_picks: int = MOST_PICKS
    seed: Seed = field(default_factory=Seed.from_os, repr=False)

    def __post_init__(self) -> None:
        for name, columns in self.tree.tables.items():
            found = self.tables[name].schema.names
            for column in (*columns.key, *columns.quasi_identifiers):
                if column not in found:
                    raise DataError(f"table {name!r} has no column {column!r}")
        for relation in self.tree.relations:
            here, there = self.tables[relation.table].schema, self.tables[relation.to].schema
            for column, key in zip(relation.columns, self.tree.tables[relation.to].key, strict=True):
                if column not in here.names:
                    raise DataError(f"table {relation.table!r} has no column {column!r}, which leads to {relation.to!r}")
                kinds = here.field(column).type, there.field(key).type
                if not _alike(*kinds):
                    raise DataError(
                        f"column {column!r} of {relation.table!r} is {kinds[0]}, and the key {key!r} of "
                        f"{relation.to!r} is {kinds[1]}: values of different types are never equal; change one of them"
                    )

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each table; the root's is 0."""
        return {name: at for at, name in enumerate((self.tree.root, *self.tree.children))}

    def marks(self, sensitive: Sensitive | None = None) -> tuple[Any, Census]:
        """The rows of all tables as `MARKS`, those of one table with the codes of a sensitive column; their census.

        Raises
        ------
        DataError
            Keys that are missing or repeated; rows that belong to no person, where these are refused.
        """
        engine, together = self.engine, None
        for name in self.numbers:
            made = self._marks_of(name, sensitive)
            together = made if together is None else engine.append(together, made)
        query = ClassQuery(
            keys=(PERSON,),
            columns=(TABLE,),
            dictionaries={TABLE: _whole_numbers(len(self.numbers))},
        )
        census = engine.reduce_classes(together, query, _Counted(len(self.numbers)), Facts())
        if census is None or not census.persons:
            raise DataError(f"table {self.tree.root!r} has no records: there is no person to judge")
        self._check(census)
        if census.orphans:
            together = engine.keep_classes(together, query, _OfPersons())
        return together, census

    def _check(self, census: Census) -> None:
        root, names = self.tree.root, list(self.numbers)
        if census.repeated:
            raise DataError(
                f"table {root!r}: {census.repeated:,} values of the key {_shown(self.tree.tables[root].key)} are in "
                "several records; the key must distinguish persons"
            )
        for at, many in census.orphans.items():
            if self.orphans == "refuse":
                raise DataError(
                    f"table {names[at]!r}: {many:,} records belong to no record of {root!r}; complete {root!r}, or "
                    "write `orphans: drop`"
                )

    def _marks_of(self, name: str, sensitive: Sensitive | None) -> Any:
        engine, table = self.engine, self.tables[name]
        marked = self._marked(name, sensitive)
        path = self.tree.path(name)
        key = self.tree.tables[name].key if not path else path[0].columns
        self._require_keys(name, key if path else key)
        needed = [*key, *marked.columns, *(() if marked.column is None else (marked.column,))]
        chosen = engine.select(table, list(dict.fromkeys(needed)))
        if len(path) < 2:
            return engine.map_rows(chosen, Marks(marked, key, self.seed), MARKS)
        made = engine.map_rows(chosen, LinkedMarks(marked, key, self.seed), LINKED)
        for at, step in enumerate(path[:-1]):
            made = self._joined(made, step.to, path[at + 1].columns, last=at == len(path) - 2)
        return made

    def _joined(self, made: Any, between: str, onward: Sequence[str], *, last: bool) -> Any:
        """Rows with the next link, or the person, of the table that they are related to."""
        engine, key = self.engine, self.tree.tables[between].key
        others = engine.select(self.tables[between], list(dict.fromkeys((*key, *onward))))
        linking = engine.map_rows(others, LinkedMarks(None, key, self.seed, tuple(onward)), LINKED)
        self._require_unique(between, linking)
        both = engine.append(made, linking)
        bucket = Bucket.of(LINK, engine.count(both))
        return engine.map_groups(both, bucket, PersonMarks(last), MARKS if last else LINKED)

    def _require_unique(self, name: str, linking: Any) -> None:
        repeated = self.engine.reduce_classes(linking, ClassQuery(keys=(LINK,)), _Repeated(), Facts())
        if repeated:
            raise DataError(
                f"table {name!r}: {repeated:,} values of the key {_shown(self.tree.tables[name].key)} are in several "
                "records; the key must distinguish them"
            )

    def _require_keys(self, name: str, columns: Sequence[str]) -> None:
        missing = self.engine.facts(self.tables[name], FactsRequest(nulls=tuple(columns))).nulls
        for column, many in missing.items():
            if many and (name == self.tree.root or self.orphans == "refuse"):
                raise DataError(f"table {name!r}: {many:,} records have no value in {column!r}, which leads to a person")

    def _marked(self, name: str, sensitive: Sensitive | None) -> Marked:
        columns = self.tree.tables[name].quasi_identifiers
        if sensitive is None or sensitive[0] != name:
            return Marked(self.numbers[name], columns)
        return Marked(self.numbers[name], columns, sensitive[1], self._histogram(sensitive).values)

    def _histogram(self, sensitive: Sensitive) -> Histogram:
        name, column = sensitive
        if name not in self.tables:
            raise UsageError(f"there is no table {name!r}; there are {', '.join(self.tables)}")
        if column not in self.tables[name].schema.names:
            raise DataError(f"table {name!r} has no column {column!r}")
        if column in self.tree.tables[name].quasi_identifiers:
            raise UsageError(f"{name}.{column} is a quasi-identifier and is judged as sensitive; it can be only one")
        return self.engine.facts(self.tables[name], FactsRequest(histograms=(column,))).histograms[column]

    def knowledge(self, knows: Mapping[str, Knows] | None) -> dict[int, Knows]:
        """What is known of each table but the root, by its number.

        Raises
        ------
        UsageError
            Of a table that has no quasi-identifier, or is no other table than the root.
        """
        given = dict(knows or {})
        for name in given:
            if name not in self.tree.children:
                raise UsageError(
                    f"knows: {name!r} is not a table that leads to {self.tree.root!r}; there are "
                    f"{', '.join(self.tree.children)}"
                )
            if given[name] and not self.tree.tables[name].quasi_identifiers:
                raise UsageError(
                    f"knows: table {name!r} has no quasi-identifier, so that nothing can be known of its rows; give "
                    "one of its columns that role, or leave the table out"
                )
        return {
            self.numbers[name]: given.get(name, 1 if self.tree.tables[name].quasi_identifiers else 0)
            for name in self.tree.children
        }

    def groups(
        self, knows: Mapping[str, Knows] | None, row_counts: bool, sensitive: Sensitive | None
    ) -> tuple[Any, ClassQuery, Facts, Census]:
        """The table of all persons and what is known of them, with the query of its groups.

        Raises
        ------
        UnsupportedError
            There are more picks than may be made.
        """
        marks, census = self.marks(sensitive)
        self._require_few(census, self.knowledge(knows))
        return (*self.groups_of(marks, knows, row_counts, sensitive), census)

    def groups_of(
        self, marks: Any, knows: Mapping[str, Knows] | None, row_counts: bool, sensitive: Sensitive | None
    ) -> tuple[Any, ClassQuery, Facts]:
        """As `groups`, of marks."""
        known = self.knowledge(knows)
        made = Known(known, self.seed, tuple(known) if row_counts else (), sensitive is not None)
        bucket = Bucket.of(PERSON, self.engine.count(marks))
        groups = self.engine.map_groups(marks, bucket, made, group_schema(sensitive is not None))
        if sensitive is None:
            return groups, ClassQuery(keys=GROUP), Facts()
        values = len(self._histogram(sensitive))
        query = ClassQuery(keys=GROUP, columns=(VALUE,), dictionaries={VALUE: _whole_numbers(values + 1)})
        return groups, query, Facts(extra={VALUE: self._shares(marks, values)})

    def _shares(self, marks: Any, values: int) -> Floats:
        """The share of each value among the pairs of a person and a value, of the whole set."""
        query = ClassQuery(
            keys=(), columns=(VALUE,), dictionaries={VALUE: _whole_numbers(values + 1)}, person=PERSON
        )
        counts = np.zeros(values, np.int64)
        for block in self.engine.classes(marks, query):
            cells = block.cells[VALUE]
            of_values = cells.codes > 0
            counts[cells.codes[of_values] - 1] += cells.counts[of_values]
        total = counts.sum()
        return counts / total if total else np.zeros(values)

    def _require_few(self, census: Census, known: Mapping[int, Knows]) -> None:
        picks = census.picks(known)
        if picks <= self.most_picks:
            return
        names = list(self.numbers)
        widest = max(
            (at for at, most in known.items() if most not in (0, "all")),
            key=lambda at: max(rows[at - 1] for rows in census.rows),
        )
        most = max(rows[widest - 1] for rows in census.rows)
        many = sum(persons for rows, persons in census.rows.items() if rows[widest - 1] > most // 2)
        raise UnsupportedError(
            f"persons have {picks:,} combinations of rows that an intruder may know, and {self.most_picks:,} are "
            f"counted at most: {many:,} persons have more than {most // 2:,} rows of {names[widest]!r}, up to "
            f"{most:,}; keep fewer with `cap_rows`, or lower `knows`"
        )

    def judged(
        self,
        score: Scored,
        knows: Mapping[str, Knows] | None,
        *,
        row_counts: bool = False,
        sensitive: Sensitive | None = None,
    ) -> CountedSet:
        """The figures of all groups of persons."""
        groups, query, facts, census = self.groups(knows, row_counts, sensitive)
        tally = self.engine.reduce_classes(groups, query, Judged(score), facts) or GroupTally()
        failing = 0
        if tally.failing:
            lost = self.engine.keep_classes(groups, query, Fails(score, facts))
            failing = self.engine.reduce_classes(lost, ClassQuery(keys=(PERSON,)), _Classes(), Facts()) or 0
        return CountedSet(tally, census.persons, failing)

    def having(self, tables: Mapping[str, Any]) -> RelatedTables:
        """The same relations over other tables."""
        return replace(self, tables={**self.tables, **tables})


@dataclass(frozen=True)
class _Repeated:
    """How many classes have several rows."""

    def measure(self, block: ClassBlock, facts: Facts) -> int:
        return int((block.sizes > 1).sum())

    def merge(self, left: int, right: int) -> int:
        return left + right


def _whole_numbers(many: int) -> Histogram:
    return Histogram(pa.array(np.arange(many, dtype=np.int64)), np.ones(many, np.int64))


def _alike(left: pa.DataType, right: pa.DataType) -> bool:
    return bool(left.equals(right)) or (pa.types.is_integer(left) and pa.types.is_integer(right))


def _shown(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns))
