"""Sums of weights by class that are exact and rounded once, so that no order, partition or engine shows in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from privpipe.compiled import njit

__all__ = ["exact_sum_by_class"]


SPLITTER = 134217729.0  # 2^27 + 1
MOST_PARTS = 64


@njit(cache=True, nogil=True)
def exact_sum_by_class(offsets: Any, values: Any, counts: Any) -> Any:
    """The double nearest to the sum of value x count over the cells of each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    values : ndarray of float64, shape (n_cells,)
        A class with one that is not finite has the plain sum.
    counts : ndarray of int64, shape (n_cells,)
        Below 2^53.

    Returns
    -------
    ndarray of float64, shape (n_classes,)

    Notes
    -----
    A product is kept as two doubles, a sum as doubles that do not overlap. Sources: Dekker, Numer. Math. 18, 1971;
    Shewchuk, Discrete Comput. Geom. 18, 1997.

    Examples
    --------
    >>> cells = np.array([1e16, 1.0, -1e16]), np.array([1, 3, 1])
    >>> exact_sum_by_class(np.array([0, 3]), *cells).tolist()
    [3.0]
    """
    sums = np.zeros(len(offsets) - 1, np.float64)
    parts = np.zeros(MOST_PARTS, np.float64)
    for c in range(len(sums)):
        held = 0
        plain = 0.0
        for i in range(offsets[c], offsets[c + 1]):
            value, count = values[i], np.float64(counts[i])
            product = value * count
            plain += product
            held = _added(parts, held, product)
            if count != 1.0:
                held = _added(parts, held, _error(value, count, product))
        sums[c] = _nearest(parts, held) if np.isfinite(plain) else plain
    return sums


@njit(cache=True, nogil=True)
def _error(value: float, count: float, product: float) -> Any:
    """What value x count exceeds its rounded product by."""
    wide = SPLITTER * value
    if not np.isfinite(wide):
        return 0.0
    a = wide - (wide - value)
    b = value - a
    wide = SPLITTER * count
    c = wide - (wide - count)
    d = count - c
    return ((a * c - product) + a * d + b * c) + b * d


@njit(cache=True, nogil=True)
def _added(parts: Any, held: int, x: float) -> Any:
    """Add to doubles that do not overlap; how many there are then."""
    kept = 0
    for j in range(held):
        y = parts[j]
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            parts[kept] = low
            kept += 1
        x = high
    parts[kept] = x
    return kept + 1


@njit(cache=True, nogil=True)
def _nearest(parts: Any, held: int) -> Any:
    """Their sum, rounded once, halves to even."""
    if held == 0:
        return 0.0
    at = held - 1
    high, low = parts[at], 0.0
    while at > 0:
        at -= 1
        before = high
        high = before + parts[at]
        low = parts[at] - (high - before)
        if low != 0.0:
            break
    if at > 0 and ((low < 0.0 and parts[at - 1] < 0.0) or (low > 0.0 and parts[at - 1] > 0.0)):
        twice = low * 2.0
        other = high + twice
        if twice == other - high:
            high = other
    return high
