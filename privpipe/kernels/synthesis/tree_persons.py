"""Trees cut back until each leaf is of enough different persons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["pruned"]

Ints = NDArray[np.int64]


def pruned(left: Ints, right: Ints, leaves: Ints, persons: Sequence[Ints], least: int) -> tuple[Ints, Ints, Ints, Ints]:
    """The tree without the splits that leave a side of fewer persons than `least`.

    Parameters
    ----------
    left, right : ndarray of int64, shape (nodes,)
        Children, numbered above their parent; -1 in a leaf.
    leaves : ndarray of int64, shape (n,)
        Leaf of each record.
    persons : sequence of ndarray of int64, shape (n,)
        The person of each record, unit by unit (persons, households).

    Returns
    -------
    kept : ndarray of int64
        The nodes that are left, by their old numbers, a parent before its children.
    left, right : ndarray of int64
        By the new numbers.
    leaves : ndarray of int64, shape (n,)
        Likewise.

    Examples
    --------
    >>> left, right = np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1])
    >>> found = pruned(left, right, np.array([1, 1, 3, 4, 4]), [np.array([7, 8, 9, 9, 6])], 2)
    >>> [each.tolist() for each in found]
    [[0, 1, 2], [1, -1, -1], [2, -1, -1], [1, 1, 2, 2, 2]]
    """
    counts = np.min([_persons_below(left, right, leaves, each) for each in persons], axis=0)
    kept: list[int] = []
    number = np.full(len(left), -1, np.int64)
    waiting = [0]
    while waiting:
        at = waiting.pop()
        number[at] = len(kept)
        kept.append(at)
        if left[at] >= 0 and min(counts[left[at]], counts[right[at]]) >= least:
            waiting += [int(right[at]), int(left[at])]
    nodes = np.array(kept, np.int64)
    split = [left[at] >= 0 and number[left[at]] >= 0 for at in kept]
    place = number.copy()
    for at in range(len(left)):
        for child in (left[at], right[at]):
            if child >= 0 and number[child] < 0:
                place[child] = place[at]  # its own children come later
    return (
        nodes,
        np.where(split, number[left[nodes]], -1),
        np.where(split, number[right[nodes]], -1),
        place[leaves],
    )


def _persons_below(left: Ints, right: Ints, leaves: Ints, persons: Ints) -> Ints:
    """Different persons among the records of each node."""
    nodes = len(left)
    parent, depth = np.full(nodes, -1, np.int64), np.zeros(nodes, np.int64)
    for at in np.flatnonzero(left >= 0).tolist():
        for child in (left[at], right[at]):
            parent[child], depth[child] = at, depth[at] + 1
    _, codes = np.unique(persons, return_inverse=True)
    width = int(codes.max(initial=0)) + 1
    pairs = np.unique(leaves * width + codes.reshape(-1))
    counts = np.zeros(nodes, np.int64)
    for level in range(int(depth.max()), -1, -1):
        own = depth[pairs // width] == level
        here = pairs[own]
        counts += np.bincount(here // width, minlength=nodes)
        if level:
            pairs = np.union1d(pairs[~own], parent[here // width] * width + here % width)
    return counts
