"""A release into a Delta table on an object store: readers of its log see judged versions alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, Refused, SinkError, UnsupportedError
from privpipe.record.released import opened_release
from privpipe.running import run as running
from privpipe.sinks.remote_delta import RemoteDeltaTarget, remote_target
from tests.object_store import BUCKET, Fault, FaultyProxy, ObjectStore
from tests.running.delta_releases import counted, rows_of
from tests.tiers import deep_beyond

deltalake = pytest.importorskip("deltalake", reason="needs deltalake")
FIRST, SECOND, UNSAFE = rows_of(A="fffcc", B="ccff"), rows_of(A="gggg", C="fcfc"), rows_of(A="fffcc", D="Q")
URL = f"s3://{BUCKET}/lake/visits"
Release = Callable[..., Any]


@pytest.fixture
def release(tmp_path: Path, store: ObjectStore) -> Release:
    def release(rows: pa.Table, mode: str = "replace", **changes: Any) -> Any:
        pq.write_table(rows, tmp_path / "source.parquet")
        document = {
            "source": {"path": str(tmp_path / "source.parquet")},
            "columns": {"town": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}},
            "guarantees": [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "ill", "l": 1}}],
            "sink": {"path": URL, "format": "delta", "mode": mode},
            "records": str(tmp_path / "kept"),
            "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
            **changes,
        }
        return pp.release(pp.Policy.from_dict(document, tmp_path))

    return release


def seen(store: ObjectStore, version: int | None = None) -> Counter[Any]:
    """What the format's own reader sees, past every proxy."""
    options = {name: value for name, value in store.environment().items() if name.startswith("AWS_")}
    return counted(deltalake.DeltaTable(URL, version=version, storage_options=options).to_pyarrow_table())


def listed(store: ObjectStore, below: str = "lake/") -> set[str]:
    _, body = store.request("GET", f"/{BUCKET}?list-type=2&prefix={below}")
    return {part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]}


def altered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is judged after publication differs from what was judged before."""
    judge, calls = running.judge_written, []

    def judged(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        found = judge(*arguments, **named)
        return found if len(calls) == 1 else found.within(altered=True)

    monkeypatch.setattr(running, "judge_written", judged)


@pytest.mark.deep
def test_versions_are_the_judged_releases_and_name_their_runs(store: ObjectStore, release: Release) -> None:
    first = release(FIRST)
    assert seen(store) == counted(FIRST)
    second = release(SECOND)
    assert (seen(store), seen(store, 0)) == (counted(SECOND), counted(FIRST))
    joined = release(FIRST, "append")
    assert seen(store) == counted(FIRST) + counted(SECOND)
    assert joined.assessment.whole.records == FIRST.num_rows + SECOND.num_rows
    table = deltalake.DeltaTable(URL)
    assert table.metadata().configuration["privpipe.run_id"] == joined.run_id
    assert not [name for name in listed(store) if "pending" in name or name.endswith("_LOCK")]
    place = remote_target(URL)
    try:
        assert isinstance(place, RemoteDeltaTarget)
        assert place.current() == f"{URL}/{joined.run_id}"
        told = [each["privpipe.run_id"] for each in place.changes.commits()]
        assert told == [joined.run_id, second.run_id, first.run_id]
        assert b"passed" in (place.document("verdict") or b"")
    finally:
        place.__exit__(None, None, None)
    with opened_release(URL) as found:
        assert found is not None


@pytest.mark.parametrize("mode", deep_beyond(1, ("append", "replace")))
def test_a_refused_release_leaves_nothing(store: ObjectStore, release: Release, mode: str) -> None:
    with pytest.raises(Refused):
        release(UNSAFE, mode)
    assert listed(store, "lake/visits/") == set()
    release(FIRST, mode)
    before = listed(store)
    with pytest.raises(Refused):
        release(UNSAFE, mode)
    assert listed(store) - {"lake/.visits.privpipe/_CLOCK"} == before - {"lake/.visits.privpipe/_CLOCK"}
    assert seen(store) == counted(FIRST)
    with pytest.raises(DataError, match="evolve"):
        columns = {"town": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}, "day": {"role": "insensitive"}}
        release(FIRST.append_column("day", FIRST["ill"]), mode, columns=columns)


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_what_differs_after_the_commit_is_taken_back(
    store: ObjectStore, release: Release, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(FIRST, mode)
    with monkeypatch.context() as patched:
        altered(patched)
        with pytest.raises(pp.errors.PrivpipeError):
            release(SECOND, mode)
    assert seen(store) == counted(FIRST)
    assert {name.split("/")[2] for name in listed(store, "lake/visits/20")} == {
        file.split("/")[0] for file in pa.table(deltalake.DeltaTable(URL).get_add_actions())["path"].to_pylist()
    }
    release(SECOND, mode)
    assert seen(store) == counted(SECOND) + (counted(FIRST) if mode == "append" else Counter())


def test_a_first_release_that_is_taken_back_leaves_a_table_without_rows(
    store: ObjectStore, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        altered(patched)
        with pytest.raises(pp.errors.PrivpipeError):
            release(FIRST)
    assert seen(store) == Counter()
    assert remote_target(URL).current() is None
    release(SECOND)
    assert seen(store) == counted(SECOND)


@pytest.mark.deep
@pytest.mark.parametrize("kind", deep_beyond(1, ("cut after", "cut", "503", "403"), then_rare=3))
def test_a_commit_whose_answer_is_lost_is_there_or_never_will_be(
    store: ObjectStore, proxy: FaultyProxy, release: Release, kind: str
) -> None:
    release(FIRST)
    proxy.fault = Fault(kind, of=lambda request: request.method == "PUT" and "/_delta_log/" in request.path, times=1)  # type: ignore[arg-type]
    try:
        release(SECOND)
        assert seen(store) == counted(SECOND)
    except SinkError:
        assert seen(store) == counted(FIRST)
    proxy.fault = None
    assert release(FIRST, "append").assessment.passed
    assert not [name for name in listed(store) if "pending" in name]


@pytest.mark.deep
def test_another_writer_between_judging_and_commit_wins(
    store: ObjectStore, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(FIRST)
    publish = RemoteDeltaTarget.publish

    def late(self: RemoteDeltaTarget, run_id: str) -> str:
        self.changes.now()
        options = {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
        deltalake.write_deltalake(URL, SECOND, mode="append", storage_options=options)
        return publish(self, run_id)

    with monkeypatch.context() as patched:
        patched.setattr(RemoteDeltaTarget, "publish", late)
        with pytest.raises(SinkError, match="another writer"):
            release(FIRST)
    assert seen(store) == counted(FIRST) + counted(SECOND)
    assert not [name for name in listed(store) if "pending" in name]


@pytest.mark.deep
def test_what_a_killed_run_left_goes_once_its_commit_cannot_arrive(store: ObjectStore, release: Release) -> None:
    release(FIRST)
    left = "20200101T000000Z-00000000"
    store.files().pipe({f"{BUCKET}/lake/.visits.privpipe/pending/{left}": b"", f"{BUCKET}/lake/visits/{left}/a": b"x"})
    with pytest.raises(Refused):
        release(UNSAFE)
    assert any(left in name for name in listed(store))
    release(SECOND)
    assert not any(left in name for name in listed(store))
    assert seen(store) == counted(SECOND)


def test_other_places_are_refused_by_name(store: ObjectStore, release: Release, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="conditional writes"):
        release(FIRST, sink={"path": "memory://lake/visits", "format": "delta"})
    store.files().pipe(f"{BUCKET}/lake/visits/other.txt", b"x")
    with pytest.raises(SinkError, match="did not publish"):
        release(FIRST)
    store.files().rm(f"{BUCKET}/lake/visits/other.txt")
    deltalake.write_deltalake(URL, FIRST)
    with pytest.raises(SinkError, match="did not make"):
        release(FIRST)
    with pytest.raises(SinkError, match="within another Delta table"):
        release(FIRST, sink={"path": f"{URL}/more/visits", "format": "delta"})
