"""A job of a scheduler: as JSON for a separate process, that process, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, Self, get_args

from privpipe.border import bordered
from privpipe.errors import (
    DataError,
    EngineError,
    NoSolutionError,
    NotWithdrawn,
    PrivpipeError,
    Refused,
    SignOffMissing,
    UsageError,
)

__all__ = [
    "KILLED",
    "PATIENCE",
    "Action",
    "Ending",
    "Job",
    "Published",
    "Word",
    "end",
    "published_at",
    "run_apart",
    "stop",
]


Action = Literal["release", "judge"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A release, or a judgement of a finished table.

    Parameters
    ----------
    action : {"release", "judge"}
    policy : str
        The policy file.
    data : str, optional
        The finished table, of a judgement.
    target, plan, engine : str, optional
        As `privpipe.release` takes them.
    report : str, optional
        Where the report of the public edition is written, as HTML.
    batch : str, optional
        The key under which the release is published once; a repeated job ends well and changes nothing.
    keep_out : tuple of (str, str)
        What a folder is called, and its path: neither release nor record nor report may be in it.

    Raises
    ------
    UsageError
        A text is empty, no text or holds what no path can hold.

    Examples
    --------
    >>> Job.from_json(Job(policy="release.yaml").to_json()).policy
    'release.yaml'
    >>> Job(policy="")
    Traceback (most recent call last):
    privpipe.errors.UsageError: policy: give a path, not ''
    """

    action: Action = "release"
    policy: str
    data: str | None = None
    target: str | None = None
    plan: str | None = None
    engine: str | None = None
    report: str | None = None
    batch: str | None = None
    keep_out: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise UsageError(f"action must be one of {', '.join(get_args(Action))}, not {self.action!r}")
        for name in ("policy", "data", "target", "plan", "engine", "report", "batch"):
            given: Any = getattr(self, name)
            if given is None and (name != "policy"):
                continue
            if isinstance(given, os.PathLike):
                given = os.fspath(given)
                object.__setattr__(self, name, given)
            if not isinstance(given, str):
                raise UsageError(f"{name}: give a path or a name as text, not {type(given).__name__}")
            if not given.strip() or not given.isprintable():
                raise UsageError(f"{name}: give a path, not {given!r}")
        if self.action == "judge" and self.data is None:
            raise UsageError("data: name the finished table to judge")

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The job of such a line.

        Raises
        ------
        UsageError
            It is none.
        """
        try:
            given = json.loads(text)
            given["keep_out"] = tuple((str(what), str(path)) for what, path in given["keep_out"])
            return cls(**given)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"this is not a job of a scheduler: {type(error).__name__}") from None


Word = Literal[
    "published", "passed", "crash", "usage", "data", "engine", "refused", "no_solution", "unsigned", "not_withdrawn"
]
WORDS: Mapping[int, Word] = {
    1: "crash",
    UsageError.exit_code: "usage",
    DataError.exit_code: "data",
    EngineError.exit_code: "engine",
    Refused.exit_code: "refused",
    NoSolutionError.exit_code: "no_solution",
    SignOffMissing.exit_code: "unsigned",
    NotWithdrawn.exit_code: "not_withdrawn",
}
ERRORS: Mapping[str, type[PrivpipeError]] = {
    "usage": UsageError,
    "data": DataError,
    "engine": EngineError,
    "refused": Refused,
    "no_solution": NoSolutionError,
    "unsigned": SignOffMissing,
    "not_withdrawn": NotWithdrawn,
}
KILLED = 143
"""The exit code of a process that SIGTERM ended."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of a job.

    Parameters
    ----------
    code : int
        The exit code, as of the command line; above 128 or below 0 a signal ended the process.
    word : str
        What it means.
    message : str
        For a log: names and counts, never a value of the data.
    run_id, name, path, report : str
        The run, the policy's name, where the release and its report are read; empty where there is none.
    figures : mapping
        Of the public edition of the verdict alone.

    Examples
    --------
    >>> Ending.of_code(5).word, Ending.of_code(5).worth_another_try
    ('refused', False)
    >>> [Ending.of_code(code).worth_another_try for code in (1, 2, 3, 4, 6, 7, 8, -9, 137, 143)]
    [False, False, False, True, False, False, False, True, True, True]
    """

    code: int
    word: Word
    message: str = ""
    run_id: str = ""
    name: str = ""
    path: str = ""
    report: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_code(cls, code: int, message: str = "") -> Self:
        """What an exit code other than 0 means; a signal counts as a breakdown."""
        killed = code < 0 or code > 128
        word: Word = "engine" if killed else WORDS.get(code, "crash")
        said = f"the process of the release was ended by a signal (exit code {code})" if killed else f"exit code {code}"
        if code == NotWithdrawn.exit_code:
            end = "readers may see a release that could not be withdrawn: look at the sink before another run"
        else:
            end = "nothing was published by it"
        return cls(code=code or 1, word=word, message=message or f"{said}; {end}")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The ending that `to_dict` wrote."""
        return cls(**document)

    @property
    def good(self) -> bool:
        """Whether a release was published, or a table passed."""
        return self.code == 0 and self.word in ("published", "passed")

    @property
    def worth_another_try(self) -> bool:
        """Whether the same job may end otherwise: only where an engine or the machine broke down."""
        return self.word == "engine"

    @property
    def sentence(self) -> str:
        """The message behind its word, which it may begin with already.

        Examples
        --------
        >>> Ending.of_code(5, "refused: k_anonymity").sentence, Ending.of_code(3, "no column 'age'").sentence
        ('refused: k_anonymity', "data: no column 'age'")
        """
        start = f"{self.word}: "
        return self.message if self.message.startswith(start) else start + self.message

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, for where schedulers keep what tasks return."""
        return {**asdict(self), "figures": dict(self.figures)}

    def error(self) -> PrivpipeError:
        """The error that a bad ending represents; it carries no assessment."""
        return ERRORS.get(self.word, PrivpipeError)(self.message)


PATIENCE = 60.0
"""Seconds that a process has to withdraw and clean up when it is asked to stop."""
PAUSE = 0.5


def run_apart(
    job: Job,
    *,
    python: str | None = None,
    tell: Callable[[str], None] | None = None,
    started: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> Ending:
    """Do a job in a fresh process and say how it ended.

    Whatever ends this call early ends the process too: nothing is published behind the back of a task that failed.

    Parameters
    ----------
    job : Job
    python : str, optional
        The interpreter of another environment that has privpipe. Default: this one.
    tell : callable, optional
        Called with lines for a log: steps of the run and warnings of the policy.
    started : callable, optional
        Called with the process, for who must be able to end it from elsewhere.

    Raises
    ------
    UsageError
        There is no such interpreter.

    Notes
    -----
    What `tell` and handlers of signals raise, such as a scheduler's timeout, is raised unchanged: the rows are in the
    other process, whose errors come as an ending.
    """
    command = [python or sys.executable, "-P", "-m", "privpipe.scheduled"]
    try:
        process = subprocess.Popen(
            command,
            bufsize=0,  # a buffer has a lock, which a signal handler must not wait for
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            close_fds=True,
        )
    except OSError as error:
        if error.errno is not None and python is not None:
            raise UsageError(f"python: {python!r} cannot be run: {error.strerror}") from None
        raise EngineError(f"no process could be started: {error.strerror}") from None
    try:
        if started is not None:
            started(process)
        found = _talk(process, job, tell or _nothing)
        code = _awaited(process)
    finally:
        stop(process)
    if found is not None and found.code == code:
        return found
    # Nothing may follow from an end that the process did not report, or reported otherwise than it came.
    return Ending.of_code(code) if code else Ending.of_code(1, "the process of the release reported nothing of its end")


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, by force after `PATIENCE`, and wait for nothing: for the handler of a signal.

    The handler runs in the middle of whatever `run_apart` is at, perhaps a read or a wait, and takes no lock of these.
    `run_apart` then goes on to the end that the process reports.
    """
    _send(process, signal.SIGTERM)
    force = threading.Timer(PATIENCE, _send, (process, signal.SIGKILL))
    force.daemon = True
    force.start()


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _awaited(process: subprocess.Popen[bytes]) -> int:
    """The exit code, asked for without holding the lock that a handler's `poll` needs."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(PAUSE)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process as Ctrl-C would, by force where that does not help, and wait for it; never in a signal handler."""
    with contextlib.suppress(OSError):
        _stdin(process).close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _talk(process: subprocess.Popen[bytes], job: Job, tell: Callable[[str], None]) -> Ending | None:
    """Hand the job over and listen to the end; stdin stays open, for its end asks the process to stop."""
    with contextlib.suppress(OSError):  # it ended at once; its exit code says more
        left = job.to_json().encode() + b"\n"
        while left:
            left = left[os.write(_stdin(process).fileno(), left) :]
    found = None
    for line in _lines(process):
        said = _read(line)
        if "line" in said:
            tell(str(said["line"]))
        if "ending" in said:
            found = Ending.from_dict(said["ending"])
    return found


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    assert process.stdout is not None
    left = b""
    while more := os.read(process.stdout.fileno(), 1 << 16):
        *lines, left = (left + more).split(b"\n")
        yield from lines


def _read(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _nothing(line: str) -> None:
    """No one listens."""


RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A release that is published.

    Parameters
    ----------
    run_id : str
    started : datetime
        When its run began.
    folder : str
        Its own folder, behind the link that readers follow.
    verdict : mapping
        The public verdict.
    """

    run_id: str
    started: datetime
    folder: str
    verdict: Mapping[str, Any] = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether the public verdict says so."""
        return self.verdict.get("passed") is True


@bordered
def published_at(path: str) -> Published | None:
    """The release that a sink on this machine shows now; None: there is none that is whole.

    A folder is whole when both public documents name one run and every file is there in the size that the manifest
    says. Whether its rows hold what is stated is not checked here: `Job(action="judge")` does.

    Raises
    ------
    UsageError
        The path names another machine's file system.

    Examples
    --------
    >>> published_at("nowhere") is None
    True
    """
    if "://" in path:
        raise UsageError("only a release on a file system of this machine can be looked for; give its path")
    folder = Path(os.path.realpath(path))
    verdict, manifest = (_document(folder / "_privpipe" / f"{name}.json") for name in ("verdict", "manifest"))
    run_id = verdict.get("run_id")
    if not isinstance(run_id, str) or not RUN.fullmatch(run_id) or manifest.get("run_id") != run_id:
        return None
    output = manifest.get("output")
    files = output.get("files") if isinstance(output, dict) else None
    if not isinstance(files, list) or not files or not all(_is_there(folder, file) for file in files):
        return None
    try:
        started = datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:  # fourteen digits that are not a date and time
        return None
    return Published(run_id=run_id, started=started, folder=str(folder), verdict=verdict)


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_there(folder: Path, file: Any) -> bool:
    try:
        return bool((folder / os.path.basename(file["name"])).stat().st_size == file["bytes"])
    except (OSError, KeyError, TypeError):
        return False
