"""On which side of a cut each row lies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.mondrian.cuts import goes_first

__all__ = ["side_numbers"]

Ints = NDArray[np.int64]


def side_numbers(
    codes: NDArray[Any], keys: Ints, segments: NDArray[np.int64], cuts: NDArray[np.int64]
) -> tuple[Ints, Ints]:
    """The rows of all segments, one segment after the other, and the side each lies on, numbered as in `side_sizes`.

    Examples
    --------
    >>> codes, none = np.array([[0], [1], [2]], dtype=np.int32), np.empty(0, np.int64)
    >>> [part.tolist() for part in side_numbers(codes, none, np.array([[1, 3]]), np.array([[0, 1, 0]]))]
    [[1, 2], [0, 1]]
    """
    found: tuple[Ints, Ints] = _side_numbers(codes, keys, segments, cuts)
    return found


@njit(nogil=True, cache=True)
def _side_numbers(codes, keys, segments, cuts):  # type: ignore[no-untyped-def]
    relaxed = len(keys) > 0
    many = np.int64(0)
    for s in range(len(segments)):
        many += segments[s, 1] - segments[s, 0]
    rows, sides = np.empty(many, np.int64), np.empty(many, np.int64)
    at = 0
    for s in range(len(segments)):
        column, cut, tie = cuts[s]
        for i in range(segments[s, 0], segments[s, 1]):
            first = goes_first(codes[i, column], cut, relaxed, keys, i, tie)
            rows[at], sides[at] = i, 2 * s + (0 if first else 1)
            at += 1
    return rows, sides
