"""Batches that a scheduler tries again and again while their runs are killed at random instants.

Each run is a child of a process that has opened nothing, so that kills fall into the work and not into imports.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["PEOPLE", "BatchKills", "batch_of", "document_of"]

PEOPLE = 6
SEED = "7d1c9a3e5b8f2046d1e7c3a95f80b264"
STEPS = ("scan", "stage", "write", "judge", "publish", "publish", "publish", "judge again", "judge again", "done")
SERVER = """
import os, signal, sys, threading, time
import privpipe as pp
import privpipe.engines.embedded.engine, privpipe.judging, privpipe.running.verbs, pyarrow.parquet
import privpipe.sinks.delta, privpipe.sinks.iceberg

def arm(step, after):
    def kill():
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGKILL)
    def progress(now):
        if now == step:
            threading.Thread(target=kill, daemon=True).start()
    return progress

for line in sys.stdin:
    policy, batch, step, after = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        try:
            done = pp.release(policy, batch=batch, progress=arm(step, float(after)))
        except pp.errors.PrivpipeError as error:
            print(error, file=sys.stderr)
            os._exit(error.exit_code)
        os._exit(100 if done.repeated else 0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def batch_of(day: str | None, people: int = PEOPLE, town: str = "A") -> pa.Table:
    """Rows of a day."""
    return pa.table({"day": pa.array([day] * people, pa.string()), "town": [town] * people})


def document_of(home: Path, sink: Mapping[str, Any]) -> dict[str, Any]:
    """A policy over `home / "source.parquet"`."""
    return {
        "source": {"path": str(home / "source.parquet")},
        "columns": {"day": {"role": "insensitive"}, "town": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 3}}],
        "seed": SEED,
        "sink": dict(sink),
        "report": {"write": False},
    }


@dataclass
class BatchKills:
    """One sink, and jobs that are tried until they end well.

    Parameters
    ----------
    home : Path
    sink : mapping
        As a policy has it.
    days : callable
        The days that a reader sees, with their rows.
    seed : int
    """

    home: Path
    sink: Mapping[str, Any]
    days: Callable[[], Counter[str | None]]
    seed: int
    found: list[str] = field(default_factory=list)
    killed: int = 0
    repeated: int = 0

    def run(self, kills: int) -> None:
        """Publish batches until so many runs were killed; what is violated is in `found`."""
        draw, done, number = random.Random(self.seed), 0, 0
        command = [sys.executable, "-W", "ignore", "-c", SERVER]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            while self.killed < kills and not self.found:
                day, number = f"day/{number:04d} %", number + 1
                pq.write_table(batch_of(day), self.home / "source.parquet")
                tries = 0
                while True:
                    tries += 1
                    last = tries > 3 or draw.random() < 0.1
                    step = "never" if last else draw.choice(STEPS)
                    code = self._child(server, f"batch-{number}", step, draw.uniform(0, 0.03))
                    self.killed += code == -signal.SIGKILL
                    self._look(day, done)
                    if code in (0, 100):
                        self.repeated += code == 100
                        break
                    if code != -signal.SIGKILL:
                        self.found.append(f"a run ended with {code}")
                        break
                done += 1
                code = self._child(server, f"batch-{number}", "never", 0)  # and once more, as a scheduler may
                if code != 100:
                    self.found.append(f"a repeated batch ended with {code}")
                if self.days() != Counter({f"day/{each:04d} %": PEOPLE for each in range(done)}):
                    self.found.append(f"after {done} batches: {self.days()}")
            server.stdin.close() if server.stdin else None

    def _look(self, day: str, done: int) -> None:
        """Each batch before this one stands there once, this one once or not yet."""
        seen = self.days()
        now = seen.pop(day, 0)
        if now not in (0, PEOPLE):
            self.found.append(f"{now} rows of a batch are seen")
        if len(seen) != done or any(count != PEOPLE for count in seen.values()):
            self.found.append(f"{seen} of {done} batches are seen")

    def _child(self, server: Any, batch: str, step: str, after: float) -> int:
        policy = self.home / "policy.json"
        policy.write_text(json.dumps(document_of(self.home, self.sink)), encoding="utf-8")
        server.stdin.write(f"{policy}\t{batch}\t{step}\t{after}\n")
        server.stdin.flush()
        return int(server.stdout.readline())
