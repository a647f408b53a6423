"""Distinct persons of each class, where one person has several combinations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["counted_once"]

Ints = NDArray[np.int64]


def counted_once(numbers: Ints, classes: int, order: Ints, who: Ints, persons: Ints, left: Ints) -> Ints:
    """What each combination adds to its class so that nobody is counted twice in it.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Class of each combination, below `classes`.
    order : ndarray of int64, shape (t,)
        Places of the combinations, those of one `who` side by side.
    who : ndarray of int64, shape (t,)
        Who a combination is of (or who and which value), at least 0.
    persons : ndarray of int64, shape (t,)
        Persons it stands for: 1, unless nobody of it has another combination.
    left : ndarray of int64, shape (t,)
        Its records; one without any adds nothing.

    Returns
    -------
    ndarray of int64, shape (t,)
        `persons` at the first combination of each `who` in each class, else 0: their sum over a class is its number
        of different persons.

    Examples
    --------
    >>> numbers, who = np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1])
    >>> counted_once(numbers, 2, np.arange(4), who, np.array([1, 1, 1, 5]), np.ones(4, np.int64)).tolist()
    [1, 1, 0, 5]
    """
    ints = (read_only(array, np.int64) for array in (order, who, persons, left))
    return np.asarray(_once(read_only(numbers, np.int64), classes, *ints))


@njit(nogil=True, cache=True)
def _once(numbers: Ints, classes: int, order: Ints, who: Ints, persons: Ints, left: Ints) -> Ints:
    last = np.full(classes, -1, np.int64)
    adds = np.zeros(len(numbers), np.int64)
    for i in order:
        if left[i] == 0:
            continue
        c = numbers[i]
        if last[c] != who[i]:
            last[c] = who[i]
            adds[i] = persons[i]
    return adds
