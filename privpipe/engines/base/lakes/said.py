"""A table of a table format as a caller says it: a mapping of the keys of `source:` that tell which table, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpipe.engines.base.lakes.iceberg import IcebergName
from privpipe.engines.base.lakes.opening import pinned
from privpipe.engines.base.source import Source
from privpipe.errors import UsageError, did_you_mean

__all__ = ["lake_said"]

OF_DELTA: Mapping[str, type] = {"path": str, "format": str, "version": int, "timestamp": str}
OF_ICEBERG: Mapping[str, type] = {"iceberg": str, "catalog": str, "snapshot": int, "branch": str, "tag": str}
KINDS = {str: "text", int: "a whole number"}


def lake_said(given: Mapping[str, Any], place: str) -> Source:
    """The table that a mapping names, at the version that it means now.

    Parameters
    ----------
    given : mapping
        `path` with `version` or `timestamp`, or `iceberg` with `catalog` and `snapshot`, `branch` or `tag`.
    place : str
        Where it was handed over.

    Raises
    ------
    UsageError
        Another key, a value of another kind, or a reader that is not installed.
    DataError
        There is no such table or version.

    Examples
    --------
    >>> lake_said({"path": "visits", "format": "delta", "version": 3}, "assess").version
    3
    """
    known = {**OF_DELTA, **OF_ICEBERG}
    told = {name: value for name, value in given.items() if value is not None}
    for name, value in told.items():
        if name not in known:
            if not isinstance(value, str | int):
                raise UsageError(f"{place}: a mapping of columns is not a frame; make one of it: pandas.DataFrame(...)")
            raise UsageError(
                f"{place}: unknown key {name!r} of a table{did_you_mean(str(name), known)}; a mapping names a Delta or "
                "an Iceberg table; how other files are written stands under `source:` of a policy"
            )
        if not isinstance(value, known[name]) or isinstance(value, bool) or value == "":
            raise UsageError(f"{place}: {name} must be {KINDS[known[name]]}, not {type(value).__name__}")
    if "iceberg" in told:
        if others := [name for name in told if name in OF_DELTA]:
            raise UsageError(f"{place}: {others[0]} is not for an Iceberg table; leave it out")
        return pinned(Source(data=IcebergName(name=told.pop("iceberg"), **told)))
    if "path" not in told:
        raise UsageError(f"{place}: a mapping names a table: give `path` or `iceberg`")
    if others := [name for name in told if name in OF_ICEBERG]:
        raise UsageError(f"{place}: {others[0]} is for an Iceberg table, which `iceberg` names in place of `path`")
    if "version" in told and "timestamp" in told:
        raise UsageError(f"{place}: `version` and `timestamp` exclude one another; leave one out")
    if told.get("version", 0) < 0:
        raise UsageError(f"{place}: version must be 0 or more")
    if told.setdefault("format", "delta") != "delta":
        raise UsageError(f"{place}: a mapping names a Delta table; for a file of another format give its path alone")
    return pinned(Source(data=told.pop("path"), **told))
