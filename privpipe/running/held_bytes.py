"""The bytes of a run that waits: copied and hashed in one reading, and held to what was approved."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from privpipe.errors import SignOffMissing
from privpipe.private_files import private_folder
from privpipe.sinks.local import METADATA
from privpipe.sinks.records import document_text

__all__ = ["PAGE", "copied", "file_digest", "hashes_below", "names_held", "require_files", "require_staged"]

PAGE = "report.html"
PIECE = 1 << 20
Documents = Mapping[str, Mapping[str, Any]]


def require_staged(hashes: Mapping[str, str], statement: Mapping[str, Any], public: Documents) -> None:
    """Refuse where a folder does not hold the approved files and the documents of the run."""
    data = {name: found for name, found in hashes.items() if not name.startswith(f"{METADATA}/")}
    require_files(data, statement)
    expected = {
        f"{METADATA}/{name}.json": hashlib.sha256(document_text(document).encode()).hexdigest()
        for name, document in public.items()
    }
    told = {f"{METADATA}/{name}.json": statement[f"{name}_sha256"] for name in ("verdict", "plan")}
    documents = {name: found for name, found in hashes.items() if name not in data}
    if documents != expected or any(expected[name] != told[name] for name in told):
        raise SignOffMissing("the staged documents are not those that were to be approved; nothing was published")


def require_files(hashes: Mapping[str, str], statement: Mapping[str, Any]) -> None:
    """Refuse other files than the approved ones.

    Raises
    ------
    SignOffMissing
    """
    if dict(hashes) != {str(file["name"]): file["sha256"] for file in statement["files"]}:
        raise SignOffMissing("the staged files are not those that were to be approved; nothing was published")


def hashes_below(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a folder by its path in it; of a link that it is one."""
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }


def names_held(folder: Path) -> list[str]:
    """What of a staged folder waits: all but the public page, which is made anew with the signatures."""
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir())
    return [name for name in names if name != f"{METADATA}/{PAGE}"]


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    if path.is_symlink():
        return "a link"
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def copied(source: Path, target: Path, names: Iterable[str]) -> dict[str, str]:
    """Copy files into private ones, and the hash of what was written; the bytes are read once."""
    hashes = {}
    for name in names:
        path = target / name
        if not path.resolve().is_relative_to(target.resolve()):
            raise SignOffMissing("a file of the run lies outside of it; nothing was published")
        private_folder(path.parent)
        digest = hashlib.sha256()
        reading = os.open(source / name, os.O_RDONLY | os.O_NOFOLLOW)
        writing = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(reading, "rb") as old, os.fdopen(writing, "wb") as new:
            while piece := old.read(PIECE):
                digest.update(piece)
                new.write(piece)
            new.flush()
            os.fsync(new.fileno())
        hashes[name] = digest.hexdigest()
    return hashes
