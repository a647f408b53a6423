"""A release into a Delta table: written unseen, published by one commit, and nothing left of what was refused."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, EngineError, PolicyError, Refused, SinkError
from privpipe.running import run as running
from privpipe.sinks.delta import DeltaTarget
from privpipe.testing import GAPS
from tests.running.delta_releases import Releases, counted, rows_of

pytest.importorskip("deltalake", reason="needs deltalake")
FIRST = rows_of(A="fffcc", B="ccff")
SECOND = rows_of(A="gggg", C="fcfc")
UNSAFE = rows_of(A="fffcc", D="Q")


@pytest.fixture
def lake(tmp_path: Path) -> Releases:
    return Releases(tmp_path / "lake")


def foreign(lake: Releases, rows: pa.Table = FIRST, **options: Any) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(lake.path), rows, **{"mode": "append", **options})


def test_every_engine_publishes_the_rows_and_says_by_which_run(tmp_path: Path, engine: Any) -> None:
    lake = Releases(tmp_path / engine.name, engine=engine)
    first = lake.release(FIRST)
    assert first.path == str(lake.path)
    assert lake.seen() == counted(FIRST)
    second = lake.release(SECOND)
    assert lake.seen() == counted(SECOND)
    assert lake.seen(version=0) == counted(FIRST)
    joined = lake.release(FIRST, "append")
    assert lake.seen() == counted(FIRST) + counted(SECOND)
    towns = Counter(town for _, town in lake.seen().elements())
    assert joined.assessment.whole.verdicts[0].observed == min(towns.values())
    assert joined.assessment.whole.records == sum(towns.values())
    assert joined.assessment.verdicts[0].observed == 4
    said = lake.table().metadata().configuration
    assert said["privpipe.run_id"] == joined.run_id
    assert said["privpipe.verdict"] == "passed"
    assert said["privpipe.policy_hash"] == joined.public["manifest"]["policy_hash"]
    told = [commit["privpipe.run_id"] for commit in lake.table().history()]
    assert told == [joined.run_id, second.run_id, first.run_id]
    home = lake.path / "_privpipe" / joined.run_id
    assert json.loads((home / "verdict.json").read_text())["whole_table"]["passed"]
    assert sorted(path.name for path in home.iterdir()) == ["manifest.json", "plan.json", "report.html", "verdict.json"]
    for file in joined.public["manifest"]["output"]["files"]:
        assert (lake.path / joined.run_id / file["name"]).stat().st_size == file["bytes"]


def test_the_log_says_nothing_but_run_verdict_policy_and_numbers_of_rows(lake: Releases) -> None:
    lake.release(FIRST)
    done = lake.release(SECOND)
    kinds = Counter(key for action in lake.log() for key in action)
    assert kinds == {"commitInfo": 1, "metaData": 1, "remove": 1, "add": 1}
    for action in lake.log():
        if "add" in action:
            assert json.loads(action["add"]["stats"]) == {"numRecords": SECOND.num_rows}
            assert action["add"]["path"] == f"{done.run_id}/part-00000.parquet"
    text = "".join(path.read_text() for path in (lake.path / "_delta_log").iterdir())
    for secret in (str(lake.home), "source.parquet", os.environ.get("USER") or "no user", '"A"', "fingerprint"):
        assert secret not in text


def test_documents_and_rows_outlive_a_vacuum_of_all_that_is_not_current(lake: Releases) -> None:
    lake.release(FIRST)
    done = lake.release(SECOND)
    assert lake.unreferenced() == []
    lake.table().vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    assert lake.seen() == counted(SECOND)
    assert len(list((lake.path / "_privpipe").iterdir())) == 2
    assert lake.release(FIRST, "append").assessment.passed
    assert done.run_id in {path.name for path in lake.path.iterdir()}


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_refused_release_leaves_nothing(lake: Releases, mode: str) -> None:
    with pytest.raises(Refused):
        lake.release(UNSAFE, mode)
    assert not lake.path.exists()
    lake.release(FIRST, mode)
    before = lake.listing()
    with pytest.raises(Refused):
        lake.release(UNSAFE, mode)
    assert lake.listing() == before
    assert lake.unreferenced() == []
    assert list((lake.state / "staging").iterdir()) == []


def test_a_dry_run_leaves_nothing_and_judges_the_whole_table(lake: Releases) -> None:
    lake.release(FIRST)
    before = sorted(path for path in lake.home.rglob("*") if path.name != "source.parquet")
    result = lake.release(SECOND, "append", dry_run=True)
    assert result.assessment.whole.records == FIRST.num_rows + SECOND.num_rows
    assert sorted(path for path in lake.home.rglob("*") if path.name != "source.parquet") == before
    with pytest.raises(DataError, match="schema: evolve"):
        lake.release(FIRST.append_column("day", FIRST["ill"]), columns=with_day(), dry_run=True)


def with_day() -> dict[str, Any]:
    columns = {"town": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}}
    return {**columns, "day": {"role": "insensitive"}}


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_the_schema_changes_only_by_columns_that_were_declared(lake: Releases, mode: str) -> None:
    lake.release(FIRST)
    wider = FIRST.append_column("day", pa.array(range(FIRST.num_rows)))
    before = lake.listing()
    with pytest.raises(DataError, match=r"lacks 'day'; write `schema: evolve`"):
        lake.release(wider, mode, columns=with_day())
    assert lake.listing() == before
    lake.release(wider, mode, columns=with_day(), sink={"schema": "evolve"})
    names = [field.name for field in lake.table().schema().fields]
    assert sorted(names[:2]) == ["ill", "town"]
    assert names[2] == "day"
    seen = lake.table().to_pyarrow_table()
    assert seen["day"].null_count == (FIRST.num_rows if mode == "append" else 0)
    with pytest.raises(DataError, match="lacks 'day'; release them"):
        lake.release(FIRST, mode, sink={"schema": "evolve"})
    texts, evolve = FIRST.append_column("day", FIRST["ill"]), {"schema": "evolve"}
    with pytest.raises(DataError, match="'day' was int64 and is string"):
        lake.release(texts, mode, columns=with_day(), sink=evolve)
    columns = with_day()
    columns["day"] = {**columns["day"], "type": "text"}
    with pytest.raises(DataError, match="'day' is string and the table has long"):
        lake.release(texts, mode, columns=columns, sink=evolve)


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_another_writer_in_between_is_a_conflict(lake: Releases, mode: str) -> None:
    lake.release(FIRST)

    def between(step: str) -> None:
        if step == "publish":
            foreign(lake)

    with pytest.raises(SinkError, match="another writer changed.*run again"):
        lake.release(SECOND, mode, progress=between)
    assert lake.seen() == counted(FIRST) + counted(FIRST)
    assert lake.unreferenced() == []
    assert len(list((lake.path / "_privpipe").iterdir())) == 1
    again = lake.release(SECOND, mode)
    assert any("another writer changed" in note for note in again.assessment.notes)
    kept = counted(FIRST) + counted(FIRST) if mode == "append" else Counter()
    assert lake.seen() == kept + counted(SECOND)


def test_rows_of_another_writer_are_judged_as_found(lake: Releases) -> None:
    lake.release(FIRST)
    foreign(lake, rows_of(Z="f"))
    before = lake.listing()
    with pytest.raises(Refused, match="the whole table: .*observed 1"):
        lake.release(SECOND, "append")
    assert lake.listing() == before
    lake.release(SECOND)
    assert lake.seen() == counted(SECOND)


def test_two_runs_at_once_do_not_meet(lake: Releases) -> None:
    lake.release(FIRST)
    with DeltaTarget(lake.path), pytest.raises(SinkError, match="another run"):
        lake.release(SECOND)
    assert lake.release(SECOND).assessment.passed


@pytest.mark.parametrize("kind", ["foreign", "partitioned", "constraint", "folder", "link", "within"])
def test_what_is_not_ours_is_refused_untouched(lake: Releases, kind: str) -> None:
    lake.home.mkdir()
    if kind == "foreign":
        foreign(lake)
    elif kind == "partitioned":
        lake.release(FIRST)
        foreign(lake, mode="overwrite", schema_mode="overwrite", partition_by=["town"])
    elif kind == "constraint":
        lake.release(FIRST)
        lake.table().alter.add_constraint({"some": "town != 'X'"})
    elif kind == "folder":
        lake.path.mkdir()
        (lake.path / "mine.txt").write_text("mine")
    elif kind == "link":
        (lake.home / "elsewhere").mkdir()
        lake.path.symlink_to(lake.home / "elsewhere")
    else:
        foreign(Releases(lake.home.parent, lake.home.name))
    before = lake.listing()
    for changes in ({}, {"dry_run": True}):
        with pytest.raises(SinkError, match="did not|by another writer|is a link|within another"):
            lake.release(SECOND, "append", **changes)
    assert lake.listing() == before


def judged_otherwise(monkeypatch: pytest.MonkeyPatch, meanwhile: Any = None) -> None:
    """The second judgement of a run differs."""
    judge, calls = running.judge_written, []

    def twice(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        judged = judge(*arguments, **named)
        if len(calls) == 1:
            return judged
        if meanwhile is not None:
            meanwhile()
        return judged.within(altered=True)

    monkeypatch.setattr(running, "judge_written", twice)


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_what_reads_back_differently_is_withdrawn(lake: Releases, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        judged_otherwise(patched)
        with pytest.raises(EngineError, match="withdrawn"):
            lake.release(SECOND, mode)
    assert not lake.path.exists()
    done = lake.release(FIRST, mode)
    with monkeypatch.context() as patched:
        judged_otherwise(patched)
        with pytest.raises(EngineError, match="withdrawn"):
            lake.release(SECOND, mode)
    assert lake.seen() == counted(FIRST)
    assert lake.table().version() == 2
    assert lake.table().metadata().configuration["privpipe.run_id"] == done.run_id
    assert {path.name for path in lake.path.iterdir()} == {"_delta_log", "_privpipe", done.run_id}
    assert DeltaTarget(lake.path).current() == f"{lake.path}/{done.run_id}"
    lake.release(SECOND, mode)
    assert lake.seen() == counted(SECOND) + (counted(FIRST) if mode == "append" else Counter())


@pytest.mark.parametrize("first", [True, False])
def test_a_withdrawal_leaves_what_others_wrote_meanwhile(
    lake: Releases, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not first:
        lake.release(FIRST)
    with monkeypatch.context() as patched:
        judged_otherwise(patched, lambda: foreign(lake, rows_of(Z="ffff")))
        with pytest.raises(EngineError, match="withdrawn"):
            lake.release(SECOND, "append")
    assert lake.seen() == counted(rows_of(Z="ffff")) + (Counter() if first else counted(FIRST))
    lake.release(SECOND, "append")


class Refusing:
    """A call of the operating system that fails from the `at`-th time on, once a release is about to be published."""

    def __init__(self, name: str, at: int) -> None:
        self.call = getattr(os, name)
        self.at, self.made, self.armed = at, 0, False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.made += self.armed
        if self.armed and self.made >= self.at:
            raise PermissionError(13, "Permission denied")
        return self.call(*arguments, **named)

    def arm(self, step: str) -> None:
        self.armed = step in ("publish", "judge again")


def ended(lake: Releases, rows: pa.Table, mode: str, **changes: Any) -> str | None:
    try:
        lake.release(rows, mode, **changes)
    except SinkError as error:
        return str(error)
    return None


@pytest.mark.parametrize("call", ["mkdir", "rename", "link", "fsync"])
def test_a_first_release_that_is_not_permitted_leaves_no_table(
    lake: Releases, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in (1, 2, 3, 4):
        refusing = Refusing(call, at)
        with monkeypatch.context() as patched:
            patched.setattr(os, call, refusing)
            problem = ended(lake, FIRST, "append", progress=refusing.arm)
        if problem is None:
            break
        assert not lake.path.exists()
    assert at > 1
    lake.release(SECOND)
    assert lake.seen() == counted(SECOND)


@pytest.mark.parametrize("call", ["rename", "link", "chmod", "fsync"])
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_step_that_is_no_longer_permitted_leaves_the_release_before(
    lake: Releases, call: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lake.release(FIRST)
    refused = 0
    for at in (1, 2, 3):
        refusing = Refusing(call, at)
        with monkeypatch.context() as patched:
            patched.setattr(os, call, refusing)
            problem = ended(lake, SECOND, mode, progress=refusing.arm)
        if problem is None:
            assert refusing.made < at
            break
        assert "Permission denied" in problem
        refused += 1
        assert lake.seen() == counted(FIRST)
        assert DeltaTarget(lake.path).current() == f"{lake.path}/{first.run_id}"
    assert refused
    lake.release(SECOND)
    assert lake.seen() == counted(SECOND)
    assert lake.unreferenced() == []
    assert list((lake.state).glob("pending-*")) == []


@pytest.mark.parametrize("name", ["a table", "it's", 'say "hi"', "ü#?", "a;b,c=d"])
def test_any_name_will_do(lake: Releases, name: str) -> None:
    lake.name = name
    lake.release(FIRST)
    lake.release(SECOND, "append")
    assert lake.seen() == counted(FIRST) + counted(SECOND)
    assert pp.validate(str(lake.path), lake.policy(FIRST)).records == FIRST.num_rows + SECOND.num_rows


@pytest.mark.parametrize("name", ["50%20", "a\\b"])
def test_a_name_that_readers_do_not_find_is_refused(lake: Releases, name: str) -> None:
    lake.name = name
    with pytest.raises(SinkError, match="give it another path"):
        lake.release(FIRST)
    assert not lake.path.exists()


def test_a_published_table_is_a_source_and_is_judged_as_any_other(lake: Releases) -> None:
    lake.release(FIRST)
    policy = lake.policy(SECOND)
    for judged in (pp.validate(lake.path, policy), pp.assess(lake.path, policy)):
        assert (judged.passed, judged.records) == (True, FIRST.num_rows)
    nextone = Releases(lake.home, "next")
    done = pp.release({**nextone.document(), "source": {"path": str(lake.path)}})
    assert nextone.seen() == counted(FIRST)
    private = json.loads((Path(done.record) / "manifest.json").read_text())
    assert private["input"]["versions"] == {"source": {"version": 0}}
    with pytest.raises(PolicyError, match="overlaps"):
        pp.Policy.from_dict({**lake.document(), "source": {"path": str(lake.path)}})


def test_an_empty_folder_stays_and_other_targets_are_tables_too(lake: Releases) -> None:
    lake.home.mkdir()
    lake.path.mkdir(mode=0o755)
    with pytest.raises(Refused):
        lake.release(UNSAFE)
    assert lake.path.is_dir()
    lake.release(FIRST, target=str(lake.home / "other"))
    assert Releases(lake.home, "other").seen() == counted(FIRST)
    lake.release(FIRST)
    for path in (*lake.path.rglob("*.parquet"), *lake.path.rglob("*.json")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o044
    assert stat.S_IMODE((lake.state / "records").stat().st_mode) == 0o700


def test_types_come_back_as_they_were_judged(lake: Releases) -> None:
    import datetime
    import decimal

    rows = FIRST.append_column("n", pa.array(range(9)))
    more = {
        "share": pa.array([0.5] * 9),
        "open": pa.array([True, None] * 4 + [False]),
        "day": pa.array([datetime.date(2026, 1, 1)] * 9),
        "at": pa.array([datetime.datetime(1600, 1, 1)] * 9, pa.timestamp("us")),
        "utc": pa.array([datetime.datetime(2026, 1, 1)] * 9, pa.timestamp("us", "UTC")),
        "pay": pa.array([decimal.Decimal("1.25")] * 9, pa.decimal128(38, 2)),
        "raw": pa.array([b"\\0"] * 9),
    }
    for name, column in more.items():
        rows = rows.append_column(name, column)
    columns = {**with_day(), **{name: {"role": "insensitive"} for name in ("n", *more)}}
    for _ in range(2):
        lake.release(rows, "append", columns=columns)
    found = lake.table().to_pyarrow_table()
    assert found.num_rows == 18
    assert {name: found.schema.field(name).type for name in more} == {
        name: column.type for name, column in more.items()
    }
    assert lake.table().protocol().reader_features == ["timestampNtz"]


@pytest.mark.parametrize("what", ["sink delta on a file system without conditional writes"])
def test_what_is_not_served_says_so(lake: Releases, what: str) -> None:
    with pytest.raises(GAPS["*", what].raises, match="conditional writes"):
        lake.release(FIRST, sink={"path": "memory://bucket/visits"})


def test_no_file_of_the_table_was_read_from_elsewhere(lake: Releases) -> None:
    """The staged bytes themselves are what the commit names."""
    staged: dict[str, bytes] = {}

    def look(step: str) -> None:
        if step == "publish":
            staged.update({path.name: path.read_bytes() for path in lake.state.glob("staging/*/*.parquet")})

    done = lake.release(FIRST, progress=look)
    assert {path.name: path.read_bytes() for path in (lake.path / done.run_id).iterdir()} == staged
    assert pq.read_metadata(lake.path / done.run_id / "part-00000.parquet").metadata is None
