"""Which private records are kept, and in which order `history` lists runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.errors import PolicyError, Refused, UsageError
from privpipe.policy.specs import RetentionSpec
from privpipe.record import history, prune, verify
from privpipe.running.kept_records import in_order, of_sink, prune_records

Document = dict[str, Any]
Written = Callable[..., Path]


@pytest.fixture
def noisy(document: Document) -> Document:
    """Releases of 240 people with noise, and a ledger."""
    document["columns"]["age"] = {"role": "insensitive", "type": "integer"}
    document["columns"]["illness"] = {"role": "insensitive"}
    document["transform"] = [
        {"add_noise": {"columns": ["age"], "variance_ratio": 0.1}},
        {"suppress_records": {"suppress_at_most": 0.05}},
    ]
    document["guarantees"] = [{"k_anonymity": {"k": 2}}]
    return document


def records_of(document: Document) -> Path:
    target = Path(document["sink"]["path"])
    return target.parent / f".{target.name}.privpipe" / "records"


def kept(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def refused(document: Document) -> None:
    with pytest.raises(Refused):
        pp.release({**document, "guarantees": [{"k_anonymity": {"k": 200}}], "transform": []})


def test_records_that_are_not_kept_go_after_each_release(noisy: Document) -> None:
    noisy["retention"] = {"keep": 2}
    first = pp.release(noisy)
    refused(noisy)
    second, third = pp.release(noisy), pp.release(noisy)
    assert (first.unfinished, third.unfinished) == ((), ())
    assert kept(records_of(noisy)) == {second.run_id, third.run_id}
    listed = history(third.path).releases
    assert [row["run_id"] for row in listed] == [first.run_id, second.run_id, third.run_id]
    assert [row["current"] for row in listed] == [False, False, True]
    assert verify(third.path, policy=pp.Policy.from_dict(noisy)).sound


def test_retention_changes_no_row_and_no_hash(noisy: Document) -> None:
    plain = pp.Policy.from_dict(noisy)
    ruled = pp.Policy.from_dict({**noisy, "retention": {"days": 90}})
    assert (plain.digest(), plain.run_digest()) == (ruled.digest(), ruled.run_digest())
    assert "retention" not in ruled.public_document()


def test_pruning_loses_no_draw_of_an_earlier_release(noisy: Document) -> None:
    noisy["retention"] = {"keep": 1}
    for ratio in (0.1, 0.2, 0.3):
        noisy["transform"][0]["add_noise"]["variance_ratio"] = ratio
        last = pp.release(noisy)
    assert kept(records_of(noisy)) == {last.run_id}
    [note] = [note for note in last.assessment.source_notes if "was released" in note]
    assert "3 times with independent noise" in note


def test_pruning_loses_no_entry_of_a_ledger(noisy: Document, place: Path) -> None:
    noisy["retention"] = {"keep": 1}
    noisy["guarantees"].append({"complementary_release": {"ledger": str(place / "ledger"), "k": 1}})
    for _ in range(3):
        pp.release(noisy)
    assert len([*(place / "ledger").glob("*/0*.entry")]) == 3


def test_the_record_of_a_plan_stays(noisy: Document) -> None:
    first = pp.release(noisy)
    noisy["plan"] = {"file": str(Path(first.record) / "plan.json")}
    noisy["retention"] = {"keep": 1}
    for _ in range(2):
        last = pp.release(noisy)
    assert kept(records_of(noisy)) == {first.run_id, last.run_id}


def test_a_shared_home_keeps_the_records_of_other_sinks(noisy: Document, place: Path) -> None:
    home = place / "shared"
    noisy["records"] = str(home)
    other = {**noisy, "name": "other", "sink": {"path": str(place / "published" / "other")}}
    with pytest.raises(Refused):
        pp.release({**other, "guarantees": [{"k_anonymity": {"k": 200}}], "transform": []})
    theirs = kept(home) | {pp.release(other).run_id}
    noisy["retention"] = {"keep": 1}
    pp.release(noisy)
    last = pp.release(noisy)
    assert kept(home) == theirs | {last.run_id}


def test_the_command_prunes_by_the_policy_or_as_it_is_told(noisy: Document, written: Written) -> None:
    runs = [pp.release(noisy).run_id for _ in range(4)]
    home, run = records_of(noisy), CliRunner()
    (home / "20200101T000000Z-00000000.waiting").mkdir()
    told = run.invoke(app, ["history", noisy["sink"]["path"], "--prune", "--keep", "3"])
    assert (told.exit_code, "1 private records were removed" in told.stderr) == (0, True)
    assert kept(home) == {*runs[1:], "20200101T000000Z-00000000.waiting"}
    assert f"{runs[-1]} (current)" in told.stdout
    by_policy = run.invoke(app, ["history", str(written({**noisy, "retention": {"keep": 1}})), "--prune", "--json"])
    assert by_policy.exit_code == 0
    assert [row["current"] for row in json.loads(by_policy.stdout)["releases"]] == [False, False, False, True]
    assert kept(home) == {runs[-1], "20200101T000000Z-00000000.waiting"}
    assert run.invoke(app, ["history", noisy["sink"]["path"], "--prune"]).exit_code == 2
    assert run.invoke(app, ["history", noisy["sink"]["path"], "--keep", "3"]).exit_code == 2
    assert run.invoke(app, ["history", noisy["sink"]["path"], "--prune", "--keep", "0"]).exit_code == 2
    assert kept(home) == {runs[-1], "20200101T000000Z-00000000.waiting"}


def test_nothing_is_pruned_where_the_chain_is_broken(noisy: Document) -> None:
    for _ in range(3):
        last = pp.release(noisy)
    manifest = Path(last.path) / "_privpipe" / "manifest.json"
    document = json.loads(manifest.read_text())
    manifest.unlink()
    manifest.write_text(json.dumps({**document, "releases_before": document["releases_before"][1:]}))
    before = kept(records_of(noisy))
    with pytest.raises(UsageError, match="chain of releases is broken"):
        prune(last.path, RetentionSpec(keep=1))
    assert kept(records_of(noisy)) == before


def test_a_record_that_was_pruned_halfway_is_not_a_refused_run(noisy: Document) -> None:
    first, last = pp.release(noisy), pp.release(noisy)
    home = records_of(noisy)
    (home / first.run_id / "manifest.json").unlink()  # as a version would leave it that removes file by file
    shutil.copytree(home / first.run_id, home / f"{first.run_id}.pruned")
    assert [row["verdict"] for row in history(last.path).releases] == ["passed", "passed"]
    prune(last.path, RetentionSpec(keep=5))
    assert kept(home) == {first.run_id, last.run_id}


@pytest.mark.parametrize("wrong", [{}, {"keep": 0}, {"days": -1}, {"keep": 1, "days": 1}, {"keep": "x"}, {"kept": 3}])
def test_what_retention_may_say(noisy: Document, wrong: Document) -> None:
    with pytest.raises(PolicyError, match="retention"):
        pp.Policy.from_dict({**noisy, "retention": wrong})


def row(run: int, published: bool, age: int, digest: str = "a") -> dict[str, Any]:
    began = datetime.now(UTC) - timedelta(days=age)
    return {
        "run_id": f"20260101T{run:06}Z-00000000",
        "created": began.isoformat(timespec="seconds"),
        "published": published,
        "policy_hash": digest,
    }


@given(
    ages=st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=12),
    keep=st.integers(1, 8),
    days=st.integers(1, 150),
    by_days=st.booleans(),
)
def test_the_newest_stay_and_the_one_that_stands(
    tmp_path_factory: pytest.TempPathFactory, ages: list[tuple[int, bool]], keep: int, days: int, by_days: bool
) -> None:
    home = tmp_path_factory.mktemp("records")
    rows = [row(at, published, age) for at, (age, published) in enumerate(ages)]
    order = in_order([each for each in rows if each["published"]], [each for each in rows if not each["published"]])
    for each in order:
        (home / each["run_id"]).mkdir()
    current = rows[0]["run_id"]
    spec = RetentionSpec(days=days) if by_days else RetentionSpec(keep=keep)
    gone = prune_records(home, order, spec, current)
    young = {each["run_id"] for each, (age, _) in zip(rows, ages, strict=True) if age < days}
    newest = {each["run_id"] for each in order[-keep:]}
    assert kept(home) == (young if by_days else newest) | {current}
    assert set(gone) == {each["run_id"] for each in rows} - kept(home)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=12))
def test_releases_are_in_the_order_of_their_publication(runs: list[tuple[bool, int]]) -> None:
    rows = [row(at, published, age) for at, (published, age) in enumerate(runs)]
    published = [each for each in rows if each["published"]]
    order = in_order(published, [each for each in rows if not each["published"]])
    assert [each for each in order if each["published"]] == published
    assert len(order) == len(rows)


def test_a_refused_run_of_another_policy_is_of_no_certain_sink() -> None:
    rows = [row(1, True, 0), row(2, False, 0), row(3, False, 0, "b"), row(4, False, 0, "c")]
    assert of_sink(rows, shared=False) == rows
    assert of_sink(rows, shared=True) == rows[:2]
    assert of_sink(rows, shared=True, digest="b") == rows[:3]
