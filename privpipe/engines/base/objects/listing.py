"""The objects below a path, each with what tells whether it is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privpipe.engines.base.objects.opening import OpenedStore, store_faults
from privpipe.errors import DataError

__all__ = ["StoredFile", "listed_files", "names_beside", "stamp_at"]

STAMPS = ("ETag", "etag", "e_tag", "generation", "md5Hash", "crc32c", "content_md5", "VersionId", "version_id", "ino")
TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
LONGEST = 255


@dataclass(frozen=True, order=True)
class StoredFile:
    """A file of a remote file system.

    Parameters
    ----------
    below : str
        Its name below the path that was asked for; nothing for that file itself.
    path : str
        As the file system takes it.
    size : int
        In bytes.
    stamp : str
        Another one where the content changed: ETag or generation, size and time.
    """

    below: str
    path: str
    size: int
    stamp: str


def listed_files(store: OpenedStore) -> list[StoredFile]:
    """All files at or below a path, in order of name.

    Raises
    ------
    DataError
        Nothing lies there; it is a file and a folder; a name that no folder can hold.
    EngineError
        It cannot be listed.
    """
    with store_faults(store.url):
        store.files.invalidate_cache()
        found = store.files.find(store.root, detail=True)
    files = []
    for name, info in found.items():
        below = str(name)[len(store.root) :].lstrip("/") if str(name) != store.root else ""
        if str(name).endswith("/") or info.get("type") == "directory":
            continue  # an empty object that stands for a folder
        files.append(StoredFile(below, str(name), int(info.get("size") or 0), _stamp(info)))
    if not files:
        raise DataError(f"nothing lies at {store.url!r}; check the path")
    _require_names(store, files)
    return sorted(files)


def stamp_at(store: OpenedStore) -> tuple[int, int, int]:
    """One stamp of all that lies at a path: files, bytes, a hash of names and stamps; raises as `listed_files`."""
    files = listed_files(store)
    said = "\0".join(f"{file.below}\0{file.stamp}" for file in files)
    return len(files), sum(file.size for file in files), int(hashlib.sha256(said.encode()).hexdigest(), 16)


def names_beside(store: OpenedStore, marks: Mapping[str, str]) -> str | None:
    """Which of the marks (name to meaning) lies in a folder above a path; None where none is or none can be seen."""
    above = store.root
    while "/" in above.strip("/"):
        above = above.rpartition("/")[0]
        for mark, meaning in marks.items():
            try:
                if store.files.exists(f"{above}/{mark}"):
                    return meaning
            except Exception:  # noqa: BLE001 - who may read a prefix need not see what is above it
                return None
    return None


def _stamp(info: Mapping[str, Any]) -> str:
    told = [f"{key}={info[key]}" for key in (*STAMPS, *TIMES) if info.get(key) is not None]
    return ";".join((f"size={info.get('size')}", *told))


def _require_names(store: OpenedStore, files: list[StoredFile]) -> None:
    """Keys are any text; a copy needs names of files."""
    folders = {name for file in files for name in _above(file.below)}
    for file in files:
        parts = file.below.split("/")
        if not file.below:
            if len(files) > 1:
                raise DataError(f"{store.url!r} is an object and a prefix of others; name the one that is meant")
            continue
        odd = any(part in ("", ".", "..") or "\0" in part or len(part.encode()) > LONGEST for part in parts)
        if odd or file.below in folders:
            raise DataError(
                f"{store.url!r} holds a key that is no name of a file (an empty, dotted or overlong part, or one that "
                "is also a prefix); copy the table to keys without it"
            )


def _above(below: str) -> list[str]:
    parts = below.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
