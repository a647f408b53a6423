"""Stages for a person's data in all related tables: pseudonyms of keys, and dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import RowBlock
from privpipe.blocks.entry import Entry
from privpipe.blocks.requests import PERSON
from privpipe.draws import Draws
from privpipe.draws.stream import require_key_place
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.hierarchies import canonical_text
from privpipe.relations.counting import RelatedTables
from privpipe.relations.related_rows import with_person
from privpipe.relations.schema import Tree, table_and_column
from privpipe.relations.set_stages import RelatedSet, SetStage
from privpipe.roles import Roles, column_type_of
from privpipe.transforms.base import StageContext
from privpipe.transforms.coding.shift_dates import ShiftDates as ShiftDatesOfOne
from privpipe.transforms.identifiers.identifier_columns import Pseudonymise as PseudonymiseOne

__all__ = ["Pseudonymise", "ShiftDates"]

JOINED = f"{PERSON}_text"


@dataclass(frozen=True, kw_only=True, repr=False)
class Pseudonymise(SetStage):
    """Replace keys by pseudonyms in all tables, so that readers can join the tables by them.

    Parameters
    ----------
    key : mapping
        ``{from_env: NAME}`` or ``{from_file: PATH}``; at least 32 bytes.
    domain : str, optional
        What the pseudonyms are for. Releases with the same key and domain have the same pseudonyms; where releases are
        to stay apart, give each another key or domain.
    length : int
        Characters of lower-case base32, 5 bits each, 1 to 51.

    Notes
    -----
    A key and all columns that lead to it have one domain, so that equal values have equal pseudonyms in every table;
    different keys have different domains, so that patient 7 and visit 7 are not seen to have one number. It adds
    the stage `pseudonymise` to each table, after the table's other stages, and every key column must be an
    `identifier`. Pseudonyms are personal data: who has the key can compute them.

    Examples
    --------
    >>> Pseudonymise(key={"from_env": "CLINIC_KEY"}).length
    26
    """

    threat = "Readers who join tables by keys that identify persons elsewhere."
    choose = "Where readers need joins; else leave it out, and keys are dropped."

    key: Annotated[
        dict[str, str], Doc("where the key is kept: {from_env: NAME} or {from_file: PATH}; at least 32 bytes")
    ] = field(repr=False)
    domain: Annotated[str, Doc("a name for the use of the pseudonyms; other domains give other pseudonyms")] = ""
    length: Annotated[int, Ge(1), Le(51), Doc("characters of a pseudonym, 5 bits each")] = 26

    def __post_init__(self) -> None:
        super().__post_init__()
        require_key_place("Pseudonymise", self.key)
        self._of_one(("key",), "key")

    def _of_one(self, columns: tuple[str, ...], about: str) -> PseudonymiseOne:
        domain = f"{self.domain}/{about}" if self.domain else about
        return PseudonymiseOne(columns=columns, key=self.key, domain=domain, length=self.length)

    def of_tables(self, tree: Tree) -> Mapping[str, Sequence[Entry]]:
        found: dict[str, list[Entry]] = {}
        for table, domains in _domains(tree).items():
            columns: dict[str, list[str]] = {}
            for column, about in domains.items():
                columns.setdefault(about, []).append(column)
            found[table] = [self._of_one(tuple(own), about) for about, own in columns.items()]
        return found

    @classmethod
    def examples(cls) -> list[Self]:
        key = {"from_env": "PRIVPIPE_TEST_KEY"}
        return [cls(key=key), cls(key=key, domain="research", length=51)]


def _domains(tree: Tree) -> dict[str, dict[str, str]]:
    """The key columns of each table, each with what it identifies: the column in the last table it leads to."""
    found: dict[str, dict[str, str]] = {}
    for name in tree.tables:
        steps = tree.path(name)[:1]
        related_to = any(relation.to == name for relation in tree.relations)
        own = (*(tree.tables[name].key if related_to else ()), *(column for step in steps for column in step.columns))
        found[name] = {column: _identified(tree, name, column) for column in own}
    return found


def _identified(tree: Tree, table: str, column: str) -> str:
    for step in tree.path(table):
        if column not in step.columns:
            break
        table, column = step.to, tree.tables[step.to].key[step.columns.index(column)]
    return table if len(tree.tables[table].key) == 1 else f"{table}.{column}"


@dataclass(frozen=True, kw_only=True, repr=False)
class ShiftDates(SetStage):
    """Move all dates of a person, in all tables, by one whole number of days.

    Parameters
    ----------
    days : int
        At least 1; a person's dates move by -days .. days, without 0.
    key : mapping
        ``{from_env: NAME}`` or ``{from_file: PATH}``; at least 32 bytes.
    columns : tuple of str, optional
        Tables and columns, as in ``visits.day``; left out: every date and timestamp that is released.
    nulls : {"keep", "refuse"}

    Raises
    ------
    DataError
        A column that is not there or holds no dates.

    Notes
    -----
    Intervals between the dates of a person are exact, also between tables. It is the stage `shift_dates` of each table
    with the person's key instead of `person_id`; in a table behind another, the person is found by the relations.
    Guarantees and later stages see the shifted dates.

    Examples
    --------
    >>> ShiftDates(days=30, key={"from_env": "DATES_KEY"}).days
    30
    """

    threat = "Dates that an intruder knows, such as that of an admission."
    choose = "At least 30 days; 182 hides the season."

    days: Annotated[int, Ge(1), Le(36525), Doc("most days that a person's dates move, either way")]
    key: Annotated[
        dict[str, str], Doc("where the key is kept: {from_env: NAME} or {from_file: PATH}; at least 32 bytes")
    ] = field(repr=False)
    columns: Annotated[
        tuple[str, ...] | None, Doc("tables and columns, as in visits.day; left out: all dates that are released")
    ] = None
    nulls: Annotated[Literal["keep", "refuse"], Doc("keep leaves missing values; refuse makes them an error")] = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_key_place("ShiftDates", self.key)
        if self.columns is not None:
            if not self.columns:
                raise UsageError("ShiftDates: columns must name a date, or be left out")
            object.__setattr__(self, "columns", tuple(self.columns))
        self.named_columns()

    def named_columns(self) -> tuple[tuple[str, str], ...]:
        """The tables and columns that it names."""
        return tuple(table_and_column("ShiftDates", each) for each in self.columns or ())

    def run(self, tables: RelatedSet) -> RelatedSet:
        related = tables.related
        moved = {name: columns for name in related.tables if (columns := self._columns_of(tables, name))}
        if not moved:
            raise UsageError("shift_dates: no table has a date that is released; leave the stage out")
        after = {name: self._shifted(tables, name, columns) for name, columns in moved.items()}
        shifted = [f"{name}.{column}" for name, columns in moved.items() for column in columns]
        return tables.after(related.having(after), name=self.name(), columns=shifted)

    def _columns_of(self, tables: RelatedSet, name: str) -> tuple[str, ...]:
        related = tables.related
        schema = tables.contexts[name].schema if name in tables.contexts else related.tables[name].schema
        if self.columns is None:
            keys = {
                *related.tree.tables[name].key,
                *(each for step in related.tree.path(name)[:1] for each in step.columns),
            }
            return tuple(
                field.name
                for field in schema
                if field.name not in keys and column_type_of(field.type) in ("date", "timestamp")
            )
        for table, column in self.named_columns():
            if table not in related.tables:
                raise UsageError(f"shift_dates: there is no table {table!r}{did_you_mean(table, related.tables)}")
            if table == name and column not in schema.names:
                raise DataError(
                    f"shift_dates: table {name!r} releases no column {column!r}{did_you_mean(column, schema.names)}"
                )
        return tuple(column for table, column in self.named_columns() if table == name)

    def _shifted(self, tables: RelatedSet, name: str, columns: tuple[str, ...]) -> Any:
        engine, table = tables.related.engine, tables.related.tables[name]
        owned, person = _with_person_text(tables.related, name)
        stage = ShiftDatesOfOne(columns=columns, days=self.days, key=self.key, nulls=self.nulls)
        given = tables.contexts.get(name) or StageContext(roles=Roles(), schema=table.schema)
        context = replace(given, schema=owned.schema, person=person, place=f"shift_dates: table {name!r}")
        plan = stage.learn(engine, owned, context)
        moved = stage.run(engine, owned, plan, Draws(tables.seed, len(tables.steps), self.name()), context)
        return engine.select(moved, table.schema.names)

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {"columns": list(detail.get("columns", ()))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(days=30, key={"from_env": "PRIVPIPE_TEST_KEY"})]


def _with_person_text(related: RelatedTables, name: str) -> tuple[Any, str]:
    """A table with the column that holds the person's key; a key of several columns is joined to one text."""
    root = related.tree.root
    owned, persons = (
        (related.tables[name], related.tree.tables[root].key) if name == root else with_person(related, name)
    )
    if len(persons) == 1:
        return owned, persons[0]
    schema = owned.schema.append(pa.field(JOINED, pa.string()))
    return related.engine.map_rows(owned, _Joined(persons), schema), JOINED


@dataclass(frozen=True)
class _Joined:
    """Appends the texts of some columns as one, from which each can be recovered."""

    columns: tuple[str, ...]

    def __call__(self, rows: RowBlock) -> RowBlock:
        texts = []
        for name in self.columns:
            column = rows.column(name)
            text = canonical_text(column, column_type_of(column.type)).cast(pa.string())
            texts.append(pc.binary_join_element_wise(pc.utf8_length(text).cast(pa.string()), text, ":"))
        return rows.with_batch(rows.batch.append_column(JOINED, pc.binary_join_element_wise(*texts, "|")))
