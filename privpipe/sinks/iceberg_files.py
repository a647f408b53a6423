"""Files of a release in the storage of an Iceberg table: copied, listed and removed by its own input and output."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any
from urllib.parse import urlparse

import pyarrow.fs as fs

from privpipe.errors import SinkError
from privpipe.private_files import sync_folder

__all__ = ["Leftovers", "copied", "local_place"]

CHUNK = 1 << 20
PATIENCE = 10.0
"""Seconds."""


def copied(io: Any, path: Path, place: str) -> None:
    """Copy a file into the table's storage and read it back.

    Raises
    ------
    SinkError
        It reads back differently.
    """
    sent, back = hashlib.sha256(), hashlib.sha256()
    with path.open("rb") as source, io.new_output(place).create(overwrite=True) as target:
        while chunk := source.read(CHUNK):
            sent.update(chunk)
            target.write(chunk)
    with io.new_input(place).open() as target:
        while chunk := target.read(CHUNK):
            back.update(chunk)
    if sent.digest() != back.digest():
        raise SinkError("a file of the release reads back differently from the storage of the Iceberg table")
    local = local_place(place)
    if local is not None:
        handle = os.open(local, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(local.parent)


def local_place(place: str) -> Path | None:
    """A place of the table's storage on this machine; None where it lies elsewhere.

    Examples
    --------
    >>> local_place("file:///lake/db/visits"), local_place("s3://lake/db/visits")
    (PosixPath('/lake/db/visits'), None)
    """
    uri = urlparse(place)
    if uri.scheme not in ("", "file"):
        return None
    return Path(uri.path if uri.scheme else place)


def _listed(io: Any, folder: str) -> list[str]:
    """Places of all files at and below a folder of the table's storage; none where pyiceberg cannot list it."""
    uri = urlparse(folder)
    local = uri.scheme in ("", "file")
    path = (uri.path if uri.scheme else folder) if local else f"{uri.netloc}{uri.path}"
    if hasattr(io, "fs_by_scheme"):
        system = io.fs_by_scheme(uri.scheme or "file", uri.netloc)
        selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
        found = [each.path for each in system.get_file_info(selector) if each.type == fs.FileType.File]
    elif hasattr(io, "get_fs"):
        found = [str(each) for each in io.get_fs(uri.scheme or "file").find(path)]
    else:
        return []
    start = path.strip("/")
    return [folder.rstrip("/") + each[each.index(start) + len(start) :] for each in sorted(found)]


def _removed(io: Any, places: Iterable[str]) -> None:
    """Remove files, as far as they are there."""
    for place in places:
        with suppress(FileNotFoundError):
            io.delete(place)


def _settle() -> None:
    """Wait until pyiceberg's threads have written what they began: where one fails, the others go on."""
    from pyiceberg.utils.concurrent import ExecutorFactory

    pool = ExecutorFactory.get_or_create()
    threads = int(getattr(pool, "_max_workers", 1))
    meeting = Barrier(threads)

    def meet() -> None:
        with suppress(BrokenBarrierError):  # somebody else's work is long
            meeting.wait(PATIENCE)

    wait([pool.submit(meet) for _ in range(threads)])


class Leftovers:
    """Everything that one run may leave in a table's storage without its being part of the table.

    Parameters
    ----------
    io : FileIO
        Of the table.
    location : str
        Its folder.
    run_id : str
    commit : str
        What the names of the manifests of this run's snapshot hold.
    """

    def __init__(self, io: Any, location: str, run_id: str, commit: str) -> None:
        self.io, self.location, self.run_id, self.commit = io, location.rstrip("/"), run_id, commit

    def remove(self, referenced: Sequence[str], made: Sequence[str]) -> None:
        """Remove it all, but for what the table's metadata names.

        Parameters
        ----------
        referenced : sequence of str
            Metadata files that the table knows.
        made : sequence of str
            Folders on this machine that the run made; those that are empty then go.
        """
        _settle()
        places = [place for name in ("data", "_privpipe") for place in _listed(self.io, self._below(name))]
        places += [place for place in _listed(self.io, f"{self.location}/metadata") if self._is_ours(place, referenced)]
        _removed(self.io, places)
        for name in ("data", "_privpipe"):
            local = local_place(self._below(name))
            if local is not None:
                with suppress(OSError):
                    local.rmdir()
        for folder in sorted(made, key=len, reverse=True):
            with suppress(OSError):  # others are in it
                os.rmdir(folder)

    def _below(self, name: str) -> str:
        return f"{self.location}/{name}/{self.run_id}"

    def _is_ours(self, place: str, referenced: Sequence[str]) -> bool:
        name = place.rsplit("/", 1)[-1]
        if self.commit in name:
            return True
        if not name.endswith(".metadata.json") or place in referenced:
            return False
        return any(run == self.run_id for run in self._runs(place))

    def _runs(self, place: str) -> Iterator[str]:
        """The runs whose snapshots a metadata file holds."""
        with suppress(FileNotFoundError, ValueError), self.io.new_input(place).open() as file:
            for snapshot in json.loads(file.read()).get("snapshots", ()):
                yield str(snapshot.get("summary", {}).get("privpipe.run_id"))
