"""Releases of tables that are killed: readers see one whole set, the ledger follows, and the next run publishes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ruamel.yaml import YAML

import privpipe as pp
from privpipe.running.run import STEPS
from privpipe.sinks.target import METADATA
from privpipe.tables import TableAudit
from tests.tiers import deep

KEY = "7d1c9a3e5b8f2046d1e7c3a95f80b2647d1c9a3e5b8f2046d1e7c3a95f80b264"
VARIABLE = "PRIVPIPE_KEY_OF_KILLS"
KEEPS_LEDGER = "ledger" in {field.name for field in dataclasses.fields(TableAudit)}
RUN = """
import os, signal, sys
import privpipe as pp

policy, step = pp.Policy.load(sys.argv[1]), sys.argv[2]
if step == "any":
    policy.apply(sys.argv[3])  # everything is imported and compiled before the clock runs
print("ready", flush=True)

def progress(now):
    if now == step:
        os.kill(os.getpid(), signal.SIGKILL)

pp.release(policy, progress=progress)
"""
Document = dict[str, Any]


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A policy of two tables in a file, with more records each time it is asked for."""
    monkeypatch.setenv(VARIABLE, KEY)

    def made(records: int, form: str = "parquet", *, ledger: bool = False) -> Path:
        draw = random.Random(5)
        rows = [(at, draw.choice("nsw"), draw.choice("yo"), draw.randint(1, 99)) for at in range(records)]
        source = tmp_path / f"visits-{records}.parquet"
        pd.DataFrame(rows, columns=["person", "region", "age", "cost"]).to_parquet(source)
        audit = {"ledger": str(tmp_path / "ledger"), "key": {"from_env": VARIABLE}} if ledger else {}
        ages = {"by": ["age"], "responses": ["count"]}
        costs = {"by": ["region", "age"], "responses": ["count", {"sum": "cost"}]}
        policy = {
            "version": 1,
            "columns": {
                "person": {"role": "identifier"},
                "region": {"role": "quasi_identifier"},
                "age": {"role": "quasi_identifier"},
                "cost": {"role": "insensitive"},
            },
            "source": {"path": str(source)},
            "sink": {"path": str(tmp_path / "out"), "format": form},
            "person_id": "person",
            "transform": [{"aggregate": {"tables": {"ages": ages, "costs": costs}}}, {"suppress_table": {}}],
            "guarantees": [{"minimum_frequency": {"at_least": 2}}, {"table_audit": audit}],
        }
        path = tmp_path / f"policy-{records}.yaml"
        with path.open("w") as file:
            YAML().dump(policy, file)
        return path

    return made


def killed(policy: Path, step: str, after: float | None = None) -> bool:
    """Whether a run was killed before it ended: at a step, or so many seconds after it began."""
    source = YAML(typ="safe").load(policy.read_text())["source"]["path"]
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(policy), step, source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        if after is not None:
            time.sleep(after)
            run.send_signal(signal.SIGKILL)
        code = run.wait(timeout=300)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def seen(target: Path) -> str | None:
    """The run that readers see, if it is whole: every table and document of one run, as the manifest says."""
    if not target.exists():
        return None
    documents = {name: json.loads((target / METADATA / f"{name}.json").read_text()) for name in ("manifest", "verdict")}
    assert documents["verdict"]["passed"]
    files = {each["name"]: each["sha256"] for each in documents["manifest"]["output"]["files"]}
    assert {name.split(".")[0] for name in files} == {"ages", "costs"}
    assert files == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in target.iterdir() if path.is_file()
    }
    assert documents["manifest"]["run_id"] == documents["verdict"]["run_id"]
    return str(documents["verdict"]["run_id"])


def remembered(ledger: Path) -> int:
    return len(list(ledger.glob("*/[0-9]*-*.entry")))


def whole_again(policy: Path, target: Path) -> None:
    """The next run publishes, and leaves nothing of the one that was killed."""
    result = pp.release(str(policy))
    assert seen(target) == result.run_id
    state = target.parent / f".{target.name}.privpipe"
    assert list((state / "staging").iterdir()) == []
    assert not list(state.glob("pointer-*"))


@pytest.mark.parametrize("step", [step if step == "publish" else deep(step) for step in STEPS if step != "scan"])
def test_a_run_killed_at_a_step_leaves_the_old_set_or_the_new_one(
    step: str, document: Callable[..., Path], tmp_path: Path
) -> None:
    target = tmp_path / "out"
    old = pp.release(str(document(40))).run_id
    assert killed(document(60), step)
    assert (seen(target) != old) == (STEPS.index(step) > STEPS.index("publish"))
    whole_again(document(60), target)


@pytest.mark.deep
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_first_run_killed_while_it_is_judged_publishes_no_table(
    form: str, document: Callable[..., Path], tmp_path: Path
) -> None:
    assert killed(document(40, form), "judge")
    assert not (tmp_path / "out").exists()
    whole_again(document(40, form), tmp_path / "out")


@pytest.mark.deep
@pytest.mark.parametrize(
    "ledger",
    [False, pytest.param(True, marks=pytest.mark.skipif(not KEEPS_LEDGER, reason="table_audit keeps no ledger"))],
)
def test_runs_killed_at_random_moments_never_leave_half_a_set(
    ledger: bool, document: Callable[..., Path], tmp_path: Path
) -> None:
    """Sets of tables, each of more persons than the one before; every second kill is followed by another one."""
    draw, target, number = random.Random(20261129), tmp_path / "out", 0
    pp.release(str(document(40, ledger=ledger)))
    started = time.monotonic()
    pp.release(str(document(80, ledger=ledger)))
    length = time.monotonic() - started
    before = seen(target)
    for trial in range(6):
        policy = document(120 + 40 * trial, draw.choice(["parquet", "csv"]), ledger=ledger)
        number += killed(policy, "any", draw.uniform(0, 1.2 * length))
        after = seen(target)
        assert after is not None
        if trial % 2:
            pp.release(str(policy))
            assert seen(target) not in (None, before, after)
        before = seen(target)
    assert number
    whole_again(document(600, ledger=ledger), target)
    if ledger:
        state = tmp_path / ".out.privpipe" / "records"
        assert not list((tmp_path / "ledger").glob("*/pending-*"))
        published = [each for each in state.iterdir() if not each.name.endswith("pending")]
        assert remembered(tmp_path / "ledger") == len(published)
