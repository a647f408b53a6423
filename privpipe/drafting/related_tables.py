"""The first policy of related tables: keys and relations by names and included values, persons and events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from privpipe.blocks.table_name import TableName
from privpipe.drafting.column_profiles import NoRecords, ProfiledTable, profile_table
from privpipe.drafting.draft import SCHEMA_FILE, Asked, column_lines, proposals, source_keys
from privpipe.drafting.methods import flow
from privpipe.drafting.profile import Guess
from privpipe.drafting.roles import Planned, planned
from privpipe.drafting.source_formats import database_tables
from privpipe.drafting.trials import Clock, loaded
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.databases import Database
from privpipe.errors import NoSolutionError, PrivpipeError, Refused, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.relations.counting import Census, RelatedTables
from privpipe.relations.schema import RelatedColumns, Relation, Tree

__all__ = ["RelatedDraft", "TablePlace", "several_tables"]

INCLUDED = 0.95
"""Share of the distinct values of a column that are keys of the table which it leads to."""
FEW_ABOVE = 0.05
"""Share of persons whose rows are capped, and of those unique by their numbers of rows, that need no word."""
USUAL = 0.75
"""Share of a sensitive value above which no bound below one is worth asking for."""
STEPS = 4
GENERAL = ("id", "key", "nr", "no", "number", "code")


class TablePlace(NamedTuple):
    """Where a table is: a file, or a table of a database file."""

    path: str
    table: str | None = None


def several_tables(data: Sequence[str]) -> dict[str, TablePlace]:
    """Tables by their names; none: it is one table.

    They are several files, a folder of files that differ in their columns, or the tables of a DuckDB or SQLite file,
    without its views.

    Raises
    ------
    UsageError
        Two files give one name.
    """
    paths = [Path(each) for each in data]
    if len(paths) == 1:
        if not paths[0].is_dir():
            return _of_database(data[0]) if paths[0].is_file() else {}
        inside = sorted(each for each in paths[0].iterdir() if each.name[0] not in "._" and "=" not in each.name)
        columns = {each: _columns_of(each) for each in inside}
        paths = [each for each, names in columns.items() if names]
        if len(paths) < 2 or len({columns[each] for each in paths}) < 2:
            return {}
    found: dict[str, TablePlace] = {}
    for path in paths:
        name = _plain_name((path.name.partition(".")[0],))
        if name in found:
            raise UsageError(f"two of the files give a table the name {name!r}; name files after their tables")
        found[name] = TablePlace(str(path))
    return found


def _of_database(path: str) -> dict[str, TablePlace]:
    """The tables of a database file by their own names, with the schema where two have one name; none of one table."""
    _, tables = database_tables(path, views=False) or ("", [])
    if len(tables) < 2:
        return {}
    parts = {each: TableName.parse(each).parts for each in tables}
    ends = Counter(_plain_name(each[-1:]) for each in parts.values())
    found: dict[str, TablePlace] = {}
    for table, own in parts.items():
        name = _plain_name(own[-1:])
        name = name if ends[name] == 1 else _plain_name(own)
        if name in found:
            raise UsageError(f"two tables of the database are called {name!r} in a policy; draft one by --table")
        found[name] = TablePlace(path, table)
    return found


def _plain_name(parts: Sequence[str]) -> str:
    """A name that a folder and a policy may have.

    Examples
    --------
    >>> _plain_name(("main", "Patient visits")), _plain_name(("?",))
    ('main_Patient_visits', 'table')
    """
    return re.sub(r"\W+", "_", "_".join(parts)).strip("_") or "table"


def _columns_of(path: Path) -> tuple[str, ...]:
    """The columns as far as they tell tables apart; none of what cannot be read as one."""
    try:
        with open_engine("embedded") as engine:
            return tuple(engine.scan(Source(data=str(path))).schema.names)
    except PrivpipeError:
        return ()


@dataclass(frozen=True)
class _Setting:
    """How coarse an attempt is: a share of each hierarchy, and the most rows of a person."""

    share: float
    cap: float


@dataclass
class RelatedDraft:
    """Related tables and the options of the draft that is wanted.

    Parameters
    ----------
    tables : mapping of str to ProfiledTable
    home : Path
        The folder the policy will be in.
    asked : Asked
    """

    tables: Mapping[str, ProfiledTable]
    home: Path
    asked: Asked
    name: str = "tables"
    relations: tuple[Relation, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    census: Census = field(default_factory=Census)
    heights: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, places: Mapping[str, TablePlace], home: Path, asked: Asked, *, name: str, delimiter: str | None
    ) -> RelatedDraft:
        """What is seen of the tables.

        Raises
        ------
        UsageError
            No table leads to another.
        DataError
        """
        seen, empty = {}, []
        for each, place in places.items():
            try:
                seen[each] = profile_table(place.path, delimiter, place.table)
            except NoRecords:
                if place.table is None:
                    raise
                empty.append(each)  # databases keep tables that nothing was written to
        draft = cls(seen, home, asked, name, left_out=tuple(empty))
        with open_engine("embedded") as engine:
            scanned = {each: engine.scan(table.source) for each, table in draft.tables.items()}
            draft._relate(engine, scanned)
            scanned = {each: scanned[each] for each in draft.tables}
            tree = Tree({each: RelatedColumns(draft._key(each)) for each in draft.tables}, draft.relations)
            draft.census = RelatedTables(engine, tree, scanned, orphans="drop").census()
            draft.heights = dict(draft._heights(engine, scanned))
        return draft

    @property
    def tree(self) -> Tree:
        """The tables as they lead to the root."""
        return Tree({name: RelatedColumns(self._key(name)) for name in self.tables}, self.relations)

    def _key(self, name: str) -> tuple[str, ...]:
        return (self.keys[name],) if name in self.keys else ()

    def _relate(self, engine: Engine, scanned: Mapping[str, Any]) -> None:
        """Find relations: a table leads to the largest one whose unique column holds its values, under a like name."""
        offered = []
        values: dict[tuple[str, str], dict[str, int]] = {}
        for child, parent in ((c, p) for c in self.tables for p in self.tables if c != p):
            for key in (
                each for each in self.tables[parent].profiles if each.distinct == each.records and not each.missing
            ):
                for column in self.tables[child].profiles:
                    if not _alike(column.name, parent, key.name):
                        continue
                    for table, name in ((child, column.name), (parent, key.name)):
                        if (table, name) not in values:
                            values[table, name] = _values(engine, scanned[table], name)
                    mine = values[child, column.name]
                    share = len(mine.keys() & values[parent, key.name].keys()) / len(mine) if mine else 0.0
                    if share >= INCLUDED:
                        offered.append((-key.records, -share, child, column.name, parent, key.name, column.records))
        led: dict[str, tuple[str, str, str]] = {}
        shares = {}
        for _, missed, child, by, parent, unique, _ in sorted(offered):
            if child in led or child in (parent, *_above(led, parent)):
                continue
            if any(own != unique for _, to, own in led.values() if to == parent):
                continue
            led[child] = (by, parent, unique)
            shares[child, parent] = -missed
        trees: dict[str, list[str]] = {}
        for name in self.tables:
            trees.setdefault([name, *_above(led, name)][-1], []).append(name)
        root = max(trees, key=lambda each: (len(trees[each]), self.tables[each].profiles[0].records))
        if len(trees[root]) < 2:
            raise UsageError(
                f"none of {', '.join(self.tables)} leads to another: no column holds the values of a unique column of "
                "a like name, as visits.patient_id those of patients.patient_id; draft each by its own `privpipe "
                "init`, of a database with `--table NAME`, or name the columns alike"
            )
        ordered = [root, *(name for name in trees[root] if name != root)]
        self.left_out = (*self.left_out, *(name for name in self.tables if name not in ordered))
        self.tables = {name: self.tables[name] for name in ordered}
        self.relations = tuple(Relation(name, (led[name][0],), led[name][1]) for name in ordered if name in led)
        self.keys = {parent: key for name, (_, parent, key) in led.items() if name in ordered}
        self.shares = shares

    def _heights(self, engine: Engine, scanned: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], int]]:
        for name in self.tables:
            made = self._planned(name)
            types = {each.name: each.type for each in self.tables[name].profiles}
            for column, spec in made.hierarchies.items():
                if made.guesses[column].role != "quasi_identifier":
                    continue
                seen = _values(engine, scanned[name], column)
                built = HierarchySpec.from_mapping(spec, column=column).build(
                    list(seen), list(seen.values()), types[column]
                )
                yield (name, column), built.height

    def _planned(self, name: str) -> Planned:
        table = self.tables[name]
        made = planned(table.profiles, table.relations, self.asked.answers)
        guesses = dict(made.guesses)
        if name in self.keys:
            leading = [relation.table for relation in self.relations if relation.to == name]
            guesses[self.keys[name]] = Guess(
                "identifier", f"distinguishes the records; {' and '.join(leading)} lead to it"
            )
        for relation in self.relations:
            if relation.table == name:
                guesses[relation.columns[0]] = Guess("identifier", f"leads to {relation.to}")
        hierarchies = {each: spec for each, spec in made.hierarchies.items() if guesses[each].role != "identifier"}
        return replace(made, guesses=guesses, hierarchies=hierarchies)

    @property
    def unique_by_counts(self) -> float:
        """Share of persons whom their numbers of rows single out."""
        return sum(persons == 1 for persons in self.census.rows.values()) / max(self.census.persons, 1)

    def text(self, *, seconds: float, tell: Callable[[str], None] = lambda step: None) -> str:
        """The policy with the finest levels that the guarantees are met at, among those that the time allows."""
        settings = [_Setting(step / STEPS, cap) for step in range(STEPS + 1) for cap in (FEW_ABOVE, 0.5)]
        clock = Clock(seconds, tell)
        for at, setting in enumerate([*settings, _Setting(1.0, 1.0)]):
            tell(f"attempt {at + 1} of {len(settings) + 1}")
            made = self._draft(setting)
            if clock.left <= 0 or self._meets(made):
                break
        else:
            return self._draft(
                setting, "No attempt met the guarantees on these tables: leave columns out, or ask for less."
            )
        if clock.left <= 0:
            return self._draft(
                _Setting(1.0, 0.5), "The time was over before levels were found that meet the guarantees."
            )
        return made

    def _meets(self, text: str) -> bool:
        from privpipe.running.related_frames import apply_related

        policy = loaded(text, self.home)
        try:
            apply_related(policy, {name: _given(table.source) for name, table in self.tables.items()})
        except (Refused, NoSolutionError):
            return False
        return True

    def _draft(self, setting: _Setting, doubt: str = "") -> str:
        orphans = {name: count for name, count in self._orphans().items() if count}
        lines = [
            f"# yaml-language-server: $schema={SCHEMA_FILE}",
            "# Written by `privpipe init`. Relations, roles and types are guesses: read every line before use.",
            *([f"# WARNING: {doubt}"] if doubt else []),
            *(f"# Left out: table {flow(name)}, which leads to none of these." for name in self.left_out),
            "version: 1",
            f"name: {flow(self.name)}",
            "tables:",
            *(line for name in self.tables for line in self._table(name, setting)),
            "relations:",
            *(line for relation in self.relations for line in self._relation(relation)),
            *(
                line
                for name, count in orphans.items()
                for line in [f"# {count:,} records of {flow(name)} belong to no person."]
            ),
            *(["orphans: drop"] if orphans else []),
            "transform:",
            *self._stages(setting),
            "guarantees:",
            *self._guarantees(),
            f"sink: {flow({'path': f'published/{self.name}', 'format': 'parquet'})}",
            "# seed: {from_env: PRIVPIPE_SEED}   # of `privpipe seed`, to repeat a run; left out, each draws its own",
        ]
        return "\n".join(lines) + "\n"

    def _orphans(self) -> Mapping[str, int]:
        children = self.tree.children
        return {children[at - 1] if at else self.tree.root: count for at, count in self.census.orphans.items()}

    def _table(self, name: str, setting: _Setting) -> Iterator[str]:
        table, made = self.tables[name], self._planned(name)
        yield f"  {flow(name)}:"
        records = table.profiles[0].records
        if name == self.tree.root:
            yield f"    # Persons: the table that the others lead to, {records:,} records, one of each person."
        else:
            rows = self._rows(name)
            none = rows.get(0, 0) / max(self.census.persons, 1)
            most = max(rows, default=0)
            yield f"    # Events: {records:,} records, at most {most:,} of a person; {none:.0%} have none."
        yield f"    source: {flow(source_keys(table.source, table.profiles, self.home))}"
        if name in self.keys:
            yield f"    key: {flow(self.keys[name])}"
        yield "    columns:"
        yield from (f"    {line}" for line in column_lines(table.profiles, made))
        levels = {
            column: round(setting.share * self.heights[name, column])
            for column in made.hierarchies
            if (name, column) in self.heights and round(setting.share * self.heights[name, column])
        }
        if levels:
            yield "    transform:"
            yield f"      - generalize: {flow({'levels': levels})}"

    def _rows(self, name: str) -> dict[int, int]:
        """Persons by how many rows of a table they have."""
        at = self.tree.children.index(name)
        found: dict[int, int] = {}
        for rows, persons in self.census.rows.items():
            found[rows[at]] = found.get(rows[at], 0) + persons
        return found

    def _relation(self, relation: Relation) -> Iterator[str]:
        share = self.shares[relation.table, relation.to]
        column = relation.columns[0]
        key = flow(f"{relation.to}.{self.keys[relation.to]}")
        yield f"  # {share:.1%} of the distinct values of {flow(column)} are among those of {key}."
        yield f"  - {flow({'from': f'{relation.table}.{column}', 'to': relation.to})}"

    def _stages(self, setting: _Setting) -> Iterator[str]:
        for name in self.tree.children:
            if not any(each.role == "quasi_identifier" for each in self._planned(name).guesses.values()):
                continue
            rows = self._rows(name)
            most = max(rows, default=0)
            cap = next((n for n in range(1, most) if _above_cap(rows, n) <= setting.cap * self.census.persons), most)
            if 0 < cap < most:
                share = _above_cap(rows, cap) / self.census.persons
                yield f"  # {share:.1%} of the persons have more records than that, by which they stand out."
                yield f"  - cap_rows: {flow({'table': name, 'at_most': cap})}"
        yield "  # Persons of groups that fail go with all their records; beyond this share the run ends."
        yield f"  - suppress_persons: {flow({'at_most': max(self.asked.purpose.suppress_at_most, FEW_ABOVE)})}"

    def _guarantees(self) -> Iterator[str]:
        root = self.tables[self.tree.root]
        k = max(
            int(each.parameters["k"])
            for each in proposals(root.profiles, self._planned(self.tree.root), self.asked)
            if each.name == "k_anonymity"
        )
        counts: dict[str, Any] = {"row_counts": True} if self.unique_by_counts > FEW_ABOVE else {}
        yield f"  # For {self.asked.purpose.name} use: {self.asked.purpose.reason}."
        yield f"  # {self.unique_by_counts:.1%} of the persons are unique by their numbers of records alone" + (
            ": an intruder may know how often a person came." if counts else "; `row_counts: true` adds them."
        )
        yield f"  - joint_k_anonymity: {flow({'k': k, **counts})}"
        for name, table in self.tables.items():
            guesses = self._planned(name).guesses
            for profile in table.profiles:
                if guesses[profile.name].role != "sensitive":
                    continue
                column = f"{name}.{profile.name}"
                usual = max(profile.counts, default=0) / profile.records
                if usual > USUAL:
                    yield f"  # One value of {flow(column)} is the usual one: asked for is that it is not the only one."
                    yield f"  - joint_l_diversity: {flow({'column': column, 'l': 2, **counts})}"
                else:
                    yield f"  # An intruder infers no value of {flow(column)} with a certainty above four in five."
                    yield f"  - joint_alpha: {flow({'column': column, 'alpha': 0.8, **counts})}"


def _given(source: Source) -> Any:
    """The table as a policy whose relative paths start elsewhere finds it."""
    if isinstance(source.data, Database):
        return replace(source, data=replace(source.data, at=str(Path(source.data.at).absolute())))
    return str(source.data)


def _above_cap(rows: Mapping[int, int], cap: int) -> int:
    return sum(persons for many, persons in rows.items() if many > cap)


def _above(led: Mapping[str, tuple[str, str, str]], name: str) -> list[str]:
    """The tables that a table leads to, the nearest first."""
    found = []
    while name in led:
        name = led[name][1]
        found.append(name)
    return found


def _values(engine: Engine, table: Any, column: str) -> dict[str, int]:
    """Distinct values of a column as texts with the records of each, without a missing one."""
    found = engine.distinct(table, [column])
    texts = found.column(column).cast(pa.string()).to_pylist()
    counts = found.column("__count").to_pylist()
    return {text: count for text, count in zip(texts, counts, strict=True) if text is not None}


def _words(name: str) -> list[str]:
    return [each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)]


def _alike(column: str, parent: str, key: str) -> bool:
    """Whether a column is called like the key of a table, or after the table.

    Examples
    --------
    >>> _alike("patient_id", "patients", "id"), _alike("patient", "patients", "patient"), _alike("id", "wards", "id")
    (True, True, False)
    """
    mine, theirs, table = _words(column), _words(key), _words(parent)
    singular = (
        [*table[:-1], re.sub(r"(ies|s)$", lambda end: "y" if end[0] == "ies" else "", table[-1])] if table else []
    )
    if mine == theirs:
        return not (len(mine) == 1 and mine[0] in GENERAL)
    named = mine[: len(singular)] == singular or mine[: len(table)] == table
    rest = [each for each in mine if each not in (*singular, *table)]
    return bool(table) and named and all(each in (*theirs, *GENERAL) for each in rest)
