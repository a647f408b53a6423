"""A release as its readers see it, and what else is at hand to compare it with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privpipe.errors import UnsupportedError, UsageError
from privpipe.policy import Policy
from privpipe.running.places import place_of
from privpipe.sinks.databases import DatabaseTarget
from privpipe.sinks.delta import DeltaTarget
from privpipe.sinks.iceberg import IcebergTarget
from privpipe.sinks.records import PrivateRecords
from privpipe.sinks.remote_delta import RemoteDeltaTarget, remote_target
from privpipe.sinks.target import METADATA, LocalTarget, is_remote

__all__ = ["Released", "opened_release"]

DOCUMENTS = ("manifest", "plan", "verdict")
PAGE = "report.html"
LOG = "_delta_log"


@dataclass(frozen=True)
class Released:
    """A release, read once.

    Parameters
    ----------
    name : str
        As it was named.
    folder : Path or None
        What a reader reads, on this machine; None: a table, whose rows are not files here.
    texts : mapping of str to bytes
        The public documents that are there, by name.
    records : Path or None
        Where private records of its sink are, as far as that is known.
    home : Path or None
        Where the public documents are as files.
    """

    name: str
    folder: Path | None
    texts: Mapping[str, bytes] = field(repr=False)
    records: Path | None = None
    home: Path | None = None

    def parsed(self, name: str) -> Mapping[str, Any] | None:
        """A document; None where it is missing or no document."""
        try:
            found = json.loads(self.texts[name])
        except (KeyError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def files(self) -> dict[str, Path]:
        """All files by their path within the release, the public documents separately."""
        folder = self.folder
        return {
            path.relative_to(folder).as_posix(): path
            for path in (sorted(folder.rglob("*")) if folder is not None else ())
            if folder is not None and not path.is_dir() and path.relative_to(folder).parts[0] != METADATA
        }

    def strange(self) -> list[str]:
        """What is among the public documents and is not one of them."""
        known = {PAGE, *(f"{name}.json" for name in DOCUMENTS)}
        there = self.home.iterdir() if self.home is not None and self.home.is_dir() else ()
        return sorted(path.name for path in there if path.name not in known)

    def page(self) -> bytes | None:
        """The report next to the documents; None where there is none."""
        if self.home is None:
            return None
        path = self.home / PAGE
        if path.is_symlink():
            return b""
        return path.read_bytes() if path.is_file() else None

    def private(self, run_id: str, name: str = "manifest") -> Mapping[str, Any] | None:
        """A private document of a run, where it can be read."""
        if self.records is None or "/" in run_id:
            return None
        try:
            found = json.loads((self.records / run_id / f"{name}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


@contextmanager
def opened_release(name: str, records: Path | None = None) -> Iterator[Released]:
    """The release of that path or URL; what was fetched for it is gone at the end.

    Parameters
    ----------
    name : str
        A release, a sink, or the policy file that names the sink.
    records : Path, optional
        Folder of the private records; left out, the one in the sink's work area.

    Raises
    ------
    UsageError
        Nothing is published there.
    """
    if is_remote(name):
        place = remote_target(name)
        try:
            current = place.current()
            if current is None:
                raise UsageError(f"nothing is published at {name!r}")
            if isinstance(place, RemoteDeltaTarget):
                yield _of_table(name, place, current, records)
                return
            yield _read(name, place.fetched(), records)
        finally:
            place.__exit__(None, None, None)
        return
    folder = Path(name)
    if folder.is_file():
        yield from _of_policy(name, records)
        return
    if not folder.is_dir():
        raise UsageError(
            f"{name!r} is not a directory: name a release, the place that a sink publishes to, or the policy file "
            "of the job"
        )
    if (folder / LOG).is_dir():
        yield _of_target(name, DeltaTarget(folder), records)
        return
    beside = LocalTarget(folder).state / "records"
    yield _read(name, folder, records if records is not None else beside if beside.is_dir() else None)


def _of_policy(name: str, records: Path | None) -> Iterator[Released]:
    """The release of the sink that a policy file names."""
    policy = Policy.load(name)
    if policy.sink is not None and policy.sink.table is not None:
        raise UnsupportedError(
            f"the sink of {name!r} is a view of an engine's catalogue, which is not read here: its documents stand "
            "in the catalogue as the table named after the view"
        )
    place = place_of(policy, None)
    try:
        if records is None:
            kept = PrivateRecords.of(policy, place).home
            records = kept if kept.is_dir() else None
        if isinstance(place, IcebergTarget | DatabaseTarget | DeltaTarget):
            yield _of_target(name, place, records)
            return
    finally:
        place.close()
    with opened_release(place.name, records) as found:
        yield found


def _of_table(name: str, place: RemoteDeltaTarget, current: str, records: Path | None) -> Released:
    """The part files and public documents of the release that a table on an object store holds, fetched."""
    files, documents = place.fetched_of(current.rpartition("/")[2])
    texts = {each: path.read_bytes() for each in DOCUMENTS if (path := documents / f"{each}.json").is_file()}
    return Released(name, files.resolve(), texts, records, documents.resolve())


def _of_target(name: str, place: IcebergTarget | DatabaseTarget | DeltaTarget, records: Path | None) -> Released:
    """The public documents as the sink has them; files where its rows are files of this machine."""
    current = place.current()
    found = {each: place.document(each) for each in DOCUMENTS} if current is not None else {}
    texts = {each: text for each, text in found.items() if text is not None}
    if current is None or not texts:
        raise UsageError(f"nothing is published at {name!r}")
    if not isinstance(place, DeltaTarget):
        return Released(name, None, texts, records)
    run_id = current.rpartition("/")[2]
    beside = place.area / "records" if place.area is not None else None
    kept = records if records is not None else beside if beside is not None and beside.is_dir() else None
    return Released(name, (place.path / run_id).resolve(), texts, kept, (place.path / METADATA / run_id).resolve())


def _read(name: str, folder: Path, records: Path | None) -> Released:
    texts = {}
    for each in DOCUMENTS:
        path = folder / METADATA / f"{each}.json"
        if path.is_file() and not path.is_symlink():
            texts[each] = path.read_bytes()
    return Released(name, folder.resolve(), texts, records, folder.resolve() / METADATA)
