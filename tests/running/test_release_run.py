"""A run publishes what passed, refuses what did not, and says the same on every engine."""

from __future__ import annotations

import copy
import json
import posixpath
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, NoSolutionError, Refused, SinkError
from privpipe.running import run
from privpipe.sinks.remote import NOTICE
from privpipe.sinks.target import METADATA, LocalTarget

Writer = Callable[[Mapping[str, Any]], Path]


def released_rows(path: str | Path) -> list[tuple[Any, ...]]:
    files = sorted(Path(path).glob("part-*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(tuple(row.items()) for row in rows)


def figures(document: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict document without what names the run and the engine."""
    return {key: value for key, value in document.items() if key not in ("run_id", "engine", "versions")}


def test_a_release_that_passes_is_published_with_its_verdict(document: dict[str, Any]) -> None:
    result = pp.release(document)
    target = Path(document["sink"]["path"])
    verdict = json.loads((target / METADATA / "verdict.json").read_text())
    manifest = json.loads((target / METADATA / "manifest.json").read_text())
    assert {"verdict": verdict, "manifest": manifest} == {name: result.public[name] for name in ("verdict", "manifest")}
    kept = {name: json.loads(Path(result.record, f"{name}.json").read_text()) for name in result.public}
    assert kept["verdict"] == result.verdict_document
    assert kept["manifest"] == result.manifest
    assert verdict["passed"]
    assert [row["outcome"] for row in verdict["guarantees"]] == ["pass"] * 4  # the first is built in
    rows = released_rows(target)
    assert len(rows) == verdict["records"] == 400 - verdict["suppressed_records"]
    assert [name for name, _ in rows[0]] == ["age", "town", "illness", "income"]
    assert manifest["input"]["records"] == 400
    assert kept["plan"]["stages"][1]["detail"]["optimal"] is True
    assert manifest["plan"]["stages"][1]["detail"] == {"levels": result.plan.levels}


def test_what_was_published_is_judged_again_by_anyone(document: dict[str, Any]) -> None:
    result = pp.release(document)
    columns = {
        name: {**spec, "type": "text"} if name in ("age", "town") else spec
        for name, spec in document["columns"].items()
        if name != "name"
    }
    for spec in columns.values():
        spec.pop("hierarchy", None)
    judged = pp.assess(result.path, {"columns": columns, "guarantees": document["guarantees"][:2]})
    assert judged.passed
    assert judged.records == result.assessment.records


def test_a_release_that_fails_is_refused_and_nothing_is_published(raw_document: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        pp.release(raw_document)
    target = Path(raw_document["sink"]["path"])
    assert not target.exists()
    failing = caught.value.assessment.failed
    assert failing[0].name == "k_anonymity"
    assert failing[0].observed == 1
    assert failing[0].failing_records > 0
    [kept] = (target.parent / f".{target.name}.privpipe" / "records").iterdir()
    assert json.loads((kept / "verdict.json").read_text()) == caught.value.assessment.to_dict()
    assert not (kept / "plan.json").exists()


def test_a_refusal_leaves_the_earlier_release_in_place(document: dict[str, Any], raw_document: dict[str, Any]) -> None:
    path = pp.release(document).path
    before = released_rows(path)
    with pytest.raises(Refused):
        pp.release(raw_document)
    assert released_rows(path) == before


def test_a_second_release_replaces_the_first(document: dict[str, Any]) -> None:
    first = pp.release(document)
    second = pp.release(document)
    assert first.path == second.path
    assert json.loads(Path(second.path, METADATA, "verdict.json").read_text())["run_id"] == second.run_id
    state = Path(first.path).parent / ".people.privpipe"
    pp.release(document)
    assert first.run_id not in {folder.name for folder in (state / "releases").iterdir()}


@pytest.mark.usual
def test_every_engine_gives_the_same_release(engine: Engine, embedded: Engine, document: dict[str, Any]) -> None:
    reference = pp.release(document, engine=embedded)
    expected = released_rows(reference.path)
    result = pp.release(document, engine=engine)
    assert figures(result.verdict_document) == figures(reference.verdict_document)
    assert result.plan.digest == reference.plan.digest  # all but the salted commitment
    assert released_rows(result.path) == expected
    assert result.manifest["input"]["fingerprint"] == reference.manifest["input"]["fingerprint"]


def test_a_plan_applied_to_the_source_gives_the_released_records(document: dict[str, Any], people: Path) -> None:
    policy = pp.Policy.from_dict(document)
    plan = pp.plan(None, policy)
    frame = pp.transform(None, pp.Plan.from_json(plan.to_json(), policy))
    result = pp.release(policy)
    assert plan == result.plan
    assert sorted(tuple(row.items()) for row in frame.to_pylist()) == released_rows(result.path)


def test_without_a_seed_two_runs_draw_differently(document: dict[str, Any]) -> None:
    unseeded = {key: value for key, value in document.items() if key != "seed"}
    one, other = released_rows(pp.release(unseeded).path), released_rows(pp.release(unseeded).path)
    assert [row[:3] for row in one] == [row[:3] for row in other]
    assert [row[3] for row in one] != [row[3] for row in other]


def test_more_than_the_table_can_give_has_no_solution(document: dict[str, Any]) -> None:
    asked = copy.deepcopy(document)
    asked["guarantees"][0] = {"k_anonymity": {"k": 401}}
    with pytest.raises(NoSolutionError, match="cannot be met"):
        pp.release(asked)
    with pytest.raises(NoSolutionError):
        asked["guarantees"][0] = {"distinct_l_diversity": {"column": "illness", "l": 6}}
        pp.release(asked)


def test_more_than_the_table_can_give_fails_when_judged(raw_document: dict[str, Any]) -> None:
    raw_document["guarantees"] = [
        {"k_anonymity": {"k": 401}},
        {"distinct_l_diversity": {"column": "illness", "l": 6}},
    ]
    judged = pp.assess(None, raw_document)
    assert [verdict.outcome for verdict in judged.verdicts] == ["fail", "fail"]


def test_columns_and_policy_must_agree(document: dict[str, Any]) -> None:
    extra = copy.deepcopy(document)
    del extra["columns"]["income"]
    extra["transform"] = extra["transform"][1:]
    with pytest.raises(DataError, match="'income'"):
        pp.release(extra)
    missing = copy.deepcopy(document)
    missing["columns"]["Town2"] = {"role": "insensitive"}
    with pytest.raises(DataError, match="'Town2'.*did you mean"):
        pp.release(missing)


def test_a_place_that_is_not_ours_is_left_alone(document: dict[str, Any]) -> None:
    target = Path(document["sink"]["path"])
    target.mkdir(parents=True)
    (target / "somebody-elses.txt").write_text("x")
    with pytest.raises(SinkError, match="did not publish"):
        pp.release(document)
    assert (target / "somebody-elses.txt").read_text() == "x"


def test_a_sink_below_a_file_cannot_be_written(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("x")
    document["sink"]["path"] = str(tmp_path / "a-file" / "people")
    with pytest.raises(SinkError, match="cannot be written"):
        pp.release(document)


def test_two_runs_on_one_target_do_not_meet(document: dict[str, Any]) -> None:
    with LocalTarget(Path(document["sink"]["path"])), pytest.raises(SinkError, match="another run"):
        pp.release(document)
    assert pp.release(document).assessment.passed


def test_a_run_elsewhere_holds_the_target_too(document: dict[str, Any]) -> None:
    code = (
        "import sys, pathlib\n"
        "from privpipe.sinks.target import LocalTarget\n"
        "with LocalTarget(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, document["sink"]["path"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SinkError, match="another run"):
            pp.release(document)
        other.communicate("", timeout=30)
    assert pp.release(document).assessment.passed


@pytest.mark.parametrize("scheme", ["memory://", "file://"])
def test_a_remote_sink_is_switched_by_its_pointer(document: dict[str, Any], tmp_path: Path, scheme: str) -> None:
    import fsspec

    url = f"memory://{tmp_path}/lake" if scheme == "memory://" else f"file://{tmp_path}/lake"
    document["sink"]["path"] = url
    document["records"] = str(tmp_path / "kept")
    result = pp.release(document)
    files, root = fsspec.core.url_to_fs(url)
    current = json.loads(files.cat_file(f"{root}/_CURRENT"))["release"]
    verdict = json.loads(files.cat_file(posixpath.normpath(f"{root}/{current}/{METADATA}/verdict.json")))
    assert verdict["run_id"] == result.run_id
    assert [posixpath.basename(name) for name in sorted(files.ls(root, detail=False))] == ["_CURRENT", NOTICE]
    again = pp.release(document)
    assert json.loads(files.cat_file(f"{root}/_CURRENT"))["release"].endswith(again.run_id)
    assert [posixpath.basename(name) for name in sorted(files.ls(root, detail=False))] == ["_CURRENT", NOTICE]
    assert not files.exists(posixpath.join(posixpath.dirname(root), ".lake.privpipe", "_LOCK"))


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_every_sink_format_is_judged_as_written(document: dict[str, Any], format: str) -> None:
    document["sink"]["format"] = format
    result = pp.release(document)
    assert result.assessment.passed
    assert list(Path(result.path).glob(f"part-*.{format}"))


def test_published_files_are_read_again(document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of the first judgement of the staged files are passed to reports, and not to the second judgement."""
    judge, given, folders = run.judge_written, [], []

    def look(context: Any, staged: Any, place: Any, written: Any, **named: Any) -> Any:
        given.append((staged.read, named.get("table")))
        folders.append(place)
        return judge(context, staged, place, written, **named)

    monkeypatch.setattr(run, "judge_written", look)
    pp.release(document)
    (first, second), (none, nothing) = given
    assert first is None
    assert second is not None
    assert none is nothing is None
    assert folders[0] != folders[1]
