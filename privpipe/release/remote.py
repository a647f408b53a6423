"""Publishing to any fsspec file system: files first, then one pointer object.

Readers follow ``_CURRENT``, a small JSON object that names the release's folder. Writing it is one PUT (object
stores) or one rename, so a reader sees the old release or the new one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from privpipe.errors import SinkError, UsageError
from privpipe.release.target import MEMORY

__all__ = ["RemoteTarget", "is_remote"]


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

    Files are written and judged in a local temporary folder, copied to ``releases/<run>/``, read back and
    compared byte for byte, and judged again; then ``_CURRENT`` is switched. ``_LOCK`` keeps a second run out
    where the file system can create a file exclusively.
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
        self._local = Path(tempfile.mkdtemp(prefix="privpipe-"))
        self._locked = False
        self._before: bytes | None = None

    def __enter__(self) -> Self:
        try:
            self.files.makedirs(self.root, exist_ok=True)
            self._take_lock()
        except OSError as error:
            raise SinkError(f"the sink {self.url!r} cannot be written: {type(error).__name__}") from None
        self._clean()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._local, ignore_errors=True)
        if self._locked:
            self.files.rm_file(f"{self.root}/_LOCK")

    def stage(self, run_id: str) -> Path:
        folder = self._local / run_id
        folder.mkdir()
        return folder

    def publish(self, run_id: str) -> str:
        pointer = f"{self.root}/_CURRENT"
        self._before = self.files.cat_file(pointer) if self.files.exists(pointer) else None
        home = f"{self.root}/releases/{run_id}"
        staged = self._local / run_id
        for file in sorted(path for path in staged.rglob("*") if path.is_file()):
            name = f"{home}/{file.relative_to(staged).as_posix()}"
            self.files.makedirs(name.rsplit("/", 1)[0], exist_ok=True)
            self.files.put_file(str(file), name)
            if hashlib.sha256(self.files.cat_file(name)).digest() != hashlib.sha256(file.read_bytes()).digest():
                raise SinkError(f"a file of the release reads back differently from the sink {self.url!r}")
        self._switch(json.dumps({"release": f"releases/{run_id}"}).encode())
        return self.url

    def published(self, run_id: str) -> Path:
        current = json.loads(self.files.cat_file(f"{self.root}/_CURRENT"))["release"]
        home = self._local / "published"
        self.files.get(f"{self.root}/{current}", str(home), recursive=True)
        return home

    def withdraw(self, run_id: str) -> None:
        if self._before is None:
            self.files.rm_file(f"{self.root}/_CURRENT")
        else:
            self._switch(self._before)
        self.files.rm(f"{self.root}/releases/{run_id}", recursive=True)

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self._local / run_id, ignore_errors=True)

    @property
    def local_root(self) -> Path | None:
        """The sink's folder where the file system is that of this machine."""
        return Path(self.root) if self._on_disk else None

    def current(self) -> str | None:
        pointer = f"{self.root}/_CURRENT"
        return str(json.loads(self.files.cat_file(pointer))["release"]) if self.files.exists(pointer) else None

    @property
    def _on_disk(self) -> bool:
        return getattr(self.files, "protocol", None) in ("file", ("file", "local"))

    def recall(self) -> bytes | None:
        try:
            return bytes(self.files.cat_file(self._memory))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SinkError(f"what the sink {self.url!r} remembers cannot be read: {type(error).__name__}") from None

    def remember(self, data: bytes) -> None:
        try:
            self.files.makedirs(self._memory.rsplit("/", 1)[0], exist_ok=True)
            self.files.pipe_file(self._memory, data)
        except OSError as error:
            raise SinkError(f"the sink {self.url!r} cannot be written: {type(error).__name__}") from None

    @property
    def _memory(self) -> str:
        """Beside the folder that readers list, where there is a beside."""
        parent, _, name = self.root.rstrip("/").rpartition("/")
        return f"{parent}/.{name}.privpipe/{MEMORY}" if parent else f"{self.root}/_{MEMORY}"

    def _switch(self, content: bytes) -> None:
        """One PUT where that is atomic; where it is not (local disks), a write aside and a rename."""
        pointer = f"{self.root}/_CURRENT"
        if self._on_disk:
            self.files.pipe_file(f"{pointer}.new", content)
            self.files.mv(f"{pointer}.new", pointer)
        else:
            self.files.pipe_file(pointer, content)

    def _take_lock(self) -> None:
        lock = f"{self.root}/_LOCK"
        if self.files.exists(lock):
            raise SinkError(
                f"another run is writing the sink {self.url!r} (or was killed while it did: then remove its _LOCK)"
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
        pointer, home = f"{self.root}/_CURRENT", f"{self.root}/releases"
        current = json.loads(self.files.cat_file(pointer))["release"] if self.files.exists(pointer) else ""
        if not self.files.exists(home):
            return
        for folder in self.files.ls(home, detail=False):
            if folder.rstrip("/").rsplit("/", 1)[-1] != current.rsplit("/", 1)[-1]:
                self.files.rm(folder, recursive=True)
