"""A release as its readers see it, and what else is at hand to compare it with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privpipe.errors import UsageError
from privpipe.sinks.local import METADATA, LocalTarget
from privpipe.sinks.remote import RemoteTarget, is_remote

__all__ = ["Released", "file_hash", "opened_release"]

DOCUMENTS = ("manifest", "plan", "verdict")
PAGE = "report.html"


@dataclass(frozen=True)
class Released:
    """A release, read once.

    Parameters
    ----------
    name : str
        As it was named.
    folder : Path
        What a reader reads, on this machine.
    texts : mapping of str to bytes
        The public documents that are there, by name.
    records : Path or None
        Where private records of its sink lie, as far as that is known.
    """

    name: str
    folder: Path
    texts: Mapping[str, bytes] = field(repr=False)
    records: Path | None = None

    def parsed(self, name: str) -> Mapping[str, Any] | None:
        """A document; None where it is missing or no document."""
        try:
            found = json.loads(self.texts[name])
        except (KeyError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def files(self) -> dict[str, Path]:
        """All files by their path within the release, the public documents apart."""
        return {
            path.relative_to(self.folder).as_posix(): path
            for path in sorted(self.folder.rglob("*"))
            if not path.is_dir() and path.relative_to(self.folder).parts[0] != METADATA
        }

    def strange(self) -> list[str]:
        """What stands among the public documents and is none of them."""
        home = self.folder / METADATA
        known = {PAGE, *(f"{name}.json" for name in DOCUMENTS)}
        return sorted(path.name for path in home.iterdir() if path.name not in known) if home.is_dir() else []

    def page(self) -> bytes | None:
        """The report beside the documents; None where there is none."""
        path = self.folder / METADATA / PAGE
        if path.is_symlink():
            return b""
        return path.read_bytes() if path.is_file() else None

    def private(self, run_id: str) -> Mapping[str, Any] | None:
        """The private manifest of a run, where it can be read."""
        if self.records is None or "/" in run_id:
            return None
        try:
            found = json.loads((self.records / run_id / "manifest.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


@contextmanager
def opened_release(name: str, records: Path | None = None) -> Iterator[Released]:
    """The release of that path or URL; what was fetched for it is gone at the end.

    Parameters
    ----------
    records : Path, optional
        Folder of the private records; left out, the one in the sink's work area.

    Raises
    ------
    UsageError
        Nothing is published there.
    """
    if is_remote(name):
        place = RemoteTarget(name)
        try:
            if place.current() is None:
                raise UsageError(f"nothing is published at {name!r}")
            yield _read(name, place.published(""), records)
        finally:
            place.__exit__(None, None, None)
        return
    folder = Path(name)
    if not folder.is_dir():
        raise UsageError(f"{name!r} is no folder: name a release, or the place that a sink publishes to")
    beside = LocalTarget(folder).state / "records"
    yield _read(name, folder, records if records is not None else beside if beside.is_dir() else None)


def _read(name: str, folder: Path, records: Path | None) -> Released:
    texts = {}
    for each in DOCUMENTS:
        path = folder / METADATA / f"{each}.json"
        if path.is_file() and not path.is_symlink():
            texts[each] = path.read_bytes()
    return Released(name, folder.resolve(), texts, records)


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
