"""A private copy of what lies at a path of a remote file system, proved to be of one moment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from privpipe.engines.base.objects.listing import StoredFile, listed_files, names_beside
from privpipe.engines.base.objects.opening import OpenedStore, opened_store, store_faults
from privpipe.engines.base.objects.pointer import release_of
from privpipe.engines.base.table_formats import table_format_error
from privpipe.errors import DataError, EngineError

__all__ = ["CopiedFiles", "copied_files", "copied_names", "settled_store", "whole_copy"]

TABLES = {"_delta_log": "Delta", ".hoodie": "Hudi", ".hoodie_partition_metadata": "Hudi"}


@dataclass(frozen=True)
class CopiedFiles:
    """What was copied.

    Parameters
    ----------
    path : str
        On this machine: a file, or a folder.
    stamps : tuple of text
        Of the files that were copied.
    """

    path: str
    stamps: tuple[str, ...]


def settled_store(url: str) -> OpenedStore:
    """The file system of a source; of a sink, at the release that its pointer names.

    Raises
    ------
    UsageError, DataError, EngineError
        See `opened_store` and `release_of`.
    """
    store = opened_store(url)
    release = release_of(store)
    return store if release is None else opened_store(release)


def copied_files(url: str, folder: Path, known: CopiedFiles | None = None) -> CopiedFiles:
    """The files of a source in a private folder, each where it lies below the path; of a sink, those of its release.

    What no reader takes (names with a leading ``.`` or ``_``) is copied by name alone.

    Parameters
    ----------
    folder : path
        Empty; it stays so where the earlier copy is taken.
    known : CopiedFiles, optional
        An earlier copy, which is taken where nothing has changed.

    Raises
    ------
    DataError
        Nothing is there; a part of a table format; names that no folder can hold.
    EngineError
        It cannot be read, or changes while it is.
    """
    store = settled_store(url)
    files = listed_files(store)
    stamps = tuple(f"{file.path} {file.stamp}" for file in files)
    if known is not None and known.stamps == stamps:
        return known
    table = names_beside(store, TABLES)
    if table is not None:
        raise table_format_error(table, url)
    single = len(files) == 1 and not files[0].below
    home = folder / (store.root.rpartition("/")[2] or "data")
    for file in files:
        _copy(store, file, home / file.below if file.below else home)
    if listed_files(store) != files:
        raise EngineError(f"{url!r} changed while it was read; run again once its writer is done")
    if not single and not home.is_dir():
        raise DataError(f"nothing lies at {url!r}; check the path")
    return CopiedFiles(str(home), stamps)


def copied_names(url: str, folder: Path) -> str:
    """The names of a source's files in a folder, the files empty; raises as `copied_files`."""
    store = settled_store(url)
    home = folder / (store.root.rpartition("/")[2] or "data")
    for file in listed_files(store):
        path = home / file.below if file.below else home
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    return str(home)


def whole_copy(store: OpenedStore, folder: Path) -> None:
    """All files below a path in a new folder, hidden ones too; raises as `copied_files`."""
    folder.mkdir(mode=0o700)
    for file in listed_files(store):
        _copy(store, file, folder / (file.below or store.root.rpartition("/")[2]), whole=True)


def _copy(store: OpenedStore, file: StoredFile, path: Path, *, whole: bool = False) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hidden = any(part.startswith((".", "_")) for part in file.below.split("/"))
    if (hidden and not whole) or not file.size:
        path.touch(mode=0o600)
        return
    with store_faults(store.url):
        store.files.get_file(file.path, str(path))
    os.chmod(path, 0o600)
    if path.stat().st_size != file.size:
        raise EngineError(f"{store.url!r} was cut off while it was read; run again")
