"""Numbers of groups: those that the keyed order gives them, whatever they were found under."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["by_first_member", "restored"]


def by_first_member(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same groups, numbered in the order in which they first occur.

    Examples
    --------
    >>> by_first_member(np.array([7, 2, 7, -1])).tolist()
    [0, 1, 0, 2]
    """
    if len(labels) and labels.min() >= 0 and labels.max() < 2 * len(labels):
        return np.asarray(_numbered(read_only(labels, np.int64), int(labels.max()) + 1))
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]


@njit(nogil=True, cache=True)
def _numbered(labels: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    numbers, out, count = np.full(groups, -1, np.int64), np.empty(len(labels), np.int64), 0
    for i in range(len(labels)):
        if numbers[labels[i]] < 0:
            numbers[labels[i]] = count
            count += 1
        out[i] = numbers[labels[i]]
    return out


def restored(labels: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels of arranged records at the places that the records came from.

    Examples
    --------
    >>> restored(np.array([0, 0, 1]), np.array([2, 0, 1])).tolist()
    [0, 1, 0]
    """
    out = np.empty(len(labels), np.int64)
    out[order] = labels
    return out
