"""What a run has come to: from the moment its release stands, what fails is noted and unpublishes nothing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from privpipe.errors import PrivpipeError
from privpipe.running.release_result import ReleaseResult
from privpipe.sinks.records import note_afterwards

__all__ = ["Outcome", "reason_of"]

log = logging.getLogger("privpipe.release")
CLOSING = "what the run had open was not closed in order; the next run to this sink removes what is left"


@dataclass
class Outcome:
    """A context around a run: once `stands` was called, errors that reach it are noted and go no further.

    An interruption (Ctrl-C, SIGTERM and SIGHUP at the command line) is noted likewise: who is told that a run was
    interrupted runs it again, and would publish twice.

    Examples
    --------
    >>> with Outcome() as outcome:
    ...     raise ValueError
    Traceback (most recent call last):
    ValueError
    """

    _result: ReleaseResult | None = field(default=None, init=False)
    _unfinished: list[str] = field(default_factory=list, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or self._result is None:
            return False
        if not isinstance(error, Exception | KeyboardInterrupt):  # the host ends, and returns nothing to anyone
            error.add_note(f"privpipe: the release is published (run {self._result.run_id})")
            return False
        self.note(CLOSING, error)
        return True

    def stands(self, result: ReleaseResult) -> None:
        """The release is published, and judged as it is read: there is no way back from here."""
        self._result = result

    @property
    def published(self) -> bool:
        """Whether there is no way back."""
        return self._result is not None

    @property
    def result(self) -> ReleaseResult:
        """The result, with what could not be done after the release was published."""
        if self._result is None:
            raise TypeError("the run has no result")
        return replace(self._result, unfinished=tuple(self._unfinished))

    def settled(self, step: Callable[[], object], otherwise: str) -> None:
        """Take a step after publication; where it fails, note what is the case otherwise and what to do."""
        try:
            step()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 whatever it is, the release is published
            self.note(otherwise, error)

    def note(self, otherwise: str, error: BaseException) -> None:
        """Note a failure in the result, in the log and in the private record, as far as each can be written."""
        what = f"{otherwise} ({reason_of(error)})"
        self._unfinished.append(what)
        with suppress(Exception):  # a handler of the host's may fail, and the other channels are left
            log.warning("the release is published; %s", what)
        record = "" if self._result is None else self._result.record
        with suppress(Exception):
            note_afterwards(record, what)


def reason_of(error: BaseException) -> str:
    """What may be shown of an error: texts of foreign ones may quote data values.

    Examples
    --------
    >>> reason_of(OSError(28, "4711")), reason_of(ValueError("4711")), reason_of(KeyboardInterrupt())
    ('No space left on device', 'ValueError', 'interrupted')
    """
    if isinstance(error, PrivpipeError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
