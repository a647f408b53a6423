"""The chance that two searches for the nearest rows meet in one row, ties broken by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.linkage.nearest_rows import NearRows, SearchedRows

__all__ = ["linked_by_chance", "linked_shares"]

Places = NDArray[np.int64]


def linked_by_chance(rows: int, k: int) -> float:
    """The chance that k rows drawn at random on one side and k on the other have one in common.

    Examples
    --------
    >>> linked_by_chance(300, 1), round(linked_by_chance(300, 2), 9)
    (0.0033333333333333335, 0.013311037)
    """
    k = min(k, rows)
    apart = 1.0
    for i in range(k):
        apart *= max(rows - k - i, 0) / (rows - i)
    return 1.0 / rows if k == 1 else 1.0 - apart


def linked_shares(
    sides: tuple[SearchedRows, SearchedRows], near: tuple[NearRows, NearRows], k: int
) -> NDArray[np.float64]:
    """For each record the chance that its k nearest rows on either side share one.

    Source: Giomi, Boenisch, Wehmeyer, Tasnadi, PoPETs 2023(2), with ties in closed form.

    Parameters
    ----------
    sides : two SearchedRows
        The same rows by two sets of columns.
    near : two NearRows
        Of the same records, searched with this `k`.
    k : int
        At most the number of rows.

    Returns
    -------
    ndarray of float64, shape (m,)

    Examples
    --------
    >>> from privpipe.kernels.linkage.distance import LinkedFile
    >>> def one(values):
    ...     return LinkedFile(np.array(values)[:, None] / 9, np.zeros((len(values), 0), dtype=np.int64))
    >>> sides = SearchedRows(one([0.0, 1, 4, 9])), SearchedRows(one([0.0, 1, 4, 9]))
    >>> near = sides[0].nearest(one([0.0, 0, 4, 0])), sides[1].nearest(one([0.0, 1, 9, 4]))
    >>> linked_shares(sides, near, 1).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    first, second = sides
    pairs, counts = np.unique(np.column_stack([first.place, second.place]), axis=0, return_counts=True)
    ways = []
    for column, side in enumerate(sides):
        order = np.argsort(pairs[:, column], kind="stable")
        starts = np.searchsorted(pairs[order, column], np.arange(len(side.counts) + 1))
        ways.append(
            tuple(read_only(each, np.int64) for each in (starts, pairs[order, 1 - column], counts[order], side.counts))
        )
    found = [
        (read_only(each.offsets, np.int64), read_only(each.members, np.int64), read_only(each.nearer, np.bool_))
        for each in near
    ]
    return np.asarray(_linked(ways[0], ways[1], found[0], found[1], k))


@njit(nogil=True, cache=True)
def _apart(k: tuple[int, int], tied: tuple[int, int], shared: tuple[int, int, int]) -> float:
    """The chance that no row is drawn on both sides: `k` rows of `tied` each, `shared` with S, with S, and both."""
    (r_a, r_b), (t_a, t_b), (s_a, s_b, both) = k, tied, shared
    rest = t_a - s_a - both
    total = 0.0
    for j in range(min(r_a, both) + 1):
        if r_a - j > rest or r_b > t_b - s_b - j:
            continue
        chance = 1.0
        # C(both, j) C(rest, r_a - j) / C(t_a, r_a), a factor at a time.
        for i in range(j):
            chance *= (both - i) / (i + 1)
        for i in range(r_a - j):
            chance *= (rest - i) / (i + 1)
        for i in range(r_a):
            chance *= (i + 1) / (t_a - i)
        for i in range(r_b):
            chance *= (t_b - s_b - j - i) / (t_b - i)
        total += chance
    return total


@njit(nogil=True, cache=True)
def _linked(
    way_a: tuple[Places, Places, Places, Places],
    way_b: tuple[Places, Places, Places, Places],
    near_a: tuple[Places, Places, NDArray[np.bool_]],
    near_b: tuple[Places, Places, NDArray[np.bool_]],
    k: int,
) -> NDArray[np.float64]:
    m = len(near_a[0]) - 1
    out = np.empty(m)
    marks_a, marks_b = np.zeros(len(way_a[3]), np.int64), np.zeros(len(way_b[3]), np.int64)
    for r in range(m):
        size_a, tied_a, cells_a = _marked(way_a, near_a, r, marks_a)
        size_b, tied_b, cells_b = _marked(way_b, near_b, r, marks_b)
        if cells_a <= cells_b:
            meet = _met(way_a, near_a, r, marks_b)
        else:
            turned = _met(way_b, near_b, r, marks_a)
            meet = (turned[0], turned[2], turned[1], turned[3])
        if meet[0] > 0:
            out[r] = 1.0
        elif k == 1:
            out[r] = meet[3] / (float(tied_a) * float(tied_b))
        else:
            out[r] = 1.0 - _apart((k - size_a, k - size_b), (tied_a, tied_b), (meet[1], meet[2], meet[3]))
        for at in range(near_a[0][r], near_a[0][r + 1]):
            marks_a[near_a[1][at]] = 0
        for at in range(near_b[0][r], near_b[0][r + 1]):
            marks_b[near_b[1][at]] = 0
    return out


@njit(nogil=True, cache=True)
def _marked(
    way: tuple[Places, Places, Places, Places],
    near: tuple[Places, Places, NDArray[np.bool_]],
    r: int,
    marks: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Rows strictly nearer, rows that tie, and cells to look at; marks the distinct rows as nearer (1) or tied (2)."""
    nearer, tied, cells = 0, 0, 0
    for at in range(near[0][r], near[0][r + 1]):
        member = near[1][at]
        marks[member] = 1 if near[2][at] else 2
        cells += way[0][member + 1] - way[0][member]
        if near[2][at]:
            nearer += way[3][member]
        else:
            tied += way[3][member]
    return nearer, tied, cells


@njit(nogil=True, cache=True)
def _met(
    way: tuple[Places, Places, Places, Places],
    near: tuple[Places, Places, NDArray[np.bool_]],
    r: int,
    marks: NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Rows that are nearer on both sides, tied here and nearer there, the reverse, and tied on both."""
    both, tied_here, tied_there, tied = 0, 0, 0, 0
    for at in range(near[0][r], near[0][r + 1]):
        member = near[1][at]
        for cell in range(way[0][member], way[0][member + 1]):
            mark, count = marks[way[1][cell]], way[2][cell]
            if mark == 0:
                continue
            if near[2][at] and mark == 1:
                both += count
            elif mark == 1:
                tied_here += count
            elif near[2][at]:
                tied_there += count
            else:
                tied += count
    return both, tied_here, tied_there, tied
