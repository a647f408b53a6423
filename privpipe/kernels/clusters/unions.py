"""What each union of one class with another one loses under the least common labels of their members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit

__all__ = ["NEVER", "Extents", "LevelTables", "level_tables", "union_increases"]

Ints = NDArray[np.int64]
NEVER = int(np.iinfo(np.int64).max)
"""The increase of a union that no allowed label covers."""


class LevelTables(NamedTuple):
    """Labels and losses of all columns at the levels that may be used, as compiled code takes them.

    Parameters
    ----------
    codes : ndarray of int32, flat
        Column after column, level after level: the label of each leaf, in leaf order.
    lost : ndarray of int64, flat
        What a record with that leaf loses there, in units.
    starts, widths, heights : ndarray of int64, shape (m,)
        Where each column begins, its leaves and its levels.
    """

    codes: NDArray[np.int32]
    lost: Ints
    starts: Ints
    widths: Ints
    heights: Ints


class Extents(NamedTuple):
    """Classes by what a union needs of them; one without records is gone.

    Parameters
    ----------
    low, high : ndarray of int64, shape (g, m)
        First and last leaf among the members, in leaf order.
    records, costs : ndarray of int64, shape (g,)
        Records, and what they lose together under the labels that they have.
    kinds : ndarray of int64, shape (g,)
        Only classes of one kind may become one: those with equal values in the columns that stay as they are.
    """

    low: Ints
    high: Ints
    records: Ints
    costs: Ints
    kinds: Ints


def level_tables(levels: Sequence[Sequence[Ints]], lost: Sequence[Sequence[Ints]]) -> LevelTables:
    """From the label of each leaf of each column, level by level, and what a record with that leaf loses there."""
    widths = np.array([len(own[0]) for own in levels], dtype=np.int64)
    heights = np.array([len(own) for own in levels], dtype=np.int64)
    ends = np.cumsum(widths * heights)
    flat = [np.concatenate([np.zeros(0), *(level for own in each for level in own)]) for each in (levels, lost)]
    return LevelTables(flat[0].astype(np.int32), flat[1].astype(np.int64), ends - widths * heights, widths, heights)


def union_increases(tables: LevelTables, classes: Extents, own: int) -> tuple[Ints, NDArray[np.int16]]:
    """What the union of one class with each other one loses more than the two do.

    Parameters
    ----------
    own : int
        Place of the one class.

    Returns
    -------
    (ndarray of int64, shape (g,), ndarray of int16, shape (g, m))
        Increases, in units, `NEVER` for the class itself, those that are gone, those of another kind and unions that
        no label covers; a union may lose less than its parts. Then the level of each union in each column, counted
        from the lowest that may be used.

    Examples
    --------
    >>> tables = level_tables([[np.array([0, 1, 2]), np.array([0, 0, 1])]], [[np.zeros(3), np.array([5, 5, 9])]])
    >>> leaves = np.array([[0], [1], [2]])
    >>> three = Extents(leaves, leaves, np.array([1, 3, 1]), np.zeros(3, np.int64), np.zeros(3, np.int64))
    >>> found, levels = union_increases(tables, three, 0)
    >>> (found == NEVER).tolist(), int(found[1]), levels[1].tolist()
    ([True, False, True], 20, [1])
    """
    many, width = classes.low.shape
    found, levels = np.full(many, NEVER), np.zeros((many, width), dtype=np.int16)
    _increases(tables, classes, own, found, levels)
    return found, levels


@njit(nogil=True, cache=True)
def _increases(tables, classes, own, found, levels):  # type: ignore[no-untyped-def]
    codes, lost, starts, widths, heights = tables
    low, high, records, costs, kinds = classes
    for other in range(len(records)):
        if other == own or records[other] == 0 or kinds[other] != kinds[own]:
            continue
        spent, allowed = np.int64(0), True
        for j in range(low.shape[1]):
            first, last = min(low[own, j], low[other, j]), max(high[own, j], high[other, j])
            level, row = 0, starts[j]
            while level < heights[j] and codes[row + first] != codes[row + last]:
                level += 1
                row += widths[j]
            if level == heights[j]:
                allowed = False
                break
            levels[other, j] = level
            spent += lost[row + first]
        if allowed:
            found[other] = spent * (records[own] + records[other]) - costs[own] - costs[other]
