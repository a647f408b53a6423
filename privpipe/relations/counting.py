"""Counting over related tables: persons, what an intruder may know about them, and how many match it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.requests import GROUP, PERSON, VALUE, Between, Knowledge, PersonCounts, PersonRows
from privpipe.engines import Engine
from privpipe.engines.base.class_blocks import group_key
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.relations.schema import Tree

__all__ = [
    "MOST_KNOWN",
    "MOST_PICKS",
    "Census",
    "CountedSet",
    "Fails",
    "Groups",
    "Knows",
    "Orphans",
    "RelatedTables",
    "Sensitive",
    "person_columns",
]

Knows = int | Literal["all"]
"""How many rows of a table an intruder knows at most; `all`: all of them, and that there are no more."""
MOST_KNOWN = 3
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
        """The groups of a block of classes: the code 0 represents the persons themselves."""
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
    orphans: Mapping[int, int] = field(default_factory=dict)
    rows: Mapping[tuple[int, ...], int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, counted: pa.Table) -> Census:
        """From the distinct rows of `PersonCounts`."""
        many = counted["__count"].to_numpy()
        names = [name for name in counted.column_names if name != "__count"]
        numbers = np.column_stack([counted[name].to_numpy() for name in names]).astype(np.int64)
        known = numbers[:, 0] > 0
        lost = (numbers[~known] * many[~known, None]).sum(axis=0)
        kinds = map(tuple, numbers[known][:, 1:].tolist())
        rows: Counter[tuple[int, ...]] = Counter()
        for kind, persons in zip(kinds, many[known].tolist(), strict=True):
            rows[kind] += persons
        return cls(
            int(many[known].sum()),
            int(many[numbers[:, 0] > 1].sum()),
            {at: int(count) for at, count in enumerate(lost) if count},
            rows,
        )

    def picks(self, knows: Sequence[Knows]) -> int:
        """How many picks all persons have together: sum over persons of prod_c C(n_c, <= m_c)."""
        return sum(
            persons
            * math.prod(
                1 if most == "all" else sum(math.comb(many, size) for size in range(int(most) + 1))
                for many, most in zip(rows, knows, strict=True)
            )
            for rows, persons in self.rows.items()
        )


@dataclass(frozen=True)
class CountedSet:
    """How far the groups of a set reach.

    Parameters
    ----------
    tally : GroupTally
    persons : int
        Of the set.
    failing : int
        Persons who match some knowledge whose group fails.
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
                    raise DataError(
                        f"table {relation.table!r} has no column {column!r}, which leads to {relation.to!r}"
                    )
                kinds = here.field(column).type, there.field(key).type
                if not _alike(*kinds):
                    raise DataError(
                        f"column {column!r} of {relation.table!r} is {kinds[0]}, and the key {key!r} of "
                        f"{relation.to!r} is {kinds[1]}: values of different types are never equal; change one of them"
                    )

    def alone(self, name: str) -> RelatedTables:
        """The same tables where an intruder knows only rows of one of them."""
        columns = {
            each: own if each == name else replace(own, quasi_identifiers=()) for each, own in self.tree.tables.items()
        }
        return replace(self, tree=replace(self.tree, tables=columns))

    def census(self) -> Census:
        """Who is in the set.

        Raises
        ------
        DataError
            Keys that are missing or repeated; rows that belong to no person, where these are refused.
        """
        for name in self.tree.tables:
            self._require_keys(name)
        for relation in self.tree.relations:
            if relation.to != self.tree.root:
                self._require_unique(relation.to)
        counts = self.engine.derive(PersonCounts(self._rows(self.tree.root), self._others()))
        found = Census.of(self.engine.distinct(counts, counts.schema.names))
        if not found.persons:
            raise DataError(f"table {self.tree.root!r} has no records: there is no person to judge")
        root = self.tree.root
        if found.repeated:
            raise self._repeated(root, found.repeated)
        lost = dict(found.orphans)
        for at, name in enumerate(self.tree.children, 1):
            if len(self.tree.path(name)) > 1:  # rows that no table between leads on are in no count
                there = sum(persons * rows[at - 1] for rows, persons in found.rows.items())
                lost[at] = self.engine.count(self.tables[name]) - there
            if lost.get(at) and self.orphans == "refuse":
                raise DataError(
                    f"table {name!r}: {_records(lost[at], 'belongs', 'belong')} to no record of {root!r}; "
                    f"complete {root!r}, or write `orphans: drop`"
                )
        return replace(found, orphans={at: many for at, many in lost.items() if many})

    def _require_keys(self, name: str) -> None:
        path = self.tree.path(name)
        columns = path[0].columns if path else self.tree.tables[name].key
        for column, many in self.engine.facts(self.tables[name], FactsRequest(nulls=tuple(columns))).nulls.items():
            if many and (not path or self.orphans == "refuse"):
                raise DataError(
                    f"table {name!r}: {_records(many, 'has', 'have')} no value in {column!r}, "
                    f"{'the key that other tables refer to' if not path else 'which leads to a person'}; fill it in"
                    f"{', or write `orphans: drop`' if path else ''}"
                )

    def _require_unique(self, name: str) -> None:
        query = ClassQuery(keys=self.tree.tables[name].key)
        repeated = self.engine.reduce_classes(self.tables[name], query, _Repeated(), Facts())
        if repeated:
            raise self._repeated(name, repeated)

    def _repeated(self, name: str, many: int) -> DataError:
        repeated = "1 value" if many == 1 else f"{many:,} values"
        return DataError(
            f"table {name!r}: {repeated} of the key {_shown(self.tree.tables[name].key)} "
            f"{'is' if many == 1 else 'are'} in several records; the key must distinguish them"
        )

    def _rows(self, name: str, value: Sensitive | None = None, table: Any = None) -> PersonRows:
        """A table's rows by person; `table` is it with codes instead of its sensitive column."""
        path = self.tree.path(name)
        between = tuple(
            Between(self.tables[step.to], self.tree.tables[step.to].key, onward.columns)
            for step, onward in itertools.pairwise(path)
        )
        return PersonRows(
            self.tables[name] if table is None else table,
            path[0].columns if path else self.tree.tables[name].key,
            self.tree.tables[name].quasi_identifiers,
            between,
            None if value is None or value[0] != name else value[1],
        )

    def _others(self) -> tuple[PersonRows, ...]:
        return tuple(map(self._rows, self.tree.children))

    def knowledge(self, knows: Mapping[str, Knows] | None) -> tuple[Knows, ...]:
        """What is known of each table but the root, in their order.

        Raises
        ------
        UsageError
            Of a table that has no quasi-identifier, or is not a table other than the root.
        """
        given, tree = dict(knows or {}), self.tree
        for name in given:
            if name not in tree.children:
                raise UsageError(
                    f"knows: {name!r} is not a table that leads to {tree.root!r}; there are {', '.join(tree.children)}"
                )
            if given[name] and not tree.tables[name].quasi_identifiers:
                raise UsageError(
                    f"knows: table {name!r} has no quasi-identifier, so that nothing can be known of its rows; give "
                    "one of its columns that role, or leave the table out"
                )
        return tuple(given.get(name, 1 if tree.tables[name].quasi_identifiers else 0) for name in tree.children)

    def groups(
        self, knows: Mapping[str, Knows] | None, row_counts: bool, sensitive: Sensitive | None, census: Census
    ) -> tuple[Any, ClassQuery, Facts]:
        """The table of all persons and what is known about them, with the query of its groups; see `Knowledge`."""
        known, tree = self.knowledge(knows), self.tree
        if sensitive is None:
            asked = Knowledge(self._rows(tree.root), self._others(), known, row_counts, census.picks(known))
            table = self.engine.derive(asked)
            return table, ClassQuery(keys=_keys(table)), Facts()
        values, coded = self._coded(sensitive)
        root, *others = (
            self._rows(name, sensitive, coded if name == sensitive[0] else None) for name in (tree.root, *tree.children)
        )
        table = self.engine.derive(Knowledge(root, tuple(others), known, row_counts))
        whole = Histogram(pa.array(np.arange(values + 1, dtype=np.int64)), np.ones(values + 1, np.int64))
        query = ClassQuery(keys=_keys(table), columns=(VALUE,), dictionaries={VALUE: whole})
        nothing = self.engine.derive(Knowledge(root, tuple(others), (0,) * len(others)))
        return table, query, Facts(extra={VALUE: self._shares(nothing, whole)})

    def _coded(self, sensitive: Sensitive) -> tuple[int, Any]:
        """How many values a column has, and its table with their codes: 1 and on."""
        name, column = sensitive
        if name not in self.tables:
            raise UsageError(f"there is no table {name!r}; there are {', '.join(self.tables)}")
        table = self.tables[name]
        if column not in table.schema.names:
            raise DataError(f"table {name!r} has no column {column!r}")
        if column in self.tree.tables[name].quasi_identifiers:
            raise UsageError(f"{name}.{column} is a quasi-identifier and is judged as sensitive; it can be only one")
        values = self.engine.facts(table, FactsRequest(histograms=(column,))).histograms[column].values
        at = table.schema.get_field_index(column)
        coded = self.engine.map_rows(table, _Coded(column, values), table.schema.set(at, pa.field(column, pa.int64())))
        return len(values), coded

    def _shares(self, table: Any, whole: Histogram) -> Floats:
        """The share of each value among the pairs of a person and a value, of the whole set."""
        counts = np.zeros(len(whole), np.int64)
        for block in self.engine.classes(table, ClassQuery(keys=(), columns=(VALUE,), dictionaries={VALUE: whole})):
            counts[block.cells[VALUE].codes] += block.cells[VALUE].counts
        total = counts[1:].sum()
        return counts[1:] / total if total else np.zeros(len(whole) - 1)

    def require_few(self, census: Census, knows: Mapping[str, Knows] | None) -> None:
        """Refuse more picks than may be made, before any is.

        Raises
        ------
        UnsupportedError
        """
        known = self.knowledge(knows)
        picks = census.picks(known)
        if picks <= self.most_picks:
            return
        most = [max(rows[at] for rows in census.rows) for at in range(len(known))]
        widest = max((at for at, each in enumerate(known) if each not in (0, "all")), key=lambda at: most[at])
        many = sum(persons for rows, persons in census.rows.items() if rows[widest] > most[widest] // 2)
        raise UnsupportedError(
            f"persons have {picks:,} combinations of rows that an intruder may know, and {self.most_picks:,} are "
            f"counted at most: {many:,} persons have more than {most[widest] // 2:,} rows of "
            f"{self.tree.children[widest]!r}, up to {most[widest]:,}; keep fewer with `cap_rows`, or lower `knows`"
        )

    def judged(
        self,
        score: Scored,
        knows: Mapping[str, Knows] | None,
        *,
        row_counts: bool = False,
        sensitive: Sensitive | None = None,
    ) -> CountedSet:
        """The figures of all groups of persons.

        Raises
        ------
        UnsupportedError
            There are more picks than may be made.
        """
        census = self.census()
        self.require_few(census, knows)
        groups, query, facts = self.groups(knows, row_counts, sensitive, census)
        tally = self.engine.reduce_classes(groups, query, Judged(score), facts) or GroupTally()
        failing = 0
        if tally.failing:
            lost = self.engine.keep_classes(groups, query, Fails(score, facts))
            failing = self.engine.reduce_classes(lost, ClassQuery(keys=person_columns(lost)), _Classes(), Facts()) or 0
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


@dataclass(frozen=True)
class _Coded:
    """Values replaced by their codes: 1 and on, a missing value as one more."""

    column: str
    values: pa.Array = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        places = pc.index_in(group_key(rows.column(self.column)), value_set=self.values)
        return rows.replace(self.column, pc.add(places.cast(pa.int64()), 1))


def person_columns(table: Any) -> tuple[str, ...]:
    """Columns of a table of `Knowledge` that hold the person's key."""
    return tuple(name for name in table.schema.names if name.startswith(PERSON))


def _keys(table: Any) -> tuple[str, ...]:
    return tuple(name for name in table.schema.names if name.startswith(GROUP))


def _alike(left: pa.DataType, right: pa.DataType) -> bool:
    return bool(left.equals(right)) or (pa.types.is_integer(left) and pa.types.is_integer(right))


def _shown(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns))


def _records(many: int, one: str, several: str) -> str:
    """So many records with the verb that fits.

    Examples
    --------
    >>> _records(1, "has", "have"), _records(2_000, "has", "have")
    ('1 record has', '2,000 records have')
    """
    return f"1 record {one}" if many == 1 else f"{many:,} records {several}"
