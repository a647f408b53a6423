"""Which combinations to call as witnesses: the rarest of the smallest failing class, then those unlike all before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["added_up", "chosen_witnesses"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


def chosen_witnesses(
    asked: NDArray[np.bool_], numbers: Ints, sizes: Longs, rarity: Floats, codes: Ints, most: int
) -> Longs:
    """Up to `most` of some rows: the first by size, rarity and place, then those that differ most from all before.

    Parameters
    ----------
    asked : ndarray of bool, shape (t,)
        Rows to choose from.
    numbers : ndarray of int32, shape (t,)
        Class of each row.
    sizes : ndarray of int64, shape (classes,)
    rarity : ndarray of float64, shape (t,)
        The least is rarest.
    codes : ndarray of int32, shape (t, m)
        Two rows are as far apart as the columns in which they differ; of equally far ones the first in order.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 1], [1, 1]], dtype=np.int32)
    >>> chosen_witnesses(
    ...     np.ones(3, dtype=bool), np.array([0, 1, 1], dtype=np.int32), np.array([1, 2]), np.zeros(3), codes, 2
    ... ).tolist()
    [0, 2]
    """
    found: Longs = _chosen_witnesses(
        read_only(asked, np.bool_),
        read_only(numbers, np.int32),
        read_only(sizes, np.int64),
        read_only(rarity, np.float64),
        read_only(codes, np.int32),
        most,
    )
    return found


def added_up(codes: Ints, figures: Floats, starts: Longs) -> Floats:
    """Sum of one figure a column over the columns of each row, column by column.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, m)
    figures : ndarray of float64
        Figure of each code, the codes of all columns after one another.
    starts : ndarray of int64, shape (m,)
        Where each column's begin.

    Examples
    --------
    >>> added_up(np.array([[1, 0]], dtype=np.int32), np.array([0.5, 1.0, 0.25]), np.array([0, 2])).tolist()
    [1.25]
    """
    return np.asarray(
        _added_up(read_only(codes, np.int32), read_only(figures, np.float64), read_only(starts, np.int64))
    )


@njit(small=SMALL, nogil=True, cache=True)
def _chosen_witnesses(
    asked: NDArray[np.bool_], numbers: Ints, sizes: Longs, rarity: Floats, codes: Ints, most: int
) -> Longs:
    count = 0
    for i in range(len(asked)):
        count += asked[i]
    rows = np.empty(count, np.int64)
    count = 0
    for i in range(len(asked)):
        if asked[i]:
            rows[count] = i
            count += 1
    chosen = np.empty(min(most, len(rows)), np.int64)
    apart = np.full(len(rows), codes.shape[1] + 1, np.int64)
    for step in range(len(chosen)):
        best = -1
        for place in range(len(rows)):
            if best >= 0 and apart[place] < apart[best]:
                continue
            row, rival = rows[place], rows[best]
            size, size_of_rival = sizes[numbers[row]], sizes[numbers[rival]]
            sooner = size < size_of_rival or (size == size_of_rival and rarity[row] < rarity[rival])
            if best < 0 or apart[place] > apart[best] or sooner:  # rows ascend: of equal ones the first stays
                best = place
        chosen[step] = rows[best]
        for place in range(len(rows)):
            differ = 0
            for j in range(codes.shape[1]):
                differ += codes[rows[place], j] != codes[rows[best], j]
            apart[place] = min(apart[place], differ)
        apart[best] = -1  # nobody is called twice, though others may have the same codes
    return chosen


@njit(small=SMALL, nogil=True, cache=True)
def _added_up(codes: Ints, figures: Floats, starts: Longs) -> Floats:
    out = np.zeros(len(codes), np.float64)
    for i in range(len(codes)):
        total = 0.0
        for j in range(len(starts)):
            total += figures[starts[j] + codes[i, j]]
        out[i] = total
    return out
