"""What the leaves of columns cost at some levels, added one by one in their order."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privpipe.kernels.arrays import read_only

__all__ = ["level_costs"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


def level_costs(all_kept: Floats, kept: Floats, gone: Floats, lost: Floats, leaves: Longs, spans: Longs) -> Floats:
    """Cost of each chosen level: sum of kept x (records - lost) and of gone x lost over its leaves.

    Parameters
    ----------
    all_kept : ndarray of float64, shape (leaves,)
        Records of each leaf, the leaves of all columns after one another.
    kept, gone : ndarray of float64, shape (n,)
        What a kept and what a suppressed record of a leaf cost at a level, level after level.
    lost : ndarray of float64, shape (leaves,)
        Suppressed records of each leaf.
    leaves : ndarray of int64, shape (n,)
        Leaf of each entry of `kept` and `gone`.
    spans : ndarray of int64, shape (k, 2)
        First entry and end of each chosen level.

    Returns
    -------
    ndarray of float64, shape (k,)

    Examples
    --------
    >>> level_costs(
    ...     np.array([3.0, 1.0]), np.array([0.5, 0.5]), np.array([1.0, 1.0]), np.array([1.0, 0.0]),
    ...     np.array([0, 1]), np.array([[0, 2]])
    ... ).tolist()
    [2.5]
    """
    floats = (read_only(part, np.float64) for part in (all_kept, kept, gone, lost))
    return np.asarray(_level_costs(*floats, read_only(leaves, np.int64), read_only(spans, np.int64)))


@njit(nogil=True, cache=True)
def _level_costs(all_kept: Floats, kept: Floats, gone: Floats, lost: Floats, leaves: Longs, spans: Longs) -> Floats:
    out = np.zeros(len(spans), np.float64)
    for s in range(len(spans)):
        stays = 0.0
        goes = 0.0
        for i in range(spans[s, 0], spans[s, 1]):
            leaf = leaves[i]
            stays += kept[i] * (all_kept[leaf] - lost[leaf])
            goes += gone[i] * lost[leaf]
        out[s] = stays + goes
    return out
