"""Policies about related tables: `tables:`, each read as a policy, `relations:`, and joint requirements."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.errors import UsageError, did_you_mean
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.entries import ReadEntry, read_entries
from privpipe.policy.grammar import MEMBER, RELATED, VERSION
from privpipe.policy.plain_values import Place, Report, shown
from privpipe.policy.sections import read_engines, read_keys, read_plan, read_report, read_retention, read_secret
from privpipe.policy.sinks import read_sink
from privpipe.policy.specs import ColumnSpec, roles_of
from privpipe.relations.counting import Orphans
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.schema import RelatedColumns, Relation, Tree
from privpipe.relations.set_stages import SetStage
from privpipe.roles import Roles

__all__ = ["RelatedRelease", "is_related", "read_related"]

INHERITED = ("engine", "engines", "nulls", "undeclared", "metadata", "suppression_mark", "seed", "allow_insecure_seed")
"""Keys of the set that its tables have too."""
NAME = re.compile(r"(?!_)[\w][\w -]{0,59}(?<! )")
"""Names of tables: each becomes a folder of the release, on every file system and store, and stands before the dot of
`visits.ward`. Readers of lakes pass names with a leading sign by, and take `day=3` for a partition."""
ReadMember = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class ReadTable:
    """The fields of a policy about one of the tables, before the policy is made of them."""

    fields: Mapping[str, Any]

    @property
    def columns(self) -> Mapping[str, ColumnSpec]:
        found: Mapping[str, ColumnSpec] = self.fields["columns"]
        return found

    @property
    def roles(self) -> Roles:
        """The role of every column."""
        return roles_of(self.columns)

    @property
    def guarantees(self) -> Sequence[Guarantee]:
        """Those of the table itself."""
        found: Sequence[Guarantee] = self.fields["guarantees"]
        return found


@dataclass(frozen=True, kw_only=True)
class RelatedRelease:
    """What a policy states about related tables.

    Parameters
    ----------
    tables : mapping of str to Policy
        Each about one table, without a sink.
    tree : Tree
    stages : tuple of SetStage
        After those of the tables.
    guarantees, measures : tuple of JointGuarantee
    orphans : {"refuse", "drop"}
    joined : bool
        Whether the tables are judged together although readers get no key; otherwise each is judged by itself.
    """

    tables: Mapping[str, Any]
    tree: Tree
    stages: tuple[SetStage, ...] = ()
    guarantees: tuple[JointGuarantee, ...] = ()
    measures: tuple[JointGuarantee, ...] = ()
    orphans: Orphans = "refuse"
    joined: bool = True

    def of_policies(self, make: Callable[..., Any]) -> RelatedRelease:
        """The same with a policy made of the fields of each table."""
        made = {name: make(**own.fields) if isinstance(own, ReadTable) else own for name, own in self.tables.items()}
        return replace(self, tables=made)

    def keys_of(self, table: str) -> tuple[str, ...]:
        """The columns of a table by which its rows are related."""
        own = [relation.columns for relation in self.tree.relations if relation.table == table]
        return tuple(dict.fromkeys(name for names in (self.tree.tables[table].key, *own) for name in names))

    def finished(self, table: str) -> Any:
        """The policy of a finished table, which holds the keys of its relations to be judged with the others."""
        own, keys = self.tables[table], self.keys_of(table)
        columns = {
            name: replace(spec, role="insensitive") if name in keys and spec.role == "identifier" else spec
            for name, spec in own.columns.items()
        }
        return own.replaced(columns=columns)


def is_related(document: Any) -> bool:
    """Whether a document is about related tables."""
    return isinstance(document, Mapping) and ("tables" in document or "relations" in document)


def read_related(
    document: Any,
    report: Report,
    base_dir: Path,
    catalogues: Catalogues,
    read_member: ReadMember,
) -> dict[str, Any]:
    """The fields of a `Policy` about related tables.

    Parameters
    ----------
    read_member : callable
        Reads the document of one table.

    Raises
    ------
    PolicyError, UnsupportedError
    """
    if "source" in document:
        report.wrong(("source",), "a policy has `source:` or `tables:`; give each table its own source")
        document = {name: value for name, value in document.items() if name != "source"}
    found = read_keys(report, document, (), RELATED)
    if found.get("version", VERSION) != VERSION:
        report.wrong(("version",), f"is {found['version']}; this privpipe reads version {VERSION}")
    given = found.get("tables", {})
    _check_table_names(report, given)
    tree = _tree(report, found.get("relations", []), given)
    stages = _entries(report, found, "transform", SetStage, catalogues, base_dir)
    added, stages = _of_tables(report, tree, stages, found)
    tables: dict[str, Any] = {
        name: _member(
            report,
            name,
            _with_stages(value, added.get(name, ())),
            found,
            partial(read_member, base_dir=base_dir, catalogues=catalogues),
        )
        for name, value in given.items()
    }
    tree = None if tree is None else _with_quasi_identifiers(tree, tables)
    guarantees = _entries(report, found, "guarantees", JointGuarantee, catalogues, base_dir)
    measures = _entries(report, found, "measures", JointGuarantee, catalogues, base_dir)
    for item in guarantees:
        if isinstance(item.entry, JointGuarantee) and item.entry.demanded() is None:
            field = item.entry.threshold_field
            report.wrong(
                item.place, f"a guarantee needs its threshold `{field}`; without one it belongs in `measures:`"
            )
    if guarantees and not any(item.entry.binds for item in guarantees if isinstance(item.entry, JointGuarantee)):
        report.wrong(
            (*guarantees[0].place, "severity"),
            "at least one guarantee must have `severity: fail`: with warnings only every set would be published",
        )
    if not guarantees and not report.is_wrong:
        report.wrong(("guarantees",), "at least one joint guarantee is needed, such as `- joint_k_anonymity: {k: 5}`")
    if tree is not None:
        _check_columns(report, tree, [*guarantees, *measures], stages, tables)
        if not found.get("joined", True):
            _check_no_key(report, tree, tables)
    sections: dict[str, Callable[..., Any]] = {
        "sink": read_sink,
        "report": read_report,
        "retention": read_retention,
        "seed": partial(read_secret, base_dir=base_dir),
        "engines": read_engines,
        "plan": read_plan,
    }
    fields = {name: read(report, found[name], (name,)) for name, read in sections.items() if name in found}
    report.raise_if_wrong()
    if tree is None:
        raise TypeError("relations that could not be read were not reported")
    if (sink := fields.get("sink")) is not None:
        if sink.partition:
            report.wrong(("sink", "partition"), "related tables are a folder each, and not partitioned; leave it out")
            report.raise_if_wrong()
        tables = {name: ReadTable({**own.fields, "sink": sink}) for name, own in tables.items()}
    stem = Path(report.file).stem if report.file else "policy"
    plain = {name: found[name] for name in ("name", "records", "engine", *INHERITED) if name in found}
    return {
        "name": stem,
        **plain,
        **fields,
        "columns": {},
        "guarantees": (),
        "related": RelatedRelease(
            tables=tables,
            tree=tree,
            stages=tuple(item.entry for item in stages if isinstance(item.entry, SetStage)),
            guarantees=tuple(item.entry for item in guarantees if isinstance(item.entry, JointGuarantee)),
            measures=tuple(item.entry for item in measures if isinstance(item.entry, JointGuarantee)),
            orphans=found.get("orphans", "refuse"),
            joined=found.get("joined", True),
        ),
        "warnings": tuple(report.warnings),
        "file": report.file,
        "base_dir": base_dir,
        "lines": {shown(place): line for place, line in report.lines.items()},
        "document": document,
    }


def _check_table_names(report: Report, names: Iterable[Any]) -> None:
    """Names are those of folders, also where file systems fold case or compose letters."""
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            report.wrong(
                ("tables", name),
                "is not a valid table name, which becomes a directory name: use letters, digits, `_`, `-` and spaces "
                "inside, 60 at most, with a letter or digit first",
            )
            continue
        folded = unicodedata.normalize("NFKC", name).casefold()
        if folded in seen:
            report.wrong(("tables", name), f"is the folder of {seen[folded]!r} where file systems fold case; rename it")
        seen.setdefault(folded, name)


def _member(
    report: Report, name: str, value: Any, found: Mapping[str, Any], read: Callable[..., dict[str, Any]]
) -> ReadTable | None:
    """One table; None, with what is wrong noted, where it cannot be read."""
    place: Place = ("tables", name)
    if not isinstance(value, Mapping):
        report.wrong(place, "must be a mapping, as in {source: {path: visits.parquet}, columns: {...}}")
        return None
    above = {key: found[key] for key in INHERITED if key in found}
    own = {key: each for key, each in value.items() if key != "key"}
    for key in own:
        if key not in MEMBER:
            where = "of the whole set" if key in RELATED else "unknown"
            report.wrong((*place, key), f"{where}; a table takes {', '.join(MEMBER)}")
    document = {**above, **{key: each for key, each in own.items() if key in MEMBER}}
    document = {"guarantees": [], **document, "name": f"{found.get('name', 'policy')}.{name}"}
    with report.within(place) as inner:
        return ReadTable(read(document, inner))
    return None


def _of_tables(
    report: Report, tree: Tree | None, stages: Sequence[ReadEntry], found: Mapping[str, Any]
) -> tuple[dict[str, list[dict[str, Any]]], list[ReadEntry]]:
    """What stages of the set add to those of each table, and the others."""
    added: dict[str, list[dict[str, Any]]] = {}
    left = []
    for item in stages:
        of_tables = item.entry.of_tables(tree) if tree is not None and isinstance(item.entry, SetStage) else {}
        for name, entries in of_tables.items():
            for entry in entries:
                _check_released(report, item, name, found["tables"][name], entry.parameters()["columns"])
                own = found["transform"][item.at][item.name]  # paths of keys as they are written
                given = {**entry.parameters(), **{key: own[key] for key in ("key",) if key in own}}
                added.setdefault(name, []).append({entry.name(): given})
        if not of_tables:
            left.append(item)
    return added, left


def _check_released(report: Report, item: ReadEntry, name: str, value: Any, columns: Sequence[str]) -> None:
    """Refuse keys that would not be pseudonyms in every table, or twice."""
    own = value.get("columns") if isinstance(value, Mapping) else None
    stages = value.get("transform") if isinstance(value, Mapping) else None
    done = [
        column
        for stage in (stages if isinstance(stages, list) else [])
        if isinstance(stage, Mapping) and isinstance(stage.get(item.name), Mapping)
        for column in stage[item.name].get("columns") or ()
    ]
    for column in columns:
        spec = own.get(column) if isinstance(own, Mapping) else None
        role = spec.get("role") if isinstance(spec, Mapping) else None
        if role not in (None, "identifier"):
            report.wrong(
                ("tables", name, "columns", column),
                f"has `role: {role}`, and {item.name} replaces this key in all tables; make it an identifier",
            )
        if column in done:
            report.wrong(
                item.place, f"table {name!r} has a stage {item.name} for {column!r} already; leave one of the two out"
            )


def _with_stages(value: Any, added: Sequence[Mapping[str, Any]]) -> Any:
    """What a document states about a table, with more stages."""
    if not added or not isinstance(value, Mapping):
        return value
    own = value.get("transform") or []
    return {**value, "transform": [*own, *added] if isinstance(own, list) else own}


def _with_quasi_identifiers(tree: Tree, tables: Mapping[str, Any]) -> Tree:
    columns = {
        name: replace(own, quasi_identifiers=() if tables[name] is None else tables[name].roles.quasi_identifiers)
        for name, own in tree.tables.items()
    }
    return replace(tree, tables=columns)


def _tree(report: Report, relations: Any, given: Mapping[str, Any]) -> Tree | None:
    """The tree, or None where something is wrong with it, which is noted."""
    if not isinstance(relations, list):
        report.wrong(("relations",), "must be a list, each `- {from: visits.patient_id, to: patients}`")
        return None
    steps = []
    for at, each in enumerate(relations):
        try:
            steps.append(Relation.of(each))
        except UsageError as error:
            report.wrong(("relations", at), str(error))
    columns = {}
    for name, value in given.items():
        key = value.get("key", ()) if isinstance(value, Mapping) else ()
        names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, list) else ()
        if not all(isinstance(each, str) for each in names):
            report.wrong(("tables", name, "key"), "must be the name of a column, or a list of names")
            return None
        columns[name] = RelatedColumns(names)
    if len(steps) < len(relations):
        return None
    try:
        return Tree(columns, tuple(steps))
    except UsageError as error:
        report.wrong(("relations",), str(error).removeprefix("relations: "))
        return None


def _entries(
    report: Report, found: Mapping[str, Any], section: str, kind: type[Any], catalogues: Catalogues, base_dir: Path
) -> list[ReadEntry]:
    items = read_entries(report, found.get(section, []), section, catalogues.of_sets(), base_dir)
    for item in items:
        if item.kind is not None and not issubclass(item.kind, kind):
            report.wrong(item.place, f"{item.name} does not belong in `{section}:` of related tables")
    return items


def _check_columns(
    report: Report,
    tree: Tree,
    judged: Sequence[ReadEntry],
    stages: Sequence[ReadEntry],
    tables: Mapping[str, Any],
) -> None:
    """Tables and columns that are named are there; keys have roles; nothing sensitive is unjudged."""
    looked: dict[str, set[str]] = {name: set() for name in tables}
    for item in judged:
        if isinstance(item.entry, JointGuarantee):
            _check_knows(report, tree, item.place, item.entry.knows or {}, tables)
            if item.entry.sensitive is not None:
                for table, column in _sensitive(report, item.place, item.entry.sensitive, tables):
                    looked[table].add(column)
    for item in stages:
        named = getattr(item.entry, "table", None)
        if named is not None and named not in tree.children:
            report.wrong((*item.place, "table"), f"is not a table that leads to {tree.root!r}")
        for table, column in item.entry.named_columns() if isinstance(item.entry, SetStage) else ():
            if table not in tables:
                report.wrong((*item.place, "columns"), f"there is no table {table!r}{did_you_mean(table, tables)}")
            elif tables[table] is not None and column not in tables[table].columns:
                near = did_you_mean(column, tables[table].columns)
                report.wrong((*item.place, "columns"), f"table {table!r} has no column {column!r}{near}")
    for name, policy in tables.items():
        if policy is not None:
            _check_member(report, tree, name, policy, looked[name])


def _check_no_key(report: Report, tree: Tree, tables: Mapping[str, Any]) -> None:
    """No table releases a key by which it can be joined to another one."""
    for name, policy in tables.items():
        if policy is None:
            continue
        stages = policy.fields.get("transform", ())
        shown = {column for stage in stages if stage.taxon == "identifiers" for column in stage.masked_columns()}
        for column in dict.fromkeys((*tree.tables[name].key, *_links(tree, name))):
            if column in policy.columns and (policy.columns[column].role != "identifier" or column in shown):
                report.wrong(
                    ("joined",),
                    f"is false, so that each table is judged alone, and the key {column!r} of {name!r} is released: "
                    "leave `joined` out, or make the key an identifier that no stage releases",
                )


def _check_knows(report: Report, tree: Tree, place: Place, knows: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    for name, most in knows.items():
        if name not in tree.children:
            near = did_you_mean(name, tree.children)
            report.wrong((*place, "knows", name), f"is not a table that leads to {tree.root!r}{near}")
        elif most and tables[name] is not None and not tree.tables[name].quasi_identifiers:
            report.wrong((*place, "knows", name), "has no quasi-identifier, so nothing can be known of its rows")


def _sensitive(
    report: Report, place: Place, sensitive: tuple[str, str], tables: Mapping[str, Any]
) -> Iterable[tuple[str, str]]:
    """The column that a guarantee judges; of a misspelt one, which is reported, the columns that may be meant."""
    table, column = sensitive
    if table not in tables:
        report.wrong((*place, "column"), f"there is no table {table!r}{did_you_mean(table, tables)}")
    elif tables[table] is None or column in tables[table].roles.sensitive:
        yield sensitive
    elif column in tables[table].columns:
        report.wrong((*place, "column"), f"{column!r} of {table!r} must have `role: sensitive`")
    else:
        near = did_you_mean(column, tables[table].columns)
        report.wrong((*place, "column"), f"table {table!r} has no column {column!r}{near}")
        yield from ((table, each) for each in tables[table].roles.sensitive if did_you_mean(column, [each]))


def _check_member(report: Report, tree: Tree, name: str, policy: Any, looked: set[str]) -> None:
    own = {column for entry in policy.guarantees for column in entry.sensitive_columns() if entry.binds}
    for column in policy.roles.sensitive:
        if column not in looked | own:
            report.wrong(
                ("tables", name, "columns", column),
                f"is sensitive and no guarantee judges it; add one such as joint_alpha with `column: {name}.{column}`, "
                "or declare the column insensitive to release it all the same",
            )
    for column in (*tree.tables[name].key, *_links(tree, name)):
        if column not in policy.columns:
            report.wrong(("tables", name, "columns"), f"the key {column!r} is not among them; give it a role")
        elif policy.columns[column].role not in ("identifier", "insensitive"):
            report.wrong(
                ("tables", name, "columns", column),
                f"is a key and has `role: {policy.columns[column].role}`; make it an identifier (dropped, or "
                "pseudonymised), or insensitive",
            )
        elif policy.columns[column].role == "insensitive":
            report.warn(
                ("tables", name, "columns", column),
                "is a key and is released unchanged: anyone who has it from another source can identify the person; "
                "make it an identifier, and pseudonymise it if readers join by it",
            )


def _links(tree: Tree, name: str) -> tuple[str, ...]:
    return next((relation.columns for relation in tree.relations if relation.table == name), ())
