"""Earth mover's distance of the sensitive values of each class to a base distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privpipe.compiled import SMALL, njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["emd_equal_by_class", "emd_ordered_by_class"]


def emd_equal_by_class(
    offsets: NDArray[np.int64], codes: NDArray[np.int64], counts: NDArray[np.int64], p: ArrayLike
) -> NDArray[np.float64]:
    """Distance 1/2 sum_s |q_s - p_s| of each class, all values equally far apart.

    Computed as the sum of q_s - p_s over the values with q_s > p_s, which is the same, costs one step a cell, and
    subtracts nothing from the sum. Source: Li, Li, Venkatasubramanian, t-Closeness, ICDE 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    codes : ndarray of int64, shape (n_cells,)
        Positions in `p`, strictly ascending within a class: the order of the sum, hence its last bits.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, at least 1; a class's size is their sum.
    p : array_like of float64, shape (m,)
        Base distribution, summing to 1. Values absent from a class count (q = 0).

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In [0, 1].

    Raises
    ------
    ValueError
        Codes that do not ascend within a class or lie outside `p`: a bug of the caller.

    Examples
    --------
    >>> emd_equal_by_class(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 1, 2]), [0.25, 0.75]).tolist()
    [0.25, 0.25]
    """
    return np.asarray(_emd_equal(*_cells(offsets, codes, counts), read_only(p, np.float64)))


def emd_ordered_by_class(
    offsets: NDArray[np.int64], codes: NDArray[np.int64], counts: NDArray[np.int64], p: ArrayLike
) -> NDArray[np.float64]:
    """Distance of each class where values lie on a line, one step apart, m - 1 steps counting as 1.

    EMD = 1/(m - 1) sum_{i < m} |sum_{j <= i} (q_j - p_j)|. Between two cells of a class its cumulative share stands
    still while that of `p` rises, so the sum over a stretch follows from prefix sums of the cumulative `p` and
    one bisection: O(cells log m) time, O(m) memory. Source: Li, Li, Venkatasubramanian, t-Closeness, ICDE 2007.

    Parameters
    ----------
    offsets, codes, counts, p
        As in `emd_equal_by_class`; codes follow the order of the values.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In [0, 1]; 0 when m = 1.

    Raises
    ------
    ValueError
        As in `emd_equal_by_class`.

    Examples
    --------
    >>> emd_ordered_by_class(np.array([0, 1, 3]), np.array([0, 0, 2]), np.array([4, 1, 1]), [0.25, 0.5, 0.25]).tolist()
    [0.5, 0.25]
    """
    base = read_only(p, np.float64)
    rise, area = _prefix_sums(base)
    return np.asarray(_emd_ordered(*_cells(offsets, codes, counts), rise, area))


def _cells(
    offsets: NDArray[np.int64], codes: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    return read_only(offsets, np.int64), read_only(codes, np.int64), read_only(counts, np.int64)


@njit(small=SMALL, nogil=True, cache=True)
def _size_of_class(
    offsets: NDArray[np.int64], codes: NDArray[np.int64], counts: NDArray[np.int64], c: int, m: int
) -> int:
    """Records of class c, its codes checked on the way."""
    size = 0
    last = -1
    for i in range(offsets[c], offsets[c + 1]):
        if codes[i] <= last or codes[i] >= m:
            raise ValueError("value codes must ascend within a class and lie inside the base distribution")
        last = codes[i]
        size += counts[i]
    return size


@njit(small=SMALL, nogil=True, cache=True)
def _emd_equal(
    offsets: NDArray[np.int64], codes: NDArray[np.int64], counts: NDArray[np.int64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        size = np.float64(_size_of_class(offsets, codes, counts, c, len(p)))
        distance = 0.0
        for i in range(offsets[c], offsets[c + 1]):
            distance += max(counts[i] / size - p[codes[i]], 0.0)
        out[c] = min(distance, 1.0)
    return out


@njit(nogil=True, cache=True)
def _prefix_sums(p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cumulative p and its own prefix sums (entry i: the sum over the first i), with compensated additions."""
    rise = np.empty(len(p), np.float64)
    area = np.empty(len(p) + 1, np.float64)
    total = 0.0
    lost = 0.0
    surface = 0.0
    surface_lost = 0.0
    area[0] = 0.0
    for i in range(len(p)):
        added = total + p[i]  # the two-sum of Knuth: `lost` keeps what rounding took
        back = added - total
        lost += (total - (added - back)) + (p[i] - back)
        total = added
        rise[i] = total + lost
        added = surface + rise[i]
        back = added - surface
        surface_lost += (surface - (added - back)) + (rise[i] - back)
        surface = added
        area[i + 1] = surface + surface_lost
    return rise, area


@njit(nogil=True, cache=True)
def _between(level: float, first: int, stop: int, rise: NDArray[np.float64], area: NDArray[np.float64]) -> float:
    """Sum of |level - rise[i]| over first <= i < stop; `rise` ascends."""
    low, high = first, stop
    while low < high:
        middle = (low + high) // 2
        if rise[middle] < level:
            low = middle + 1
        else:
            high = middle
    under = level * (low - first) - (area[low] - area[first])
    over = (area[stop] - area[low]) - level * (stop - low)
    total: float = max(under, 0.0) + max(over, 0.0)
    return total


@njit(nogil=True, cache=True)
def _emd_ordered(
    offsets: NDArray[np.int64],
    codes: NDArray[np.int64],
    counts: NDArray[np.int64],
    rise: NDArray[np.float64],
    area: NDArray[np.float64],
) -> NDArray[np.float64]:
    out = np.zeros(len(offsets) - 1, np.float64)
    last = len(rise) - 1  # the last cumulative shares are both 1
    for c in range(len(out)):
        size = np.float64(_size_of_class(offsets, codes, counts, c, len(rise)))
        seen = 0
        first = 0
        total = 0.0
        for i in range(offsets[c], offsets[c + 1]):
            total += _between(seen / size, first, min(codes[i], last), rise, area)
            first = codes[i]
            seen += counts[i]
        total += _between(1.0, min(first, last), last, rise, area)
        if last > 0:
            out[c] = min(total / last, 1.0)
    return out
