"""Stages over related tables: rows kept of each person, and persons or rows that go until no group is too small."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassQuery, Facts
from privpipe.blocks.entry import Entry
from privpipe.blocks.guarantee import short
from privpipe.border import bordered
from privpipe.draws import Draws, Seed
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.relations.counting import RelatedTables
from privpipe.relations.disclosive_rows import without_disclosive_rows
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.related_rows import (
    Capped,
    Kept,
    PersonBucket,
    closed,
    counts_of,
    failing_persons,
    with_person,
    without_persons,
)
from privpipe.relations.schema import Tree
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext

__all__ = ["CapRows", "RelatedSet", "SetStage", "SuppressPersons", "SuppressRows", "set_notes"]


@dataclass(frozen=True, kw_only=True)
class RelatedSet:
    """Related tables between stages, with what stages may read.

    Parameters
    ----------
    related : RelatedTables
    guarantees : sequence of JointGuarantee
    seed : Seed
    steps : tuple of mapping
        What each stage that ran did.
    contexts : mapping of str to StageContext
        Of each table: its columns, and the hierarchies of those that its own stages left as they were.
    """

    related: RelatedTables
    guarantees: Sequence[JointGuarantee] = ()
    seed: Seed = field(repr=False)
    steps: tuple[Mapping[str, Any], ...] = ()
    contexts: Mapping[str, StageContext] = field(default_factory=dict, repr=False)

    def demanded(self, stage: str) -> list[JointGuarantee]:
        """The guarantees that have to hold.

        Raises
        ------
        UsageError
            There is none for a stage to work for.
        """
        found = [each for each in self.guarantees if each.binds and each.demanded() is not None]
        if not found:
            raise UsageError(
                f"{stage}: no joint guarantee decides who is removed; add `joint_k_anonymity` to its `guarantees:`"
            )
        return found

    def after(self, related: RelatedTables, **done: Any) -> RelatedSet:
        """The set after a stage."""
        return replace(self, related=related, steps=(*self.steps, done))


@bordered
@dataclass(frozen=True, kw_only=True, repr=False)
class SetStage(Entry):
    """Something that changes related tables together, after the stages of each."""

    taxon = "relations"
    needs_seed: ClassVar[bool] = False

    def run(self, tables: RelatedSet) -> RelatedSet:
        """The tables after the stage.

        Raises
        ------
        NoSolutionError
            What the guarantees ask for cannot be had.
        """
        raise TypeError(f"{type(self).__name__} does not run")

    def named_columns(self) -> tuple[tuple[str, str], ...]:
        """Tables and columns that it names."""
        return ()

    def of_tables(self, tree: Tree) -> Mapping[str, Sequence[Entry]]:
        """Stages of single tables that it is short for, if any: they run after the other stages of each table."""
        return {}

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        """The public part of what the stage did; numbers of removed persons and rows are private."""
        return {}


@dataclass(frozen=True, kw_only=True, repr=False)
class CapRows(SetStage):
    """Keep at most a number of rows of each person in one table.

    Parameters
    ----------
    table : str
        Any but the root.
    at_most : int
        At least 1.
    keep : {"random", "first", "last"}
        Rows drawn by a key, or the first or last by `by`; ties by the draw.
    by : str, optional
        Column that orders rows: dates or numbers; needed by `first` and `last`.

    Notes
    -----
    Rows of other tables that are related to a row that goes, go with it. The number of a person's rows singles it out
    and multiplies what an intruder may know, so that a cap comes before the joint guarantees.

    Examples
    --------
    >>> CapRows(table="visits", at_most=20)
    CapRows(table='visits', at_most=20)
    """

    needs_seed = True
    threat = "Persons with many rows are known by their number, and by any few of them."
    choose = "The number that all but one in a hundred persons stay below."

    table: Annotated[str, Doc("the table whose rows are kept")]
    at_most: Annotated[int, Ge(1), Doc("rows of a person that are kept")]
    keep: Annotated[Kept, Doc("random, or the first or last by a column")] = "random"
    by: Annotated[str | None, Doc("column that orders rows, for first and last")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.by is None) != (self.keep == "random"):
            raise UsageError("CapRows: `by` names the column for keep first or last, and means nothing for random")

    def run(self, tables: RelatedSet) -> RelatedSet:
        related = tables.related
        if self.table not in related.tree.children:
            raise UsageError(
                f"cap_rows: {self.table!r} is not a table that leads to {related.tree.root!r}; there are "
                f"{', '.join(related.tree.children)}"
            )
        engine, table = related.engine, related.tables[self.table]
        if self.by is not None and self.by not in table.schema.names:
            raise DataError(f"cap_rows: table {self.table!r} has no column {self.by!r}")
        owned, columns = with_person(related, self.table)
        capped = engine.reduce_classes(owned, ClassQuery(keys=columns), _Above(self.at_most), Facts()) or (0, 0, 0)
        stream = Draws(tables.seed, stage=len(tables.steps), transformer=self.name()).of(self.table)
        kept = Capped(columns, self.at_most, self.keep, stream, self.by)
        left = engine.map_groups(owned, PersonBucket.of(columns, engine.count(owned)), kept, owned.schema)
        after = closed(related.having({self.table: engine.select(left, table.schema.names)}))
        persons, touched, rows = capped
        return tables.after(
            after,
            name=self.name(),
            persons_with_rows=persons,
            persons_capped=touched,
            rows_removed=rows,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(table="visits", at_most=2), cls(table="visits", at_most=1, keep="last", by="day")]


@dataclass(frozen=True)
class _Above:
    """Classes, those above a size, and records above it."""

    at_most: int

    def measure(self, block: ClassBlock, facts: Facts) -> tuple[int, int, int]:
        more = np.maximum(block.sizes - self.at_most, 0)
        return len(block), int((more > 0).sum()), int(more.sum())

    def merge(self, left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
        return left[0] + right[0], left[1] + right[1], left[2] + right[2]


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressPersons(SetStage):
    """Remove persons in groups that fail, with all their rows, until no group fails.

    Parameters
    ----------
    at_most : float
        Share of the persons that may go, in [0, 1].

    Raises
    ------
    NoSolutionError
        More must go; the message has the number.

    Notes
    -----
    Removing persons makes other groups smaller, so the stage repeats until no group fails. For `joint_k_anonymity` the
    result is the greatest set of persons in which no group is too small: groups of a subset are no larger, so that a
    person who fails in a set fails in each of its subsets. For the other guarantees it is a set in which they hold.

    Examples
    --------
    >>> SuppressPersons(at_most=0.05)
    SuppressPersons(at_most=0.05)
    """

    threat = "Persons whom few others match in what an intruder knows."
    choose = "Up to 0.05; generalize or cap rows first where more would go."

    at_most: Annotated[float, Ge(0), Le(1), Doc("share of the persons that may be removed")]

    def run(self, tables: RelatedSet) -> RelatedSet:
        related = tables.related
        guarantees, census = tables.demanded(self.name()), related.census()
        persons, gone = census.persons, failing_persons(related, guarantees, census)
        allowed = floor_share(self.at_most, persons)
        if gone.num_rows > allowed:
            raise NoSolutionError(
                f"suppress_persons: {gone.num_rows:,} of {persons:,} persons would have to go, and {allowed:,} may; "
                "generalize or cap rows before, or raise `at_most`"
            )
        after = related if not gone.num_rows else without_persons(related, gone)
        return tables.after(
            after,
            name=self.name(),
            persons=persons,
            suppressed_persons=gone.num_rows,
            rows_before=counts_of(related),
            rows_after=counts_of(after),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(at_most=1.0), cls(at_most=0.0)]


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressRows(SetStage):
    """Remove the rows of one table that make groups of persons fail, until no group fails because of them.

    Parameters
    ----------
    table : str
        Any but the root.
    at_most : float
        Share of the table's rows that may go, in [0, 1].

    Raises
    ------
    NoSolutionError
        More must go; the message has the number.
    UnsupportedError
        More combinations of rows identify persons than are held at a time.

    Notes
    -----
    A person keeps the rows that enough other persons also have. Rows that identify a person alone go first, together
    with rows of the person that have equal quasi-identifiers. If only the root and one row of the table are known, this
    is the smallest removal that `joint_k_anonymity` allows. Where two or three rows are known, a person then loses as
    few rows as a greedy choice finds, so that no combination is left that identifies the person: the row that is in
    most of these combinations, and among such the most frequent one, because rarer rows would then be too rare. Where
    `all` rows are known, the person loses the row that fewest others have, and again, until enough persons have the
    same rows. Which of equal rows remain is drawn.

    Persons who fail because of the root or another table keep their rows, since removing them would not help: put
    `suppress_persons` after this stage. It also removes persons who are identified by having no row.

    Examples
    --------
    >>> SuppressRows(table="visits", at_most=0.05)
    SuppressRows(table='visits', at_most=0.05)
    """

    needs_seed = True
    threat = "A rare row, such as a visit to a small ward, that identifies a person who is otherwise one of many."
    choose = "Up to 0.05; before `suppress_persons`, which then removes fewer."

    table: Annotated[str, Doc("the table whose rows are removed")]
    at_most: Annotated[float, Ge(0), Le(1), Doc("share of the table's rows that may be removed")]

    def run(self, tables: RelatedSet) -> RelatedSet:
        related = tables.related
        guarantees = tables.demanded(self.name())
        if self.table not in related.tree.children:
            raise UsageError(
                f"suppress_rows: {self.table!r} is not a table that leads to {related.tree.root!r}; there are "
                f"{', '.join(related.tree.children)}"
            )
        rows = related.engine.count(related.tables[self.table])
        stream = Draws(tables.seed, stage=len(tables.steps), transformer=self.name()).of(self.table)
        left = without_disclosive_rows(related, self.table, guarantees, stream)
        after = closed(related.having({self.table: left}))
        gone = rows - related.engine.count(after.tables[self.table])
        allowed = floor_share(self.at_most, rows)
        if gone > allowed:
            raise NoSolutionError(
                f"suppress_rows: {gone:,} of {rows:,} rows of {self.table!r} would have to go, and {allowed:,} may; "
                "generalize before, or raise `at_most`"
            )
        return tables.after(after, name=self.name(), rows=rows, rows_removed=gone)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(table="visits", at_most=1.0), cls(table="visits", at_most=0.0)]


def set_notes(
    tree: Tree,
    guarantees: Sequence[JointGuarantee],
    unjudged: Mapping[str, Collection[str]],
    released: Mapping[str, Sequence[str]],
) -> list[str]:
    """Thresholds that protect no one, quasi-identifiers that nothing uses, and columns that two tables share.

    Parameters
    ----------
    tree : Tree
        With the quasi-identifiers that are released.
    guarantees : sequence of JointGuarantee
    unjudged : mapping of str to collection of str
        Of each table, the quasi-identifiers that no guarantee of the table itself looks at.
    released : mapping of str to sequence of str
        Columns of each table.

    Examples
    --------
    >>> from privpipe.relations.guarantees import JointKAnonymity
    >>> from privpipe.relations.schema import RelatedColumns, Relation
    >>> tree = Tree(
    ...     {"patients": RelatedColumns(("id",), ("town",)), "visits": RelatedColumns((), ("ward",))},
    ...     (Relation("visits", ("id",), "patients"),),
    ... )
    >>> asked = [JointKAnonymity(k=1, knows={"visits": 0})]
    >>> for note in set_notes(tree, asked, {"visits": ["ward"]}, {"patients": ["town"], "visits": ["town", "ward"]}):
    ...     print(note)
    no guarantee looks at the quasi-identifier 'visits.ward'
    joint_k_anonymity with k = 1 protects no one
    column 'town' is in 'patients' and 'visits': where it is one fact, an attacker knows the finer of the two forms
    """
    binding = [each for each in guarantees if each.binds and each.demanded() is not None]
    notes = []
    if not any(columns.quasi_identifiers for columns in tree.tables.values()):
        notes.append("no column is a quasi-identifier: no attacker is taken to know anything of a person")
    for name in tree.children:
        if not any((each.knows or {}).get(name, 1) for each in binding):
            own = tree.tables[name].quasi_identifiers
            notes += [
                f"no guarantee looks at the quasi-identifier '{name}.{column}'"
                for column in own
                if column in unjudged.get(name, ())
            ]
    notes += [
        f"{each.name()} with {each.threshold_field} = {short(each.demanded())} protects no one"
        for each in guarantees
        if each.demanded() == 1  # of all of them: one person, one value, a share or distance of 1
    ]
    keys = {column for table in tree.tables.values() for column in table.key}
    keys |= {column for relation in tree.relations for column in relation.columns}
    for one, other in itertools.combinations(tree.tables, 2):
        notes += [
            f"column {column!r} is in {one!r} and {other!r}: where it is one fact, an attacker knows the finer of the "
            "two forms"
            for column in released[one]
            if column in released[other] and column not in keys
        ]
    return list(dict.fromkeys(notes))
