"""Publishing to any fsspec file system.

Files are written next to the place that readers list, then one pointer is replaced.
"""

from __future__ import annotations

import hashlib
import logging
import posixpath
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from privpipe.engines.stores import POINTER, OpenedStore, opened_store, pointed_at, pointer_text, reason_of, whole_copy
from privpipe.errors import EngineError, PrivpipeError, SinkError, UsageError
from privpipe.private_files import new_folder, remove_folder
from privpipe.sinks.conditional_objects import Conditional, Conflict, Lease, Version, conditional_writes
from privpipe.sinks.target import MEMORY, METADATA, Rows, WholeReleases

__all__ = ["NOTICE", "RemoteTarget", "give_notice"]


NOTICE = "read_CURRENT_first.md"
NOTICE_TEXT = (
    b"This is not part of a table. The table is not in this folder: the object _CURRENT next to this one names the "
    b"folder of the release, relative to this folder, in its key `release`. Read that folder.\n"
)


def give_notice(files: Any, root: str) -> None:
    """Put the notice into a sink, where it is not there yet.

    Parameters
    ----------
    files : fsspec file system
    root : str
        The sink, as `files` takes it.
    """
    name = f"{root}/{NOTICE}"
    if not files.exists(name) or files.cat_file(name) != NOTICE_TEXT:
        files.pipe_file(name, NOTICE_TEXT)


log = logging.getLogger("privpipe.release")
TRIES = 5


class RemoteTarget(WholeReleases):
    """A folder of an fsspec file system (``s3://``, ``gs://``, ``abfs://``, ``memory://``, ``file://`` ...).

    Files are written and judged in a local private folder, copied next to the sink, read back and compared byte for
    byte; then ``_CURRENT`` is switched, and the release is fetched and judged again. ``_LOCK`` keeps a second run out
    (see `Lease`).

    Raises
    ------
    UsageError
        fsspec or the library of the store is missing; the URL holds credentials; the sink is a whole bucket: nothing
        is next to it.
    SinkError
        No known file system; something else is in the sink; a step fails.
    """

    def __init__(self, url: str) -> None:
        self.store: OpenedStore = opened_store(url, "sink")
        self.url, self.files, self.root = self.store.url, self.store.files, self.store.root
        above, name = posixpath.split(self.root.rstrip("/"))
        if not above.strip("/") and not self.root.startswith("/"):
            raise UsageError(f"the sink {self.url!r} is a whole bucket; name a folder in it, {self.url}/released say")
        self.state = posixpath.join(above, f".{name}.privpipe")
        self._local = new_folder("sink")
        self._lease: Lease | None = None
        self._writes: Conditional | None = None
        self._before: Version | None = None
        self._switching = False

    def __enter__(self) -> Self:
        try:
            with self._told():
                self._make(self.root)
                self._make(self.state)
                self._require_ours()
                self._lease = Lease(self.store, self.state, conditional_writes(self.store))
                self._writes = self._lease.take()
                self._begin()
        except BaseException:  # __exit__ is not called when entering fails
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        try:
            self.close()
        finally:
            if lease is not None:
                lease.release()

    def close(self) -> None:
        """Remove the local folder, which is there from its birth."""
        remove_folder(self._local)

    def _begin(self) -> None:
        """With the lock held: read what is published, and clean up after runs that ended early."""
        self._before = self._read()
        self._named(self._before)  # it is ours, or nothing is done
        self._clean()

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
        """None: objects next to the sink are listed with it."""
        return None

    @property
    def marks(self) -> Mapping[str, str]:
        """None: files are known by where they are."""
        return {}

    @property
    def publishes_files(self) -> bool:
        """They are copied."""
        return True

    def rows(self, run_id: str) -> Path:
        """The staged folder."""
        return self._local / run_id

    def landed(self, run_id: str) -> Path:
        """The staged folder."""
        return self.rows(run_id)

    def require_free(self) -> None:
        """Nothing that can be known without the lock."""

    def publish(self, run_id: str) -> str:
        home, staged = f"{self.state}/releases/{run_id}", self._local / run_id
        with self._told():
            for file in sorted(path for path in staged.rglob("*") if path.is_file()):
                self._put(file, f"{home}/{file.relative_to(staged).as_posix()}")
            give_notice(self.files, self.root)
            self._switching = True
            self._switch(f"../{posixpath.basename(self.state)}/releases/{run_id}")
        return self.url

    def published(self, run_id: str) -> Rows:
        return self.fetched()

    def fetched(self) -> Path:
        """A copy of the release that the pointer names, in the private folder of this machine."""
        home = self._local / "published"
        shutil.rmtree(home, ignore_errors=True)  # a fetch into an existing folder would be put below it
        with self._told():
            current = self._named(self._read())
            root = posixpath.normpath(f"{self.root}/{current}")
            whole_copy(OpenedStore(self.url, self.files, root, self.store.kind), home)
        return home

    def withdraw(self, run_id: str) -> None:
        """See `Target.withdraw`; also where it is unknown whether the pointer was switched, or still will be."""
        if self._switching:
            with self._told("the release could not be withdrawn; remove its _CURRENT by hand"):
                self._put_back(run_id)
        with suppress(Exception):  # no pointer leads to the remains, and the next run removes them
            self.files.rm(f"{self.state}/releases/{run_id}", recursive=True)
        with suppress(Exception):
            self._abort_uploads(f"{self.state}/releases/{run_id}/")

    def refuse(self, run_id: str) -> None:
        shutil.rmtree(self._local / run_id, ignore_errors=True)

    @property
    def folders(self) -> Sequence[tuple[str, Path]]:
        """The path, where the file system is that of this machine."""
        return (
            ()
            if self.local_root is None
            else (("the sink", self.local_root), ("the work area of the sink", Path(self.state)))
        )

    @property
    def local_root(self) -> Path | None:
        """The sink's folder where the file system is that of this machine."""
        return Path(self.root) if self._on_disk else None

    def current(self) -> str | None:
        with self._told("what it publishes is not known"):
            return self._named(self._read()) or None

    @contextmanager
    def _told(self, outcome: str = "nothing was published") -> Iterator[None]:
        """Each file system raises its own classes, whose texts may hold credentials: only the kind is reported."""
        problem: SinkError
        try:
            yield
        except SinkError:
            raise
        except EngineError as error:
            problem = SinkError(f"{error}; {outcome}")
        except PrivpipeError:
            raise
        except Conflict:
            problem = SinkError(f"another run has written the sink {self.url!r} meanwhile; {outcome}")
        except Exception as error:  # noqa: BLE001 - each file system has its own classes, and texts with credentials
            problem = SinkError(f"the sink {self.url!r} cannot be written: {reason_of(error)}; {outcome}")
        else:
            return
        raise problem

    def _named(self, pointer: Version | None) -> str:
        """The release that a pointer names, relative to the sink; nothing without one."""
        if pointer is None:
            return ""
        try:
            return pointed_at(pointer.content)
        except ValueError:
            raise SinkError(f"the {POINTER} of the sink {self.url!r} is none of ours; move it away") from None

    @property
    def _on_disk(self) -> bool:
        return getattr(self.files, "protocol", None) in ("file", ("file", "local"))

    @property
    def _pointer(self) -> str:
        return f"{self.root}/{POINTER}"

    def _make(self, folder: str) -> None:
        """A folder, where there are any; on a store this would make a bucket."""
        if not self.store.is_flat:
            self.files.makedirs(folder, exist_ok=True)

    def _put(self, file: Path, name: str) -> None:
        self._make(name.rsplit("/", 1)[0])
        self.files.put_file(str(file), name)
        with self.files.open(name, "rb") as handle:
            found = hashlib.file_digest(handle, "sha256").digest()
        with file.open("rb") as handle:
            if hashlib.file_digest(handle, "sha256").digest() != found:
                raise SinkError(f"a file of the release reads back differently from the sink {self.url!r}")

    def document(self, name: str) -> bytes | None:
        with self._told():
            current = self._named(self._read())
            path = posixpath.normpath(f"{self.root}/{current}/{METADATA}/{name}.json")
            return bytes(self.files.cat_file(path)) if current and self.files.exists(path) else None

    def recall(self) -> bytes | None:
        with self._told():
            return bytes(self.files.cat_file(self._memory)) if self.files.exists(self._memory) else None

    def remember(self, data: bytes) -> None:
        with self._told():
            self._make(self._memory.rsplit("/", 1)[0])
            self.files.pipe_file(self._memory, data)

    @property
    def _memory(self) -> str:
        return f"{self.state}/{MEMORY}"

    def _read(self) -> Version | None:
        writes = self._writes or conditional_writes(self.store)
        if writes is not None:
            return writes.read(self._pointer)
        if not self.files.exists(self._pointer):
            return None
        found: bytes = self.files.cat_file(self._pointer)
        return Version(found, hashlib.sha256(found).hexdigest())

    def _switch(self, release: str | None) -> None:
        """Have the pointer name a release, if it is still as this run found it.

        Raises
        ------
        Conflict
            Another run wrote it.
        """
        content = pointer_text(release, secrets.token_hex(8))
        if self._writes is None:
            self._overwrite(content)
            return
        failure: Exception
        try:
            self._written(self._writes, content, self._before)
            return
        except Exception as error:  # noqa: BLE001 - reported by the caller, unless only the answer was lost
            failure = error
        found = self._writes.read(self._pointer)
        if found is None or found.content != content:
            raise failure

    def _written(self, writes: Conditional, content: bytes, over: Version | None) -> None:
        if over is None:
            writes.create(self._pointer, content)
        else:
            writes.replace(self._pointer, content, over.tag)

    def _overwrite(self, content: bytes) -> None:
        """One PUT where that is atomic; where it is not (local disks), a write aside and a rename."""
        if self._on_disk:
            self.files.pipe_file(f"{self.state}/{POINTER}.new", content)
            self.files.mv(f"{self.state}/{POINTER}.new", self._pointer)
        else:
            self.files.pipe_file(self._pointer, content)
        self.files.invalidate_cache()

    def _put_back(self, run_id: str) -> None:
        """The pointer as it was before this run; written also where it is so still, against a switch on its way."""
        before = self._named(self._before) or None
        for _ in range(TRIES):
            now = self._read()
            ours = self._named(now).endswith(f"/{run_id}")
            if self._writes is None:
                if ours and self._before is None:
                    self.files.rm_file(self._pointer)
                elif ours and self._before is not None:
                    self._overwrite(self._before.content)
                return
            if not ours and (now and now.tag) != (self._before and self._before.tag):
                return  # another run wrote it, and nothing of ours can replace that
            try:
                self._written(self._writes, pointer_text(before, secrets.token_hex(8)), now)
                return
            except Conflict:
                continue
        raise Conflict

    def _require_ours(self) -> None:
        """Anyone who lists the sink must see a release only by its pointer."""
        self.files.invalidate_cache()
        names = [name.rstrip("/").rsplit("/", 1)[-1] for name in self._listed(self.root)]
        others = [name for name in names if name not in (POINTER, NOTICE, "", posixpath.basename(self.root))]
        if others:
            raise SinkError(f"the sink {self.url!r} holds something privpipe did not publish; move it away")

    def _listed(self, folder: str) -> list[str]:
        try:
            return [str(name) for name in self.files.ls(folder, detail=False)]
        except FileNotFoundError:  # an empty prefix of a store, which knows no folders
            return []

    def _clean(self) -> None:
        """Remove releases that no pointer names, which killed runs left, and uploads that were cut off."""
        current = self._named(self._before).rsplit("/", 1)[-1]
        self._abort_uploads(f"{self.state}/releases/")
        left = [
            folder
            for folder in self._listed(f"{self.state}/releases")
            if folder.rstrip("/").rsplit("/", 1)[-1] not in (current, "releases")
        ]
        if not left:
            return
        if self._writes is not None:
            # A writer that uploaded one of these and is late can no longer point at it.
            self._switch(self._named(self._before) or None)
            self._before = self._read()
            if self._named(self._before).rsplit("/", 1)[-1] != current:
                raise Conflict
        for folder in left:
            self.files.rm(folder, recursive=True)

    def _abort_uploads(self, below: str) -> None:
        """Parts of uploads that were begun and not completed: no listing shows them, and they are kept and paid for."""
        if self.store.kind != "s3":
            return
        bucket, prefix, _ = self.files.split_path(below)
        try:
            found: Any = self.files.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix)
        except Exception as error:  # noqa: BLE001 - a separate right, which a run can do without
            log.debug("uploads that were cut off are not looked for: %s", reason_of(error))
            return
        for upload in found.get("Uploads") or ():
            self.files.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
