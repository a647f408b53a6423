"""File systems by their URL, and what goes wrong there in our own words: theirs may quote credentials."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from privpipe.errors import DataError, EngineError, PrivpipeError, SinkError, UsageError

__all__ = ["OpenedStore", "StoreKind", "is_reached", "opened_store", "reason_of", "refuse_credentials", "store_faults"]

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
        return "nothing is there (was the bucket made?)"
    if type(error) is OSError and error.errno:
        return os.strerror(error.errno)
    return type(error).__name__


@contextmanager
def store_faults(url: str) -> Iterator[None]:
    """What a file system refuses while it is read, by kind alone.

    Raises
    ------
    DataError
        Nothing lies there.
    EngineError
        It cannot be reached or read.
    """
    problem: PrivpipeError
    try:
        yield
    except PrivpipeError:
        raise
    except FileNotFoundError:
        problem = DataError(f"nothing lies at {url!r}; check the path")
    except PermissionError:
        problem = EngineError(f"{url!r} cannot be read: {reason_of(PermissionError())}")
    except MemoryError:
        problem = EngineError(f"memory ran out while {url!r} was read; give the process more")
    except Exception as error:  # noqa: BLE001 - classes of each file system, and texts with credentials
        problem = EngineError(f"{url!r} cannot be read: {reason_of(error)}; run again once the store answers")
    else:
        return
    raise problem
