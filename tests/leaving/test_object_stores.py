"""On an object store, who lists the sink sees its pointer alone: nothing that was not judged, never two releases."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, PrivpipeError, Refused, SinkError, UsageError
from privpipe.sinks.remote import NOTICE, RemoteTarget

fsspec = pytest.importorskip("fsspec")
BOTH = ("_CURRENT", NOTICE)


@pytest.fixture
def store() -> Any:
    from fsspec.implementations.memory import MemoryFileSystem

    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return fsspec.filesystem("memory")


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)  # the private records of a sink in a store are kept in the folder of the run
    pq.write_table(pa.table({"zip": ["a", "a", "b", "b"]}), tmp_path / "in.parquet")
    return {
        "source": {"path": str(tmp_path / "in.parquet")},
        "columns": {"zip": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": {"path": "memory://lake/people"},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }


def listed(store: Any) -> list[str]:
    return [posixpath.relpath(name, "/lake/people") for name in store.find("/lake/people")]


def release_named(store: Any) -> str:
    named = json.loads(store.cat_file("/lake/people/_CURRENT"))["release"]
    return posixpath.normpath(f"/lake/people/{named}")


def test_the_prefix_holds_the_pointer_alone_at_every_step(
    engine: Engine, store: Any, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    for name in ("put_file", "pipe_file", "cat_file", "rm", "rm_file", "makedirs"):
        method = getattr(type(store), name)

        def spied(self: Any, *args: Any, _method: Any = method, **kwargs: Any) -> Any:
            found = _method(self, *args, **kwargs)
            seen.append(listed(store))
            return found

        monkeypatch.setattr(type(store), name, spied)
    pp.release(document, engine=engine, progress=lambda step: seen.append(listed(store)))
    assert {tuple(names) for names in seen} == {(), (NOTICE,), BOTH}
    first = release_named(store)
    del seen[:]
    pp.release(document, engine=engine)
    assert {tuple(names) for names in seen} == {BOTH}
    assert release_named(store) != first
    assert json.loads(store.cat_file(f"{release_named(store)}/_privpipe/verdict.json"))["passed"]


def test_a_refused_release_is_nowhere(store: Any, document: dict[str, Any]) -> None:
    pp.release(document)
    before = release_named(store)
    with pytest.raises(Refused):
        pp.release({**document, "guarantees": [{"k_anonymity": {"k": 3}}]})
    assert tuple(listed(store)) == BOTH
    assert release_named(store) == before
    assert [name for name in store.find("/lake") if name.endswith(".parquet")] == [f"{before}/part-00000.parquet"]


def test_a_reader_of_the_sink_itself_fails(store: Any, document: dict[str, Any], tmp_path: Path) -> None:
    """By the pointer alone, whose name readers skip, the sink was an empty table."""
    import pandas as pd

    pp.release(document)
    with pytest.raises(Exception, match="(?i)parquet"):
        pq.read_table("/lake/people", filesystem=store)
    pp.release({**document, "sink": {"path": f"file://{tmp_path}/lake/people"}})
    with pytest.raises(Exception, match="(?i)parquet"):
        pd.read_parquet(f"{tmp_path}/lake/people")
    text = (tmp_path / "lake" / "people" / NOTICE).read_text()
    assert "_CURRENT" in text
    assert "`release`" in text
    pp.release(document)  # what we wrote is ours
    assert pp.assess("memory://lake/people", {**document, "guarantees": [{"k_anonymity": {"k": 2}}]}).passed


def test_what_is_in_the_sink_already_is_left_alone(store: Any, document: dict[str, Any]) -> None:
    store.pipe_file("/lake/people/old.parquet", b"theirs")
    with pytest.raises(SinkError, match="did not publish"):
        pp.release(document)
    assert listed(store) == ["old.parquet"]
    assert not store.exists("/lake/.people.privpipe/_LOCK")


def test_a_whole_bucket_is_not_a_sink(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda url: (store, "bucket"))
    with pytest.raises(UsageError, match="a whole bucket; name a folder in it"):
        RemoteTarget("hdfs://bucket")


METHODS = ["put_file", "pipe_file", "cat_file", "makedirs", "exists", "ls", "find", "get_file", "open"]


def error_of(run: Callable[[], Any]) -> PrivpipeError | None:
    try:
        run()
    except PrivpipeError as error:
        return error
    return None


@pytest.mark.parametrize("name", METHODS)
def test_a_fault_at_any_call_publishes_nothing(
    embedded: Engine, store: Any, document: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of the file system fails once, in a separate class with a text that must not be reported."""

    class ServiceError(Exception):
        pass

    pp.release(document, engine=embedded)
    struck = 0
    for at in range(60):
        before = release_named(store)
        left = [at]
        method = getattr(type(store), name)

        def fails(self: Any, *args: Any, _left: Any = left, _method: Any = method, **kwargs: Any) -> Any:
            _left[0] -= 1
            if _left[0] == -1:
                raise ServiceError("key=SECRET")
            return _method(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(type(store), name, fails)
            error = error_of(lambda: pp.release(document, engine=embedded))
        store.rm_file("/lake/.people.privpipe/_LOCK") if store.exists("/lake/.people.privpipe/_LOCK") else None
        if left[0] >= 0:
            break
        if error is None:
            continue
        struck += 1
        assert error.exit_code == 4, (at, error)
        assert "ServiceError" in str(error)
        assert "SECRET" not in str(error)
        assert release_named(store) == before, at
    assert struck
    assert tuple(listed(store)) == BOTH
    assert pp.release(document, engine=embedded).assessment.passed


def test_a_reader_of_a_mounted_sink_is_reported_where_the_release_is(
    engine: Engine, document: dict[str, Any], tmp_path: Path
) -> None:
    document["sink"]["path"] = f"file://{tmp_path}/lake/people"
    pp.release(document, engine=engine)
    rules = {name: document[name] for name in ("columns", "guarantees")}
    with pytest.raises(DataError, match="`_CURRENT` names the folder"):
        pp.assess(str(tmp_path / "lake" / "people"), rules, engine=engine)
    named = json.loads((tmp_path / "lake" / "people" / "_CURRENT").read_text())["release"]
    assert pp.assess(str(tmp_path / "lake" / "people" / named), rules, engine=engine).passed
