"""What a policy says of its sources as its public copy shows it: no folder of a machine, and no text of a query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

__all__ = ["PATH_KEYS", "QUERIED", "without_folders", "without_paths", "without_queries"]

PATH_KEYS = ("path", "file", "from_file", "database", "policy", "records", "plan")
"""Keys of a policy that name files whatever they stand in."""
QUERIED = ("source", "population", "original")
"""Sections of a policy that may hold a query."""


def without_queries(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with `true` in the place of each query: a condition may name a person, a comment a folder.

    No hash is in its place either: whoever knows the tables of the house would try values until one fits.

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


def without_paths(value: Any, keys: Collection[str]) -> Any:
    """The document without what stands under these keys, wherever they are.

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
