"""A policy of Python objects: written as a document, and read as any other."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, get_type_hints

from privpipe.blocks import Entry, Guarantee
from privpipe.errors import PolicyError, Problem, UsageError, did_you_mean
from privpipe.judging.rules import OthersRule, UndeclaredRule
from privpipe.policy.catalogues import named_entry
from privpipe.policy.plain_values import written
from privpipe.policy.rules import read_mapping
from privpipe.policy.secret import secret_given
from privpipe.relations.counting import Orphans
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.set_stages import SetStage
from privpipe.roles import ColumnType, EmptyRule, NullRule, Roles, read_roles
from privpipe.transforms.base import Transformer

__all__ = ["PolicyOptions", "read_objects", "to_yaml", "without_secret"]

SEED_VARIABLE = "PRIVPIPE_SEED"
PATHS = ("source", "original", "population", "sink")
OF_SETS = ("keys", "relations", "orphans", "joined")
NOTHING: Mapping[str, Any] = {
    "name": "table",
    "roles": None,
    "hierarchies": None,
    "transform": (),
    "guarantees": (),
    "measures": (),
}
"""The arguments of a policy about one table, as they are left out."""
KINDS: Mapping[type[Entry], str] = {
    Transformer: "transformer",
    Guarantee: "guarantee",
    SetStage: "stage over related tables",
    JointGuarantee: "joint guarantee",
}


class PolicyOptions(TypedDict, total=False):
    """What a policy of Python objects takes in addition, each as the document does.

    `source`, `original`, `population` and `sink` may be paths; `types` are those of columns; `base_dir` is where
    relative paths start (default: where the program runs).

    A policy about related tables has `tables` and `relations` instead of `roles`. Each table is a `Policy`, a
    mapping of the arguments of one, or a mapping with the keys that a document gives it; `keys` are those of the tables
    that others lead to.
    """

    policy: str | None
    types: Mapping[str, ColumnType] | None
    source: str | os.PathLike[str] | Mapping[str, Any] | None
    original: str | os.PathLike[str] | Mapping[str, Any] | None
    population: str | os.PathLike[str] | Mapping[str, Any] | None
    sink: str | os.PathLike[str] | Mapping[str, Any] | None
    records: str | None
    retention: Mapping[str, int] | None
    engine: str | None
    engines: Mapping[str, Mapping[str, Any]] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    wildcard: str | None
    undeclared: OthersRule | None
    drift: Mapping[str, str] | None
    failing: Mapping[str, Any] | None
    metadata: UndeclaredRule | None
    empty: EmptyRule | None
    suppression_mark: str | None
    plan: Mapping[str, Any] | None
    utility: Mapping[str, Any] | None
    report: Mapping[str, Any] | None
    uses: Sequence[str] | None
    allow_insecure_seed: bool | None
    tables: Mapping[str, Any] | None
    keys: Mapping[str, str | Sequence[str]] | None
    relations: Sequence[Mapping[str, str]] | None
    orphans: Orphans | None
    joined: bool | None
    base_dir: str | os.PathLike[str] | None


def read_objects(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a policy from the arguments of its constructor.

    Parameters
    ----------
    given : mapping
        name, roles, hierarchies, transform, guarantees, measures, seed.
    options : mapping
        See `PolicyOptions`.

    Raises
    ------
    PolicyError
        Everything that is wrong, each with its argument.
    """
    options = {name: value for name, value in options.items() if value is not None}
    related = "tables" in options
    given, problems = _as_objects(given, sets=related)
    if related and isinstance(options["tables"], Mapping):
        options["tables"], wrong = _tables_as_objects(options["tables"])
        problems += wrong
    if problems:
        raise PolicyError(problems)
    problems = [*_unknown(options), *(_wrong_tables if related else _wrong_kinds)(given, options)]
    if problems:
        raise PolicyError(problems)
    seed = secret_given(given["seed"])
    held = seed is not None and seed.held is not None
    document = (_related_document if related else _document)(given, options)
    if seed is not None:
        document["seed"] = {"from_env": SEED_VARIABLE} if held else dict(given["seed"])
    try:
        fields = read_mapping(document, options.get("base_dir"))
    except PolicyError as error:
        raise PolicyError([_as_argument(problem) for problem in error.problems]) from None
    return {**fields, "seed": seed} if held else fields


def to_yaml(document: Mapping[str, Any]) -> str:
    """A document as YAML, in its given order.

    Examples
    --------
    >>> print(to_yaml({"version": 1, "guarantees": [{"k_anonymity": {"k": 5}}]}))
    version: 1
    guarantees:
    - k_anonymity:
        k: 5
    <BLANKLINE>
    """
    from ruamel.yaml import YAML

    text = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(dict(document), text)
    return text.getvalue()


def without_secret(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the place of a seed that is in it; an insecure one is not secret.

    Examples
    --------
    >>> without_secret({"seed": "f" * 32})
    {'seed': {'from_env': 'PRIVPIPE_SEED'}}
    """
    placed = isinstance(document.get("seed"), Mapping | None)
    return dict(document) if placed else {**document, "seed": {"from_env": SEED_VARIABLE}}


def _as_objects(given: Mapping[str, Any], *, sets: bool = False) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments with entries that are given as in a document, and roles by column, as objects."""
    found, problems = dict(given), []
    if isinstance(given.get("roles"), Mapping):
        try:
            found["roles"] = read_roles(given["roles"])
        except UsageError as error:
            problems.append(Problem("roles", str(error).removeprefix("roles: ")))
    for name in ("transform", "guarantees", "measures"):
        if isinstance(given.get(name), list | tuple):
            found[name] = list(given[name])
            for at, value in enumerate(given[name]):
                try:
                    found[name][at] = named_entry(value, name, sets=sets)
                except UsageError as error:
                    problems.append(Problem(f"{name}[{at}]", str(error)))
    return found, problems


def _tables_as_objects(tables: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The same for each table that is given by the arguments of a policy."""
    found, problems = dict(tables), []
    for name, table in tables.items():
        if isinstance(table, Mapping) and "roles" in table:
            found[name], wrong = _as_objects(table)
            problems += [Problem(f"tables.{name}.{each.path}", each.message) for each in wrong]
    return found, problems


def _unknown(options: Mapping[str, Any]) -> list[Problem]:
    known = tuple(get_type_hints(PolicyOptions))
    return [
        Problem(name, f"unknown argument{did_you_mean(name, known) or '; known here: ' + ', '.join(known)}")
        for name in options
        if name not in known
    ]


def _wrong_kinds(given: Mapping[str, Any], options: Mapping[str, Any]) -> list[Problem]:
    problems = [
        Problem(name, "belongs to a policy about related tables; give `tables` too")
        for name in OF_SETS
        if name in options
    ]
    if given["roles"] is None:
        problems.append(Problem("roles", "the roles of the columns are missing; or give `tables` and `relations`"))
    elif not isinstance(given["roles"], Roles):
        problems.append(
            Problem(
                "roles",
                f"must be a privpipe.Roles or a mapping of columns to roles, not {type(given['roles']).__name__}",
            )
        )
    if not isinstance(given["hierarchies"] or {}, Mapping):
        problems.append(Problem("hierarchies", "must be a mapping of column to hierarchy"))
    return [*problems, *_wrong_entries(given, Transformer, Guarantee)]


def _wrong_entries(given: Mapping[str, Any], stage: type[Entry], judged: type[Entry]) -> list[Problem]:
    problems = []
    for name, kind in (("transform", stage), ("guarantees", judged), ("measures", judged)):
        entries = given[name]
        said = KINDS[kind]
        if isinstance(entries, str) or not isinstance(entries, Sequence):
            problems.append(Problem(name, f"must be a list, also of a single {said}"))
            continue
        problems += [
            Problem(f"{name}[{at}]", f"must be a {said}, not {_described(entry)}")
            for at, entry in enumerate(entries)
            if not isinstance(entry, kind)
        ]
    return problems


def _wrong_tables(given: Mapping[str, Any], options: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the arguments of a policy about related tables, before a document is made of them."""
    problems = [
        Problem(name, "belongs to one table: give it in `tables`") for name in ("roles", "hierarchies") if given[name]
    ]
    tables = options["tables"]
    if not isinstance(tables, Mapping) or not tables or not all(isinstance(name, str) for name in tables):
        return [*problems, Problem("tables", "must be a mapping of names to policies, as in {'visits': Policy(...)}")]
    if not isinstance(options.get("keys", {}), Mapping):
        problems.append(Problem("keys", "must be a mapping of table to column, as in {'patients': 'patient_id'}"))
    for name, table in tables.items():
        problems += [
            Problem(f"tables.{name}{each.path and '.' + each.path}", each.message)
            for each in _wrong_table(table, options)
        ]
    return [*problems, *_wrong_entries(given, SetStage, JointGuarantee)]


def _wrong_table(table: Any, options: Mapping[str, Any]) -> list[Problem]:
    if isinstance(getattr(table, "document", None), Mapping):  # a policy, whose class is made of what is read here
        start = os.path.abspath(options.get("base_dir") or ".")
        if os.path.abspath(table.base_dir) != start:
            return [
                Problem(
                    "", "its relative paths start in another folder than those of the set; give both one `base_dir`"
                )
            ]
        return []
    if not isinstance(table, Mapping):
        return [Problem("", f"must be a policy or a mapping, not {_described(table)}")]
    if "roles" not in table:
        return []
    if "base_dir" in table:
        return [Problem("base_dir", "belongs to the whole set")]
    return _wrong_kinds({**NOTHING, **table}, {})


def _related_document(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    keys = options.get("keys", {})
    tables = {name: _table_document(table) for name, table in options["tables"].items()}
    named = {name: value for name, value in options.items() if name not in ("keys", "base_dir")}
    for name, key in keys.items():
        tables.setdefault(name, {})["key"] = key if isinstance(key, str) else list(key)
    entries = {
        name: [written(entry) for entry in given[name]]
        for name in ("transform", "guarantees", "measures")
        if given[name] or name == "guarantees"
    }
    return {"version": 1, "name": given["name"], **_with_paths(named), "tables": tables, **entries}


def _table_document(table: Any) -> dict[str, Any]:
    """What a document states about one of several tables."""
    if not isinstance(table, Mapping):
        found = dict(table.document)
    elif "roles" in table:
        given = {**NOTHING, **{name: value for name, value in table.items() if name in NOTHING}}
        options = {name: value for name, value in table.items() if name not in NOTHING and value is not None}
        found = _document(given, options)
    else:
        return _with_paths(table)
    of_whole = ("version", "name", *(() if found.get("guarantees") else ("guarantees",)))
    return {name: value for name, value in found.items() if name not in of_whole}


def _described(entry: Any) -> str:
    return f"{entry.name()}, which is not one" if isinstance(entry, Entry) else type(entry).__name__


def _document(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The document that says the same; what is in no catalogue is refused where it is read."""
    entries = {
        name: [written(entry) for entry in given[name]]
        for name in ("transform", "guarantees", "measures")
        if given[name] or name == "guarantees"
    }
    named = {name: value for name, value in options.items() if name not in ("types", "base_dir")}
    return {"version": 1, "name": given["name"], "columns": _columns(given, options), **_with_paths(named), **entries}


def _with_paths(named: Mapping[str, Any]) -> dict[str, Any]:
    """The same with paths as a document has them."""
    return {
        name: {"path": os.fspath(value)} if name in PATHS and isinstance(value, str | os.PathLike) else value
        for name, value in named.items()
    }


def _columns(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    roles: Roles = given["roles"]
    hierarchies, types = given["hierarchies"] or {}, options.get("types", {})
    named = dict.fromkeys((*roles.columns, *hierarchies, *types))
    for entry in (*given["transform"], *given["guarantees"], *given["measures"]):
        own = entry.named_columns() if isinstance(entry, Transformer) else entry.own_columns() or ()
        named.update(dict.fromkeys(own))
    columns: dict[str, Any] = {}
    for name in named:
        columns[name] = {"role": roles.of(name) if name in roles.columns else "insensitive"}
        if name in types:
            columns[name]["type"] = types[name]
        if name in hierarchies:
            found = hierarchies[name]
            columns[name]["hierarchy"] = {"file": os.fspath(found)} if isinstance(found, str | os.PathLike) else found
    return columns


def _as_argument(problem: Problem) -> Problem:
    """A problem with the argument it is in, instead of the line of a document."""
    steps = problem.path.split(".")
    if steps[0] != "columns":
        return problem
    if len(steps) > 2 and steps[2] == "hierarchy":
        return Problem(".".join(("hierarchies", steps[1], *steps[3:])), problem.message)
    if len(steps) > 2 and steps[2] == "type":
        return Problem(f"types.{steps[1]}", problem.message)
    return Problem(".".join(("roles", *steps[1:])), problem.message)
