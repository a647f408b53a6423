"""Sources that no engine reads itself, as sources that all engines read alike."""

from __future__ import annotations

import os
import weakref
from dataclasses import replace
from pathlib import Path

from privpipe.engines.databases.locations import Database, database_kind
from privpipe.engines.readers.files import elsewhere, list_files
from privpipe.engines.readers.parquet_files import parquet_table
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.whole_files import opened
from privpipe.engines.stores import CopiedFiles, copied_files, is_reached
from privpipe.errors import DataError, EngineError, UnsupportedError
from privpipe.private_files import new_folder, remove_folder

__all__ = ["Staging"]


class Staging:
    """What one engine has staged; it goes when the engine closes.

    Parameters
    ----------
    parent : path, optional
        Where the files lie; default: where temporary files go (``TMPDIR``).
    shared : bool
        Whether the workers of the engine read files of this process; else it sends them the rows.

    Examples
    --------
    >>> staging = Staging()
    >>> staging.opened(Source(data="adult.csv")).data
    'adult.csv'
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None, *, shared: bool = True) -> None:
        self._parent, self._shared = parent, shared
        self._folders: list[Path] = []
        self._copies: dict[str, CopiedFiles] = {}
        self._remove = weakref.finalize(self, _remove, self._folders)

    def opened(self, source: Source) -> Source:
        """The source itself, or one of private files: the rows of a database, a file read whole, what is in a store.

        Raises
        ------
        UsageError
            A query that is none, an environment variable without a URL, a library that is not installed.
        DataError
            No such table; a damaged file; a type that no release can carry.
        EngineError
            The database or the store cannot be reached, or a writer is at work there.
        """
        if source.is_path and elsewhere(os.fspath(source.data)) and is_reached(os.fspath(source.data)):
            return self._copied(source)
        if not isinstance(source.data, Database):
            return opened(source)
        folder = new_folder("database", self._parent)
        try:
            path = _rows(source.data, folder)
        except OSError as error:
            remove_folder(folder)
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
            raise EngineError(
                f"the rows of a database cannot be staged: {reason}; set TMPDIR (or `temp_directory`) to a folder with "
                "room"
            ) from None
        except BaseException:  # a Ctrl-C too: rows of a person must not stay behind; raised again
            remove_folder(folder)
            raise
        self._folders.append(folder)
        if self._shared:
            return replace(source, data=path, format="parquet")
        import pyarrow.dataset as ds

        return replace(source, data=ds.dataset(path, format="parquet"), format=None)

    def _copied(self, source: Source) -> Source:
        """A source in a store, as files of this machine; the copy of before where nothing has changed."""
        if source.resolved_format == "delta":
            return source  # by its log, which has its own reader
        url = os.fspath(source.data)
        # Never over a copy of before, which an earlier table may still be read from.
        home, known = new_folder("objects", self._parent), self._copies.get(url)
        try:
            found = copied_files(url, home, known)
        except OSError as error:
            remove_folder(home)
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
            raise EngineError(
                f"{url!r} cannot be copied to this machine: {reason}; set TMPDIR (or `temp_directory`) to a folder "
                "with room"
            ) from None
        except BaseException:  # a Ctrl-C too
            remove_folder(home)
            raise
        if found is known:
            remove_folder(home)
        else:
            self._folders.append(home)
            self._copies[url] = found
        local = replace(source, data=found.path, format=source.resolved_format)
        if self._shared:
            return opened(local)
        if local.resolved_format == "parquet" and not local.partitions:
            return replace(local, data=parquet_table(list_files(local)), format=None)
        whole = opened(local)
        if whole.is_path:
            raise UnsupportedError(
                f"{url!r}: {local.resolved_format} files of a store are copied to this machine, which the workers do "
                "not see; convert them to Parquet, or mount them"
            )
        return whole

    def close(self) -> None:
        """Remove what was staged."""
        self._copies.clear()
        _remove(self._folders)


def _remove(folders: list[Path]) -> None:
    while folders:
        remove_folder(folders.pop())


def _rows(database: Database, folder: Path) -> str:
    from privpipe.engines.databases.duckdb_files import duckdb_rows
    from privpipe.engines.databases.servers import server_rows
    from privpipe.engines.databases.sqlite_files import sqlite_rows

    if not database.is_file:
        return server_rows(database, folder)
    path = database.at.removeprefix("file://")
    if os.path.isdir(path):
        raise DataError(database.located(f"{database.called()} is a folder; a database is one file"))
    if not os.path.exists(path):
        raise EngineError(database.located(f"no database at {path!r}; check the path"))
    kind = database_kind(path)
    if kind == "duckdb":
        return duckdb_rows(database, path, folder)
    if kind == "sqlite":
        return sqlite_rows(database, path, folder)
    raise DataError(
        database.located(
            f"{database.called()} is neither a DuckDB nor a SQLite file (its first bytes say so); a table in a file of "
            "another kind is read by `path:`"
        )
    )
