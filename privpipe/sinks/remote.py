"""Publishing to any fsspec file system: files beside the place readers list, then one pointer object in it.

::

    lake/adult/_CURRENT                         all that stands below the sink: names the release
    lake/.adult.privpipe/releases/<run>/...     part files and _privpipe/
    lake/.adult.privpipe/_LOCK                  while a run is at work

Readers follow ``_CURRENT``, a small JSON object: ``{"release": "../.adult.privpipe/releases/<run>"}``, relative to the
sink. Writing it is one PUT (object stores) or one rename, so a reader sees the old release or the new one; who lists
the sink sees no part of either, hence nothing that was not judged, and never two releases as one table.
"""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from privpipe.errors import PrivpipeError, SinkError, UsageError
from privpipe.private_files import new_folder, remove_folder
from privpipe.sinks.local import MEMORY, METADATA

__all__ = ["RemoteTarget", "is_remote"]

POINTER = "_CURRENT"
log = logging.getLogger("privpipe.release")


def is_remote(path: str) -> bool:
    """Whether a sink path names an fsspec file system.

    Examples
    --------
    >>> is_remote("s3://lake/adult"), is_remote("published/adult")
    (True, False)
    """
    return "://" in path


class RemoteTarget:
    """A folder of an fsspec file system (``s3://``, ``gs://``, ``abfs://``, ``memory://``, ``file://`` ...).

    Files are written and judged in a local private folder, copied beside the sink, read back and compared byte for
    byte; then ``_CURRENT`` is switched, and what it names is fetched and judged again. ``_LOCK`` keeps a second run out
    where the file system can create a file exclusively.

    Raises
    ------
    UsageError
        fsspec is missing, or the sink is a whole bucket: nothing lies beside it.
    SinkError
        No known file system; something else lies in the sink; a step fails.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise UsageError("a sink on a remote file system needs fsspec: pip install 'privpipe[remote]'") from error
        self.url = url.rstrip("/")
        try:
            self.files, self.root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise SinkError(f"the sink {self.url!r} names no known file system: {type(error).__name__}") from None
        above, name = posixpath.split(self.root.rstrip("/"))
        if not above.strip("/") and not self.root.startswith("/"):
            raise UsageError(f"the sink {self.url!r} is a whole bucket; name a folder in it, {self.url}/released say")
        self.state = posixpath.join(above, f".{name}.privpipe")
        self._local = new_folder("sink")
        self._locked = False
        self._before: bytes | None = None

    def __enter__(self) -> Self:
        try:
            with self._told():
                self.files.makedirs(self.root, exist_ok=True)
                self.files.makedirs(self.state, exist_ok=True)
                self._require_ours()
                self._take_lock()
                self._clean()
        except BaseException:  # __exit__ is not called when entering fails
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_folder(self._local)
        if self._locked:
            self._locked = False
            try:
                self.files.rm_file(f"{self.state}/_LOCK")
            except Exception as problem:  # noqa: BLE001 the release is what it is; the next run says what to do
                log.warning("%s/_LOCK could not be removed (%s); remove it", self.state, type(problem).__name__)

    def stage(self, run_id: str) -> Path:
        folder = self._local / run_id
        folder.mkdir(mode=0o700)
        return folder

    @property
    def name(self) -> str:
        """The URL."""
        return self.url

    @property
    def area(self) -> Path | None:
        """None: what lies beside the sink is listed with it."""
        return None

    @property
    def marks(self) -> Mapping[str, str]:
        """None: files are known by where they lie."""
        return {}

    def rows(self, run_id: str) -> Path:
        """The staged folder."""
        return self._local / run_id

    def publish(self, run_id: str) -> str:
        home, staged = f"{self.state}/releases/{run_id}", self._local / run_id
        with self._told():
            self._before = self._pointer()
            for file in sorted(path for path in staged.rglob("*") if path.is_file()):
                name = f"{home}/{file.relative_to(staged).as_posix()}"
                self.files.makedirs(name.rsplit("/", 1)[0], exist_ok=True)
                self.files.put_file(str(file), name)
                if hashlib.sha256(self.files.cat_file(name)).digest() != hashlib.sha256(file.read_bytes()).digest():
                    raise SinkError(f"a file of the release reads back differently from the sink {self.url!r}")
            named = f"../{posixpath.basename(self.state)}/releases/{run_id}"
            self._switch(json.dumps({"release": named}).encode())
        return self.url

    def published(self, run_id: str) -> Path:
        home = self._local / "published"
        shutil.rmtree(home, ignore_errors=True)  # what is fetched into a folder that is there lands below it
        with self._told():
            current = self._named(self._pointer())
            self.files.get(posixpath.normpath(f"{self.root}/{current}"), str(home), recursive=True)
        return home

    def withdraw(self, run_id: str) -> None:
        with self._told("the release could not be withdrawn; remove its _CURRENT by hand"):
            now = self._pointer()
            if self._named(now).endswith(f"/{run_id}"):
                if self._before is None:
                    self.files.rm_file(f"{self.root}/{POINTER}")
                else:
                    self._switch(self._before)
        with suppress(Exception):  # nobody is pointed at what is left, and the next run removes it
            self.files.rm(f"{self.state}/releases/{run_id}", recursive=True)

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self._local / run_id, ignore_errors=True)

    @property
    def local_root(self) -> Path | None:
        """The sink's folder where the file system is that of this machine."""
        return Path(self.root) if self._on_disk else None

    def current(self) -> str | None:
        with self._told():
            return self._named(self._pointer()) or None

    @contextmanager
    def _told(self, outcome: str = "nothing was published") -> Iterator[None]:
        """Each file system fails in its own classes, whose texts may hold credentials: their kind alone is reported."""
        try:
            yield
        except PrivpipeError:
            raise
        except Exception as error:  # noqa: BLE001 - each file system has classes of its own, and texts with credentials
            reason = getattr(error, "strerror", None) or type(error).__name__
            problem = SinkError(f"the sink {self.url!r} cannot be written: {reason}; {outcome}")
        else:
            return
        raise problem

    def _pointer(self) -> bytes | None:
        pointer = f"{self.root}/{POINTER}"
        found: bytes | None = self.files.cat_file(pointer) if self.files.exists(pointer) else None
        return found

    def _named(self, pointer: bytes | None) -> str:
        """The release that a pointer names, relative to the sink; nothing without one."""
        if pointer is None:
            return ""
        try:
            return str(json.loads(pointer)["release"])
        except (ValueError, KeyError, TypeError):
            raise SinkError(f"the {POINTER} of the sink {self.url!r} is none of ours; move it away") from None

    @property
    def _on_disk(self) -> bool:
        return getattr(self.files, "protocol", None) in ("file", ("file", "local"))

    def document(self, name: str) -> bytes | None:
        with self._told():
            current = self._named(self._pointer())
            path = posixpath.normpath(f"{self.root}/{current}/{METADATA}/{name}.json")
            return bytes(self.files.cat_file(path)) if current and self.files.exists(path) else None

    def recall(self) -> bytes | None:
        with self._told():
            return bytes(self.files.cat_file(self._memory)) if self.files.exists(self._memory) else None

    def remember(self, data: bytes) -> None:
        with self._told():
            self.files.makedirs(self._memory.rsplit("/", 1)[0], exist_ok=True)
            self.files.pipe_file(self._memory, data)

    @property
    def _memory(self) -> str:
        return f"{self.state}/{MEMORY}"

    def _switch(self, content: bytes) -> None:
        """One PUT where that is atomic; where it is not (local disks), a write aside and a rename."""
        pointer = f"{self.root}/{POINTER}"
        if self._on_disk:
            self.files.pipe_file(f"{self.state}/{POINTER}.new", content)
            self.files.mv(f"{self.state}/{POINTER}.new", pointer)
        else:
            self.files.pipe_file(pointer, content)
        self.files.invalidate_cache()

    def _require_ours(self) -> None:
        """Whoever lists the sink must see a release by its pointer alone."""
        self.files.invalidate_cache()
        names = [str(name).rstrip("/").rsplit("/", 1)[-1] for name in self.files.ls(self.root, detail=False)]
        others = [name for name in names if name not in (POINTER, "", posixpath.basename(self.root))]
        if others:
            raise SinkError(f"the sink {self.url!r} holds something privpipe did not publish; move it away")

    def _take_lock(self) -> None:
        lock = f"{self.state}/_LOCK"
        if self.files.exists(lock):
            raise SinkError(
                f"another run is writing the sink {self.url!r} (or was killed while it did: then remove {lock})"
            )
        try:
            with self.files.open(lock, "xb") as handle:
                handle.write(b"privpipe")
        except FileExistsError:
            raise SinkError(f"another run is writing the sink {self.url!r}; try again when it is done") from None
        except (ValueError, NotImplementedError):
            # The file system has no exclusive creation; the check above is the best it can do.
            self.files.pipe_file(lock, b"privpipe")
        self._locked = True

    def _clean(self) -> None:
        """Releases that no pointer names were left by a killed run."""
        home, current = f"{self.state}/releases", self._named(self._pointer()).rsplit("/", 1)[-1]
        if not self.files.exists(home):
            return
        for folder in self.files.ls(home, detail=False):
            if folder.rstrip("/").rsplit("/", 1)[-1] != current:
                self.files.rm(folder, recursive=True)
