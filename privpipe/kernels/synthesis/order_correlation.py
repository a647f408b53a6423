"""How far the order within classes follows another order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["order_correlation"]

Ints = NDArray[np.int64]


def order_correlation(classes: Ints, one: Ints, other: Ints) -> tuple[float, float, int]:
    """Spearman's correlation of two orders, pooled over classes.

    Parameters
    ----------
    classes, one, other : ndarray of int64, shape (n,)
        Class of each record, and its position in either order; positions differ.

    Returns
    -------
    rho : float
        T / D in [-1, 1]; T the sum over classes of the products of centred ranks, D = sum f (f^2 - 1) / 12. NaN where
        no class has two members.
    sd : float
        Of rho where the orders have nothing to do with each other; NaN alike.
    compared : int
        Records in classes of at least two.

    Examples
    --------
    >>> classes, order = np.array([0, 1, 0, 1, 0, 1]), np.arange(6)
    >>> rho, sd, compared = order_correlation(classes, order, order)
    >>> rho, round(sd, 4), compared
    (1.0, 0.5, 6)
    >>> order_correlation(classes, order, order[::-1])[0]
    -1.0
    """
    sizes = np.bincount(classes) if len(classes) else np.zeros(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    centred = []
    for order in (one, other):
        ranks = np.empty(len(classes), dtype=np.int64)
        places = np.lexsort((order, classes))
        ranks[places] = np.arange(len(classes)) - starts[classes[places]]
        centred.append(ranks - (sizes[classes] - 1) / 2)
    each = sizes * (sizes.astype(np.float64) ** 2 - 1) / 12
    most = float(each.sum())
    if not most > 0:
        return float("nan"), float("nan"), 0
    several = sizes >= 2
    variance = float((each[several] ** 2 / (sizes[several] - 1)).sum())
    total = float(np.dot(centred[0], centred[1]))
    return total / most, float(np.sqrt(variance)) / most, int(sizes[several].sum())
