"""Inference of an intruder about a class: the worst posterior, and every assignment of its values to its members."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit

__all__ = ["Table", "class_tables", "drawn_tables", "insider_posterior", "ruled_out_posterior", "ways"]


def insider_posterior(offsets: Ints, counts: Ints, sizes: Ints, insiders: int) -> Floats:
    """max_v c_v / (f - min(r, f - c_v)) of each class: r of its f members know themselves and each other.

    Source: Martin, Kifer, Machanavajjhala, Gehrke, Halpern, ICDE 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, or persons who have its value.
    sizes : ndarray of int64, shape (n_classes,)
        Records of each class, or its persons, one of whom may be in several cells.
    insiders : int
        r, at least 0.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In (0, 1].

    Examples
    --------
    >>> insider_posterior(np.array([0, 2, 4]), np.array([2, 1, 2, 2]), np.array([3, 4]), 1).round(3).tolist()
    [1.0, 0.667]
    """
    return np.asarray(_insiders(*_arrays(offsets, counts, sizes), insiders))


def ruled_out_posterior(offsets: Ints, counts: Ints, sizes: Ints, values: int) -> Floats:
    """max_v c_v / (f - E) of each class, E the b largest counts among other values: the intruder rules b out.

    E is at most f - c_v. For persons, who may have several values, this is the worst case that the counts allow.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007.

    Parameters
    ----------
    offsets, counts, sizes
        As in `insider_posterior`.
    values : int
        b, at least 0.

    Examples
    --------
    >>> ruled_out_posterior(np.array([0, 2, 5]), np.array([1, 2, 3, 2, 1]), np.array([3, 6]), 1).round(3).tolist()
    [1.0, 0.75]
    """
    return np.asarray(_ruled_out(*_arrays(offsets, counts, sizes), values))


def _arrays(*arrays: Ints) -> tuple[Ints, ...]:
    return tuple(read_only(array, np.int64) for array in arrays)


@njit(nogil=True, cache=True)
def _insiders(offsets: Ints, counts: Ints, sizes: Ints, insiders: int) -> Floats:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        size = sizes[c]
        for i in range(offsets[c], offsets[c + 1]):
            out[c] = max(out[c], counts[i] / (size - min(insiders, size - counts[i])))
    return out


@njit(nogil=True, cache=True)
def _ruled_out(offsets: Ints, counts: Ints, sizes: Ints, values: int) -> Floats:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        descending = np.sort(counts[offsets[c] : offsets[c + 1]])[::-1]
        size = sizes[c]
        for i in range(len(descending)):
            # The b largest among the others: all of the first b + 1 except this one.
            others = descending[: values + 1].sum() - (descending[i] if i <= values else descending[values])
            out[c] = max(out[c], descending[i] / (size - min(others, size - descending[i])))
    return out


Table = tuple[tuple[int, ...], ...]
"""For a class: for each group of members who are equal before the release, how many have each value."""


def ways(groups: Sequence[int], values: Sequence[int]) -> int:
    """Assignments of a class's multiset of values to its members.

    Examples
    --------
    >>> ways([2, 1], [2, 1])
    3
    """
    return math.factorial(sum(groups)) // math.prod(map(math.factorial, values))


def class_tables(groups: Sequence[int], values: Sequence[int]) -> Iterator[tuple[Table, int]]:
    """All tables with these margins, each with the number of assignments that give it.

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
    """Ways to take `size` of the remaining values."""
    for row in product(*(range(min(size, value) + 1) for value in values[:-1])):
        last = size - sum(row)
        if 0 <= last <= values[-1]:
            yield (*row, last)
