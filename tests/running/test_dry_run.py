"""A dry run says what a release would say, and leaves nothing of itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import Refused, SinkError, UsageError
from privpipe.running.run import STEPS
from tests.tiers import deep_beyond

KILLED = """
import os, signal, sys
import privpipe as pp

def progress(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

pp.release(sys.argv[1], progress=progress, dry_run=True)
"""
OWN = ("run_id", "plan_hash")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, links too."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = path.read_bytes() if path.is_file() else str(path.is_symlink()).encode()
    return found


def test_it_says_what_the_release_says_and_leaves_nothing(document: dict[str, Any], tmp_path: Path) -> None:
    before = tree(tmp_path)
    steps: list[str] = []
    dry = pp.release(document, dry_run=True, progress=steps.append)
    assert tree(tmp_path) == before
    assert (dry.published, dry.path, dry.record) == (False, "", "")
    assert dry.target == document["sink"]["path"]
    assert [step for step in steps if step in STEPS] == ["scan", "stage", "write", "judge", "done"]
    real = pp.release(document)
    assert (real.published, real.target) == (True, dry.target)
    left, right = (
        {name: value for name, value in each.verdict_document.items() if name not in OWN} for each in (dry, real)
    )
    assert left == right
    outputs = [{**each.manifest["output"], "files": None} for each in (dry, real)]
    assert outputs[0] == outputs[1]
    hashes = [sorted(file["sha256"] for file in each.manifest["output"]["files"]) for each in (dry, real)]
    assert hashes[0] == hashes[1]  # the very bytes


def test_what_was_published_before_stays_unchanged(document: dict[str, Any], tmp_path: Path) -> None:
    pp.release(document)
    before = tree(tmp_path)
    pp.release(document, dry_run=True)
    assert tree(tmp_path) == before


def test_it_refuses_as_a_release_does_and_keeps_no_record(raw_document: dict[str, Any], tmp_path: Path) -> None:
    before = tree(tmp_path)
    with pytest.raises(Refused) as dry:
        pp.release(raw_document, dry_run=True)
    assert tree(tmp_path) == before
    with pytest.raises(Refused) as real:
        pp.release(raw_document)
    assert str(dry.value) == str(real.value)


def test_a_place_that_is_not_free_is_refused_as_well(document: dict[str, Any]) -> None:
    target = Path(document["sink"]["path"])
    target.mkdir(parents=True)
    (target / "somebody.txt").write_text("else")
    with pytest.raises(SinkError, match="did not publish"):
        pp.release(document, dry_run=True)
    with pytest.raises(UsageError, match="nowhere to publish to"):
        pp.release({name: value for name, value in document.items() if name != "sink"}, dry_run=True)


def test_another_target_is_the_one_it_speaks_of(document: dict[str, Any], tmp_path: Path) -> None:
    assert pp.release(document, dry_run=True, target=str(tmp_path / "other")).target == str(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_ledger_is_read_and_keeps_no_entry(document: dict[str, Any], tmp_path: Path) -> None:
    asked = {"complementary_release": {"ledger": str(tmp_path / "ledger"), "k": 1}}
    document = {**document, "guarantees": [*document["guarantees"], asked]}
    pp.release(document, dry_run=True)
    assert not (tmp_path / "ledger").exists()
    pp.release(document)
    before = tree(tmp_path)
    dry = pp.release(document, dry_run=True)
    assert tree(tmp_path) == before
    assert dry.assessment.verdicts[-1].name == "complementary_release"
    assert dry.assessment.verdicts[-1].outcome != "error"


@pytest.mark.parametrize("step", deep_beyond(1, ("judge", "stage", "write", "done")))
def test_the_next_run_cleans_what_a_killed_one_left(
    step: str, document: dict[str, Any], policy_file: Callable[[Mapping[str, Any]], Path], tmp_path: Path
) -> None:
    path = policy_file(document)
    command = [sys.executable, "-c", KILLED, str(path), step]
    run = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert run.returncode == -signal.SIGKILL
    assert not Path(document["sink"]["path"]).exists()
    left = [folder for folder in tmp_path.rglob("*dry-run*") if folder.is_dir()]
    assert left
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in left[0].glob("staging"))
    pp.release(document)
    assert not list(tmp_path.rglob("*dry-run*"))


def test_every_engine_rehearses(engine: Engine, document: dict[str, Any], tmp_path: Path) -> None:
    before = tree(tmp_path)
    dry = pp.release(document, engine=engine, dry_run=True)
    assert tree(tmp_path) == before
    assert dry.assessment.passed
    assert dry.verdict_document["records"] == 400 - dry.assessment.suppressed_records


def test_its_document_is_that_of_a_release(document: dict[str, Any]) -> None:
    found = pp.release(document, dry_run=True).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["published"] is False
    assert {"target", "columns", "files", "passed", "guarantees", "warnings"} <= set(found)
    assert found["columns"] == ["age", "town", "illness", "income"]
