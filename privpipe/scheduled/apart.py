"""A job in a process of its own: started without a shell, told to stop when whoever started it stops."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

from privpipe.border import bordered
from privpipe.errors import EngineError, UsageError
from privpipe.scheduled.ending import Ending
from privpipe.scheduled.job import Job

__all__ = ["PATIENCE", "run_apart"]

PATIENCE = 60.0
"""Seconds that a process has to withdraw and clean up when it is told to stop."""


@bordered
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
    """
    command = [python or sys.executable, "-P", "-m", "privpipe.scheduled"]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, close_fds=True
        )
    except OSError as error:
        if error.errno is not None and python is not None:
            raise UsageError(f"python: {python!r} cannot be run: {error.strerror}") from None
        raise EngineError(f"no process could be started: {error.strerror}") from None
    try:
        if started is not None:
            started(process)
        found = _talk(process, job, tell or _nothing)
        code = process.wait()
    finally:
        stop(process)
    if found is not None and found.code == code:
        return found
    # An end that the process did not tell, or told otherwise than it came, is none that anything may follow from.
    return Ending.of_code(code) if code else Ending.of_code(1, "the process of the release told nothing of its end")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process as Ctrl-C would, by force where that does not help."""
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
    """Hand the job over and listen to the end; stdin stays open, for its end tells the process to stop."""
    with contextlib.suppress(OSError):  # it ended at once; its exit code says more
        _stdin(process).write(job.to_json().encode() + b"\n")
        _stdin(process).flush()
    found = None
    for line in process.stdout or ():
        said = _read(line)
        if "line" in said:
            tell(str(said["line"]))
        if "ending" in said:
            found = Ending.from_dict(said["ending"])
    return found


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
    """Nobody listens."""
