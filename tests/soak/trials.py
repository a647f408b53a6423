"""One trial: a command run on a mutant in a folder of its own, and what must hold whatever becomes of it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from privpipe.cli import app
from privpipe.running.published_release import _mismatch

__all__ = ["CANARIES", "Outcome", "Table", "command", "fresh_place", "violations_of_sink"]

CANARIES = ("Zanzibarella", "Quokkaville", "xylophobia")
"""Values of the source that no release, message or record may hold."""
CODES = (0, 2, 3, 4, 5, 6, 7)
LONGEST = 60


class Late(BaseException):
    """A trial took too long; not an Exception, so that nothing turns it into a verdict."""


@dataclass
class Table:
    """What is printed in the end: test, trials, violations."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    slow: int = 0
    codes: Counter[int] = field(default_factory=Counter)

    def add(self, test: str, violations: list[str], trial: str) -> None:
        row = self.rows.setdefault(test, [0, 0])
        row[0] += 1
        row[1] += bool(violations)
        for violation in violations:
            self.found.append(f"{test} [{trial}]: {violation}")
            print(self.found[-1], file=sys.stderr, flush=True)

    def __str__(self) -> str:
        lines = [f"{'test':40} | {'trials':>7} | {'violations':>10}", f"{'-' * 41}|{'-' * 9}|{'-' * 11}"]
        lines += [f"{test:40} | {trials:>7,} | {bad:>10,}" for test, (trials, bad) in self.rows.items()]
        if self.codes:
            lines.append(f"(exit codes: {', '.join(f'{code}: {n:,}' for code, n in sorted(self.codes.items()))})")
        if self.slow:
            lines.append(f"({self.slow} trials were ended after {LONGEST} s)")
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str
    late: bool = False

    def violations(self) -> list[str]:
        """A crash, or a value of the data in what was said."""
        found = []
        if not self.late and self.code not in CODES:
            found.append(f"exit code {self.code}: {self.stderr.strip().splitlines()[:1]}")
        said = (
            self.stderr if self.code == 0 else self.stderr + self.stdout
        )  # a plan may hold labels, which are released
        if any(canary in said for canary in CANARIES):
            found.append("a value of the data was said")
        return found


@contextlib.contextmanager
def fresh_place() -> Iterator[Path]:
    """An empty folder to work in, with the folder for temporary files below it."""
    before, temp = Path.cwd(), os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        place = Path(name)
        (place / "tmp").mkdir()
        os.environ["TMPDIR"], tempfile.tempdir = str(place / "tmp"), None
        os.chdir(place)
        try:
            yield place
        finally:
            os.chdir(before)
            tempfile.tempdir = None
            os.environ.pop("TMPDIR") if temp is None else os.environ.update(TMPDIR=temp)


def command(*arguments: Any) -> Outcome:
    """Run `privpipe` in this process, for at most `LONGEST` seconds."""

    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        with warnings.catch_warnings():
            done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    except Late:
        return Outcome(0, "", "", late=True)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        logging.getLogger("privpipe").handlers[:] = []
    if isinstance(done.exception, Late):
        return Outcome(0, "", "", late=True)
    escaped = done.exception is not None and not isinstance(done.exception, SystemExit)
    return Outcome(1 if escaped else done.exit_code, done.stdout, done.stderr or repr(done.exception))


def violations_of_sink(place: Path, sink: Path, published: bool) -> list[str]:
    """What is wrong with what is there after a run.

    Parameters
    ----------
    published : bool
        Whether the run said that it published.
    """
    found = []
    if published != sink.exists():
        found.append("the exit code and the sink disagree on whether something was published")
    if sink.exists():
        try:
            documents = [
                json.loads((sink / "_privpipe" / f"{name}.json").read_text())
                for name in ("plan", "manifest", "verdict")
            ]
            wrong = _mismatch(sink, *documents)
        except (OSError, ValueError, KeyError) as error:
            wrong = f"no record next to the data ({type(error).__name__})"
        if wrong:
            found.append(f"rows are visible that were not judged: {wrong}")
    found += [f"left over: {path.relative_to(place)}" for path in leftovers(place, sink)]
    return found


def leftovers(place: Path, sink: Path) -> list[Path]:
    """Files outside private folders that a run left in addition to its release."""
    state = sink.parent / f".{sink.name}.privpipe"
    inside = [path for path in (state / "staging").rglob("*") if path.is_file()] if state.is_dir() else []
    # The private folder of a process goes with it, and here one process runs every trial.
    private = [folder for folder in (place / "tmp").glob("privpipe-*") if folder.stat().st_mode & 0o077 == 0]
    found = [path for path in (place / "tmp").rglob("*") if path.is_file()]
    return [*inside, *(path for path in found if not set(private) & set(path.parents))]


Check = Callable[[], list[str]]
