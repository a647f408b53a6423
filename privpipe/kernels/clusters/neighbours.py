"""The combinations that lose least under common labels with a given one, within a pool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.clusters.labels import Labels, climbed

__all__ = ["nearest"]


def nearest(labels: Labels, leaves: NDArray[np.int32], pools: NDArray[np.int64], many: int) -> NDArray[np.int32]:
    """Neighbours of each combination, nearest first, ties by their places; -1 behind the last.

    Parameters
    ----------
    leaves : ndarray of int32, shape (t, m)
    pools : ndarray of int64, shape (p + 1,)
        Where each pool begins: combinations look for neighbours in their own.

    Examples
    --------
    >>> from privpipe.kernels.clusters.labels import labels_of
    >>> levels = [[np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([0, 0, 0])]]
    >>> own = labels_of(levels, [[np.full(3, level) for level in range(3)]])
    >>> nearest(own, np.array([[0], [1], [2]], np.int32), np.array([0, 3]), 2).tolist()
    [[1, 2], [0, 2], [0, 1]]
    """
    found = np.full((len(leaves), many), -1, dtype=np.int32)
    if many:
        _nearest(labels, leaves, labels.nodes(leaves), pools, found)
    return found


@njit(nogil=True, cache=True)
def _nearest(labels, leaves, nodes, pools, found):  # type: ignore[no-untyped-def]
    table, lost, _, _, firsts, widths, _ = labels
    many, width = found.shape[1], leaves.shape[1]
    least = np.empty(many, np.int64)
    for pool in range(len(pools) - 1):
        start, stop = pools[pool], pools[pool + 1]
        sums = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            sums[:] = 0
            for j in range(width):
                node = nodes[i, j]
                for other in range(start, stop):
                    if widths[j] == 0:
                        sums[other - start] += lost[node + leaves[other, j]]
                    else:
                        sums[other - start] += lost[climbed(table, firsts[j], widths[j], node, leaves[other, j])]
            count = 0
            for other in range(start, stop):
                own = sums[other - start]
                if other == i or (count == many and own >= least[count - 1]):
                    continue
                count = min(count + 1, many)
                place = count - 1
                while place > 0 and least[place - 1] > own:
                    least[place], found[i, place] = least[place - 1], found[i, place - 1]
                    place -= 1
                least[place], found[i, place] = own, other
