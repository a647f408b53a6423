"""How far the distributions of two tables are apart: of columns, of pairs of them, of scores."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["hellinger", "largest_gap", "quantile_bins", "total_variation", "transport"]

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


def quantile_bins(known: Numbers, values: Numbers, bins: int) -> Codes:
    """The bin of each value among those at the quantiles of `known`, shape (n,); missing ones have one of their own.

    A bin holds its lower edge; the first and the last are open, equal edges are one. A constant column has three bins:
    below, at and above its value.

    Parameters
    ----------
    known : ndarray of float64
        NaN is missing.
    values : ndarray of float64
    bins : int

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> quantile_bins(x, np.array([-9.0, 2.0, 3.0, 9.0, np.nan]), 2).tolist()
    [0, 0, 1, 1, -1]
    """
    own = known[~np.isnan(known)]
    edges = np.unique(np.quantile(own, np.linspace(0, 1, bins + 1))) if len(own) else np.zeros(0)
    found = np.full(len(values), -1, dtype=np.int64)
    there = ~np.isnan(values)
    if len(edges) == 1:
        found[there] = np.sign(values[there] - edges[0]).astype(np.int64) + 1
    else:
        found[there] = np.searchsorted(edges[1:-1], values[there], side="right")
    return found


def hellinger(before: Codes, after: Codes) -> float:
    """sqrt(1 - sum sqrt(p q)) of the shares of two columns of codes, in [0, 1].

    Examples
    --------
    >>> round(hellinger(np.array([0, 1]), np.array([0, 0])), 6), hellinger(np.array([0]), np.array([1]))
    (0.541196, 1.0)
    """
    p, q = _shares(before, after)
    # Of nearly equal shares 1 - sum has no digits left: this is the same, term by term.
    return math.sqrt(min(1.0, 0.5 * math.fsum(((np.sqrt(p) - np.sqrt(q)) ** 2).tolist())))


def total_variation(before: Codes, after: Codes) -> float:
    """1/2 sum |p - q| of the shares of two columns of codes, in [0, 1].

    Examples
    --------
    >>> total_variation(np.array([0, 1]), np.array([0, 0]))
    0.5
    """
    p, q = _shares(before, after)
    return 0.5 * math.fsum(np.abs(p - q).tolist())


def transport(x: Numbers, y: Numbers) -> float:
    """Integral of |F_X - F_Y| over the numbers: Wasserstein's first distance; NaN without a value on either side.

    Examples
    --------
    >>> transport(np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    1.5
    """
    first, second = (np.sort(side[~np.isnan(side)]) for side in (x, y))
    if not len(first) or not len(second):
        return math.nan
    union = np.unique(np.concatenate([first, second]))
    gaps = [np.searchsorted(side, union[:-1], side="right") / len(side) for side in (first, second)]
    return math.fsum((np.abs(gaps[0] - gaps[1]) * np.diff(union)).tolist())


def largest_gap(scores: Numbers, told: Numbers) -> float:
    """Largest difference of two distribution functions of scores, those told 0 and those told 1: Kolmogorov, Smirnov.

    Scores are equal to nine decimals: rows that are the same may differ in the last bits of a fit.

    Examples
    --------
    >>> largest_gap(np.array([0.1, 0.2, 0.8, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    1.0
    """
    values, places = np.unique(np.round(scores, 9), return_inverse=True)
    places = places.ravel()
    shares = [
        np.cumsum(np.bincount(places[told == side], minlength=len(values))) / max(int((told == side).sum()), 1)
        for side in (0.0, 1.0)
    ]
    return float(np.abs(shares[0] - shares[1]).max(initial=0.0))


def _shares(before: Codes, after: Codes) -> tuple[Numbers, Numbers]:
    _, places = np.unique(np.concatenate([before, after]), return_inverse=True)
    places = places.ravel()
    width = int(places.max()) + 1 if len(places) else 0
    p, q = (np.bincount(side, minlength=width) / len(side) for side in (places[: len(before)], places[len(before) :]))
    return p, q
