"""The search: inputs that take a new branch are kept, and others are made of them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import re
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from privpipe.errors import PrivpipeError
from tests.fuzzing.readers import CANARIES, Reader, Wrong
from tests.fuzzing.trace import Branch, Endless, Trace

__all__ = ["CORPORA", "Found", "Search", "kept_inputs", "place_of_trials", "tried"]

CORPORA = Path(__file__).resolve().parent.parent / "corpora"
LARGEST = 2048
MOST_KEPT = 40


@dataclass(frozen=True)
class Found:
    """What came of one input.

    Parameters
    ----------
    outcome : str
        ``accepted``, or the name of the error.
    violation : str
        What should not have been; empty: nothing.
    branches : frozenset
    """

    outcome: str
    violation: str
    branches: frozenset[Branch] = field(repr=False)


@contextlib.contextmanager
def place_of_trials() -> Iterator[Path]:
    """A folder to work in."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def tried(reader: Reader, data: bytes, place: Path) -> Found:
    """Read one input; whatever comes of it, but an error that it may end in, is a violation."""
    outcome, violation, said = "accepted", "", ""
    reader.ready()
    trace = Trace(reader.rooms)
    try:
        with warnings.catch_warnings(record=True), contextlib.redirect_stdout(io.StringIO()), trace:
            warnings.simplefilter("always")
            reader.read(data, place)
    except Wrong as error:
        outcome, violation = "Wrong", f"wrongly accepted: {error}"
    except PrivpipeError as error:
        outcome, said = type(error).__name__, str(error)
        if not isinstance(error, reader.errors):
            violation = f"{outcome}, which is not among what it may end in: {_where(error)}"
    except Endless as error:
        outcome, violation = "Endless", f"{error}: {_where(error)}"
    except Exception as error:  # noqa: BLE001 - any other is what is looked for
        outcome, violation = type(error).__name__, f"{type(error).__name__}: {_where(error)}"
    if any(canary in said for canary in CANARIES if canary not in reader.names(data)):
        violation = f"{outcome} says a value of the data: {re.sub('[0-9]+', '0', said)[:60]!r}"
    return Found(outcome, violation, frozenset(trace.branches))


def _where(error: BaseException) -> str:
    """The last line of the package that it went through."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/privpipe/" in each.filename]
    return f"{frames[-1].filename.rpartition('/privpipe/')[2]}:{frames[-1].lineno}" if frames else "outside"


def kept_inputs(reader: Reader) -> list[bytes]:
    """Those of `tests/corpora`."""
    return [path.read_bytes() for path in sorted((CORPORA / reader.name).glob("*"))]


class Search:
    """A queue of inputs that each took a branch which none before had taken."""

    def __init__(self, reader: Reader, place: Path, seed: int) -> None:
        self.reader, self.place, self.draw = reader, place, random.Random(f"{seed}/{reader.name}")
        self.queue: list[bytes] = []
        self.branches_of: list[frozenset[Branch]] = []
        self.known: set[Branch] = set()
        self.violations: dict[str, bytes] = {}
        self.executions = 0
        for data in (*reader.first, *kept_inputs(reader)):
            self.one(data)

    def one(self, data: bytes) -> Found:
        found = tried(self.reader, data, self.place)
        self.executions += 1
        if found.violation:
            self.violations.setdefault(found.violation, data)
        if found.branches - self.known or not self.queue:
            self.known |= found.branches
            self.queue.append(data)
            self.branches_of.append(found.branches)
        return found

    def run(self, executions: int, until: float = float("inf")) -> None:
        """So many more inputs, or until this process has had so many CPU seconds; late finds come more often."""
        for _ in range(executions):
            if time.process_time() > until:
                return
            at = max(self.draw.randrange(len(self.queue)), self.draw.randrange(len(self.queue)))
            self.one(self.reader.mutate(self.queue[at], self.queue, self.draw))

    def smallest(self) -> list[bytes]:
        """Few small inputs that together take most of the branches: the one with most new ones first."""
        left, chosen = set(self.known), []
        able = [(data, taken) for data, taken in zip(self.queue, self.branches_of, strict=True) if len(data) <= LARGEST]
        while left and len(chosen) < MOST_KEPT:
            data, taken = max(able, key=lambda each: (len(each[1] & left), -len(each[0])))
            if not taken & left:
                break
            chosen.append(self._cut(data, taken & left))
            left -= taken
        return chosen

    def _cut(self, data: bytes, needed: set[Branch]) -> bytes:
        """What can be left out of an input that still takes these branches."""
        at = 0
        while (less := self.reader.smaller(data, at)) is not None:
            if needed <= tried(self.reader, less, self.place).branches:
                data = less
            else:
                at += 1
        return data

    def keep(self) -> int:
        """Write them instead of what is kept now; how many there are."""
        folder = CORPORA / self.reader.name
        inputs = self.smallest()
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*"):
            path.unlink()
        for data in inputs:
            (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
        return len(inputs)
