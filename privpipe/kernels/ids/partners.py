"""Which rows of two tables are the same record, by their ids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.grouping.word_groups import group_rows

__all__ = ["partners"]

Ints = NDArray[np.int64]


def partners(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Positions in both tables of the records that are in both, in the order of the second.

    Parameters
    ----------
    first, second : ndarray of int64, shape (n, 2) and (m, 2)
        Record ids, none of them twice in a table.

    Examples
    --------
    >>> left, right = partners(np.array([[1, 0], [2, 0], [3, 0]]), np.array([[3, 0], [9, 0], [1, 0]]))
    >>> left.tolist(), right.tolist()
    ([2, 0], [0, 2])
    """
    groups, firsts = group_rows(np.concatenate([first, second]))
    place = np.full(len(firsts), -1, dtype=np.int64)
    place[groups[: len(first)]] = np.arange(len(first))
    found = place[groups[len(first) :]]
    paired = np.flatnonzero(found >= 0)
    return found[paired], paired
