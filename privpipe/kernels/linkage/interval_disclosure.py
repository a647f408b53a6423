"""Which original values lie in an interval around their masked ones."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from privpipe.tolerance import at_most, floor_share

__all__ = ["rank_disclosed", "sd_disclosed"]


def rank_disclosed(
    original: NDArray[np.float64], released: NDArray[np.float64], percent: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Records whose original value lies between the masked values w ranks below and above their own.

    R are the masked values in ascending order, w = floor(percent n / 200); the interval of a masked value is
    [R[max(first - w, 0)], R[min(last + w, n - 1)]], first and last its positions in R, ends included.

    Source: Nin, Herranz, Torra, DKE 64(1), 2008. The printed algorithm has the clamps the other way round.

    Parameters
    ----------
    original, released : ndarray of float64, shape (n,)
        Aligned; NaN where there is no value.
    percent : float
        In percent, at least 0.

    Returns
    -------
    (ndarray of bool, ndarray of bool), shape (n,)
        Disclosed records; records with a value on both sides, the only ones that can be.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, 3.0, 1.0])
    >>> rank_disclosed(x, y, 50.0)[0].tolist()
    [True, False, True, False]
    """
    known = ~(np.isnan(original) | np.isnan(released))
    ranked = np.sort(released[~np.isnan(released)])
    if not known.any():
        return np.zeros(len(original), dtype=np.bool_), known
    width = floor_share(float(Decimal(repr(float(percent))) / 200), len(ranked))
    masked = released[known]
    low = ranked[np.maximum(np.searchsorted(ranked, masked, side="left") - width, 0)]
    high = ranked[np.minimum(np.searchsorted(ranked, masked, side="right") - 1 + width, len(ranked) - 1)]
    inside = np.zeros(len(original), dtype=np.bool_)
    inside[known] = (low <= original[known]) & (original[known] <= high)
    return inside, known


def sd_disclosed(
    original: NDArray[np.float64], released: NDArray[np.float64], percent: float, sd: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Records whose original value lies within `percent` per cent of a standard deviation of their masked one.

    Source: Hundepool et al., Statistical Disclosure Control, Wiley, 2012.

    Parameters
    ----------
    original, released : ndarray of float64, shape (n,)
    percent : float
    sd : float
        0 (or NaN, of a single record): disclosed iff equal.

    Returns
    -------
    As `rank_disclosed`.

    Examples
    --------
    >>> sd_disclosed(np.array([1.0, 2.0]), np.array([1.5, 4.0]), 50.0, 1.0)[0].tolist()
    [True, False]
    """
    known = ~(np.isnan(original) | np.isnan(released))
    inside = np.zeros(len(original), dtype=np.bool_)
    apart = np.abs(original[known] - released[known])
    inside[known] = at_most(apart, percent / 100.0 * sd) if sd > 0 else apart == 0
    return inside, known
