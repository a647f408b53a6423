"""A job in a process of its own: started without a shell, told to stop when whoever started it stops."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

from privpipe.errors import EngineError, UsageError
from privpipe.scheduled.ending import Ending
from privpipe.scheduled.job import Job

__all__ = ["PATIENCE", "end", "run_apart", "stop"]

PATIENCE = 60.0
"""Seconds that a process has to withdraw and clean up when it is told to stop."""
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
    What `tell` and handlers of signals raise, such as a scheduler's timeout, leaves as it is: the rows are in the other
    process, whose errors come as an ending.
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
    # An end that the process did not tell, or told otherwise than it came, is none that anything may follow from.
    return Ending.of_code(code) if code else Ending.of_code(1, "the process of the release told nothing of its end")


def end(process: subprocess.Popen[bytes]) -> None:
    """Tell a process to end, by force after `PATIENCE`, and wait for nothing: for the handler of a signal.

    The handler runs in the middle of whatever `run_apart` is at, perhaps a read or a wait, and takes no lock of these.
    `run_apart` then goes on to the end that the process tells.
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
    """Hand the job over and listen to the end; stdin stays open, for its end tells the process to stop."""
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
    """Nobody listens."""
