"""Figures of each class that are counts of its cells, or a share of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["class_sizes", "distinct_by_class", "largest_by_class", "top_share_by_class"]


def class_sizes(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """n_c, the records of each class: the sum of its cells.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, at least 1. Where persons are counted, a person may be in several cells of a class,
        and this is no longer the number of persons.

    Returns
    -------
    ndarray of int64, shape (n_classes,)

    Examples
    --------
    >>> class_sizes(np.array([0, 2, 3]), np.array([5, 1, 4])).tolist()
    [6, 4]
    """
    return np.asarray(_sums(read_only(offsets, np.int64), read_only(counts, np.int64)))


def distinct_by_class(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of distinct values of each class: of its cells, for each holds one value.

    Source: Machanavajjhala et al., l-Diversity, ACM TKDD 1(1), 2007.

    Examples
    --------
    >>> distinct_by_class(np.array([0, 2, 3])).tolist()
    [2, 1]
    """
    ends: NDArray[np.int64] = np.asarray(offsets, dtype=np.int64)
    return ends[1:] - ends[:-1]


def largest_by_class(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """r_1, the count of the most frequent value of each class (arrays as in `class_sizes`).

    Examples
    --------
    >>> largest_by_class(np.array([0, 2, 3]), np.array([1, 5, 4])).tolist()
    [5, 4]
    """
    return np.asarray(_largest(read_only(offsets, np.int64), read_only(counts, np.int64)))


def top_share_by_class(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """max_s q_cs, the share of the most frequent value of each class (arrays as in `class_sizes`).

    Source: Wong, Li, Fu, Wang, (alpha, k)-anonymity, KDD 2006.

    Examples
    --------
    >>> top_share_by_class(np.array([0, 2, 3]), np.array([1, 3, 4])).tolist()
    [0.75, 1.0]
    """
    return np.asarray(_top_shares(read_only(offsets, np.int64), read_only(counts, np.int64)))


@njit(nogil=True, cache=True)
def _sums(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    out = np.empty(len(offsets) - 1, np.int64)
    for c in range(len(out)):
        size = 0
        for i in range(offsets[c], offsets[c + 1]):
            size += counts[i]
        out[c] = size
    return out


@njit(nogil=True, cache=True)
def _largest(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    out = np.empty(len(offsets) - 1, np.int64)
    for c in range(len(out)):
        largest = 0
        for i in range(offsets[c], offsets[c + 1]):
            largest = max(largest, counts[i])
        out[c] = largest
    return out


@njit(nogil=True, cache=True)
def _top_shares(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    out = np.empty(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        size = largest = 0
        for i in range(offsets[c], offsets[c + 1]):
            size += counts[i]
            largest = max(largest, counts[i])
        out[c] = largest / np.float64(size) if size else np.nan
    return out
