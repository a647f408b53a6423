"""Conditional writes of Google Cloud Storage and Azure: which requests are made, and what their answers mean."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from privpipe.engines.stores import OpenedStore
from privpipe.sinks.conditional_objects import Conditional, Conflict, Version, conditional_writes, holds_conditions

get_loop = pytest.importorskip("fsspec.asyn").get_loop
PATH = "lake/people/_CURRENT"


class Answered(Exception):
    """An error of a client library, with a status under one of the names that they give it."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__("SECRET")
        setattr(self, name, status)


class Google:
    """The part of gcsfs that is used, over one dictionary: the JSON interface with generations."""

    _location = "https://storage.googleapis.com"

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.newest = 0

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def call(self, method: str, path: str, *names: str, **asked: Any) -> Any:
        if method == "GET":
            assert path == "b/{}/o/{}"
            if names not in self.objects:
                raise FileNotFoundError(path)
            content, generation = self.objects[names]  # type: ignore[index]
            if asked.get("alt") == "media":
                assert asked["generation"] == str(generation)
                return {}, content
            return {"generation": str(generation)}
        assert (method, asked["uploadType"]) == ("POST", "media")
        assert path == f"{self._location}/upload/storage/v1/b/lake/o"
        at = ("lake", asked["name"])
        now = self.objects.get(at, (b"", 0))[1]
        if int(asked["ifGenerationMatch"]) != now:
            raise Answered("code", 412)
        self.newest += 1
        self.objects[at] = (asked["data"], self.newest)
        return {"generation": str(self.newest)}


class Azure:
    """The part of adlfs that is used."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[bytes, str]] = {}
        self.loop = get_loop()
        self.service_client = self

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def pipe_file(self, path: str, content: bytes, overwrite: bool, **condition: Any) -> dict[str, str]:
        now = self.blobs.get(path)
        if not overwrite and now is not None:
            raise FileExistsError(path)
        if overwrite and (now is None or condition != {"etag": now[1], "match_condition": "if not modified"}):
            raise Answered("status_code", 412)
        tag = f'"{len(content)}-{id(content)}-{len(self.blobs)}"'
        self.blobs[path] = (content, tag)
        return {"etag": tag}

    def get_blob_client(self, container: str, blob: str) -> Any:
        found = self.blobs.get(f"{container}/{blob}")

        class Client:
            async def __aenter__(self) -> Any:
                return self

            async def __aexit__(self, *details: object) -> None: ...

            async def download_blob(self) -> Any:
                if found is None:
                    raise Answered("status_code", 404)

                async def readall() -> bytes:
                    return found[0]

                return SimpleNamespace(readall=readall, properties=SimpleNamespace(etag=found[1]))

        return Client()


@pytest.fixture(params=["gcs", "azure"])
def writes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Conditional:
    core = ModuleType("azure.core")
    core.MatchConditions = SimpleNamespace(IfNotModified="if not modified")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "azure", ModuleType("azure"))
    monkeypatch.setitem(sys.modules, "azure.core", core)
    files: Any = Google() if request.param == "gcs" else Azure()
    found = conditional_writes(OpenedStore("x://lake/people", files, "lake/people", request.param))
    assert found is not None
    return found


def test_writes_hold_their_conditions(writes: Conditional) -> None:
    assert writes.read(PATH) is None
    with pytest.raises(Conflict):
        writes.replace(PATH, b"x", "1")
    first = writes.create(PATH, b"first")
    assert writes.read(PATH) == Version(b"first", first)
    with pytest.raises(Conflict):
        writes.create(PATH, b"other")
    second = writes.replace(PATH, b"second", first)
    with pytest.raises(Conflict):
        writes.replace(PATH, b"late", first)
    assert writes.read(PATH) == Version(b"second", second)
    assert holds_conditions(writes, PATH)


def test_other_file_systems_have_none() -> None:
    assert conditional_writes(OpenedStore("hdfs://lake/people", None, "/lake/people", "other")) is None
