"""A batch is published once, however often it is tried; its partitions are replaced, and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, PolicyError, Refused, SinkError, UsageError
from privpipe.testing import GAPS
from tests.engines.lakes import icebergs
from tests.running.batch_kills import PEOPLE, BatchKills, batch_of, document_of

HOSTILE = ["a/b", "a%2Fb", "..", "", None, "null", " ", "%", "day=1", "\n", "__HIVE_DEFAULT_PARTITION__", "A", "a"]
OTHER_SEED = "9e107d9d372bb6826bd81d3542a419d6"
Days = Counter[str | None]


class Sink:
    """A sink of some kind, what is released into it, and the days that its readers see."""

    def __init__(self, kind: str, home: Path) -> None:
        self.kind, self.home = kind, home
        self.path = home / "visits"
        self.sink: dict[str, Any] = {"path": str(self.path), "mode": "replace_partition", "partition": ["day"]}
        if kind == "delta":
            pytest.importorskip("deltalake", reason="needs deltalake")
            self.sink["format"] = "delta"
        if kind == "store":
            self.sink["path"] = f"file://{self.path}"
        if kind == "iceberg":
            del self.sink["path"]
            self.sink.update(iceberg="db.visits", catalog=icebergs.CATALOG)

    def release(self, rows: pa.Table, batch: str | None = None, **changes: Any) -> Any:
        run = {name: changes.pop(name) for name in ("engine", "dry_run", "plan") if name in changes}
        pq.write_table(rows, self.home / "source.parquet")
        sink = {**self.sink, **changes.pop("sink", {})}
        return pp.release({**document_of(self.home, sink), **changes}, batch=batch, **run)

    def rows(self) -> pa.Table:
        if self.kind == "delta":
            from deltalake import DeltaTable

            return pa.table(DeltaTable(str(self.path)).to_pyarrow_table())
        if self.kind == "iceberg":
            catalogue = icebergs.catalogue(self.home / "lake")
            try:
                return catalogue.load_table("db.visits").scan().to_arrow()
            finally:
                catalogue.close()
        if self.kind == "store":
            pointer = json.loads((self.path / "_CURRENT").read_text())["release"]
            return pq.read_table(os.path.normpath(self.path / pointer), partitioning=None)
        return pq.read_table(self.path)

    def days(self) -> Days:
        try:
            return Counter(self.rows()["day"].to_pylist())
        except Exception as error:
            if "NotFound" in type(error).__name__ or "NoSuchTable" in type(error).__name__:
                return Counter()
            raise


@pytest.fixture(params=["folder", "store", "delta", "iceberg"])
def sink(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    return sink_of(request.param, tmp_path, monkeypatch)


def sink_of(kind: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    if kind == "iceberg":
        pytest.importorskip("pyiceberg", reason="needs pyiceberg")
        pytest.importorskip("sqlalchemy", reason="the catalogue of these tests is SQLite")
        from tests.running.iceberg.tables import read_again

        for name, value in icebergs.environment(home / "lake").items():
            monkeypatch.setenv(name, value)
        read_again(monkeypatch)
        icebergs.catalogue(home / "lake").close()
    return Sink(kind, home)


@pytest.fixture
def folder(tmp_path: Path) -> Sink:
    return Sink("folder", tmp_path)


def test_a_batch_replaces_its_partitions_alone_and_is_published_once(sink: Sink) -> None:
    first = sink.release(batch_of("1", 4), "one")
    assert first.assessment.whole is None
    second = sink.release(batch_of("2", 6), "two")
    assert second.assessment.whole.records == 10
    again = sink.release(batch_of("2", 8), "two", seed=OTHER_SEED)
    assert (again.repeated, again.run_id, again.assessment.passed) == (True, second.run_id, False)
    assert sink.days() == {"1": 4, "2": 6}
    rehearsed = sink.release(batch_of("1", 8), "three", dry_run=True)
    assert rehearsed.assessment.whole.records == 14
    assert sink.release(batch_of("1", 8), "two", dry_run=True).repeated
    late = sink.release(pa.concat_tables([batch_of("1", 8), batch_of("3", 4)]), "one.late")
    assert late.assessment.whole.records == 18
    assert sink.days() == {"1": 8, "2": 6, "3": 4}
    alone = sink.release(pa.concat_tables([batch_of(day, 4) for day in "123"]))
    assert alone.assessment.whole is None
    assert sink.days() == {"1": 4, "2": 4, "3": 4}
    assert alone.public["manifest"]["releases_before"][1]["batch"] == "two"
    assert sink.release(batch_of("1", 4), "one").repeated


def test_what_stays_is_judged_with_what_comes(sink: Sink) -> None:
    distinct = {"guarantees": [{"k_anonymity": {"k": 3}}, {"t_closeness": {"column": "ill", "t": 0.3}}]}
    distinct["columns"] = {
        "day": {"role": "insensitive"},
        "town": {"role": "quasi_identifier"},
        "ill": {"role": "sensitive"},
    }

    def ill(day: str, town: str, word: str) -> pa.Table:
        return batch_of(day, 4, town).append_column("ill", pa.array([word] * 4))

    sink.release(ill("1", "A", "flu"), **distinct)
    before = sink.days()
    with pytest.raises(Refused, match="the whole table: FAIL"):
        sink.release(ill("2", "B", "gout"), "two", **distinct)
    assert sink.days() == before
    sink.release(ill("1", "B", "gout"), "two", **distinct)  # of what it replaces nothing is left to compare with
    assert sink.days() == before


@pytest.mark.parametrize("kind", ["folder", "delta"])
def test_any_value_is_a_partition_and_no_two_share_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(kind, tmp_path, monkeypatch)
    sink.release(pa.concat_tables([batch_of(day, 4) for day in HOSTILE]))
    sink.release(pa.concat_tables([batch_of(day, 6) for day in HOSTILE[::2]]))
    assert sink.days() == {day: 4 + 2 * (at % 2 == 0) for at, day in enumerate(HOSTILE)}
    files = [path for path in sink.home.rglob("*.parquet") if "source" not in path.name]
    assert all(path.name.replace("-", "").replace(".", "").isalnum() for path in files)
    assert {path.parent.parent.name for path in files} <= {"releases", "visits"}


def test_two_engines_find_the_same_partitions(folder: Sink, engine: Any) -> None:
    folder.release(batch_of("1", 4), engine="embedded")
    folder.release(pa.concat_tables([batch_of("1", 6), batch_of("2", 4)]), "x", engine=engine)
    assert folder.days() == {"1": 6, "2": 4}
    assert folder.release(batch_of("1", 8), "x", engine="embedded").repeated


def test_a_stage_that_moves_rows_to_other_partitions_is_refused(folder: Sink) -> None:
    folder.release(pa.concat_tables([batch_of(day, 4) for day in "123"]))
    columns = {"day": {"role": "quasi_identifier"}, "town": {"role": "quasi_identifier"}}
    columns["day"]["hierarchy"] = {"redact": {}}  # type: ignore[assignment]
    wide = {
        "columns": columns,
        "transform": [{"generalize": {"search": "minimal"}}],
        "guarantees": [{"k_anonymity": {"k": 5}}],
    }
    with pytest.raises(DataError, match=r"sink.partition: 'day': 1 partitions .* 2 of the source have no"):
        folder.release(pa.concat_tables([batch_of("1", 3), batch_of("2", 3)]), **wide)
    assert folder.days() == {"1": 4, "2": 4, "3": 4}


def test_files_of_several_partitions_or_of_other_columns_are_never_doubled(sink: Sink) -> None:
    other = {"mode": "replace", "partition": []}
    sink.release(pa.concat_tables([batch_of("1", 4), batch_of("2", 4)]), sink={**other})
    with pytest.raises(SinkError, match="not of one partition of these columns"):
        sink.release(batch_of("1", 6))
    sink.release(pa.concat_tables([batch_of("1", 4), batch_of("2", 4)]), sink={"mode": "replace"})
    with pytest.raises(SinkError, match="not of one partition of these columns"):
        sink.release(batch_of("1", 6), sink={"partition": ["town"]})
    sink.release(batch_of("1", 6))
    assert sink.days() == {"1": 6, "2": 4}


def test_partitions_of_other_columns_or_types_do_not_fit(folder: Sink) -> None:
    folder.release(batch_of("1", 4))
    more = batch_of("2", 4).append_column("n", pa.array([1] * 4))
    columns = {"day": {"role": "insensitive"}, "town": {"role": "quasi_identifier"}, "n": {"role": "insensitive"}}
    with pytest.raises(DataError, match="does not fit the other partitions"):
        folder.release(more, columns=columns)


@pytest.mark.parametrize(
    ("sink", "error", "told"),
    [
        ({"path": "out", "mode": "replace_partition"}, PolicyError, "sink.mode: replace_partition needs `partition:`"),
        ({"path": "out", "mode": "replace_partition", "partition": []}, PolicyError, "needs `partition:`"),
        ({"path": "out", "partition": ["who"]}, PolicyError, r"partition\[0\]: 'who' has `role: identifier`"),
        ({"path": "out", "partition": ["gone"]}, PolicyError, r"partition\[0\]: 'gone' has no role"),
        ({"path": "out", "partition": ["day", "day"]}, PolicyError, r"partition\[1\]: 'day' is named twice"),
        ({"path": "out", "format": "csv", "mode": "replace_partition", "partition": ["day"]}, None, "in Parquet files"),
        (
            {"table": "db.t", "mode": "replace_partition", "partition": ["day"]},
            None,
            "a view of a catalogue is replaced",
        ),
        (
            {"database": "d.duckdb", "table": "t", "mode": "replace_partition", "partition": ["day"]},
            None,
            "of a database",
        ),
    ],
)
def test_what_has_no_partitions_is_refused_before_anything_runs(
    sink: dict[str, Any], error: type[Exception] | None, told: str, tmp_path: Path
) -> None:
    gap = GAPS["*", "replace_partition of what is replaced as a whole"]
    document = document_of(tmp_path, sink)
    document["columns"]["who"] = {"role": "identifier"}
    with pytest.raises(error or gap.raises, match=told):
        pp.Policy.from_dict(document)


@pytest.mark.parametrize("key", ["", "a b", "x" * 65, "ä", "a/b", "a\n", 3])
def test_a_key_names_a_run_and_nothing_else(folder: Sink, key: Any) -> None:
    with pytest.raises(UsageError, match="batch: a key has 1 to 64"):
        folder.release(batch_of("1", 4), key)


def test_a_refused_or_withdrawn_batch_has_not_used_its_key(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    from privpipe.running import run

    sink.release(batch_of("1", 4), "one")
    with pytest.raises(Refused):
        sink.release(batch_of("1", 2), "two")
    judge, calls = run.judge_written, []

    def altered(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        found = judge(*arguments, **named)
        return found if len(calls) == 1 else found.within(altered=True)

    monkeypatch.setattr(run, "judge_written", altered)
    with pytest.raises(pp.errors.EngineError, match="do not read back"):
        sink.release(batch_of("1", 6), "two")
    monkeypatch.setattr(run, "judge_written", judge)
    assert sink.days() == {"1": 4}
    assert not sink.release(batch_of("1", 6), "two").repeated
    assert sink.days() == {"1": 6}


def test_a_retry_of_an_append_adds_no_row(tmp_path: Path) -> None:
    sink = Sink("delta", tmp_path)
    sink.sink = {"path": str(sink.path), "format": "delta", "mode": "append"}
    done = [sink.release(batch_of("1"), "2026-01-31") for _ in range(3)]
    assert [each.repeated for each in done] == [False, True, True]
    assert sink.days() == {"1": PEOPLE}
    from deltalake import DeltaTable

    assert DeltaTable(str(sink.path)).history()[0]["privpipe.batch"] == "2026-01-31"


@pytest.mark.parametrize("end", ["out.duckdb", "out.sqlite"])
def test_a_database_publishes_a_batch_once(tmp_path: Path, end: str) -> None:
    sink = Sink("folder", tmp_path)
    sink.sink = {"database": str(tmp_path / end), "table": "t"}
    first = sink.release(batch_of("1"), "a")
    assert sink.release(batch_of("1", 8), "a").run_id == first.run_id
    assert not sink.release(batch_of("1", 8), "b").repeated


def test_the_command_line_says_so_and_ends_well(folder: Sink) -> None:
    pq.write_table(batch_of("1"), folder.home / "source.parquet")
    policy = folder.home / "policy.json"
    policy.write_text(json.dumps(document_of(folder.home, folder.sink)), encoding="utf-8")
    command = [sys.executable, "-m", "privpipe", "release", str(policy), "--batch", "2026-01-31"]
    runs = [subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0]
    assert "PUBLISHED" in runs[0].stderr
    assert "ALREADY PUBLISHED: batch 2026-01-31" in runs[1].stderr
    assert folder.days() == {"1": PEOPLE}


def noised(people: int, changed: float = 0.0) -> pa.Table:
    at = list(range(people))
    return (
        batch_of("1", people)
        .append_column("cost", pa.array([10.0 * each for each in at[:-1]] + [changed]))
        .append_column("row", pa.array([f"r{each}" for each in at]))
    )


NOISED: dict[str, Any] = {
    "columns": {
        "day": {"role": "insensitive"},
        "town": {"role": "quasi_identifier"},
        "cost": {"role": "insensitive"},
        "row": {"role": "identifier"},
    },
    "record_id": "row",
    "transform": [{"add_noise": {"columns": ["cost"], "variance_ratio": 0.5}}],
}


def test_unchanged_values_keep_their_noise_under_a_plan_given_by_name(folder: Sink) -> None:
    first = folder.release(noised(6, 5.0), **NOISED)
    plan = folder.home / "plan.json"
    plan.write_text(json.dumps(json.loads(Path(first.record, "plan.json").read_text())), encoding="utf-8")
    old = sorted(folder.rows()["cost"].to_pylist())
    folder.release(noised(6, 99.0), plan=str(plan), **NOISED)
    new = sorted(folder.rows()["cost"].to_pylist())
    assert len(set(old) & set(new)) == 5
    anew = folder.release(noised(6, 98.0), **NOISED)
    assert not set(folder.rows()["cost"].to_pylist()) & set(new)
    assert any("cost" in note for note in anew.assessment.source_notes)


def test_two_runs_at_once_publish_both_or_one_waits(folder: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.release(batch_of("1", 4), "one")
    tried: list[str] = []

    def meanwhile(step: str) -> None:
        if step == "judge" and not tried:
            tried.append(step)
            with pytest.raises(SinkError, match="another run is writing") as waits:
                pp.release({**document_of(folder.home, folder.sink)}, batch="two")
            assert waits.value.exit_code == 4

    pq.write_table(batch_of("3", 4), folder.home / "source.parquet")
    pp.release(document_of(folder.home, folder.sink), batch="three", progress=meanwhile)
    folder.release(batch_of("2", 4), "two")
    assert tried
    assert folder.days() == {"1": 4, "2": 4, "3": 4}


def kills(kind: str, home: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> BatchKills:
    sink = sink_of(kind, home, monkeypatch)
    if kind in ("delta", "iceberg"):
        sink.sink["mode"] = "append"
    trial = BatchKills(home, sink.sink, sink.days, seed=20260131)
    trial.run(count)
    return trial


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["folder", "delta"])
def test_killed_batches_are_published_exactly_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = kills(kind, tmp_path, monkeypatch, 3)
    assert trial.found == []


@pytest.mark.rare
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "count"), [("folder", 50), ("delta", 75), ("iceberg", 75)])
def test_200_killed_batches_are_published_exactly_once(
    kind: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = kills(kind, tmp_path, monkeypatch, count)
    assert trial.found == []
    assert trial.repeated, "no run was killed between its switch and its end"
