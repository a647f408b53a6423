"""Class sizes over some columns of a distinct table, without going back to the records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["projected_counts", "projected_sizes"]


def projected_sizes(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sizes of the classes that some columns form.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        Codes of the chosen columns, at least 0, of each distinct combination of these and others.
    counts : ndarray of int64, shape (t,)
        Records of each.

    Returns
    -------
    ndarray of int64, shape (C,)
        In no promised order; no column at all makes one class of a table with records.

    Examples
    --------
    >>> projected_sizes(np.array([[0, 1], [0, 1], [1, 1]]), np.array([2, 3, 4])).tolist()
    [5, 4]
    """
    _, sizes = projected_counts(codes, counts)
    return sizes[sizes > 0]


def projected_counts(
    codes: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The class of each combination over some columns, and the records of each class (some may have none).

    Parameters
    ----------
    codes, counts
        As in `projected_sizes`.

    Returns
    -------
    (ndarray of int64, shape (t,), ndarray of int64)
        Numbers of classes, and records by number.

    Examples
    --------
    >>> numbers, records = projected_counts(np.array([[0, 1], [0, 1], [1, 1]]), np.array([2, 3, 4]))
    >>> records[numbers].tolist()
    [5, 5, 4]
    """
    key = np.zeros(len(counts), dtype=np.int64)
    if not len(counts):
        return key, np.zeros(0, dtype=np.int64)
    span = 1
    for column in codes.T:
        values = int(column.max()) + 1
        if span * values > 4 * len(key) + 1024:  # keys so far apart are numbered anew: they neither wrap nor sprawl
            key, span = _numbered(key)
        key = key * values + column
        span *= values
    if span > 4 * len(key) + 1024:
        key, span = _numbered(key)
    sizes = np.zeros(span, dtype=np.int64)
    np.add.at(sizes, key, counts)
    return key, sizes


def _numbered(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    distinct, numbers = np.unique(key, return_inverse=True)
    return numbers.astype(np.int64), len(distinct)
