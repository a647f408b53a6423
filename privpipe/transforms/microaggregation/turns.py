"""A lock by which threads take turns at many short array calls.

Each of these calls hands on the interpreter's lock. Where several threads make them at once they spend more time on
waiting for one another than on the calls, and four threads are slower than two. Kernels that run without the lock
run out of turn, side by side.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["in_turn", "out_of_turn"]

_turn = threading.Lock()


def _anew() -> None:
    global _turn
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anew)  # the thread that held it is not in the child


@contextmanager
def in_turn() -> Iterator[None]:
    """Wait for the other threads that are in turn.

    Examples
    --------
    >>> with in_turn():
    ...     with out_of_turn():
    ...         pass  # another thread may be in turn
    """
    with _turn:
        yield


@contextmanager
def out_of_turn() -> Iterator[None]:
    """Let other threads have their turn meanwhile; only inside `in_turn`."""
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()
