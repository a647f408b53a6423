"""The pointer that stands alone in a sink on an object store, and the release that it names."""

from __future__ import annotations

import json
import posixpath
from typing import Any

from privpipe.engines.base.objects.opening import OpenedStore, store_faults
from privpipe.errors import DataError

__all__ = ["POINTER", "pointed_at", "pointer_text", "release_of"]

POINTER = "_CURRENT"
MOST_BYTES = 1 << 16


def pointer_text(release: str | None, mark: str) -> bytes:
    """What a pointer holds.

    Parameters
    ----------
    release : str, optional
        The folder of the release, relative to the sink; None: nothing is published.
    mark : str
        Of the run that wrote it, so that no two writes are alike.

    Examples
    --------
    >>> pointer_text("../.adult.privpipe/releases/1", "ab")
    b'{"release": "../.adult.privpipe/releases/1", "written_by": "ab"}'
    """
    return json.dumps({"release": release, "written_by": mark}).encode()


def pointed_at(text: bytes) -> str:
    """The release that a pointer names, relative to the sink; nothing where it names none.

    Raises
    ------
    ValueError
        It is no pointer of ours.

    Examples
    --------
    >>> pointed_at(pointer_text("../.adult.privpipe/releases/1", "ab")), pointed_at(pointer_text(None, "ab"))
    ('../.adult.privpipe/releases/1', '')
    """
    try:
        found: Any = json.loads(text) if len(text) <= MOST_BYTES else None
    except RecursionError:
        raise ValueError("no pointer of a sink") from None
    release = found.get("release", 0) if isinstance(found, dict) else 0
    if release is None:
        return ""
    if not isinstance(release, str) or not release:
        raise ValueError("no pointer of a sink")
    return release


def release_of(store: OpenedStore) -> str | None:
    """The URL of the release that a sink's pointer names now; None where the path is no sink.

    Raises
    ------
    DataError
        It names none, or is none of ours.
    EngineError
        It cannot be read.
    """
    pointer = f"{store.root}/{POINTER}"
    text: bytes | None = None
    with store_faults(store.url):
        try:
            text = store.files.cat_file(pointer)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None  # a file, or a folder without a pointer
    try:
        named = pointed_at(text or b"")
    except ValueError:
        raise DataError(f"the `{POINTER}` in {store.url!r} is none of privpipe's; it is not read") from None
    if not named:
        raise DataError(f"the sink {store.url!r} has no release: none was published, or it was withdrawn")
    scheme, _, path = store.url.partition("://")
    joined = posixpath.normpath(f"/{path}/{named}").lstrip("/")
    if joined.split("/", 1)[0] != path.split("/", 1)[0]:
        raise DataError(f"the `{POINTER}` in {store.url!r} leads out of its bucket; it is not read")
    return f"{scheme}://{'/' if path.startswith('/') else ''}{joined}"
