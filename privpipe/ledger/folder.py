"""The folder of a ledger: private, the user's own, and free of links."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from privpipe.errors import DataError, SinkError
from privpipe.private_files import flush_new

__all__ = ["HEAD", "LOCK", "canonical", "found_in", "private_folder", "read_document", "require_ours", "write"]

HEAD, LOCK = "ledger.json", "lock"
SPENDS = "spends"
"""Next to the entries: what private tables have spent."""
LARGEST_DOCUMENT = 1 << 22
OURS = re.compile(r"[0-9a-f]{32}|\d+-.*\.parquet|pending-.*\.parquet")  # of this version, and of the first


def found_in(path: Path) -> Literal["nothing", "ledger", "strangers"]:
    """What a folder named for a ledger holds.

    Raises
    ------
    SinkError
        It cannot be looked into.
    """
    try:
        names = {place.name for place in path.iterdir()} - {LOCK, f"{HEAD}.new", SPENDS}
    except FileNotFoundError:
        return "nothing"
    except OSError as error:
        raise SinkError(f"the ledger cannot be read: {error.strerror}") from None
    if not names:
        return "nothing"
    return "ledger" if any(name == HEAD or OURS.fullmatch(name) for name in names) else "strangers"


def private_folder(path: Path) -> None:
    """Make a folder that only its owner can look into.

    Raises
    ------
    SinkError
        It cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SinkError(f"the ledger cannot be written: {error.strerror}") from None


def require_ours(path: Path) -> None:
    """Refuse a ledger folder that others can change, and close its files to others.

    Raises
    ------
    DataError
        The folder or a file of it is a link or not a plain file, or belongs to another user.
    SinkError
        It cannot be looked into.
    """
    try:
        _require_ours(path)
    except OSError as error:
        raise SinkError(f"the ledger cannot be read: {error.strerror}") from None


def _require_ours(path: Path) -> None:
    entries = [path]
    while entries:
        place = entries.pop()
        found = place.lstat()
        name = place.name if place != path else "its folder"
        if not (stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and place != path)):
            raise DataError(
                f"the ledger is refused: {name!r} is a link or no plain file; put the file itself there, or name "
                "another folder"
            )
        if found.st_uid != os.geteuid():
            raise DataError(f"the ledger is refused: {name!r} belongs to another user, who could change it")
        if stat.S_IMODE(found.st_mode) & 0o077:
            place.chmod(0o700 if stat.S_ISDIR(found.st_mode) else 0o600)
        if stat.S_ISDIR(found.st_mode):
            entries.extend(place.iterdir())


def canonical(document: Mapping[str, Any]) -> bytes:
    """A document in the only way in which it is written."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode() + b"\n"


def read_document(data: bytes, what: str) -> dict[str, Any]:
    """A document as it was written, to the byte.

    Raises
    ------
    DataError
        Anything else.
    """
    if len(data) <= LARGEST_DOCUMENT:
        try:
            found = json.loads(data)
            if isinstance(found, dict) and canonical(found) == data:
                return found
        except (ValueError, RecursionError):  # deeply nested brackets are not a document of ours either
            pass
    raise DataError(f"{what} was changed, or is not one of ours")


def write(path: Path, data: bytes) -> None:
    """A private file, whole or not at all.

    Raises
    ------
    SinkError
        It cannot be written.
    """
    try:
        flush_new(path, data)
    except OSError as error:
        raise SinkError(f"the ledger cannot be written: {error.strerror}") from None
