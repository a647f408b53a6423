"""The private record of a run and the records that its release leaves out, readable only by who ran it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.errors import SinkError, UsageError
from privpipe.private_files import private_folder, seal_folder, sync_folder
from privpipe.private_files.ownership import keep_private
from privpipe.sinks.remote import RemoteTarget
from privpipe.sinks.target import LocalTarget, Target

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "AFTERWARDS",
    "DOCUMENTS",
    "PrivateRecords",
    "Quarantine",
    "document_text",
    "document_values",
    "file_hash",
    "note_afterwards",
    "seen_by_readers",
]


DOCUMENTS = ("verdict", "manifest", "plan")
AFTERWARDS = "afterwards.txt"
HOME = "records"


def document_text(document: Mapping[str, Any]) -> str:
    """The text of a document: sorted, indented, no number that JSON lacks."""
    return json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document_values(document: Mapping[str, Any]) -> Any:
    """A document read back from its text.

    Examples
    --------
    >>> document_values({"k": (1, 2)}) == json.loads(document_text({"k": (1, 2)}))
    True
    """
    # Indents would take ten times as long.
    return json.loads(json.dumps(document, sort_keys=True, allow_nan=False))


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@dataclass(frozen=True)
class PrivateRecords:
    """Where the runs of a sink keep their private records.

    Parameters
    ----------
    home : Path
    sink : str
        What the runs publish to; other sinks may share the home.
    """

    home: Path
    sink: str

    @classmethod
    def of(cls, policy: Policy, place: Target) -> PrivateRecords:
        """The folder that `records:` names, else one in the sink's work area, else one next to the policy.

        Raises
        ------
        UsageError
            Readers of the release would see it.
        """
        sink = place.name
        if policy.records is not None:
            home = Path(os.path.abspath(policy.base_dir / policy.records))
        elif place.area is None:
            # What is in a bucket is listed with it.
            home = Path(os.path.abspath(policy.base_dir / f".{sink.rsplit('/', 1)[-1]}.privpipe" / HOME))
        else:
            home = place.area / HOME
        real = Path(os.path.realpath(home))
        for seen in seen_by_readers(place):
            if seen == real or seen in real.parents:
                raise UsageError(
                    f"records: {str(home)!r} is where readers of the release look; name a folder that they do not see"
                )
        return cls(home, sink)

    def open(self, current: str | None) -> None:
        """Make the home, and settle what a killed run left.

        Parameters
        ----------
        current : str, optional
            What the sink points at.

        Raises
        ------
        SinkError
            The home cannot be written.
        """
        with _written():
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.home, os.W_OK | os.X_OK):
                raise SinkError(f"the private records {str(self.home)!r} cannot be written: permission denied")
        self.settle(current)

    def keep(
        self, run_id: str, documents: Mapping[str, Mapping[str, Any]], *, pending: bool, report: str | None = None
    ) -> Path:
        """Write the documents of a run, on the disk before it returns; `pending` until the sink points at it.

        Parameters
        ----------
        report : str, optional
            The page for people.
        """
        folder = self.home / run_id
        with _written():
            if pending:
                _write(self._mark(run_id), "")
            folder.mkdir(mode=0o700)
            for name, document in documents.items():
                _write(folder / f"{name}.json", document_text(document))
            if report is not None:
                _write(folder / "report.html", report)
            for each in (folder, self.home):
                _flush(each)
        return folder

    def settle(self, current: str | None) -> None:
        """Keep pending records whose run the sink points at, and throw the others away."""
        named = None if current is None else current.rstrip("/").rsplit("/", 1)[-1]
        with _written():
            for mark in self.home.glob(f"*.{self._tag}.pending"):
                run_id = mark.name[: -len(f".{self._tag}.pending")]
                if run_id != named:
                    shutil.rmtree(self.home / run_id, ignore_errors=True)
                mark.unlink(missing_ok=True)

    @property
    def _tag(self) -> str:
        return hashlib.sha256(self.sink.encode()).hexdigest()[:16]

    def _mark(self, run_id: str) -> Path:
        return self.home / f"{run_id}.{self._tag}.pending"


def note_afterwards(record: str, line: str) -> None:
    """Add a line about the time after publication to the record of a run; nothing without a record.

    Parameters
    ----------
    record : str
        The folder of the record.
    """
    if not record:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with os.fdopen(os.open(Path(record, AFTERWARDS), flags, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{line}\n")


def seen_by_readers(place: Target) -> Iterator[Path]:
    """Folders that readers look into, and those whose content a run throws away."""
    if isinstance(place, LocalTarget):
        for folder in (place.path, *(place.state / name for name in ("releases", "staging"))):
            yield Path(os.path.realpath(folder))
    elif isinstance(place, RemoteTarget) and place.local_root is not None:
        for local in (place.local_root, Path(place.state, "releases")):
            yield Path(os.path.realpath(local))


def _write(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SinkError(f"the private record of the run cannot be written: {error.strerror or error}") from None


@dataclass(frozen=True)
class Quarantine:
    """Where the runs of a sink keep the records that they leave out.

    Parameters
    ----------
    home : Path
    sink : str
        What the runs publish to; other sinks may share the home.
    """

    home: Path
    sink: str

    @classmethod
    def of(cls, policy: Policy, place: Target) -> Self | None:
        """The folder that `failing: {sink: ...}` names; None where the policy has none.

        Raises
        ------
        UsageError
            It is the sink, in it or above it, so that readers of the release could come to it.
        """
        if policy.failing is None:
            return None
        home = Path(os.path.abspath(policy.base_dir / policy.failing.path))
        real = Path(os.path.realpath(home))
        for seen in seen_by_readers(place):
            if seen == real or seen in real.parents or real in seen.parents:
                raise UsageError(
                    f"failing.sink.path: {str(home)!r} is where readers of the release look, or above it: name a "
                    "folder apart from the sink"
                )
        return cls(home, place.name)

    def open(self, current: str | None) -> None:
        """Make the home, and settle what a killed run left; `current` is what the sink points at.

        Raises
        ------
        SinkError
            The home cannot be written, is a link, or belongs to another user.
        """
        private_folder(self.home)
        self.settle(current)

    def stage(self, run_id: str) -> Path:
        """An empty private folder for the records of a run."""
        with _quarantine_written():
            folder = self.home / f".{run_id}.{self._tag}.staged"
            folder.mkdir(mode=0o700)
            keep_private(folder)
        return folder

    def close(self, folder: Path) -> None:
        """Have the written files readable only by their owner, and on the disk."""
        with _quarantine_written():
            seal_folder(folder)
            sync_folder(self.home)

    def settle(self, current: str | None) -> None:
        """Move staged records of the run that the sink points at to their place, and throw the others away."""
        named = None if current is None else current.rstrip("/").rsplit("/", 1)[-1]
        with _quarantine_written():
            for folder in self.home.glob(f".*.{self._tag}.staged"):
                run_id = folder.name[1 : -len(f".{self._tag}.staged")]
                if run_id == named:
                    os.replace(folder, self.home / run_id)
                else:
                    shutil.rmtree(folder)
            sync_folder(self.home)

    @property
    def _tag(self) -> str:
        return hashlib.sha256(self.sink.encode()).hexdigest()[:16]


@contextmanager
def _quarantine_written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SinkError(f"the records that the run leaves out cannot be kept: {error.strerror or error}") from None
