"""Every way in which the sensitive values of a class may belong to its members."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

__all__ = ["Table", "class_tables", "drawn_tables", "ways"]

Ints = NDArray[np.int64]
Table = tuple[tuple[int, ...], ...]
"""Of a class: for each group of members who are alike before the release, how many have each value."""


def ways(groups: Sequence[int], values: Sequence[int]) -> int:
    """Assignments of a class's multiset of values to its members.

    Examples
    --------
    >>> ways([2, 1], [2, 1])
    3
    """
    return math.factorial(sum(groups)) // math.prod(map(math.factorial, values))


def class_tables(groups: Sequence[int], values: Sequence[int]) -> Iterator[tuple[Table, int]]:
    """All tables with these margins, each with the assignments that give it.

    Parameters
    ----------
    groups, values : sequence of int
        Members of each group, and members with each value; equal sums.

    Examples
    --------
    >>> list(class_tables([2, 1], [2, 1]))
    [(((1, 1), (1, 0)), 2), (((2, 0), (0, 1)), 1)]
    """
    if not groups:
        yield (), 1
        return
    size, later = groups[0], groups[1:]
    for row in _rows(size, values):
        left = tuple(value - taken for value, taken in zip(values, row, strict=True))
        own = math.factorial(size) // math.prod(map(math.factorial, row))
        for rest, count in class_tables(later, left):
            yield (row, *rest), own * count


def drawn_tables(
    groups: Sequence[int], values: Sequence[int], draws: int, generator: np.random.Generator
) -> list[Table]:
    """Tables of assignments drawn uniformly."""
    held = np.repeat(np.arange(len(values)), values)
    cuts = np.cumsum(groups)[:-1]
    found = []
    for _ in range(draws):
        parts = np.split(generator.permutation(held), cuts)
        found.append(tuple(tuple(np.bincount(part, minlength=len(values)).tolist()) for part in parts))
    return found


def _rows(size: int, values: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to take so many of the values that are left."""
    for row in product(*(range(min(size, value) + 1) for value in values[:-1])):
        last = size - sum(row)
        if 0 <= last <= values[-1]:
            yield (*row, last)
