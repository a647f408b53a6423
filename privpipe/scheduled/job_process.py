"""The process of a job: quiet except for lines of JSON, ended when the process that started it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from privpipe.border import ours_of
from privpipe.errors import ColumnsLost, EngineError, PrivpipeError, Refused, escaped
from privpipe.scheduled.job import KILLED, Ending, Job

__all__ = ["main"]


ENDING = (signal.SIGTERM, signal.SIGHUP)
PATIENCE = 10.0
"""Seconds for which further signals leave the cleaning up alone."""
CREDENTIALS = re.compile(r"://[^/@\s]*@")
_last: list[float] = []


def main() -> None:
    """Read the job from stdin, do it, report how it ended, and end with its exit code."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    _silence()
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    ending = Ending.of_code(KILLED)
    try:
        job = Job.from_json(_first_line())
        threading.Thread(target=_watch, daemon=True).start()
        ending = done(job, lambda line: _say(out, {"line": escaped(line)}))
    except KeyboardInterrupt:
        pass
    except PrivpipeError as error:
        ending = Ending.of_code(error.exit_code, _safe(str(error)))
    _say(out, {"ending": ending.to_dict()})
    sys.exit(ending.code)


def done(job: Job, tell: Callable[[str], None]) -> Ending:
    """The end of a job; every error but an interruption is an ending."""
    try:
        from privpipe.scheduled.work import judged, released

        return (released if job.action == "release" else judged)(job, tell)
    except ColumnsLost:
        # Its sentences reveal figures of the source.
        message = "refused: a column lost more than the policy allows. Nothing was published."
        return Ending.of_code(Refused.exit_code, message)
    except Exception as error:  # noqa: BLE001 the border of the process: texts of foreign errors may quote data values
        problem = ours_of(error)
        if _last and isinstance(problem, EngineError):
            return Ending.of_code(KILLED)
        return Ending.of_code(problem.exit_code, _safe(str(problem) or type(problem).__name__))


def _safe(message: str) -> str:
    return CREDENTIALS.sub("://", escaped(message, keep="\n"))


def _silence() -> None:
    """What libraries print may quote data; it goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _first_line() -> bytes:
    """The job. Unbuffered, so that nothing holds a lock of stdin while the interpreter ends."""
    found = b""
    while not found.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            raise KeyboardInterrupt
        found += more
    return found


def _watch() -> None:
    """End this process when stdin does: the process that started it has ended, however that came about."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _end(number: int, frame: object) -> None:
    if _last and time.monotonic() - _last[-1] < PATIENCE:
        return
    _last.append(time.monotonic())
    raise KeyboardInterrupt


def _say(out: IO[str], document: dict[str, Any]) -> None:
    try:
        out.write(json.dumps(document) + "\n")
        out.flush()
    except BrokenPipeError:
        pass  # no one listens any more, and `_watch` sees to the rest
