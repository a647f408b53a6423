"""A source that is a table of a table format, opened or pinned to the version that it has now."""

from __future__ import annotations

import os
from dataclasses import replace

from privpipe.engines.base.files import elsewhere
from privpipe.engines.base.lakes.delta import delta_table, delta_version, has_deltalake
from privpipe.engines.base.lakes.iceberg import IcebergName, iceberg_table, pinned_name
from privpipe.engines.base.lakes.table import LakeTable, LakeView
from privpipe.engines.base.objects import is_reached, opened_store, release_of
from privpipe.engines.base.source import Source
from privpipe.engines.base.table_formats import is_delta_table, table_format_error
from privpipe.errors import DataError, EngineError

__all__ = ["delta_place", "is_lake", "lake_of", "pinned"]


def is_lake(source: Source) -> bool:
    """Whether a source is a Delta table by its path, or an Iceberg table by its name.

    Examples
    --------
    >>> is_lake(Source(data="lake/visits", format="delta")), is_lake(Source(data="visits.csv"))
    (True, False)
    """
    return isinstance(source.data, IcebergName | LakeView) or (source.is_path and source.resolved_format == "delta")


def lake_of(source: Source) -> LakeTable | None:
    """The table of such a source, None of any other; raises as `delta_table` and `iceberg_table`."""
    if not is_lake(source):
        return None
    if isinstance(source.data, LakeView):
        return source.data.open()
    if isinstance(source.data, IcebergName):
        return iceberg_table(source.data)
    return delta_table(delta_place(source), source.version, source.timestamp)


def pinned(source: Source) -> Source:
    """The same source at the version that it means now: every later scan reads these rows, whatever is written since.

    All other sources, and those that only the session of an engine can read, stay as they are.
    """
    if isinstance(source.data, LakeView):
        return source
    if not is_lake(source):
        return _at_its_release(source)
    if isinstance(source.data, IcebergName):
        return replace(source, data=pinned_name(source.data))
    if source.version is not None or not has_deltalake():
        return source
    place = delta_place(source)
    try:
        return replace(source, version=delta_version(place, source.timestamp), timestamp=None)
    except DataError:
        if "://" not in place:
            raise
    return source  # which the session of an engine may reach; if not, its scan says so


def _at_its_release(source: Source) -> Source:
    """A sink in a store at the release that its pointer names now."""
    url = os.fspath(source.data) if source.is_path else ""
    if not elsewhere(url) or not is_reached(url):
        return source
    try:
        release = release_of(opened_store(url))
    except EngineError:
        return source
    return source if release is None else replace(source, data=release, format=source.resolved_format)


def delta_place(source: Source) -> str:
    """Where a Delta table lies, as deltalake takes it.

    Raises
    ------
    DataError
        The format was not asked for and cannot be read; the path is no table, or lies within one.
    """
    path = os.fspath(source.data).removeprefix("file://")
    if "://" in path:
        return path
    if not has_deltalake():
        if source.format is None:
            raise table_format_error("Delta", path)
    elif not is_delta_table(path):
        raise DataError(
            f"not a readable Delta table: {path!r} has no `_delta_log`; give the table's own folder"
            + ("" if os.path.exists(path) else ", and check the path (relative ones start at the policy file)")
        )
    return path
