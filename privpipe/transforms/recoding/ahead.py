"""Checks of vectors that a search will likely ask for next, made beside the current one on other cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from privpipe.transforms.recoding.node import CheckedNode, NodeCheck

__all__ = ["Ahead", "checking_ahead"]

Levels = tuple[int, ...]
SMALLEST = 200_000
"""Codes looked up by a check; with fewer, handing it over takes as long as doing it."""
EACH = 2
"""Checks under way a worker: more of them are more often in vain."""


class Ahead:
    """Checks that are under way.

    What a check says does not depend on the others, so that a search finds the same with and without them; what was
    asked for in vain is thrown away and is counted nowhere.

    Parameters
    ----------
    check : NodeCheck
    workers : int
        Threads besides the one that searches; 0: nothing is checked ahead.
    """

    def __init__(self, check: NodeCheck, workers: int) -> None:
        self._check = check
        self._room = EACH * workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="privpipe-search") if workers else None
        self._asked: dict[Levels, Future[CheckedNode]] = {}

    @property
    def is_on(self) -> bool:
        """Whether anything is checked ahead."""
        return self._pool is not None

    def ask(self, likely: Iterable[Levels]) -> None:
        """Begin with some vectors, the likeliest first, as far as there is room."""
        if self._pool is None:
            return
        wanted = list(likely)
        for levels in wanted:
            if levels in self._asked:
                continue
            if len(self._asked) >= self._room and not self._dropped(wanted):
                return
            self._asked[levels] = self._pool.submit(self._check, levels)

    def take(self, levels: Levels, likely: Iterable[Levels] = ()) -> CheckedNode:
        """The check of a vector, made now unless it was asked for, and meanwhile those that are likely to come next."""
        under_way = self._asked.pop(levels, None)
        self.ask(likely)
        return self._check(levels) if under_way is None or under_way.cancel() else under_way.result()

    def close(self) -> None:
        """Let go of what is under way."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _dropped(self, wanted: Sequence[Levels]) -> bool:
        """Make room by a check that nobody wants any more, once it is done or if it has not begun."""
        for levels, under_way in self._asked.items():
            if levels not in wanted and (under_way.done() or under_way.cancel()):
                del self._asked[levels]
                return True
        return False


@contextmanager
def checking_ahead(check: NodeCheck) -> Iterator[Ahead]:
    """Checks ahead on the cores besides one, where the table is large enough for that to pay."""
    codes = len(check.table) * len(check.packed.codes)
    ahead = Ahead(check, min(3, (os.cpu_count() or 1) - 1) if codes >= SMALLEST else 0)
    try:
        yield ahead
    finally:
        ahead.close()
