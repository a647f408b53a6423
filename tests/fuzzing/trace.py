"""Which branches of some rooms a call takes, and an end to calls that do not end."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import privpipe

__all__ = ["Branch", "Endless", "Trace"]

PACKAGE = str(Path(privpipe.__file__).parent)
MOST_STEPS = 4_000_000
LONGEST = 30
Branch = tuple[str, int, int]
"""File, the line before and the line after."""


class Endless(BaseException):
    """A call took too many steps; not an Exception, so that no reader turns it into an error of its own."""


class Trace:
    """A context: branches taken in `rooms`, and steps (lines there, calls anywhere) up to `MOST_STEPS`.

    Parameters
    ----------
    rooms : tuple of str
        Paths below the package: ``policy/``, ``running/plan.py``.
    """

    def __init__(self, rooms: tuple[str, ...]) -> None:
        self.branches: set[Branch] = set()
        self.steps = 0
        self.most = MOST_STEPS
        self._rooms = tuple(f"{PACKAGE}/{room}" for room in rooms)
        self._inside: dict[CodeType, bool] = {}

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        self._alarm = signal.signal(signal.SIGVTALRM, self._late)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)  # what hangs below Python makes no steps
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *details: object) -> None:
        sys.settrace(self._before)
        threading.settrace(self._before)  # type: ignore[arg-type]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._alarm)

    def _late(self, *_: Any) -> None:
        raise Endless(f"not done after {LONGEST} CPU seconds")

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self.most:
            self.most += 10_000  # what tidies up on the way out may still do so
            raise Endless(f"more than {self.most:,} steps")

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._step()
        code = frame.f_code
        inside = self._inside.get(code)
        if inside is None:
            inside = self._inside[code] = code.co_filename.startswith(self._rooms)
        if not inside:
            return None
        file, before = code.co_filename, 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "line":
                self._step()
                self.branches.add((file, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line
