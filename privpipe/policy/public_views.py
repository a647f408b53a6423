"""A policy as others see it: its public copy without folders and queries, and the tables of a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from privpipe.blocks import Entry
from privpipe.blocks.public_edition import shown_parameters
from privpipe.blocks.verdict import plain
from privpipe.hierarchies import HierarchySpec
from privpipe.hierarchies.spec import CLASSES
from privpipe.html_tables import Table, html_tables
from privpipe.policy.specs import ColumnSpec

__all__ = [
    "PATH_KEYS",
    "QUERIED",
    "policy_page",
    "without_folders",
    "without_paths",
    "without_queries",
    "without_secrets",
]


PATH_KEYS = ("path", "file", "from_file", "database", "policy", "records", "plan")
"""Keys of a policy that name files, whatever section they are in."""
ENTRIES = ("transform", "guarantees", "measures")
QUERIED = ("source", "population", "original")
"""Sections of a policy that may hold a query."""


def without_queries(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with `true` in the place of each query: a condition may name a person, a comment a folder.

    No hash replaces it either: anyone who knows the tables of the house could try values until one fits.

    Examples
    --------
    >>> without_queries({"source": {"database": "visits.db", "query": "SELECT * FROM v WHERE name <> 'Ann'"}})
    {'source': {'database': 'visits.db', 'query': True}}
    """
    shown = dict(document)
    for section in QUERIED:
        spec = document.get(section)
        if isinstance(spec, Mapping) and "query" in spec:
            shown[section] = {**spec, "query": True}
    return shown


def without_folders(value: Any, keys: Collection[str] = PATH_KEYS) -> Any:
    """The document with the last part of each absolute path under these keys in its place; relative ones stay.

    Examples
    --------
    >>> without_folders({"source": {"path": "/home/anna/visits.csv"}, "sink": {"path": "published/visits"}})
    {'source': {'path': 'visits.csv'}, 'sink': {'path': 'published/visits'}}
    >>> without_folders({"database": "sqlite:////home/anna/visits.db"}), without_folders({"path": "s3://lake/visits"})
    ({'database': 'sqlite:///visits.db'}, {'path': 's3://lake/visits'})
    """
    if isinstance(value, Mapping):
        return {key: _named(each, keys) if key in keys else without_folders(each, keys) for key, each in value.items()}
    return [without_folders(each, keys) for each in value] if isinstance(value, list) else value


def without_secrets(document: Mapping[str, Any], secret: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """The document without parameters of entries that no public document shows.

    Parameters
    ----------
    secret : mapping of str to collection of str
        Names of such parameters, by the name of the entry.

    Examples
    --------
    >>> without_secrets({"guarantees": [{"p_percent": {"at_least": 10, "tables": ["t"]}}]}, {"p_percent": ["at_least"]})
    {'guarantees': [{'p_percent': {'tables': ['t']}}]}
    """
    return {section: _unsecret(value, secret) if section in ENTRIES else value for section, value in document.items()}


def _unsecret(entries: Any, secret: Mapping[str, Collection[str]]) -> Any:
    if not isinstance(entries, list):
        return entries
    return [
        {
            name: {key: each for key, each in given.items() if key not in secret.get(name, ())}
            if isinstance(given, Mapping)
            else given
            for name, given in entry.items()
        }
        if isinstance(entry, Mapping)
        else entry
        for entry in entries
    ]


def without_paths(value: Any, keys: Collection[str]) -> Any:
    """The document without what is under these keys, wherever they are.

    Examples
    --------
    >>> without_paths({"source": {"path": "visits.csv", "format": "csv"}}, PATH_KEYS)
    {'source': {'format': 'csv'}}
    """
    if isinstance(value, Mapping):
        return {key: without_paths(each, keys) for key, each in value.items() if key not in keys}
    return [without_paths(each, keys) for each in value] if isinstance(value, list) else value


def _named(value: Any, keys: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_named(each, keys) for each in value]
    if not isinstance(value, str):
        return without_folders(value, keys)
    scheme, found, place = value.partition("://")
    if found and scheme != "file":  # an address with no host is of a file, as in sqlite:////home/anna/visits.db
        return f"{scheme}:///{PurePosixPath(place).name}" if place.startswith("/") else value
    path = value.removeprefix("file://")
    if path.startswith("~") or PurePosixPath(path).is_absolute():
        return PurePosixPath(path).name or value
    return PureWindowsPath(path).name if PureWindowsPath(path).is_absolute() else value


def policy_page(
    name: str,
    columns: Mapping[str, ColumnSpec],
    stages: Sequence[Entry],
    entries: tuple[Sequence[Entry], Sequence[Entry]],
    about: Mapping[str, str | None],
) -> str:
    """The page.

    Parameters
    ----------
    name : str
    columns : mapping of column to ColumnSpec
    stages : sequence of Transformer
    entries : guarantees, measures
    about : mapping
        Rows of the last table; those without a value are left out.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> page = policy_page("<visits>", {"zip": ColumnSpec(role="sensitive")}, [], ([KAnonymity(k=5)], []), {})
    >>> "&lt;visits&gt;" in page, "<td>k: 5</td>" in page
    (True, True)
    """
    roles = [
        (column, spec.role, spec.type or "-", "-" if spec.hierarchy is None else _builder(spec.hierarchy))
        for column, spec in columns.items()
    ]
    guarantees, measures = entries
    return html_tables(
        f"Policy {name}",
        Table(head=("column", "role", "type", "hierarchy"), rows=roles),
        Table(head=("stage", "parameters"), rows=_rows(stages)),
        Table(head=("guarantee", "parameters"), rows=_rows(guarantees)),
        Table(head=("measure", "parameters"), rows=_rows(measures)),
        Table(rows=[(title, value) for title, value in about.items() if value is not None]),
    )


def _rows(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    return [(entry.name(), shown_parameters(type(entry), plain(entry.parameters()))) for entry in entries]


def _builder(spec: HierarchySpec) -> str:
    kind = type(spec.builder)
    return next((name for name, known in CLASSES.items() if known is kind), kind.__name__)
