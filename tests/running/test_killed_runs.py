"""A run killed between any two steps leaves the old release or the new one, and the next run cleans up."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.running.run import STEPS
from privpipe.sinks.target import METADATA
from tests.tiers import deep

KILLED = """
import os, signal, sys
import privpipe as pp

def progress(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

pp.release(sys.argv[1], progress=progress)
"""


def verdict_of(target: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((target / METADATA / "verdict.json").read_text())
    return found


@pytest.mark.parametrize("step", [step if step == "publish" else deep(step) for step in STEPS])
def test_a_killed_run_publishes_nothing_unjudged(
    step: str, document: dict[str, Any], policy_file: Callable[[Mapping[str, Any]], Path]
) -> None:
    target = Path(document["sink"]["path"])
    old = pp.release(document)
    changed = copy.deepcopy(document)
    changed["guarantees"][0] = {"k_anonymity": {"k": 6}}
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(policy_file(changed)), step],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL
    seen = verdict_of(target)
    assert seen["passed"]
    published = STEPS.index(step) > STEPS.index("publish")
    assert (seen["run_id"] != old.run_id) == published
    assert seen["guarantees"][1]["threshold"] == (6 if published else 5)
    manifest = json.loads((target / METADATA / "manifest.json").read_text())
    assert {file["name"] for file in manifest["output"]["files"]} == {
        path.name for path in target.iterdir() if path.is_file()
    }
    after = pp.release(document)
    state = target.parent / f".{target.name}.privpipe"
    assert list((state / "staging").iterdir()) == []
    assert not list(state.glob("pointer-*"))
    assert after.run_id in {folder.name for folder in (state / "releases").iterdir()}


@pytest.mark.deep
@pytest.mark.parametrize("step", STEPS[:5])
def test_a_first_run_that_is_killed_leaves_no_target(
    step: str, document: dict[str, Any], policy_file: Callable[[Mapping[str, Any]], Path]
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(policy_file(document)), step], capture_output=True, timeout=120, check=False
    )
    assert run.returncode == -signal.SIGKILL
    assert not Path(document["sink"]["path"]).exists()
    assert pp.release(document).assessment.passed
