"""Files that readers of a judged table get with it, and that the gate does not look into."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlparse

from privpipe.engines.base.files import elsewhere, list_files, local_path, names_there
from privpipe.engines.base.lakes import DeltaPiece, IcebergName, delta_place, delta_table, iceberg_files
from privpipe.engines.base.objects import is_reached, listed_files, opened_store, settled_store
from privpipe.engines.base.source import Source
from privpipe.errors import PrivpipeError

__all__ = ["unjudged_files", "unjudged_note"]

KINDS: Final = {
    "old": "of other versions of the table",
    "deleted": "with rows that the table has deleted",
    "columns": "with columns that the table does not have",
    "stray": "Parquet that the table does not name",
    "hidden": "hidden",
    "other": "of other formats",
}
"""What a note calls them, in this order."""
DOCUMENTS: Final = frozenset({"verdict.json", "manifest.json", "plan.json", "report.html"})
"""Our own, in a folder of their name."""
OF_DELTA: Final = re.compile(
    r"_delta_log/(?:_last_checkpoint|\d{20}(?:\.[\w-]+)*\.(?:json|parquet|crc)|_sidecars/[\w.-]+\.parquet)"
    r"|(?:.*/)?deletion_vector_[\w-]+\.bin"
)
OF_ICEBERG: Final = re.compile(r"metadata/(?:[\w.-]+\.(?:metadata\.json|avro|puffin|stats)|version-hint\.text)")
CHECKSUM_BLOCK = 512
"""Bytes that each number of a Hadoop checksum file is of."""
Sizes = Mapping[str, int]


def unjudged_files(source: Source) -> dict[str, int]:
    """How many files at the place of a source are not judged with it, by kind; nothing for a frame or a single file.

    Empty files count as nothing, nor do checksums of files next to them, the log of the table itself and the documents
    of a release.

    Raises
    ------
    DataError, EngineError
        The place cannot be listed.
    """
    if isinstance(source.data, IcebergName):
        return _beside_iceberg(source)
    if not source.is_path:
        return {}
    if source.resolved_format == "delta":
        return _beside_delta(source)
    return _beside_files(source)


def unjudged_note(found: Mapping[str, int]) -> str:
    """What a verdict says of them.

    Examples
    --------
    >>> unjudged_note({"hidden": 2, "old": 1})
    'readers get 3 files with the table that were not judged: 1 of other versions of the table, 2 hidden'
    """
    total = sum(found.values())
    told = ", ".join(f"{found[kind]:,} {words}" for kind, words in KINDS.items() if found.get(kind))
    return f"readers get {total:,} {'files' if total != 1 else 'file'} with the table that were not judged: {told}"


def _beside_files(source: Source) -> dict[str, int]:
    path = os.fspath(source.data)
    if elsewhere(path):
        if not is_reached(path):
            return {}
        sizes = {file.below: file.size for file in listed_files(settled_store(path)) if file.below}
        return _counted(sizes, names_there(source).read if sizes else ())
    folder = local_path(source)
    if not os.path.isdir(folder):
        return {}
    judged = {os.path.realpath(name) for name in list_files(source)}
    sizes, seen = {}, []
    for below, name in _walked(folder):
        sizes[below] = os.path.getsize(name) if os.path.isfile(name) else 1
        if os.path.realpath(name) in judged:
            seen.append(below)
    return _counted(sizes, seen)


def _beside_delta(source: Source) -> dict[str, int]:
    place = delta_place(source)
    try:
        table = delta_table(place, source.version, source.timestamp)
    except PrivpipeError:
        if "://" in place:
            return {}  # which the session of an engine read
        raise
    sizes, read = _there(place)
    log = [name for name in sizes if re.fullmatch(r"_delta_log/\d{20}\.json", name)]
    named = {path for name in log for path in _named_by(read(name))}
    pieces = [piece for piece in table.pieces if isinstance(piece, DeltaPiece)]
    judged = [_below(piece.path, place) for piece in pieces]
    found = _counted(sizes, judged, OF_DELTA, named)
    deleted = sum(piece.deleted is not None and len(piece.deleted) > 0 for piece in pieces)
    more = sum(bool(piece.columns_beyond()) for piece in pieces)
    return found | {kind: count for kind, count in (("deleted", deleted), ("columns", more)) if count}


def _beside_iceberg(source: Source) -> dict[str, int]:
    place, judged, named, deleted = iceberg_files(source.data)
    sizes, _ = _there(place)
    below = [_below(path, place) for path in judged]
    found = _counted(sizes, below, OF_ICEBERG, {_below(path, place) for path in named})
    return found | ({"deleted": deleted} if deleted else {})


def _there(place: str) -> tuple[Sizes, Callable[[str], bytes]]:
    """Sizes of all files below a table's folder, and how one of them is read."""
    folder = urlparse(place).path if place.startswith("file:") else place
    if "://" in folder:
        if not is_reached(folder):
            return {}, lambda name: b""
        store = opened_store(folder)
        return (
            {file.below: file.size for file in listed_files(store)},
            lambda name: bytes(store.files.cat_file(f"{store.root}/{name}")),
        )

    def read(name: str) -> bytes:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()

    return {below: os.path.getsize(name) for below, name in _walked(folder) if os.path.isfile(name)}, read


def _walked(top: str) -> Iterator[tuple[str, str]]:
    """Each file below a folder, also through links, by its name below and its path; none twice."""
    seen: set[str] = set()

    def look(folder: str) -> Iterator[tuple[str, str]]:
        real = os.path.realpath(folder)
        if real in seen:
            return
        seen.add(real)
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.is_dir():
                yield from look(entry.path)
            else:
                yield os.path.relpath(entry.path, top), entry.path

    yield from look(top)


def _counted(
    sizes: Sizes, judged: Collection[str], own: re.Pattern[str] | None = None, named: Collection[str] = ()
) -> dict[str, int]:
    """The files that were not judged by kind; `named` are those that some version of a table names."""
    judged = set(judged)
    found: Counter[str] = Counter()
    for name, size in sizes.items():
        if name in judged or not size or _is_checksum(name, size, sizes) or _is_document(name):
            continue
        if own is not None and own.fullmatch(name):
            continue
        if name in named:
            found["old"] += 1
        elif any(part.startswith((".", "_")) for part in name.split("/")):
            found["hidden"] += 1
        elif own is not None and name.casefold().endswith((".parquet", ".pq")):
            found["stray"] += 1
        else:
            found["other"] += 1
    return {kind: found[kind] for kind in KINDS if found[kind]}


def _is_checksum(name: str, size: int, sizes: Sizes) -> bool:
    """Whether a file is the checksum that Hadoop writes next to another, to the byte as long as that asks for."""
    folder, _, last = name.rpartition("/")
    of = sizes.get(f"{folder}/{last[1:-4]}" if folder else last[1:-4])
    return last.startswith(".") and last.endswith(".crc") and of is not None and size == 8 - 4 * (-of // CHECKSUM_BLOCK)


def _is_document(name: str) -> bool:
    folder, _, last = name.rpartition("/")
    return folder == "_privpipe" and last in DOCUMENTS


def _named_by(commit: bytes) -> Iterator[str]:
    """Files that a commit of a Delta log adds or removes."""
    for line in commit.splitlines():
        entry: Any = json.loads(line or b"{}")
        for action in ("add", "remove"):
            if isinstance(entry, dict) and isinstance(entry.get(action), dict):
                yield unquote(str(entry[action].get("path", "")))


def _below(path: str, place: str) -> str:
    """The name of a file below the folder of its table; the path itself where it lies elsewhere."""
    path, place = (urlparse(each).path if "://" in each else each for each in (path, place))
    roots = (place, os.path.realpath(place))
    return next((path.removeprefix(f"{root.rstrip('/')}/") for root in roots if path.startswith(root)), path)
