"""Keys that Spark's partitioning by hash sends to one partition each."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["spread_keys"]

U = np.uint32


@cache
def spread_keys(partitions: int) -> tuple[int, ...]:
    """One integer for each of so many partitions, in their order.

    A hash of 0, 1, 2, ... leaves some partitions empty and puts several keys into others. Nothing but the balance
    rests on it.

    Examples
    --------
    >>> spread_keys(3)
    (3, 0, 1)
    """
    found = np.full(partitions, -1, np.int64)
    start = 0
    while (found < 0).any():
        keys = np.arange(start, start + 32 * partitions)
        places = _hashed(keys).astype(np.int64) % partitions
        at, first = np.unique(places, return_index=True)
        fresh = found[at] < 0
        found[at[fresh]] = keys[first[fresh]]
        start += len(keys)
    return tuple(found.tolist())


def _hashed(keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """Murmur3 of 64-bit integers in 0 .. 2^32 - 1 with the seed of Spark's hash partitioning."""
    with np.errstate(over="ignore"):
        hashed = _mixed(np.full(len(keys), 42, U), _scrambled(keys.astype(U)))
        hashed = _mixed(hashed, np.zeros(len(keys), U)) ^ U(8)
        hashed = (hashed ^ (hashed >> U(16))) * U(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> U(13))) * U(0xC2B2AE35)
        return (hashed ^ (hashed >> U(16))).view(np.int32)


def _scrambled(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    words = words * U(0xCC9E2D51)
    return ((words << U(15)) | (words >> U(17))) * U(0x1B873593)


def _mixed(hashed: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashed = hashed ^ words
    return ((hashed << U(13)) | (hashed >> U(19))) * U(5) + U(0xE6546B64)
