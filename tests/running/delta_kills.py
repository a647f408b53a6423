"""Releases into a Delta table that are killed at every step, next to a reader that never stops looking.

A process that has opened nothing forks a child for each run, so that most kills fall into the work and not into
imports; the reader is another process, with the format's own library.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.running.delta_releases import Releases, rows_of

__all__ = ["CALLS", "DeltaKills"]

CALLS = ("mkdir", "rename", "link", "fsync", "unlink", "replace", "chmod", "rmdir", "open")
SERVER = (
    f"CALLS = {CALLS}"
    + """
import os, signal, sys
import privpipe as pp
import privpipe.engines.embedded.engine, privpipe.judging, privpipe.running.verbs, pyarrow.parquet
from privpipe.sinks.delta import DeltaTarget

def killing(at):
    count = 0
    def wrap(call):
        def called(*arguments, **named):
            nonlocal count
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)
        return called
    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))

def arm(at):
    def progress(step):
        if step == "publish":
            killing(at)
    return progress

def altered(judge):
    calls = []
    def judged(*arguments, **named):
        calls.append(1)
        found = judge(*arguments, **named)
        return found if len(calls) == 1 else found.within(altered=True)
    return judged

for line in sys.stdin:
    policy, at, kind = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        try:
            if kind == "withdrawn":
                from privpipe.running import run
                run.judge_written = altered(run.judge_written)
            pp.release(policy, progress=arm(int(at)) if int(at) > 0 else None)
        except pp.errors.PrivpipeError as error:
            os._exit(error.exit_code)
        os._exit(0)
    print(child, flush=True)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, flush=True)
"""
)


@dataclass
class DeltaKills:
    """One table, and runs into it of which each may be killed.

    Every batch is four rows of one town, so that a part of a batch is seen; batches of an unsafe town are refused.
    """

    lake: Releases
    mode: str
    found: list[str] = field(default_factory=list)
    reads: int = 0
    batches: int = 0
    _withdrawing: bool = False
    _server: Any = None
    _over: Any = None

    @contextmanager
    def running(self) -> Iterator[DeltaKills]:
        """With the server of runs and the reader at work."""
        self.lake.home.mkdir(exist_ok=True)
        started = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with started as self._server:
            self._over = threading.Event()
            reader = threading.Thread(target=self._read)
            reader.start()
            try:
                yield self
            finally:
                self._over.set()
                reader.join(60)
                self._server.kill()

    def run(self, at: int = 0, *, safe: bool = True, after: float | None = None, kind: str = "plain") -> int:
        """One run of a new batch, killed at a call of the system or after some seconds; how it ended."""
        self.batches += 1
        town = f"town{self.batches}" if safe else f"unsafe{self.batches}"
        pq.write_table(rows_of(**{town: "fcfc" if safe else "f"}), self.lake.home / "source.parquet")
        policy = self.lake.home / "policy.json"
        policy.write_text(json.dumps(self.lake.document(self.mode)), encoding="utf-8")
        self._withdrawing = kind == "withdrawn"
        self._server.stdin.write(f"{policy}\t{at}\t{kind}\n")
        self._server.stdin.flush()
        child = int(self._server.stdout.readline())
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        code = int(self._server.stdout.readline())
        self._look(f"after a run that ended with {code}")
        self._look_at_files()
        return code

    def settled(self) -> None:
        """A run that no one kills finds and throws away what was left."""
        code = self.run()
        state, path = self.lake.state, self.lake.path
        if code:
            self.found.append(f"the next run ended with {code}")
        if self.lake.unreferenced():
            self.found.append("a VACUUM would find files that no version names")
        left = [*state.glob("pending-*"), *state.glob("commit-*"), *state.glob("withdrawn-*"), *state.glob("staging/*")]
        if left:
            self.found.append(f"left over: {[each.name for each in left]}")
        told = {path.name for path in (path / "_privpipe").iterdir()}
        rows = {each.name for each in path.iterdir() if each.name[0] != "_"}
        records = {each.parent.name for each in state.glob("records/*/manifest.json")}
        if not told == rows == records:
            self.found.append(f"{len(rows)} folders of rows, {len(told)} of documents, {len(records)} private records")

    def _look(self, when: str) -> None:
        if any((self.lake.path / "_delta_log").glob("*.json")):
            self._check(self.lake.seen(), when)

    def _check(self, seen: Counter[tuple[Any, ...]], when: str) -> None:
        towns = Counter(town for _, town in seen.elements())
        if any(rows != 4 for rows in towns.values()):
            self.found.append(f"{when}: a part of a batch is seen")
        if any(town.startswith("unsafe") for town in towns):
            self.found.append(f"{when}: a refused batch is seen")
        if self.mode == "replace" and len(towns) > 1:
            self.found.append(f"{when}: {len(towns)} releases are seen as one")

    def _look_at_files(self) -> None:
        """Nothing that was refused is below the table's folder."""
        for path in self.lake.path.rglob("*.parquet"):
            if any(town.startswith("unsafe") for town in pq.ParquetFile(path).read()["town"].to_pylist()):
                self.found.append("a refused batch is in the table's folder")

    def _read(self) -> None:
        last = 0
        while not self._over.is_set():
            time.sleep(0.002)
            try:
                table = self.lake.table()
                rows = table.to_pyarrow_table()
            except Exception as error:  # noqa: BLE001 there is no table before the first release and after its withdrawal
                # Files of a withdrawn release go at once, also from under whoever opened it in between.
                if last and not (self._withdrawing and isinstance(error, FileNotFoundError)):
                    self.found.append(f"a reader found no table: {type(error).__name__}")
                continue
            self.reads += 1
            if table.version() < last:
                self.found.append("the version went back")
            last = table.version()
            names = pa.table({"town": rows["town"]})
            towns = Counter(names["town"].to_pylist())
            self._check(Counter({("f", town): count for town, count in towns.items()}), "while a run was at work")
