"""Figures of each class that are counts of its cells, or a share of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["distinct_by_class", "largest_by_class", "top_share_by_class"]


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
    """r_1, the count of the most frequent value of each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, or persons who have its value, at least 1.

    Examples
    --------
    >>> largest_by_class(np.array([0, 2, 3]), np.array([1, 5, 4])).tolist()
    [5, 4]
    """
    return np.asarray(_largest(read_only(offsets, np.int64), read_only(counts, np.int64)))


def top_share_by_class(
    offsets: NDArray[np.int64], counts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """max_s q_cs, the share of the most frequent value of each class (arrays as in `largest_by_class`).

    Source: Wong, Li, Fu, Wang, (alpha, k)-anonymity, KDD 2006.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_classes,)
        n_c of each class: its records, or its persons, of whom one may be in several cells.

    Examples
    --------
    >>> top_share_by_class(np.array([0, 2, 3]), np.array([1, 3, 4]), np.array([4, 4])).tolist()
    [0.75, 1.0]

    Three persons, all with the first value and each with one more of her own:

    >>> top_share_by_class(np.array([0, 4]), np.array([3, 1, 1, 1]), np.array([3])).tolist()
    [1.0]
    """
    return np.asarray(largest_by_class(offsets, counts) / np.asarray(sizes, dtype=np.float64))


@njit(nogil=True, cache=True)
def _largest(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    out = np.empty(len(offsets) - 1, np.int64)
    for c in range(len(out)):
        largest = 0
        for i in range(offsets[c], offsets[c + 1]):
            largest = max(largest, counts[i])
        out[c] = largest
    return out
