"""How a command ends: an exit code for each kind of error, and no data value in any message."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import typer

from privpipe.cli.console import SETTINGS, say
from privpipe.cli.streams import give_up
from privpipe.errors import EngineError, PrivpipeError

__all__ = ["CRASH", "ended_by_signal", "guarded", "handle_signals", "ignore_signals", "interrupted"]

CRASH = 1
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
        except PrivpipeError as error:
            if _received and isinstance(error, EngineError):  # an engine that was interrupted may say that it failed
                _ended()
                raise typer.Exit(interrupted()) from None
            _tell(error)
            raise typer.Exit(error.exit_code) from None
        except MemoryError:
            say("error: memory ran out in this process; set `memory_limit` under `engines.embedded`, or give it more")
            raise typer.Exit(EngineError.exit_code) from None
        except OSError as error:
            if error.errno is None:
                _crashed(error)
                raise typer.Exit(CRASH) from None
            give_up(sys.stdout)  # it may be what is full
            _faulty(error)
            raise typer.Exit(EngineError.exit_code) from None
        except Exception as error:  # noqa: BLE001 the last stop: texts of foreign errors may quote data values
            if _received:  # a library that was interrupted may fail in a way of its own
                _ended()
                raise typer.Exit(interrupted()) from None
            _crashed(error)
            raise typer.Exit(CRASH) from None

    return run


def ended_by_signal(code: object) -> bool:
    """Whether an exit code is what the command line's own layer makes of a signal that met it outside of a command."""
    return bool(_received) and code in (CRASH, 128 + signal.SIGINT)


def _ended() -> None:
    how = f"ended by {signal.Signals(_received[0][0]).name}" if _received else "interrupted"
    say(f"{how}; nothing was published by this run, and what was published before is untouched")


def _faulty(error: OSError) -> None:
    """What the machine refused (a full disk, a lost permission); of the path only its last part, which names no one."""
    name = f" ({os.path.basename(os.fsdecode(error.filename))})" if isinstance(error.filename, str | bytes) else ""
    say(f"error: {os.strerror(error.errno or 0)}{name}; nothing was published by this run")
    if SETTINGS.debug:
        _way(error)


def _tell(error: PrivpipeError) -> None:
    say(f"error: {error}" if str(error) else f"error: {type(error).__name__}")
    if SETTINGS.debug:
        _way(error)


def _crashed(error: BaseException) -> None:
    """Type and place of an error that nobody foresaw; its message stays out of sight."""
    frames = list(_frames(error))
    ours = [frame for frame in frames if frame.startswith("privpipe.")]
    place = (ours or frames or ["an unknown place"])[-1]
    say(f"privpipe crashed: {type(error).__name__} at {place}. This is a bug; nothing was published by this run.")
    if SETTINGS.debug:
        _way(error)
    else:
        say("`privpipe --debug ...` prints the way there.")


def _way(error: BaseException) -> None:
    seen: BaseException | None = error
    while seen is not None:
        say(f"{type(seen).__name__}:")
        for frame in _frames(seen):
            say(f"  {frame}")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


def _frames(error: BaseException) -> Iterator[str]:
    """Module, line and function of each frame, outermost first."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield f"{frame.f_globals.get('__name__', '?')}:{line} in {frame.f_code.co_name}"
