"""Standard streams that are full, closed or no longer read: they change no exit code of a run that has an outcome."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from privpipe.cli.console import say

__all__ = ["LastChannel", "give_up", "outcome_stands", "prepare_streams"]

STANDARD = 3
"""Descriptors of stdin, stdout and stderr: those below this number."""


class LastChannel(io.TextIOWrapper):
    """Stderr whose own failures stop nothing: there is no further channel to report them on."""

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
        said = f"not all that is said about it could be written ({known})"
        say(f"warning: {outcome}; {said}")
        if record:
            from privpipe.sinks.records import note_afterwards

            with suppress(OSError):  # the record may lie where nothing can be written either
                note_afterwards(record, said)
