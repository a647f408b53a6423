"""Loads compiled code while an engine counts, so that the two overlap in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

__all__ = ["beside_loading"]

R = TypeVar("R")
INITIALISED = "numba.np.arraymath"
"""What the first call of any compiled function imports, which takes most of the time."""


def beside_loading(work: Callable[[], R]) -> R:
    """Do work that leaves the interpreter free, loading compiled code meanwhile unless it is there.

    Examples
    --------
    >>> beside_loading(lambda: 7)
    7
    """
    if INITIALISED in sys.modules:
        return work()
    with ThreadPoolExecutor(1, thread_name_prefix="privpipe") as pool:
        loaded = pool.submit(_load)
        done = work()
    loaded.result()
    return done


def _load() -> None:
    import pyarrow as pa

    from privpipe.kernels.lattice.classes import compacted

    compacted(np.zeros(1, dtype=np.int64), 1)
    pa.array([0])  # the first conversion imports pandas where it is installed
