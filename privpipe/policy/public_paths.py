"""Absolute paths of a policy as its public copy shows them: a folder of a machine may name who works there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

__all__ = ["PATH_KEYS", "without_folders"]

PATH_KEYS = ("path", "file", "from_file", "database", "policy", "records", "plan")
"""Keys of a policy that name files whatever they stand in."""


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
