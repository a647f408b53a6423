"""What fuzzing found, each by the input that ended otherwise than it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines.readers.text_records import CsvDialect, csv_rows
from privpipe.engines.stores import pointed_at
from privpipe.errors import DataError, SinkError, UsageError
from privpipe.kernels.classes.item_sets import baskets_of
from privpipe.record import verify
from privpipe.record.checks import _same_path
from privpipe.running.plan import Plan, document_digest
from privpipe.running.run_documents import chain_of
from privpipe.scheduled.job import published_at
from privpipe.sinks.target import LocalTarget
from tests.fuzzing.all_readers import READERS
from tests.fuzzing.edits import Edits
from tests.fuzzing.loop import tried
from tests.fuzzing.world import world
from tests.tiers import deep_among

DEEP = "[" * 100_000
NESTED = json.loads("[" * 300 + "]" * 300)
FOUND = {
    "a first label with a byte order mark": ("hierarchy", b'"\xef\xbb\xbf";\xef\xbb\xbf\n', "accepted"),
    "a ragged line that is no UTF-8": ("source", b"name;town\na;b;c\xc3\n", "DataError"),
    "a job that is no JSON": ("job", b"{", "UsageError"),
    "a job without a list": ("job", b'{"policy": "a"}', "UsageError"),
    "a job of other keys": ("job", b'{"policy": "a", "keep_out": [], "households": true}', "UsageError"),
    "a job of brackets": ("job", DEEP.encode(), "UsageError"),
    "a stage whose detail is a list": ("plan", [["stages", 1, "detail"], "set", []], "UsageError"),
    "a stage whose parameters are a list": ("plan", [["stages", 1, "parameters"], "set", [None]], "UsageError"),
    "a stage that suppressed a text": (
        "plan",
        [["stages", 0, "detail", "suppressed_records"], "set", "../x"],
        "UsageError",
    ),
    "a stage whose levels are texts": ("plan", [["stages", 0, "detail", "levels", "race"], "set", "1"], "UsageError"),
    "a commitment that is not ASCII": ("applied", [["seed_commitment"], "set", "\u00e9"], "UsageError"),
    "a manifest without columns": ("manifest", [["output", "columns"], "drop", None], "DataError"),
    "a manifest whose output is nothing": ("manifest", [["output"], "set", None], "UsageError"),
    "a manifest whose policy is a list": ("manifest", [["policy", "sink"], "set", [1]], "DataError"),
    "a manifest of other columns": ("manifest", [["output", "columns", 0], "set", "other"], "DataError"),
    "a manifest without files": ("manifest", [["output", "files"], "drop", None], "DataError"),
    "earlier releases that are a text": ("manifest", [["releases_before"], "set", "[]"], "UsageError"),
    "an earlier release without a name": ("manifest", [["releases_before", 0, "name"], "name", "town"], "UsageError"),
    "a detail that is nothing": ("manifest", [["plan", "stages", 1, "detail"], "set", None], "UsageError"),
    "a level that is a list": (
        "manifest",
        [["plan", "stages", 0, "detail", "levels", "zip"], "set", [1, "a"]],
        "UsageError",
    ),
    "a level that is nothing": (
        "manifest",
        [["plan", "stages", 0, "detail", "levels", "race"], "set", None],
        "UsageError",
    ),
    "a level that is a text": (
        "manifest",
        [["plan", "stages", 0, "detail", "levels", "zip"], "set", "age"],
        "UsageError",
    ),
    "an officer's policy that is a text": ("manifest", [["officer_policy"], "set", "true"], "UsageError"),
    "an output of no records": ("manifest", [["output", "records"], "drop", None], "SinkError"),
    "columns of a policy that are a text": ("manifest", [["policy", "columns"], "set", "yes"], "UsageError"),
    "a column of a policy that is a text": ("manifest", [["policy", "columns", "zip"], "set", "yes"], "UsageError"),
    "a guarantee without an outcome": ("verdict", [["guarantees", 1, "outcome"], "drop", None], "UsageError"),
    "a record whose output is nothing": ("record", [["output"], "set", None], "UsageError"),
    "a record's level that is nothing": (
        "record",
        [["plan", "stages", 0, "detail", "levels", "zip"], "copy", ["officer_policy"]],
        "UsageError",
    ),
    "a record's level that is a path": (
        "record",
        [["plan", "stages", 0, "detail", "levels", "race"], "set", "no/such/file.csv"],
        "UsageError",
    ),
    "a record without a line end": ("record", [[1, 1, ""]], "accepted"),
    "a record that names half a character": ("record", [["suppression_mark"], "set", "\ud800"], "UsageError"),
    "classes of no unit": ("report", [["classes", "unit"], "drop", None], "UsageError"),
    "classes of which no one says what was perturbed": (
        "report",
        [["classes", "perturbed"], "drop", None],
        "UsageError",
    ),
    "classes of another side": ("report", [["classes", "sides", 0], "set", "Age"], "UsageError"),
    "a bin of one side": ("report", [["classes", "bins", 0, "counts", 0], "drop", None], "UsageError"),
    "records of one side": ("report", [["classes", "records", 0], "drop", None], "UsageError"),
    "risks of no classes": ("report", [["classes"], "set", None], "UsageError"),
    "risks without one side": ("report", [["risks", "after"], "name", "true"], "UsageError"),
    "risks of no limit": ("report", [["risks", "at_risk"], "drop", None], "UsageError"),
    "a line of one side": ("report", [["distributions", "zip", "lines", 2, "counts", 1], "drop", None], "UsageError"),
    "a line of another kind": (
        "report",
        [["distributions", "zip", "lines", 0, "kind"], "set", "\u202eabc"],
        "UsageError",
    ),
    "an interval without numbers": (
        "report",
        [["distributions", "age", "lines", 2, "label"], "set", "\u202eabc"],
        "UsageError",
    ),
    "an earlier plan that is a text": ("report", [["earlier", "plan"], "set", "\u00e9"], "UsageError"),
    "an earlier stage that is nothing": ("report", [["earlier", "plan", "stages", 0], "set", None], "UsageError"),
    "an earlier stage without a name": (
        "report",
        [["earlier", "plan", "stages", 0, "name"], "drop", None],
        "UsageError",
    ),
    "an earlier stage without parameters": (
        "report",
        [["earlier", "plan", "stages", 1, "parameters"], "drop", None],
        "UsageError",
    ),
    "an earlier stage whose parameters are a text": (
        "report",
        [["earlier", "plan", "stages", 0, "parameters"], "set", "{}"],
        "UsageError",
    ),
    "a report nested without end": ("report", [["reasons"], "set", NESTED], "UsageError"),
    "a ledger whose id is a path": ("ledger", [["id"], "set", "../" + "a" * 300], "DataError"),
    "a ledger that commits to nothing": ("ledger", [["commitment"], "drop", None], "UsageError"),
    "a seal that is not ASCII": ("witness", [["reached", "seal"], "set", "\u00e9"], "DataError"),
    "keys of brackets": ("keys", [[0, 9999, DEEP]], "DataError"),
    "a request of brackets": ("request", [[0, 9999, DEEP]], "UsageError"),
    "a request of no statement": ("request", [["statement"], "set", 10**30], "UsageError"),
    "a request that asks no one": ("request", [["asked", "by"], "set", 3], "UsageError"),
}


def _input(edit: Any) -> bytes:
    if isinstance(edit, bytes):
        return edit
    on_bytes = isinstance(edit[0], list) and isinstance(edit[0][0], int)
    return (Edits(bytes=edit) if on_bytes else Edits(values=[edit], sealed=True)).written()


@pytest.mark.parametrize("name", deep_among([name for at, name in enumerate(FOUND) if at % 4], FOUND))
def test_it_ends_as_it_must(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    which, edit, outcome = FOUND[name]
    reader = next(reader for reader in READERS if reader.name == which)
    found = tried(reader, _input(edit), tmp_path)
    assert (found.outcome, found.violation) == (outcome, "")


def test_a_release_next_to_a_ledger_named_by_a_relative_path_is_sound() -> None:
    here = world()
    assert verify(str(here.release), policy=here.policy).sound


@pytest.mark.parametrize("path", ["other", "ledger/more", "/ledger"])
def test_a_ledger_of_another_name_was_not_judged(path: str) -> None:
    assert not _same_path(path, "/home/job/ledger")
    assert _same_path("../job/./ledger", "/home/job/ledger")


def test_text_behind_a_ragged_line_is_said_not_to_be_utf8() -> None:
    dialect = CsvDialect(("a", "b"), ";", False, ("",))
    with pytest.raises(DataError, match="not UTF-8 text"):
        csv_rows(b"1;2;3\xc3\n", dialect, "people.csv")
    with pytest.raises(DataError, match="not UTF-8 text"):
        csv_rows(b"1;2\n\xff;3\n", dialect, "people.csv")


def test_a_pointer_of_brackets_is_none() -> None:
    with pytest.raises(ValueError, match="no pointer"):
        pointed_at(DEEP[:60_000].encode())


def test_a_cell_of_brackets_is_a_text() -> None:
    assert baskets_of(pa.array([DEEP + "]" * len(DEEP)]), None).lengths.tolist() == [1]


@pytest.mark.parametrize("output", [[], 3, {"files": 3}, None])
def test_an_output_of_another_shape_is_not_a_release(output: Any, tmp_path: Path) -> None:
    home = tmp_path / "_privpipe"
    home.mkdir()
    run = {"run_id": "20260102T030405Z-1a2b3c4d"}
    (home / "verdict.json").write_text(json.dumps(run))
    (home / "manifest.json").write_text(json.dumps({**run, "output": output}))
    assert published_at(str(tmp_path)) is None


def test_a_run_of_no_day_is_not_a_release(tmp_path: Path) -> None:
    home = tmp_path / "_privpipe"
    home.mkdir()
    (tmp_path / "part.csv").write_text("a\n")
    run = {"run_id": "20261399T030405Z-1a2b3c4d", "output": {"files": [{"name": "part.csv", "bytes": 2}]}}
    (home / "verdict.json").write_text(json.dumps(run))
    (home / "manifest.json").write_text(json.dumps(run))
    assert published_at(str(tmp_path)) is None


def test_a_manifest_of_brackets_is_followed_by_nothing(tmp_path: Path) -> None:
    place = LocalTarget(tmp_path / "people")
    with place:
        folder = place.stage("one")
        (folder / "_privpipe").mkdir(exist_ok=True)
        (folder / "_privpipe" / "manifest.json").write_text(DEEP)
        place.publish("one")
        with pytest.raises(SinkError, match="damaged or was changed"):
            chain_of(place)


def test_a_plan_of_another_shape_is_refused_whatever_its_checksum() -> None:
    stage = {"name": "generalize", "parameters": {}, "detail": {"levels": [1]}}
    plan = {"plan_version": 1, "policy_digest": "", "records": 1, "stages": [stage]}
    with pytest.raises(UsageError, match="not a privpipe plan"):
        Plan.from_json(json.dumps({**plan, "checksum": document_digest(plan)}))
