"""Runs of equal words in ascending order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit

__all__ = ["runs"]

Ints = NDArray[np.int64]


def runs(words: NDArray[Any]) -> tuple[Ints, Ints]:
    """Where equal words begin, and how many there are of each.

    Parameters
    ----------
    words : ndarray of int64 or float64, shape (n,)
        Ascending, without NaN; -0.0 equals 0.0.

    Returns
    -------
    starts, sizes : ndarray of int64, shape (runs,)

    Examples
    --------
    >>> [found.tolist() for found in runs(np.array([3, 3, 5, 7, 7, 7]))]
    [[0, 2, 3], [2, 1, 3]]
    """
    starts, sizes = _runs(words)
    return starts, sizes


def _runs_plain(words: NDArray[Any]) -> tuple[Ints, Ints]:
    if not len(words):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    fresh = np.flatnonzero(words[1:] != words[:-1]) + 1
    starts = np.concatenate([np.zeros(1, np.int64), fresh])
    return starts, np.diff(np.append(starts, len(words)))


@njit(small=8 * SMALL, plain=_runs_plain, nogil=True, cache=True)
def _runs(words: NDArray[Any]) -> tuple[Ints, Ints]:
    found = min(len(words), 1)
    for i in range(1, len(words)):
        found += words[i] != words[i - 1]
    starts, sizes = np.empty(found, np.int64), np.empty(found, np.int64)
    at, first = 0, 0
    for i in range(1, len(words)):
        if words[i] != words[i - 1]:
            starts[at], sizes[at] = first, i - first
            at, first = at + 1, i
    if found:
        starts[at], sizes[at] = first, len(words) - first
    return starts, sizes
