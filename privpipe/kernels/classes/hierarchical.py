"""Earth mover's distance of the values of each class to a base distribution, along a tree of values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.columns.code_bounds import require_codes

__all__ = ["emd_hierarchical_by_class"]


def emd_hierarchical_by_class(
    offsets: NDArray[np.int64],
    leaves: NDArray[np.int64],
    counts: NDArray[np.int64],
    base: NDArray[np.int64],
    nodes: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Distance of each class where moving a record to a value under a node of level v costs v/h.

    Each inner node of level v moves the lesser of what its children have too much and too little. Below a node that
    no value of the class touches nothing is too much, so only the nodes above a class's own cells are looked at:
    O(cells x levels) time, and no memory beyond the largest class. Source: Li, Li, Venkatasubramanian, t-Closeness,
    ICDE 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    leaves : ndarray of int64, shape (n_cells,)
        Places of the values in leaf order, strictly ascending within a class.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, at least 1; a class's size is their sum.
    base : ndarray of int64, shape (m,)
        Records of each value in the base, in leaf order.
    nodes : ndarray of int64, shape (h + 1, m)
        The node of each value at each level, leaves first; in leaf order the values of a node are neighbours. One
        node at the last level.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In [0, 1]; exactly 0 for a class with the shares of the base.

    Examples
    --------
    Two values under one node, a third beside it; a class of the first value alone moves 1/3 near and 1/3 far.

    >>> nodes = np.array([[0, 1, 2], [0, 0, 1], [0, 0, 0]])
    >>> emd_hierarchical_by_class(
    ...     np.array([0, 1]), np.array([0]), np.array([4]), np.array([1, 1, 1]), nodes
    ... ).tolist()
    [0.5]
    """
    require_codes(leaves, min(len(base), nodes.shape[1]), "the tree of values")
    arrays = (read_only(part, np.int64) for part in (offsets, leaves, counts, base, nodes))
    return np.asarray(_emd(*arrays))


@njit(nogil=True, cache=True)
def _emd(
    offsets: NDArray[np.int64],
    leaves: NDArray[np.int64],
    counts: NDArray[np.int64],
    base: NDArray[np.int64],
    nodes: NDArray[np.int64],
) -> NDArray[np.float64]:
    whole = np.zeros(nodes.shape, np.int64)  # records of the base under each node, in the place of the node's number
    for level in range(len(nodes)):
        for leaf in range(len(base)):
            whole[level, nodes[level, leaf]] += base[leaf]
    out = np.zeros(len(offsets) - 1, np.float64)
    height = len(nodes) - 1
    total = np.float64(whole[height, 0])
    room = 64
    place = np.empty(room, np.int64)
    held = np.empty(room, np.int64)
    for c in range(len(out)):
        start, left = offsets[c], offsets[c + 1] - offsets[c]
        if left > room:
            room = 2 * left
            place = np.empty(room, np.int64)
            held = np.empty(room, np.int64)
        size = 0.0
        for i in range(left):
            place[i] = leaves[start + i]
            held[i] = counts[start + i]
            size += held[i]
        for level in range(1, height + 1):
            merged = 0
            i = 0
            while i < left:
                node = nodes[level, place[i]]
                first = place[i]
                records = 0
                surplus = 0.0
                while i < left and nodes[level, place[i]] == node:
                    share = held[i] / size - whole[level - 1, nodes[level - 1, place[i]]] / total
                    surplus += max(share, 0.0)
                    records += held[i]
                    i += 1
                own = records / size - whole[level, node] / total
                out[c] += level / height * max(min(surplus, surplus - own), 0.0)
                place[merged] = first
                held[merged] = records
                merged += 1
            left = merged
        out[c] = min(out[c], 1.0)
    return out
