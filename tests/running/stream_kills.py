"""Batches of a stream whose process is killed at a step, and what must hold of rows and release afterwards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

import privpipe as pp

__all__ = ["QUERY", "K", "Stream", "Streams", "policy_of", "rows_of"]

K = 3
QUERY = "5aa55bcf-07fe-488f-b7e7-3a462a0f617c"
NEVER = 1 << 30
SERVER = """
import os, signal, sys
import pyarrow.parquet as pq
import privpipe as pp
import privpipe.engines.embedded.engine, privpipe.judging, privpipe.sinks.delta
from privpipe.running.stream_batches import StreamBatches

for line in sys.stdin:
    policy, rows, query, batch, step = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        left = int(step)

        def progress(now):
            global left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        batches = StreamBatches(pp.Policy.load(policy), progress=progress)
        batches.take(pq.read_table(rows), query, int(batch))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def policy_of(home: Path, **changes: Any) -> dict[str, Any]:
    """A policy with a hostile name of a column; each record has a number, so that its way can be followed."""
    return {
        "columns": {
            'a`ge, of "life"': {"role": "quasi_identifier"},
            "number": {"role": "insensitive"},
            "who": {"role": "identifier"},
        },
        "guarantees": [{"k_anonymity": {"k": K}}],
        "sink": {"path": str(home / "visits"), "format": "delta", "mode": "append"},
        "report": {"write": False},
        **changes,
    }


def rows_of(ages: Sequence[int | None], first: int = 0) -> pa.Table:
    """Records of these ages, numbered from `first`."""
    numbers = pa.array(range(first, first + len(ages)), pa.int64())
    return pa.table(
        {
            'a`ge, of "life"': pa.array(ages, pa.int64()),
            "number": numbers,
            "who": pa.array([f"person {at.as_py()}" for at in numbers], pa.string()),
        }
    )


class Stream:
    """What readers see of a stream, and what it holds back."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder = home, home / ".visits.privpipe" / "stream"

    def state(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"next": 0, "held": {}, "trying": None}
        return found

    def published(self) -> pa.Table:
        from deltalake import DeltaTable

        if not (self.home / "visits" / "_delta_log").is_dir():
            return rows_of([]).drop_columns(["who"])
        return pa.table(DeltaTable(str(self.home / "visits")).to_pyarrow_table())

    def held(self) -> list[int]:
        """Numbers of the records that the state counts as held back."""
        names = self.state()["held"]
        return [n for name in names for n in pq.read_table(self.folder / "rows" / name)["number"].to_pylist()]

    def problems(self, delivered: Sequence[pa.Table]) -> list[str]:
        """What does not hold once the batches `delivered` have returned."""
        table, state, found = self.published(), self.state(), []
        released, held = Counter(table["number"].to_pylist()), Counter(self.held())
        if released + held != Counter(n for batch in delivered for n in batch["number"].to_pylist()):
            found.append(f"released {sorted(released.elements())}, held back {sorted(held.elements())}")
        if any(count < K for count in Counter(table.column(0).to_pylist()).values()):
            found.append("a class of the released rows is too small")
        if state["trying"] is not None or state["next"] != len(delivered):
            found.append("the state is not settled")
        return found + self.problems_midway()

    def problems_midway(self) -> list[str]:
        """What must hold at any instant: rows are released once, in classes that are large enough, and are private."""
        table, found = self.published(), []
        if len(set(table["number"].to_pylist())) != len(table):
            found.append("a row is released twice")
        if any(count < K for count in Counter(table.column(0).to_pylist()).values()):
            found.append("a class is too small midway")
        if "who" in table.column_names:
            found.append("an identifier is released")
        for path in (self.folder, *self.folder.rglob("*")) if self.folder.exists() else ():
            if path.stat().st_mode & 0o077 and path.parent.name != "staged":  # the folder `staged` is private itself
                found.append(f"{path.name} can be read by others")
        return found


class Streams:
    """Runs of batches, each in a child of one process in which everything is imported."""

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        return self

    def __exit__(self, *details: object) -> None:
        self._server.communicate(timeout=60)

    def killed(self, home: Path, rows: pa.Table, batch: int, step: int = NEVER) -> bool:
        """Whether the run was killed as it came to the step of this number; else it ended well."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        policy, source = home / "policy.json", home / "batch.parquet"
        policy.write_text(json.dumps(policy_of(home)), encoding="utf-8")
        pq.write_table(rows, source)
        self._server.stdin.write(f"{policy}\t{source}\t{QUERY}\t{batch}\t{step}\n")
        code = int(self._server.stdout.readline())
        assert code in (0, -signal.SIGKILL), f"a run ended with {code}"
        return code != 0


def taken(home: Path, *batches: pa.Table, **changes: Any) -> Any:
    """The batches of a stream, taken in this process."""
    from privpipe.running.stream_batches import StreamBatches

    stream = StreamBatches(pp.Policy.from_dict(policy_of(home, **changes), home))
    for at, batch in enumerate(batches):
        stream.take(batch, QUERY, at)
    return stream
