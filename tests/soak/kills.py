"""Releases that are ended at a random instant: what readers see is a judged release, and nothing of the source is left.

Each run is a child forked from a warm process that has opened nothing, so that most instants fall into the work and not
into imports.
"""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources import STRONG, base, write_people
from trials import Table, fresh_place, violations_of_sink

import privpipe.cli
import privpipe.judging
import privpipe.running.verbs

__all__ = ["soak_kills"]

KINDS = ("parquet", "csv", "ledger", "withdrawal")
SIGNALS = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGHUP: (129, -1)}
LONGEST = 60.0


def soak_kills(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many runs of each kind in turn, each ended by SIGKILL, SIGTERM or SIGHUP."""
    draw = random.Random(seed)
    os.environ["SOAK_KEY"] = os.environ["SOAK_SEED_OF_POLICIES"] = STRONG
    with fresh_place() as place:
        sinks = {kind: Run(kind, place) for kind in KINDS}
        for run in sinks.values():
            run.length = run.whole()
        for trial in range(trials):
            run = sinks[KINDS[trial % len(KINDS)]]
            sent = draw.choice(list(SIGNALS))
            found = run.ended(sent, draw.uniform(0, 1.1 * run.length))
            if trial % 20 >= 16:  # the next run finds what was left
                code = run.child(None)
                found += [f"the next run ended with {code}"] if code not in run.codes else run.seen()
            table.add(f"{signal.Signals(sent).name} during a run: {run.kind}", found, f"{seed}/{trial}")


@dataclass
class Run:
    """A policy that is released again and again to one sink."""

    kind: str
    place: Path
    length: float = 0.0

    def __post_init__(self) -> None:
        home = self.place / self.kind
        home.mkdir()
        self.sink = home / "out"
        write_people(home)
        document = base()
        document["source"]["path"] = str(home / "people.csv")
        document["sink"] = {"path": str(self.sink), "format": "csv" if self.kind == "csv" else "parquet"}
        document["transform"].insert(0, {"add_noise": {"columns": ["income"], "variance_ratio": 0.1}})
        if self.kind == "ledger":
            entry = {"ledger": str(home / "ledger"), "key": {"from_env": "SOAK_KEY"}, "k": 1}
            document["guarantees"].append({"complementary_release": entry})
        self.policy = home / "policy.json"
        self.policy.write_text(json.dumps(document), encoding="utf-8")

    @property
    def codes(self) -> tuple[int, ...]:
        """How a run that no one ends may end."""
        return (4,) if self.kind == "withdrawal" else (0,)

    def whole(self) -> float:
        """Seconds of a run that no one ends."""
        started = time.monotonic()
        code = self.child(None)
        if code not in self.codes:
            raise SystemExit(f"{self.kind}: a run that no one ended ended with {code}")
        return time.monotonic() - started

    def ended(self, sent: signal.Signals, after: float) -> list[str]:
        """End a run and say what is wrong then."""
        code = self.child(lambda child: (time.sleep(after), os.kill(child, sent)))
        found = self.seen()
        if code not in (*SIGNALS[sent], *self.codes):
            found.append(f"it ended with {code}")
        return found

    def child(self, end: Callable[[int], object] | None) -> int:
        """Run `privpipe release` in a child; how it ended, a signal as a negative number."""
        pid = os.fork()
        if pid == 0:
            self._become()
        if end is not None:
            end(pid)
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return 1

    def _become(self) -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        if self.kind == "withdrawal":
            from privpipe.running import run

            judge, calls = run.judge_written, []

            def twice(*arguments: Any, **named: Any) -> Any:
                calls.append(1)
                judged = judge(*arguments, **named)
                return judged if len(calls) == 1 else judged.within(altered=True)

            run.judge_written = twice
        sys.argv = ["privpipe", "release", str(self.policy)]
        try:
            privpipe.cli.main()
        except SystemExit as ending:
            os._exit(ending.code if isinstance(ending.code, int) else 1)
        os._exit(0)

    def seen(self) -> list[str]:
        """What readers of the sink, or of the folder for temporary files, see that they must not."""
        found = violations_of_sink(self.place, self.sink, self.sink.exists())
        found = [each for each in found if not each.startswith("left over")]
        for path in (self.place / "tmp").iterdir():
            if stat.S_IMODE(path.lstat().st_mode) & 0o077:
                found.append(f"others can read {path.name!r} in the folder for temporary files")
        state = self.sink.parent / f".{self.sink.name}.privpipe"
        for name in ("staging", "records"):
            if (state / name).is_dir() and stat.S_IMODE((state / name).stat().st_mode) & 0o077:
                found.append(f"others can read the work area's {name}")
        return found
