"""Garbage collection in a process that loads much, keeps it, and soon ends."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["none_at_the_end", "seldom"]

THRESHOLDS = (200_000, 5, 2)
"""Every object that is kept is looked at once in some four million that are made, not in 70,000; a server goes on."""


@contextmanager
def seldom() -> Iterator[None]:
    """Have cycles searched for seldom for as long as this lasts; the host's thresholds come back.

    Examples
    --------
    >>> before = gc.get_threshold()
    >>> with seldom():
    ...     gc.get_threshold()
    (200000, 5, 2)
    >>> gc.get_threshold() == before
    True
    """
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def none_at_the_end() -> None:
    """Have no cycles searched for while the process ends: among all that was loaded it takes a quarter of a second."""
    atexit.register(gc.freeze)
