"""Small objects of a store that are written on a condition, and the lock of a sink made of one."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from privpipe.engines.stores import OpenedStore, reason_of
from privpipe.errors import SinkError
from privpipe.private_files import has_ended, this_process

__all__ = ["LAPSES", "Conditional", "Conflict", "Lease", "Version", "conditional_writes", "holds_conditions"]


CONFLICTS = (409, 412)


class Conflict(Exception):
    """The condition does not hold: another writer wrote."""


@dataclass(frozen=True)
class Version:
    """An object as it was read.

    Parameters
    ----------
    content : bytes
    tag : str
        ETag, generation or, where a file system has neither, a hash of the content.
    """

    content: bytes
    tag: str


class Conditional(Protocol):
    """Reads and conditional writes of whole objects."""

    def read(self, path: str) -> Version | None:
        """The object; None where there is none."""

    def create(self, path: str, content: bytes) -> str:
        """Write where nothing is, in one step; returns the tag. Raises Conflict."""

    def replace(self, path: str, content: bytes, tag: str) -> str:
        """Write over the version with this tag, in one step; returns the tag. Raises Conflict."""


def conditional_writes(store: OpenedStore) -> Conditional | None:
    """The conditional writes of a kind of store; None where it has none.

    Whether the store at hand keeps to conditions, `holds_conditions` tries.
    """
    if store.kind == "s3":
        return S3Writes(store.files)
    if store.kind == "gcs":
        return GcsWrites(store.files)
    return AzureWrites(store.files) if store.kind == "azure" else None


def holds_conditions(writes: Conditional, path: str) -> bool:
    """Whether a store refuses writes whose condition does not hold: servers that do not know conditions ignore them.

    Parameters
    ----------
    path : str
        Of an object that is there and that the caller may lose.
    """
    for tag in (None, _other_tag(writes)):
        try:
            if tag is None:
                writes.create(path, b"?")
            else:
                writes.replace(path, b"?", tag)
        except Conflict:
            continue
        except NotImplementedError:
            return False
        return False
    return True


def _other_tag(writes: Conditional) -> str:
    return "1" if isinstance(writes, GcsWrites) else f'"{hashlib.md5(secrets.token_bytes(16)).hexdigest()}"'


def _status(error: BaseException) -> int:
    """The HTTP status behind an error of a client library; 0 where there is none."""
    at: BaseException | None = error
    while at is not None:
        response = getattr(at, "response", None)
        if isinstance(response, dict):
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        for name in ("status_code", "code", "status"):
            if str(getattr(at, name, "")).isdigit():
                return int(getattr(at, name))
        at = at.__cause__
    return 0


def _translated(error: Exception) -> Exception:
    status = _status(error)
    if status in CONFLICTS or isinstance(error, FileExistsError):
        return Conflict()
    if status == 501 or type(error).__name__ == "ParamValidationError":  # the server, or the library, knows none
        return NotImplementedError()
    return error


class S3Writes:
    """Through s3fs."""

    def __init__(self, files: Any) -> None:
        self.files = files

    def read(self, path: str) -> Version | None:
        from fsspec.asyn import sync

        try:
            found: Version = sync(self.files.loop, self._got, path)
        except FileNotFoundError:
            return None
        return found

    def create(self, path: str, content: bytes) -> str:
        return self._put(path, content, IfNoneMatch="*")

    def replace(self, path: str, content: bytes, tag: str) -> str:
        return self._put(path, content, IfMatch=tag)

    async def _got(self, path: str) -> Version:
        bucket, key, _ = self.files.split_path(path)
        answer = await self.files._call_s3("get_object", Bucket=bucket, Key=key)
        async with answer["Body"] as body:
            return Version(await body.read(), str(answer["ETag"]))

    def _put(self, path: str, content: bytes, **condition: str) -> str:
        bucket, key, _ = self.files.split_path(path)
        try:
            answer = self.files.call_s3("put_object", Bucket=bucket, Key=key, Body=content, **condition)
        except Exception as error:
            raise _translated(error) from error
        return str(answer["ETag"])


class GcsWrites:
    """Through gcsfs, by the JSON interface of the store."""

    def __init__(self, files: Any) -> None:
        self.files = files

    def read(self, path: str) -> Version | None:
        bucket, key, _ = self.files.split_path(path)
        for _ in range(5):
            try:
                found = self.files.call("GET", "b/{}/o/{}", bucket, key, json_out=True)
                tag = str(found["generation"])
                _, content = self.files.call("GET", "b/{}/o/{}", bucket, key, alt="media", generation=tag)
            except FileNotFoundError:
                continue  # another generation took its place between the two, or none is there
            return Version(bytes(content), tag)
        return None

    def create(self, path: str, content: bytes) -> str:
        return self._put(path, content, "0")

    def replace(self, path: str, content: bytes, tag: str) -> str:
        return self._put(path, content, tag)

    def _put(self, path: str, content: bytes, generation: str) -> str:
        from urllib.parse import quote

        bucket, key, _ = self.files.split_path(path)
        try:
            answer = self.files.call(
                "POST",
                f"{self.files._location}/upload/storage/v1/b/{quote(bucket)}/o",
                uploadType="media",
                name=key,
                ifGenerationMatch=generation,
                headers={"Content-Type": "application/json"},
                data=content,
                json_out=True,
            )
        except Exception as error:
            raise _translated(error) from error
        return str(answer["generation"])


class AzureWrites:
    """Through adlfs."""

    def __init__(self, files: Any) -> None:
        self.files = files

    def read(self, path: str) -> Version | None:
        from fsspec.asyn import sync

        try:
            found: Version = sync(self.files.loop, self._got, path)
        except Exception as error:
            if _status(error) == 404 or isinstance(error, FileNotFoundError):
                return None
            raise
        return found

    def create(self, path: str, content: bytes) -> str:
        return self._put(path, content, overwrite=False)

    def replace(self, path: str, content: bytes, tag: str) -> str:
        from azure.core import MatchConditions

        return self._put(path, content, overwrite=True, etag=tag, match_condition=MatchConditions.IfNotModified)

    async def _got(self, path: str) -> Version:
        container, blob, _ = self.files.split_path(path)
        async with self.files.service_client.get_blob_client(container=container, blob=blob) as client:
            stream = await client.download_blob()
            return Version(await stream.readall(), str(stream.properties.etag))

    def _put(self, path: str, content: bytes, **condition: Any) -> str:
        try:
            answer = self.files.pipe_file(path, content, **condition)
        except Exception as error:
            raise _translated(error) from error
        return str(answer["etag"])


LAPSES = 300.0
"""Seconds after which a lock that was not renewed may be taken over, by the clock of the store."""
log = logging.getLogger("privpipe.release")


class Lease:
    """The lock ``_LOCK`` next to a sink.

    Parameters
    ----------
    store : OpenedStore
        Of the sink.
    state : str
        The folder of the lock.
    writes : Conditional, optional
        None: the store has no conditional writes. Then the lock is created exclusively where the file system can, and
        one that a killed run left is removed by hand.
    """

    def __init__(self, store: OpenedStore, state: str, writes: Conditional | None) -> None:
        self.store, self.path, self.clock = store, f"{state}/_LOCK", f"{state}/_CLOCK"
        self.writes = writes
        self.owner = secrets.token_hex(8)
        self._tag = ""
        self._renewed = 0
        self._held = False
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> Conditional | None:
        """Hold the lock; the conditional writes that the store was seen to keep to, or None.

        Raises
        ------
        SinkError
            Another run holds it.
        """
        if self.writes is None:
            self._create_alone()
            return None
        found = self.writes.read(self.path)
        try:
            self._tag = (
                self.writes.create(self.path, self._content())
                if found is None
                else self._taken_over(self.writes, found)
            )
        except Conflict:
            now = self.writes.read(self.path)
            if now is None or not self._is_ours(now):  # else an answer was lost, and the write was repeated
                raise self._another("try again when it is done") from None
            self._tag = now.tag
        except NotImplementedError:
            self.writes = None
            self._create_alone()
            return None
        self._held = True
        if not holds_conditions(self.writes, self.path):
            log.warning("the store of %s does not honour conditional writes: only its lock excludes others", self.path)
            self.writes = None
            self.store.files.pipe_file(self.path, self._content())
            return None
        self._thread = threading.Thread(target=self._renew, name="privpipe-lock", daemon=True)
        self._thread.start()
        return self.writes

    def release(self) -> None:
        """Release the lock, if it is still ours; a failure is logged."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(10)
        if not self._held:
            return
        self._held = False
        try:
            found = self.writes.read(self.path) if self.writes is not None else None
            if self.writes is None or (found is not None and self._is_ours(found)):
                self.store.files.rm_file(self.path)
        except Exception as problem:  # noqa: BLE001 the release is unaffected; the next run reports what to do
            log.warning("%s could not be removed (%s)", self.path, type(problem).__name__)

    def _taken_over(self, writes: Conditional, found: Version) -> str:
        """The lock of a run that has ended."""
        process = _said(found).get("process", "")
        if not (isinstance(process, str) and has_ended(process)):
            age = self._age()
            if age < LAPSES:
                raise self._another(
                    f"its lock {self.path} was renewed {age:,.0f} s ago. Try again when it is done; a lock that a "
                    f"killed run left lapses after {LAPSES:,.0f} s"
                )
        return writes.replace(self.path, self._content(), found.tag)

    def _age(self) -> float:
        """Seconds since the lock was written, both times by the clock of the store."""
        self.store.files.pipe_file(self.clock, secrets.token_bytes(8))
        times = [self.store.files.modified(path) for path in (self.clock, self.path)]
        return float((times[0] - times[1]).total_seconds())

    def _renew(self) -> None:
        while not self._done.wait(LAPSES / 5):
            writes = self.writes
            try:
                self._renewed += 1
                if writes is not None:
                    self._tag = writes.replace(self.path, self._content(), self._tag)
            except Conflict:
                found = self._looked()
                if found is None or not self._is_ours(found):
                    log.warning("%s was taken over by another run; this one will publish nothing", self.path)
                    return
                self._tag = found.tag  # an answer was lost
            except Exception as error:  # noqa: BLE001 - the next renewal may reach the store again
                log.debug("%s was not renewed: %s", self.path, reason_of(error))

    def _looked(self) -> Version | None:
        try:
            return self.writes.read(self.path) if self.writes is not None else None
        except Exception:  # noqa: BLE001 - the store does not answer
            return None

    def _create_alone(self) -> None:
        files = self.store.files
        if files.exists(self.path):
            raise self._another(f"or was killed while it did: then remove {self.path}")
        try:
            with files.open(self.path, "xb") as handle:
                handle.write(self._content())
        except FileExistsError:
            raise self._another("try again when it is done") from None
        except (ValueError, NotImplementedError):
            # The file system has no exclusive creation; the check above is the best it can do.
            files.pipe_file(self.path, self._content())
        self._held = True

    def _another(self, told: str) -> SinkError:
        return SinkError(f"another run is writing the sink {self.store.url!r}; {told}")

    def _content(self) -> bytes:
        said = {"owner": self.owner, "process": this_process(), "renewed": self._renewed}
        return json.dumps(said).encode()

    def _is_ours(self, found: Version) -> bool:
        return _said(found).get("owner") == self.owner


def _said(found: Version) -> dict[str, Any]:
    try:
        said = json.loads(found.content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
