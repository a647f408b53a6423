"""Releases of related tables that are killed: readers see one whole set, of the run before or of the new one."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import PrivpipeError
from privpipe.sinks.target import METADATA
from tests.tiers import deep

SERVER = """
import os, signal, sys
import privpipe as pp

pp.release, pp.Policy  # whatever is imported late is imported before the first run

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # at once: who is killed leaves no half of a line

for line in sys.stdin:
    policy, step = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        def progress(now):
            say("step", now)
            if now == step:
                os.kill(os.getpid(), signal.SIGKILL)

        say("pid", os.getpid())  # before its first step
        pp.release(policy, progress=progress)
        os._exit(0)
    say("code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
STEPS = (
    "stage patients",
    "stage visits",
    "write",
    "judge",
    "judge the tables together",
    "publish",
    "judge again",
    "done",
)
TABLES = ("patients", "visits")
NEVER = "never"


class Runs:
    """Runs in processes of their own, each the child of one in which everything is imported."""

    def __init__(self, program: str = SERVER) -> None:
        self.program = program

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-c", self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        return self

    def __exit__(self, *details: object) -> None:
        self._server.communicate(timeout=60)

    def lines(self, policy: Path, step: str) -> Iterator[tuple[str, str]]:
        """What happens in a run that kills itself at a step: its process, its steps, and how it ended."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{policy}\t{step}\n")
        kind = ""
        while kind != "code":
            kind, rest = self._server.stdout.readline().rstrip("\n").split(" ", 1)
            yield kind, rest

    def killed(self, policy: Path, step: str, after: float | None = None) -> bool:
        """Whether a run was killed before it ended: as it comes to a step, or so many seconds later."""
        process, timer, code = 0, None, None
        for kind, rest in self.lines(policy, step if after is None else NEVER):
            if kind == "pid":
                process = int(rest)
            elif kind == "step" and rest == step and after is not None and timer is None:
                timer = threading.Timer(after, _kill, [process])
                timer.start()
            elif kind == "code":
                code = int(rest)
        if timer is not None:
            timer.cancel()
            timer.join()
        assert code in (0, -signal.SIGKILL)
        return code != 0


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return  # it was done


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with Runs() as runs:
        yield runs


@pytest.fixture
def edition(tmp_path: Path) -> Callable[..., Path]:
    """A policy in a file over tables that all say which edition they are of."""

    def made(number: int, form: str = "parquet") -> Path:
        draw, persons = random.Random(number), 40
        columns = {
            "edition": [number] * persons,
            "patient": range(persons),
            "age": [draw.choice([30, 50]) for _ in range(persons)],
        }
        pq.write_table(pa.table(columns), tmp_path / f"patients-{number}.parquet")
        visits = {"patient": [at % persons for at in range(persons + number)], "edition": [number] * (persons + number)}
        pq.write_table(pa.table(visits), tmp_path / f"visits-{number}.parquet")
        key, said = {"patient": {"role": "identifier"}}, {"edition": {"role": "insensitive"}}
        document = {
            "version": 1,
            "name": "kills",
            "tables": {
                "patients": {
                    "source": {"path": f"patients-{number}.parquet"},
                    "key": "patient",
                    "columns": {**key, **said, "age": {"role": "quasi_identifier"}},
                },
                "visits": {"source": {"path": f"visits-{number}.parquet"}, "columns": {**key, **said}},
            },
            "relations": [{"from": "visits.patient", "to": "patients"}],
            "guarantees": [{"joint_k_anonymity": {"k": 2}}],
            "sink": {"path": "out", "format": form},
        }
        path = tmp_path / f"policy-{number}.yaml"
        path.write_text(json.dumps(document))
        return path

    return made


def seen(target: Path) -> int | None:
    """The edition that readers see, if it is whole: all files are of one run, and all rows of one edition."""
    if not target.exists():
        return None
    documents = {name: json.loads((target / METADATA / f"{name}.json").read_text()) for name in ("manifest", "verdict")}
    assert documents["verdict"]["passed"]
    assert documents["manifest"]["run_id"] == documents["verdict"]["run_id"]
    listed = {each["name"]: each["sha256"] for each in documents["manifest"]["output"]["files"]}
    assert {name.split("/")[0] for name in listed} == set(TABLES)
    assert listed == {
        path.relative_to(target).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in target.rglob("*")
        if path.is_file() and path.parent.name != METADATA
    }
    tables = {name: pp.read_release(target, table=name) for name in TABLES}
    [number] = {int(each) for table in tables.values() for each in table["edition"].to_pylist()}
    assert {name: len(table) for name, table in tables.items()} == {"patients": 40, "visits": 40 + number}
    return number


def nothing_is_left(target: Path) -> None:
    """Of runs that were killed: the release before the last stays for those who are still reading it."""
    state = target.parent / f".{target.name}.privpipe"
    assert list((state / "staging").iterdir()) == []
    assert len(list((state / "releases").iterdir())) <= 2
    assert not list(state.glob("pointer-*"))


@pytest.mark.parametrize("step", [step if step == "publish" else deep(step) for step in STEPS])
def test_a_run_killed_at_a_step_leaves_the_old_set_or_the_new_one(
    step: str, runs: Runs, edition: Callable[..., Path], tmp_path: Path
) -> None:
    target = tmp_path / "out"
    assert runs.killed(edition(1), step)
    published = STEPS.index(step) > STEPS.index("publish")
    assert seen(target) == (1 if published else None)
    pp.release(edition(2))
    assert seen(target) == 2
    assert runs.killed(edition(3), step)
    assert seen(target) == (3 if published else 2)
    pp.release(edition(4))
    assert seen(target) == 4
    nothing_is_left(target)


RANDOM = [
    (0, 4),
    (1, 40),
    *(pytest.param(seed, 40, marks=pytest.mark.rare) for seed in range(2, 6)),
]
"""A few in every deep run, 200 in all."""


@pytest.mark.deep
@pytest.mark.parametrize(("seed", "kills"), RANDOM)
def test_runs_killed_at_random_moments_never_leave_half_a_set(
    seed: int, kills: int, runs: Runs, edition: Callable[..., Path], tmp_path: Path
) -> None:
    """Moments are drawn after a drawn step, so that the short ones are met as often as the long ones."""
    draw, target, killed, number = random.Random(seed), tmp_path / "out", 0, 0
    pp.release(edition(number))
    while killed < kills:
        before, number = seen(target), number + 1
        policy = edition(number, draw.choice(["parquet", "csv"]))
        lost = runs.killed(policy, draw.choice(STEPS), draw.expovariate(1 / 0.02))
        killed += lost
        assert seen(target) in ((before, number) if lost else (number,))
        if lost and killed % 10 == 0:
            assert not runs.killed(policy, NEVER)
            assert seen(target) == number
            nothing_is_left(target)
    pp.release(edition(number + 1))
    assert seen(target) == number + 1
    nothing_is_left(target)


def test_each_table_stays_readable_while_sets_replace_each_other(edition: Callable[..., Path], tmp_path: Path) -> None:
    target, done = tmp_path / "out", threading.Event()
    found: list[Any] = []
    pp.release(edition(1))

    def read() -> None:
        while not done.is_set():
            try:
                found.append({name: pp.read_release(target, table=name)["edition"][0].as_py() for name in TABLES})
            except (PrivpipeError, OSError) as error:  # shown by the test
                found.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in (2, 3):
        pp.release(edition(number))
    time.sleep(0.2)
    done.set()
    reader.join(60)
    editions: list[Any] = [each if isinstance(each, Exception) else tuple(each.values()) for each in found]
    assert all(each in [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3)] for each in editions)
    assert editions == sorted(editions)
    assert editions[-1] == (3, 3)
