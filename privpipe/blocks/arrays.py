"""Names for the types of arrays, and values as numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Floats", "Ints", "Words", "numbered"]

Bools = NDArray[np.bool_]
Codes = NDArray[np.int32]
"""Values of a column as numbers from 0 on."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Hashes and keyed draws, 64 bits each."""


def numbered(values: Iterable[str | None]) -> tuple[list[str | None], Ints]:
    """The distinct values in the order in which they come, and the place there of each.

    Examples
    --------
    >>> values, places = numbered(["b", "a", "b"])
    >>> values, places.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    seen: dict[str | None, int] = {}
    places = np.array([seen.setdefault(value, len(seen)) for value in values], dtype=np.int64)
    return list(seen), places
