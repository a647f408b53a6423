"""Exit codes: one for each kind of error, and no data value in any message."""

from __future__ import annotations

import functools
import signal
import sys
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from privpipe.border import Cause, ours_of
from privpipe.cli.console import SETTINGS, give_up, say
from privpipe.errors import EngineError, InternalError, PrivpipeError

__all__ = ["CRASH", "ended_by_signal", "guarded", "handle_signals", "ignore_signals", "interrupted"]


CRASH = InternalError.exit_code
ENDING = (signal.SIGTERM, signal.SIGHUP)
PATIENCE = 10.0
"""Seconds for which further signals leave the cleaning up alone."""
_received: list[tuple[int, float]] = []
P = ParamSpec("P")
R = TypeVar("R")


def handle_signals() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does: withdrawn, cleaned up, reported; unless ignored."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def ignore_signals() -> None:
    """Let no signal end a process whose command has ended: it would end with another code than its outcome's."""
    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_IGN)


def _end(number: int, frame: object) -> None:
    last = _received[-1][1] if _received else None
    if last is not None and time.monotonic() - last < PATIENCE:
        return
    _received.append((number, time.monotonic()))
    raise KeyboardInterrupt


def interrupted() -> int:
    """The exit code of a command that a signal or Ctrl-C ended: 128 and the signal's number."""
    return 128 + (_received[0][0] if _received else signal.SIGINT)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """The command, with every error shown in a few lines and turned into its exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            try:
                return command(*args, **kwargs)
            finally:
                sys.stdout.flush()  # here, so that a reader who left is met below and not at the interpreter's end
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            _ended()
            raise typer.Exit(interrupted()) from None
        except BrokenPipeError:
            give_up(sys.stdout)  # its reader left
            raise typer.Exit(EngineError.exit_code) from None
        except Exception as error:  # noqa: BLE001 the border of the command line: texts may quote data values
            problem = ours_of(error)
            if _received and isinstance(problem, EngineError):  # what was interrupted may fail in a different way
                _ended()
                raise typer.Exit(interrupted()) from None
            if isinstance(error, OSError):
                give_up(sys.stdout)  # it may be what is full
            _tell(problem)
            raise typer.Exit(problem.exit_code) from None

    return run


def ended_by_signal(code: object) -> bool:
    """Whether an exit code is what the command line's own layer makes of a signal that met it outside of a command."""
    return bool(_received) and code in (CRASH, 128 + signal.SIGINT)


def _ended() -> None:
    how = f"ended by {signal.Signals(_received[0][0]).name}" if _received else "interrupted"
    say(f"{how}; nothing was published by this run, and what was published before is untouched")


def _tell(error: PrivpipeError) -> None:
    if isinstance(error, InternalError):
        say(f"{error}; nothing was published by this run.")
        if not SETTINGS.debug:
            say("`privpipe --debug ...` prints the way there.")
    else:
        say(f"error: {error}" if str(error) else f"error: {type(error).__name__}")
    if SETTINGS.debug:
        _way(error)


def _way(error: BaseException) -> None:
    """The exception and what it came of: the class and the way to each."""
    seen: BaseException | None = error
    while seen is not None:
        cause = seen if isinstance(seen, Cause) else Cause.of(seen)
        say(f"{cause.kind}:")
        for frame in cause.way:
            say(f"  {frame}")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
