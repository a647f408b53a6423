"""What masked numbers have lost, by cells, moments and correlations, whatever the order of the records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.sums.exact import measure_sums

__all__ = [
    "arctan_loss",
    "correlation_loss",
    "eigen_loss",
    "moment_loss",
    "relative_loss",
    "squared_loss",
    "standardised_loss",
]

Numbers = NDArray[np.float64]
Figures = dict[str, float]


def standardised_loss(before: Sequence[Numbers], after: Sequence[Numbers], sd: Sequence[float]) -> list[float]:
    """IL1s of each column: the mean of |x - y| / (sqrt(2) sd) over the cells that are known on both sides.

    NaN for a column without deviation or without such a cell. The mean over all cells is that of the columns, weighted
    by their cells. Source: Mateo-Sanz, Domingo-Ferrer, Sebe, Data Mining and Knowledge Discovery 11, 2005.

    Parameters
    ----------
    before, after : sequence of s ndarrays of float64, shape (n,)
        NaN: no value.
    sd : sequence of s floats
        Of the original, divisor n - 1.

    Examples
    --------
    >>> standardised_loss([np.array([1.0, 2.0, 3.0])], [np.array([1.0, 2.0, 5.0])], [1.0])
    [0.4714045207910316]
    """
    return [
        _mean(_apart(x, y) / (math.sqrt(2) * scale)) if scale > 0 else math.nan
        for x, y, scale in zip(before, after, sd, strict=True)
    ]


def relative_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> list[tuple[float, int]]:
    """IL1 of each column and the cells it rests on: the mean of |x - y| / |x|, cells with x = 0 dropped.

    Examples
    --------
    >>> relative_loss([np.array([0.0, 2.0, 4.0])], [np.array([9.0, 3.0, 4.0])])
    [(0.25, 2)]
    """
    found = []
    for x, y in zip(before, after, strict=True):
        kept = x != 0
        shares = _apart(x[kept], y[kept]) / np.abs(x[kept & ~np.isnan(x) & ~np.isnan(y)])
        found.append((_mean(shares), len(shares)))
    return found


def squared_loss(
    before: Sequence[Numbers], after: Sequence[Numbers], mean: Sequence[float], sd: Sequence[float]
) -> Any:
    """SSE and SST of each column on the scale of the original: (sse, sst), both NaN for a constant column.

    Examples
    --------
    >>> [(sse, sst)] = squared_loss([np.array([1.0, 2.0, 3.0])], [np.array([1.0, 2.0, 5.0])], [2.0], [1.0])
    >>> sse, sst
    (4.0, 2.0)
    """
    found = []
    for x, y, centre, scale in zip(before, after, mean, sd, strict=True):
        if not scale > 0:
            found.append((math.nan, math.nan))
            continue
        known = ~np.isnan(x) & ~np.isnan(y)
        sse = math.fsum((((x[known] - y[known]) / scale) ** 2).tolist())
        found.append((sse, math.fsum((((x[known] - centre) / scale) ** 2).tolist())))
    return found


def arctan_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> list[float]:
    """Mean of (2 / pi) arctan |x - y| of each column: depends on units and saturates, so only to compare.

    Examples
    --------
    >>> arctan_loss([np.array([0.0, 1.0])], [np.array([1.0, 1.0])])
    [0.25]
    """
    return [_mean(2 / math.pi * np.arctan(_apart(x, y))) for x, y in zip(before, after, strict=True)]


def moment_loss(x: Numbers, y: Numbers) -> Figures:
    """Shifts of mean, median, deviation and median absolute deviation of one column, in deviations of the original.

    A column without deviation is 0 where the moment is the same to the last bit, else 1.

    Returns
    -------
    dict
        ``mean`` |m' - m| / sd, ``sd`` |sd' / sd - 1|, ``median`` |median' - median| / sd, ``mad`` |mad' - mad| / sd,
        the last with MAD = median |x - median|. NaN without a value on either side.

    Examples
    --------
    >>> moment_loss(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    {'mean': 1.0, 'sd': 0.0, 'median': 1.0, 'mad': 0.0}
    """
    sides = []
    # From the least value on: far from 0 a mean has no digits left for a shift that is small beside it.
    start = np.nanmin(x) if (~np.isnan(x)).any() else 0.0
    for values in (x, y):
        known = np.sort(values[~np.isnan(values)] - start)
        if not len(known):
            return dict.fromkeys(("mean", "sd", "median", "mad"), math.nan)
        sums = measure_sums([known])
        middle = float(np.median(known))
        sides.append((sums.mean(), sums.sd() if len(known) > 1 else 0.0, middle, float(np.median(abs(known - middle)))))
    scale = sides[0][1]
    shifts = [abs(new - old) for old, new in zip(*sides, strict=True)]
    if scale > 0:
        return dict(zip(("mean", "sd", "median", "mad"), (shift / scale for shift in shifts), strict=True))
    return dict(zip(("mean", "sd", "median", "mad"), (float(shift > 0) for shift in shifts), strict=True))


def correlation_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> tuple[float, float]:
    """Mean and maximum over pairs of columns of |r - r'|; NaN for fewer than two columns.

    No column may be constant on either side. Records with a null in some column are left out on their side.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    >>> correlation_loss([x, x], [x, y])
    (0.5, 0.5)
    """
    first, second = measure_sums(before).correlation(), measure_sums(after).correlation()
    upper = np.triu_indices(len(first), 1)
    apart = np.abs(first[upper] - second[upper])
    return (_mean(apart), float(apart.max())) if len(apart) else (math.nan, math.nan)


def eigen_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> float:
    """sum |e - e'| / sum e over the sorted eigenvalues of the correlation matrices.

    Divided by the total, so that an eigenvalue of 0 (collinear columns) is harmless. NaN where a correlation
    is undefined.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    >>> round(eigen_loss([x, x], [x, y]), 12)
    0.5
    """
    matrices = [measure_sums(side).correlation() for side in (before, after)]
    if any(np.isnan(matrix).any() for matrix in matrices):
        return math.nan
    first, second = (np.sort(np.linalg.eigvalsh(matrix)) for matrix in matrices)
    return math.fsum(np.abs(first - second).tolist()) / len(first)


def _apart(x: Numbers, y: Numbers) -> Numbers:
    known = ~np.isnan(x) & ~np.isnan(y)
    apart: Numbers = np.abs(x[known] - y[known])
    return apart


def _mean(values: Numbers) -> float:
    return math.fsum(values.tolist()) / len(values) if len(values) else math.nan
