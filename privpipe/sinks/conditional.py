"""Small objects that are written on a condition: only if they are not there, or only if they are still as they were.

S3 answers to ``If-None-Match`` and ``If-Match`` with an ETag, Google Cloud Storage to ``ifGenerationMatch`` with a
generation, Azure to both headers. Other file systems have exclusive creation at the best.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any, Protocol

from privpipe.engines.base.objects import OpenedStore

__all__ = ["Conditional", "Conflict", "Version", "conditional_writes", "holds_conditions"]

CONFLICTS = (409, 412)


class Conflict(Exception):
    """The condition does not hold: somebody else wrote."""


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
