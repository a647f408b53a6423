"""Batches of a stream: every row is released once or held back, whatever fails, repeats or is killed."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import DataError, PrivpipeError, SinkError, UsageError
from privpipe.running.stream_batches import STEPS, StreamBatches
from tests.running.stream_kills import QUERY, K, Stream, Streams, policy_of, rows_of, taken

pytest.importorskip("deltalake", reason="needs deltalake")

OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def streams() -> Iterator[Streams]:
    with Streams() as found:
        yield found


def stream_of(home: Path, **options: Any) -> StreamBatches:
    changes = options.pop("changes", {})
    return StreamBatches(pp.Policy.from_dict(policy_of(home, **changes), home), **options)


def test_a_batch_that_fails_joins_the_next_and_a_repeat_changes_nothing(tmp_path: Path) -> None:
    batches = [rows_of([1, 1, 1]), rows_of([2], 3), rows_of([]), rows_of([2, 2, None], 4), rows_of([None, None], 7)]
    stream = stream_of(tmp_path)
    for at, batch in enumerate(batches):
        first = stream.take(batch, QUERY, at)
        assert Stream(tmp_path).problems(batches[: at + 1]) == []
        again = stream.take(batch, QUERY, at)
        assert (again.kind, again.records, again.held) == ("repeated", len(batch), first.held)
        assert Stream(tmp_path).problems(batches[: at + 1]) == []
    assert stream.counts == {"published": 2, "held back": 2, "empty": 1, "repeated": 5}
    assert stream.last is not None
    result = first.result
    assert first.kind == "published"
    assert result is not None
    assert result.assessment.whole.records == 9
    assert [entry["batch"] for entry in result.public["manifest"]["releases_before"]] == [f"stream:{QUERY}:0"]


def test_a_batch_is_judged_with_what_was_released(tmp_path: Path) -> None:
    """Each batch is as its own distribution; the first class of the whole table would be far from that of both."""
    policy = policy_of(tmp_path)
    policy["columns"]["ill"] = {"role": "sensitive"}
    policy["guarantees"].append({"t_closeness": {"column": "ill", "t": 0.3}})
    stream = StreamBatches(pp.Policy.from_dict(policy, tmp_path))

    def ill(age: int, word: str, first: int) -> pa.Table:
        return rows_of([age] * 4, first).append_column("ill", pa.array([word] * 4))

    assert stream.take(ill(1, "flu", 0), QUERY, 0).kind == "published"
    outcome = stream.take(ill(2, "gout", 4), QUERY, 1)
    assert (outcome.kind, outcome.held) == ("held back", 4)
    assert outcome.refusal is not None
    assert "the whole table: FAIL" in str(outcome.refusal)
    assert Path(getattr(outcome.refusal, "record", "")).is_dir()
    assert len(Stream(tmp_path).published()) == 4


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    """The log of releases, also after commands of the same process, which keep it from other handlers."""
    monkeypatch.setattr(logging.getLogger("privpipe"), "propagate", True)
    with caplog.at_level(logging.INFO, "privpipe.release"):
        yield caplog


def test_nothing_of_a_batch_is_logged_or_readable(
    tmp_path: Path, heard: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file system without access lists.
    monkeypatch.setattr("privpipe.running.stream_batches.keep_private", lambda folder: None)
    taken(tmp_path, rows_of([4711]))
    assert "batch 0: held back, 1 records; 1 records are held back" in heard.text
    assert "4711" not in heard.text
    assert "person 0" not in heard.text
    assert Stream(tmp_path).problems([rows_of([4711])]) == []
    assert not (tmp_path / "visits").exists()


@pytest.mark.parametrize(
    ("query", "batch", "said"),
    [
        (OTHER, 1, "a checkpoint or a state folder was deleted"),
        (OTHER, 0, "a checkpoint or a state folder was deleted"),
        (OTHER, 2, "a checkpoint or a state folder was deleted"),
        (QUERY, 3, "a checkpoint or a state folder was deleted"),
        (QUERY, 0, "the checkpoint is older than the state folder"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused_and_never_dropped(
    tmp_path: Path, query: str, batch: int, said: str
) -> None:
    taken(tmp_path, rows_of([1, 1, 1]), rows_of([2], 3))
    new = rows_of([2, 2], 4)
    with pytest.raises(UsageError, match=said):
        stream_of(tmp_path).take(new, query, batch)
    assert Stream(tmp_path).problems([rows_of([1, 1, 1]), rows_of([2], 3)]) == []
    vouched = stream_of(tmp_path, start=f"{query}:{batch}")
    if said.startswith("the checkpoint"):
        with pytest.raises(UsageError, match=said):
            vouched.take(new, query, batch)
        return
    assert vouched.take(new, query, batch).kind == "published"
    assert vouched.take(new, query, batch).kind == "repeated"
    assert vouched.take(rows_of([1], 6), query, batch + 1).kind == "held back"
    with pytest.raises(UsageError, match="comes batch 0"):
        vouched.take(new, "yet-another", 0)


def test_a_new_state_folder_takes_no_stream_that_has_begun(tmp_path: Path) -> None:
    taken(tmp_path, rows_of([1, 1, 1]), rows_of([2], 3))
    shutil.rmtree(Stream(tmp_path).folder)
    with pytest.raises(UsageError, match="is new, and batch 2"):
        stream_of(tmp_path).take(rows_of([2, 2], 4), QUERY, 2)
    with pytest.raises(UsageError, match="batch 0 of query .* was published by run"):
        stream_of(tmp_path, start=f"{QUERY}:0").take(rows_of([1, 1, 1]), QUERY, 0)
    with pytest.raises(UsageError, match="the sink has 1 releases of streams already"):
        stream_of(tmp_path).take(rows_of([1, 1, 1]), OTHER, 0)
    assert stream_of(tmp_path, state="other", start=f"{OTHER}:0").take(rows_of([1], 9), OTHER, 0).held == 1


def test_a_repeat_of_other_rows_is_refused(tmp_path: Path) -> None:
    stream = taken(tmp_path, rows_of([1, 1, 1]))
    for other in (rows_of([1, 1, 2]), rows_of([1, 1, 1, 1]), rows_of([])):
        with pytest.raises(DataError, match="taken before with 3 records"):
            stream.take(other, QUERY, 0)
    shuffled = rows_of([1, 1, 1]).take([2, 0, 1])
    assert stream.take(shuffled, QUERY, 0).kind == "repeated"


def test_other_columns_do_not_join_what_is_held_back(tmp_path: Path) -> None:
    stream = taken(tmp_path, rows_of([1]))
    changed = rows_of([1, 1], 1)
    texts = changed.set_column(1, "number", pa.array(["1", "2"]))
    with pytest.raises(DataError, match="'number': int64 before, string now"):
        stream.take(texts, QUERY, 1)
    with pytest.raises(DataError, match="'who': string before, missing now"):
        stream.take(changed.drop_columns(["who"]), QUERY, 1)
    assert stream.take(changed.select([2, 1, 0]), QUERY, 1).kind == "published"
    assert Stream(tmp_path).problems([rows_of([1]), changed]) == []


def test_a_batch_that_cannot_be_judged_was_not_taken(tmp_path: Path) -> None:
    stream = taken(tmp_path, rows_of([1]))
    unknown = rows_of([1, 1], 1).append_column("more", pa.array([1, 2]))
    fresh = stream_of(tmp_path / "fresh")
    with pytest.raises(DataError, match="have no role"):
        fresh.take(unknown.slice(0, 1), QUERY, 0)
    assert Stream(tmp_path / "fresh").problems([]) == []
    assert fresh.take(rows_of([1]), QUERY, 0).kind == "held back"
    with pytest.raises(DataError, match="'more': missing before, int64 now"):
        stream.take(unknown, QUERY, 1)
    assert stream.take(rows_of([1, 1], 1), QUERY, 1).kind == "published"


def test_a_changed_policy_judges_what_is_held_back(tmp_path: Path, heard: pytest.LogCaptureFixture) -> None:
    taken(tmp_path, rows_of([1, 1]))
    changed = stream_of(tmp_path, changes={"guarantees": [{"k_anonymity": {"k": 2}}]})
    assert changed.take(rows_of([2, 2], 2), QUERY, 1).kind == "published"
    assert "the policy changed since the last batch: the 2 records that are held back" in heard.text


def test_the_state_of_another_sink_or_of_something_else_is_refused(tmp_path: Path) -> None:
    stream = taken(tmp_path, rows_of([1]))
    sink = {"path": str(tmp_path / "other"), "format": "delta", "mode": "append"}
    with pytest.raises(UsageError, match="its 1 records that are held back would be published into"):
        stream_of(tmp_path, state=stream.folder, changes={"sink": sink}).take(rows_of([1, 1], 1), QUERY, 1)
    (tmp_path / "home").mkdir(mode=0o755)
    (tmp_path / "home" / "letter").touch()
    with pytest.raises(UsageError, match="holds 1 files that are not of a stream"):
        stream_of(tmp_path, state="home").take(rows_of([1]), QUERY, 0)
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o755
    (tmp_path / "link").symlink_to(stream.folder)
    with pytest.raises(SinkError, match="is a link"):
        stream_of(tmp_path, state="link").take(rows_of([1, 1], 1), QUERY, 1)
    for seen in ("visits", "visits/state", "."):
        with pytest.raises(UsageError, match="where readers of the release look, or above it"):
            stream_of(tmp_path, state=seen)


def test_a_damaged_state_loses_no_row(tmp_path: Path) -> None:
    stream = taken(tmp_path, rows_of([1]))
    path = stream.folder / "state.json"
    kept = path.read_bytes()
    for changed in (b"{}", kept.replace(b'"next":1', b'"next": 0'), kept[:-9], b'{"stream_state":1}\n'):
        path.write_bytes(changed)
        with pytest.raises(DataError, match="the state of the stream"):
            stream.take(rows_of([1, 1], 1), QUERY, 1)
    path.unlink()
    with pytest.raises(SinkError, match=r"holds rows of a stream and no state\.json"):
        stream.take(rows_of([1, 1], 1), QUERY, 1)
    path.write_bytes(kept)
    (stream.folder / "rows" / f"{0:020d}").rename(tmp_path / "away")
    with pytest.raises(SinkError, match="lacks the rows of 1 batches"):
        stream.take(rows_of([1, 1], 1), QUERY, 1)
    (tmp_path / "away").rename(stream.folder / "rows" / f"{0:020d}")
    assert stream.take(rows_of([1, 1], 1), QUERY, 1).kind == "published"


def test_two_writers_do_not_share_a_state(tmp_path: Path) -> None:
    tried: list[str] = []

    def meanwhile(step: str) -> None:
        if step in STEPS:
            tried.append(step)
            with pytest.raises(SinkError, match="another run is using the state of the stream"):
                taken(tmp_path, rows_of([1, 1, 1]))

    stream_of(tmp_path, progress=meanwhile).take(rows_of([1, 1, 1]), QUERY, 0)
    assert tuple(tried) == STEPS
    assert Stream(tmp_path).problems([rows_of([1, 1, 1])]) == []


@pytest.mark.parametrize("mode", ["replace", "replace_partition"])
def test_a_sink_that_takes_rows_back_is_refused(tmp_path: Path, mode: str) -> None:
    partition = {"partition": ["number"]} if mode == "replace_partition" else {}
    sink = {"path": str(tmp_path / "visits"), "format": "delta", "mode": mode, **partition}
    with pytest.raises(UsageError, match="mode: append"):
        stream_of(tmp_path, changes={"sink": sink})


def test_a_table_of_suppressed_rows_ends_the_wait(tmp_path: Path) -> None:
    """The row that holds the others back is suppressed, as far as the policy's budget goes."""
    stream = stream_of(tmp_path, changes={"transform": [{"suppress_records": {"suppress_at_most": 0.3}}]})
    assert stream.take(rows_of([1]), QUERY, 0).kind == "held back"
    assert stream.take(rows_of([2, 2, 2, 2], 1), QUERY, 1).kind == "published"
    assert Stream(tmp_path).held() == []
    assert set(Stream(tmp_path).published().column(0).to_pylist()) == {2}


@pytest.mark.deep
@pytest.mark.parametrize(("age", "step"), [*((1, step) for step in range(12)), *((2, step) for step in range(9))])
def test_a_batch_that_is_killed_at_any_step_is_taken_once(
    streams: Streams, tmp_path: Path, age: int, step: int
) -> None:
    """One that is published with what was held back (age 1), and one that is held back too."""
    batches = [rows_of([1, 1]), rows_of([age], 2), rows_of([1, 1, 1, 2, 2], 3)]
    assert not streams.killed(tmp_path, batches[0], 0)
    assert streams.killed(tmp_path, batches[1], 1, step)
    assert Stream(tmp_path).problems_midway() == []
    for at, batch in list(enumerate(batches))[1:]:
        assert not streams.killed(tmp_path, batch, at)
        assert Stream(tmp_path).problems(batches[: at + 1]) == []
    assert (len(Stream(tmp_path).held()) == 0) == (age == 2)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_killed_streams_release_each_row_once(streams: Streams, tmp_path: Path, seed: int) -> None:
    draw, first, batches = random.Random(seed), 0, []
    for at in range(8):
        ages = draw.choices([1, 2, 3, None], [8, 3, 1, 1], k=draw.choice([0, 1, 2, 4, 9]))
        batches.append(rows_of(ages, first))
        first += len(ages)
        tries = draw.choice([0, 1, 1, 2])
        while tries and streams.killed(tmp_path, batches[-1], at, draw.randrange(13)):
            tries -= 1
            assert Stream(tmp_path).problems_midway() == []
        for _ in range(draw.choice([1, 2])):  # the last one delivered again
            assert not streams.killed(tmp_path, batches[-1], at)
            assert Stream(tmp_path).problems(batches) == []


def test_a_run_that_was_killed_after_publication_publishes_nothing_twice(tmp_path: Path) -> None:
    """The process dies between the commit of the sink and the note that the batch is settled."""

    class Died(BaseException):
        pass

    def dies(step: str) -> None:
        if step == "settle":
            raise Died

    with pytest.raises(Died):
        stream_of(tmp_path, progress=dies).take(rows_of([1, 1, 1]), QUERY, 0)
    state = Stream(tmp_path).state()
    assert state["trying"] == f"{0:020d}"
    assert len(Stream(tmp_path).published()) == K
    stream = stream_of(tmp_path)
    stream.take(rows_of([1, 1, 1]), QUERY, 0)
    assert stream.counts == {"published": 1, "repeated": 1}
    assert Stream(tmp_path).problems([rows_of([1, 1, 1])]) == []


def test_a_failure_that_is_not_a_refusal_keeps_what_was_held(tmp_path: Path) -> None:
    stream = taken(tmp_path, rows_of([1]))
    (tmp_path / "visits").write_text("in the way", encoding="utf-8")
    with pytest.raises(PrivpipeError):
        stream.take(rows_of([1, 1], 1), QUERY, 1)
    (tmp_path / "visits").unlink()
    stream.take(rows_of([1, 1], 1), QUERY, 1)
    assert Stream(tmp_path).problems([rows_of([1]), rows_of([1, 1], 1)]) == []
    assert json.dumps(Stream(tmp_path).state()["held"]) == "{}"
