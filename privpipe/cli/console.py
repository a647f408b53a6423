"""Output and exit codes: results on stdout, everything else on stderr, and no data value in any message."""

from __future__ import annotations

import functools
import io
import json
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

import typer

from privpipe.border import Cause, ours_of
from privpipe.errors import EngineError, InternalError, PrivpipeError, SinkError, escaped
from privpipe.progress import Within

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table
    from rich.text import Text

__all__ = [
    "CRASH",
    "SETTINGS",
    "LastChannel",
    "Settings",
    "as_json",
    "ended_by_signal",
    "give_up",
    "guarded",
    "handle_signals",
    "ignore_signals",
    "interrupted",
    "outcome_stands",
    "plain_cell",
    "prepare_streams",
    "print_json",
    "print_table",
    "progress",
    "put",
    "say",
    "settle",
    "warn_all",
    "write_text",
]


LINES_EVERY = 5.0
"""Seconds between two lines within a step, at least."""
WIDEST = 1000
"""Characters of a table that no terminal limits."""


@dataclass
class Settings:
    """What the user asked of every command."""

    verbose: bool = False
    debug: bool = False


SETTINGS = Settings()


def settle(*, verbose: bool, debug: bool) -> None:
    """Take the user's settings; quieten libraries, whose messages may quote data values."""
    SETTINGS.verbose, SETTINGS.debug = verbose, debug
    warnings.simplefilter("ignore")
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())  # else Python prints what libraries warn of
    log = logging.getLogger("privpipe")
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Escaping("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING)


class _Escaping(logging.Formatter):
    """Lines of a log in which no name can begin another line or move the cursor."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record), keep="\n" if record.exc_info else "")


def say(text: str) -> None:
    """A line for a person, on stderr."""
    print(escaped(text, keep="\n"), file=sys.stderr, flush=True)


def put(text: object, end: str = "\n") -> None:
    """Lines for a person, on stdout."""
    print(escaped(str(text), keep="\n"), end=end)


def plain_cell(text: str) -> Text:
    """A cell of a table: no markup, since names may hold brackets, and nothing that moves the cursor."""
    from rich.text import Text

    return Text(escaped(text))


def warn_all(messages: Iterable[str]) -> None:
    """Warnings of a policy, a line each."""
    for message in messages:
        say(f"warning: {message}")


def print_json(document: Any) -> None:
    """A document for machines, on stdout."""
    print(as_json(document), end="")


def as_json(document: Any) -> str:
    """Indented JSON with sorted keys and a line end; what is not printable is escaped, which says the same."""
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    odd = {sign for sign in set(text) if not sign.isprintable() and sign != "\n"}
    return text.translate({ord(sign): json.dumps(sign)[1:-1] for sign in odd})


def write_text(path: Path, text: str) -> None:
    """Write a file the user asked for.

    Raises
    ------
    SinkError
        It cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SinkError(f"cannot write {str(path)!r}: {error.strerror}") from None


def print_table(table: Table) -> None:
    """A table on stdout, as wide as the terminal, or as it needs to be where there is none."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=WIDEST, soft_wrap=True)
    console.print(table)


@contextmanager
def progress(steps: int | None = None, *, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """A function that is called with each step, and with how far it is: a bar on a terminal, log lines elsewhere.

    Parameters
    ----------
    steps : int, optional
        How many there will be.
    lines : bool
        Print one line per step on stderr instead, and within a step one every few seconds.
    """
    if lines:
        yield _Lines()
        return
    if not sys.stderr.isatty():
        yield _logged
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=steps)

        def tell(step: str) -> None:
            bar.update(task, description=escaped(step), advance=0 if steps is None or isinstance(step, Within) else 1)

        yield tell


def _logged(step: str) -> None:
    logging.getLogger("privpipe.cli").log(logging.DEBUG if isinstance(step, Within) else logging.INFO, "%s", step)


class _Lines:
    """Lines for a log: every step, and within one no more than a log can take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0

    def __call__(self, step: str) -> None:
        now = self._clock()
        if isinstance(step, Within) and now < self._next:
            return
        self._next = now + LINES_EVERY
        say(f"progress: {step}")


STANDARD = 3
"""Descriptors of stdin, stdout and stderr: those below this number."""


class LastChannel(io.TextIOWrapper):
    """Stderr whose own failures stop nothing: there is no other channel to report them on."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            give_up(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            give_up(self)


def prepare_streams() -> None:
    """Make stderr the last channel, and open what was closed on the null device.

    A descriptor that is free would be given to the next file that is opened, of the release perhaps, and what a library
    prints would go into it.
    """
    while (null := os.open(os.devnull, os.O_RDWR)) < STANDARD:
        os.set_inheritable(null, True)
    os.close(null)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 open as long as the process
    own = sys.stderr
    if own is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    elif sys.__stderr__ is not None and own is sys.__stderr__:  # a host's own stream is left to the host
        raw = io.BufferedWriter(io.FileIO(own.fileno(), "w", closefd=False))
        sys.stderr = LastChannel(raw, encoding=own.encoding, errors=own.errors, line_buffering=True)


def give_up(stream: TextIO) -> None:
    """Send what a stream holds and will be given to the null device: else the interpreter fails on it at its end."""
    with suppress(io.UnsupportedOperation):  # a stream in memory has no descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)


@contextmanager
def outcome_stands(outcome: str, record: str = "") -> Iterator[None]:
    """Show how a run ended; whatever stops that is noted on stderr, and the exit code is the one of the outcome.

    Parameters
    ----------
    outcome : str
        What is the case, as in ``the release is published``.
    record : str, optional
        The folder of the run's private record, in which it is noted too.
    """
    try:
        yield
        sys.stdout.flush()  # here, and not in the ending of the command, which cannot know the outcome
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 nothing undoes what has happened
        if isinstance(error, OSError | KeyboardInterrupt):
            give_up(sys.stdout)
        known = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
        said = f"not all of its messages could be written ({known})"
        say(f"warning: {outcome}; {said}")
        if record:
            from privpipe.sinks.records import note_afterwards

            with suppress(OSError):  # the record may be where nothing can be written either
                note_afterwards(record, said)


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
            say("`privpipe --debug ...` prints the traceback.")
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
