"""Tables in object stores and other remote file systems, which fsspec reaches: opened, listed, and copied here."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from privpipe.engines.readers.source import table_format_error
from privpipe.errors import DataError, EngineError, PrivpipeError, SinkError, UsageError

__all__ = [
    "POINTER",
    "CopiedFiles",
    "OpenedStore",
    "StoreKind",
    "StoredFile",
    "copied_files",
    "copied_names",
    "is_reached",
    "listed_files",
    "names_beside",
    "opened_store",
    "pointed_at",
    "pointer_text",
    "reason_of",
    "refuse_credentials",
    "release_of",
    "settled_store",
    "stamp_at",
    "store_faults",
    "whole_copy",
]


StoreKind = Literal["s3", "gcs", "azure", "other"]
KINDS: Mapping[str, StoreKind] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}
EXTRAS = {"s3": "s3", "gcs": "gcs", "azure": "azure"}
LIBRARIES = {"s3": "s3fs", "gcs": "gcsfs", "azure": "adlfs"}
_SECRET = re.compile(r"(?i)(sig|signature|token|key|secret|password|credential)[^=&]*=")


@dataclass(frozen=True)
class OpenedStore:
    """A file system and a path on it.

    Parameters
    ----------
    url : str
        Without a sign for a folder at its end.
    files : fsspec file system
        Its listings are not kept: another run changes what they say.
    root : str
        The path, as `files` takes it.
    kind : {"s3", "gcs", "azure", "other"}
    """

    url: str
    files: Any
    root: str
    kind: StoreKind

    @property
    def is_flat(self) -> bool:
        """Whether there are no folders, which would have to be made."""
        return self.kind != "other"


def refuse_credentials(url: str) -> None:
    """Refuse a URL that holds a password or a token: policies and manifests keep URLs.

    Raises
    ------
    UsageError
        It quotes nothing of the URL.

    Examples
    --------
    >>> refuse_credentials("s3://lake/adult")
    >>> refuse_credentials("s3://AKID:secret@lake/adult")
    Traceback (most recent call last):
    privpipe.errors.UsageError: a URL holds credentials, ...
    """
    if "://" not in url:
        return
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    if (at and ":" in user) or _SECRET.search(parts.query):
        raise UsageError(
            "a URL holds credentials, which would be kept with the policy and the manifest; take them out and give "
            "them to the file system by its own variables or files (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, "
            "AZURE_STORAGE_SAS_TOKEN)"
        )


def is_reached(url: str) -> bool:
    """Whether fsspec and the library of this kind of store are installed; imports neither.

    Examples
    --------
    >>> is_reached("data/adult.csv"), is_reached("nowhere://lake/adult")
    (False, False)
    """
    if "://" not in url or importlib.util.find_spec("fsspec") is None:
        return False
    scheme = url.partition("://")[0]
    if scheme in KINDS:
        return importlib.util.find_spec(LIBRARIES[KINDS[scheme]]) is not None
    from fsspec.registry import known_implementations, registry

    return scheme in known_implementations or scheme in registry


def opened_store(url: str, what: str = "source") -> OpenedStore:
    """The file system of a URL; nothing is asked of it yet.

    Parameters
    ----------
    what : str
        What the URL is of, for errors.

    Raises
    ------
    UsageError
        A library is missing; the URL holds credentials, or several URLs.
    EngineError
        No such file system. Of a sink: SinkError.
    """
    refuse_credentials(url)
    scheme = url.partition("://")[0]
    kind = KINDS.get(scheme, "other")
    extra = EXTRAS.get(kind, "remote")
    if importlib.util.find_spec("fsspec") is None:
        raise UsageError(f"a {what} on a remote file system needs fsspec: pip install 'privpipe[{extra}]'")
    if "::" in url:
        raise UsageError(f"a {what} is one URL; {scheme!r} chains several, which is not read")
    import fsspec

    url = url.rstrip("/")
    library = LIBRARIES.get(kind)
    if library is not None and importlib.util.find_spec(library) is None:
        raise UsageError(f"a {what} on `{scheme}` needs {library}: pip install 'privpipe[{extra}]'")
    options = {"use_listings_cache": False, "skip_instance_cache": True} if kind != "other" else {}
    problem: PrivpipeError | None = None
    try:
        files, root = fsspec.core.url_to_fs(url, **options)
    except Exception as error:  # noqa: BLE001 - each file system fails in its own ways, and texts quote the URL
        made = SinkError if what == "sink" else EngineError
        problem = made(f"the {what} {url!r} names no known file system: {type(error).__name__}")
    if problem is not None:
        raise problem
    return OpenedStore(url, files, root.rstrip("/"), kind)


def reason_of(error: BaseException) -> str:
    """Why a file system failed, by the kind of its error: the text may quote credentials, hosts and accounts.

    Examples
    --------
    >>> reason_of(PermissionError("AKID... is not authorized"))
    'permission denied; check the credentials and their rights'
    """
    if isinstance(error, PermissionError):
        return "permission denied; check the credentials and their rights"
    if isinstance(error, FileNotFoundError):
        return "nothing is there (does the bucket exist?)"
    if type(error) is OSError and error.errno:
        return os.strerror(error.errno)
    return type(error).__name__


@contextmanager
def store_faults(url: str) -> Iterator[None]:
    """What a file system refuses while it is read, by kind alone.

    Raises
    ------
    DataError
        Nothing is there.
    EngineError
        It cannot be reached or read.
    """
    problem: PrivpipeError
    try:
        yield
    except PrivpipeError:
        raise
    except FileNotFoundError:
        problem = DataError(f"nothing is at {url!r}; check the path")
    except PermissionError:
        problem = EngineError(f"{url!r} cannot be read: {reason_of(PermissionError())}")
    except MemoryError:
        problem = EngineError(f"memory ran out while {url!r} was read; give the process more")
    except Exception as error:  # noqa: BLE001 - classes of each file system, and texts with credentials
        problem = EngineError(f"{url!r} cannot be read: {reason_of(error)}; run again once the store answers")
    else:
        return
    raise problem


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
        Nothing is there; it is a file and a folder; a name that no folder can hold.
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
        raise DataError(f"nothing is at {store.url!r}; check the path")
    _require_names(store, files)
    return sorted(files)


def stamp_at(store: OpenedStore) -> tuple[int, int, int]:
    """One stamp of all that is at a path: files, bytes, a hash of names and stamps; raises as `listed_files`."""
    files = listed_files(store)
    said = "\0".join(f"{file.below}\0{file.stamp}" for file in files)
    return len(files), sum(file.size for file in files), int(hashlib.sha256(said.encode()).hexdigest(), 16)


def names_beside(store: OpenedStore, marks: Mapping[str, str]) -> str | None:
    """Which of the marks (name to meaning) is in a folder above a path; None where none is or none can be seen."""
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
                f"{store.url!r} holds a key that is not a name of a file (an empty, dotted or overlong part, or one "
                "that is also a prefix); copy the table to keys without it"
            )


def _above(below: str) -> list[str]:
    parts = below.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


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
        It is not a pointer of ours.

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
    """The URL of the release that a sink's pointer names now; None where the path is not a sink.

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
        raise DataError(f"the `{POINTER}` in {store.url!r} was not written by privpipe; it is not read") from None
    if not named:
        raise DataError(f"the sink {store.url!r} has no release: none was published, or it was withdrawn")
    scheme, _, path = store.url.partition("://")
    joined = posixpath.normpath(f"/{path}/{named}").lstrip("/")
    if joined.split("/", 1)[0] != path.split("/", 1)[0]:
        raise DataError(f"the `{POINTER}` in {store.url!r} leads out of its bucket; it is not read")
    return f"{scheme}://{'/' if path.startswith('/') else ''}{joined}"


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
    """The files of a source in a private folder, each where it is below the path; of a sink, those of its release.

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
        raise DataError(f"nothing is at {url!r}; check the path")
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
