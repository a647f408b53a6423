"""Of two runs that overlap one publishes, whatever became of the lock."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.engines.stores import opened_store
from privpipe.errors import SinkError
from privpipe.sinks import conditional_objects
from privpipe.sinks.conditional_objects import S3Writes, conditional_writes, holds_conditions
from privpipe.sinks.remote import RemoteTarget
from tests.object_store import BUCKET, Fault, FaultyProxy, ObjectStore
from tests.store_trials import Warm
from tests.tiers import deep, deep_beyond

SINK = f"s3://{BUCKET}/people"
LOCK = f"{BUCKET}/.people.privpipe/_LOCK"


def staged(place: RemoteTarget, run_id: str) -> str:
    """A release of one file, on its way."""
    (place.stage(run_id) / "part-00000.csv").write_text(run_id)
    return run_id


def published(store: ObjectStore) -> str:
    files = store.files()
    named = json.loads(files.cat_file(f"{BUCKET}/people/_CURRENT"))["release"]
    return str(named).rsplit("/", 1)[-1] if named else ""


@pytest.mark.deep
def test_a_second_process_is_kept_out(store: ObjectStore, document: dict[str, Any], tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(document))
    with Warm(tmp_path, store.environment()) as warm:
        with RemoteTarget(SINK):
            assert warm.run(policy) == 4
        assert "another run is writing" in warm.said()
        assert warm.run(policy) == 0
    assert published(store)


@pytest.mark.deep
def test_a_lock_of_a_process_that_is_gone_is_taken_over_at_once(
    store: ObjectStore, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RemoteTarget(SINK).__enter__()
    first._lease._done.set()  # type: ignore[union-attr]
    with pytest.raises(SinkError, match=r"renewed \d+ s ago"):
        pp.release(document)
    monkeypatch.setattr(conditional_objects, "has_ended", lambda process: True)
    assert pp.release(document).assessment.passed


@pytest.mark.deep
def test_a_lock_that_no_one_renews_lapses(
    store: ObjectStore, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RemoteTarget(SINK).__enter__()
    first._lease._done.set()  # type: ignore[union-attr]
    monkeypatch.setattr(conditional_objects, "LAPSES", -1.0)
    assert pp.release(document).assessment.passed


def test_a_lock_is_renewed_while_a_run_is_at_work(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional_objects, "LAPSES", 0.1)
    with RemoteTarget(SINK) as place:
        files, before = store.files(), store.files().cat_file(LOCK)
        for _ in range(500):
            if files.cat_file(LOCK) != before:
                break
            conditional_objects.threading.Event().wait(0.02)
        assert files.cat_file(LOCK) != before
        assert place._lease is not None
    assert not store.files().exists(LOCK)


def usual(place: RemoteTarget) -> None:
    """Nothing more befalls the first run."""


def cleaned(place: RemoteTarget) -> None:
    """The first run uploads before the second begins, which throws that away."""
    place._put(next(path for path in place._local.rglob("*.csv")), f"{place.state}/releases/first/part-00000.csv")


@pytest.mark.parametrize("befalls", deep_beyond(1, (usual, cleaned)))
@pytest.mark.parametrize("before", deep_beyond(1, (1, 0, 2)))
@pytest.mark.parametrize("second_publishes", [deep(True), False])
def test_a_run_that_stood_still_does_not_publish_over_another(
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    befalls: Callable[[RemoteTarget], None],
    before: int,
    second_publishes: bool,
) -> None:
    """The second takes the lock of the first over; the first goes on as if nothing had happened."""
    monkeypatch.setattr(conditional_objects, "LAPSES", 1e9)
    for number in range(before):
        with RemoteTarget(SINK) as place:
            place.publish(staged(place, f"old-{number}"))
    with RemoteTarget(SINK) as first:
        staged(first, "first")
        befalls(first)
        with monkeypatch.context() as patch:
            patch.setattr(conditional_objects, "has_ended", lambda process: True)
            with RemoteTarget(SINK) as second:
                if second_publishes:
                    second.publish(staged(second, "second"))
        expected = "second" if second_publishes else f"old-{before - 1}" if before else ""
        if second_publishes or befalls is cleaned:
            with pytest.raises(SinkError, match="another run has written"):
                first.publish("first")
            first.withdraw("first")
        else:
            first.publish("first")  # nothing was changed since it began
            expected = "first"
    assert published(store) == expected
    lies = [name.split("/")[3] for name in store.files().find(f"{BUCKET}/.people.privpipe/releases")]
    assert not expected or expected in lies


def test_a_switch_that_arrives_late_changes_nothing(store: ObjectStore, proxy: FaultyProxy) -> None:
    """The connection is cut before the store hears of the switch; the request that was on its way comes after all."""
    with RemoteTarget(SINK) as place:
        place.publish(staged(place, "old"))
    with RemoteTarget(SINK) as place:
        before = place._before
        proxy.fault = Fault("cut", times=None, of=lambda asked: asked.method == "PUT" and "_CURRENT" in asked.path)
        with pytest.raises(SinkError):
            place.publish(staged(place, "new"))
        proxy.fault = None
        place.withdraw("new")
        writes = S3Writes(store.files())
        assert before is not None
        with pytest.raises(Exception, match="^$"):
            writes.replace(f"{BUCKET}/people/_CURRENT", b"late", before.tag)
    assert published(store) == "old"


def test_an_answer_that_is_lost_does_not_undo_what_was_done(store: ObjectStore, proxy: FaultyProxy) -> None:
    with RemoteTarget(SINK) as place:
        proxy.fault = Fault("cut after", of=lambda asked: asked.method == "PUT" and "_CURRENT" in asked.path)
        place.publish(staged(place, "new"))
        assert proxy.fault.struck == 1
    assert published(store) == "new"


def test_a_store_that_ignores_conditions_is_found_out(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put = S3Writes._put
    monkeypatch.setattr(S3Writes, "_put", lambda self, path, content, **condition: put(self, path, content))
    opened = opened_store(SINK)
    writes = conditional_writes(opened)
    assert writes is not None
    writes.create(f"{opened.root}-probe", b"")
    assert not holds_conditions(writes, f"{opened.root}-probe")
    with caplog.at_level(logging.WARNING), RemoteTarget(SINK) as place:
        assert place._writes is None
        with pytest.raises(SinkError, match="another run"), RemoteTarget(SINK):
            pass
        place.publish(staged(place, "new"))
    assert "does not honour conditional writes" in caplog.text
    assert published(store) == "new"


def test_uploads_that_were_cut_off_are_thrown_away(store: ObjectStore) -> None:
    files = store.files()
    for key in (".people.privpipe/releases/killed/part-00000.parquet", "theirs/part"):
        files.call_s3("create_multipart_upload", Bucket=BUCKET, Key=key)
    with RemoteTarget(SINK):
        pass
    left = files.call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads") or []
    assert [upload["Key"] for upload in left] == ["theirs/part"]
