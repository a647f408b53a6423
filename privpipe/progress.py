"""Progress within a step of a run: the code at work reports how far it is, and a watcher is called now and then.

A watch belongs to the thread that runs; in the workers of an engine, and where no one watches, reporting costs next to
nothing and does nothing. What is reported are words of ours and amounts of work done, never a value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Within", "advanced", "watched", "within"]

EVERY = 0.1
"""Seconds between two messages within a step, at least."""


class Within(str):
    """How far a step is, as in ``stage 2 of 2: generalize: 1,200 of 8,748 nodes``; a step itself is a plain text."""


class _Watch:
    def __init__(self, tell: Callable[[str], None], every: float, clock: Callable[[], float]) -> None:
        self._tell = tell
        self._every = every
        self._clock = clock
        self._step = ""
        self._counted: dict[str, int] = {}
        self._next = 0.0

    def step(self, name: str) -> None:
        self._step, self._counted = name, {}
        self._next = self._clock() + self._every
        self._tell(name)

    def within(self, what: str, done: int, of: int | None) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._every
        total = "" if of is None else f" of {of:,}"
        self._tell(Within(f"{self._step}: {done:,}{total} {what}"))

    def advanced(self, what: str, by: int) -> None:
        self._counted[what] = self._counted.get(what, 0) + by
        self.within(what, self._counted[what], None)


_watch: ContextVar[_Watch | None] = ContextVar("privpipe_watch", default=None)


@contextmanager
def watched(
    tell: Callable[[str], None] | None, *, every: float = EVERY, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Give what is to be called with the name of each step; within a step `tell` is called with a `Within`.

    Parameters
    ----------
    tell : callable, optional
        What it raises ends the work that reported. None: nothing is reported.
    every : float
        Seconds from a message to the next one within a step, at least.
    clock : callable

    Examples
    --------
    >>> told = []
    >>> with watched(told.append, every=0) as step:
    ...     step("search")
    ...     within("nodes", 3, 8)
    >>> told
    ['search', 'search: 3 of 8 nodes']
    """
    watch = None if tell is None else _Watch(tell, every, clock)
    token = _watch.set(watch)
    try:
        yield _unwatched if watch is None else watch.step
    finally:
        _watch.reset(token)


def within(what: str, done: int, of: int | None = None) -> None:
    """Report how many are done in the step, of how many where that is known."""
    watch = _watch.get()
    if watch is not None:
        watch.within(what, done, of)


def advanced(what: str, by: int = 1) -> None:
    """Report that more are done; the watch adds up."""
    watch = _watch.get()
    if watch is not None:
        watch.advanced(what, by)


def _unwatched(step: str) -> None:
    """Receives the name of a step where no one watches."""
