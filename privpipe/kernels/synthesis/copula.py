"""Marginals of a Gaussian copula: equal-count histograms of numbers, shares of categories, and their inverses.

Source: Nelsen, An Introduction to Copulas, Springer, 2006.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privpipe.kernels.synthesis.normal_scores import ValueRanks, normal_quantiles

__all__ = ["category_scores", "cell_edges", "inverse_histogram", "inverse_shares", "uniforms_of"]

Floats = NDArray[np.float64]
OUTERMOST = 5
"""Values that an end of the histogram is the mean of, and fewest records of a cell."""


def cell_edges(ranks: ValueRanks, bins: int) -> tuple[Floats, Floats]:
    """Edges of cells of equal counts, and the share of records up to each.

    An inner edge is the middle of the two values beside it; the ends are the means of the 5 outermost values of the end
    cells, so no extreme is published. A cell has at least 5 records (all, where there are fewer).

    Parameters
    ----------
    ranks : ValueRanks
        Of n >= 1 values.
    bins : int
        Most cells.

    Returns
    -------
    edges : ndarray of float64, shape (cells + 1,)
        Ascending.
    shares : ndarray of float64, shape (cells + 1,)
        From 0 to 1.

    Examples
    --------
    >>> ranks = ValueRanks.of(np.arange(1.0, 11.0), np.ones(10, np.int64))
    >>> [array.tolist() for array in cell_edges(ranks, 4)]
    [[3.0, 5.5, 8.0], [0.0, 0.5, 1.0]]
    """
    n = len(ranks)
    cells = max(min(bins, n // OUTERMOST), 1)
    cuts = np.arange(cells + 1, dtype=np.int64) * n // cells

    def at(places: NDArray[np.int64]) -> Floats:
        return np.asarray(ranks.values[np.searchsorted(ranks.offsets, places, side="right") - 1], np.float64)

    low, high = at(np.arange(min(OUTERMOST, cuts[1]))), at(np.arange(max(n - OUTERMOST, cuts[-2]), n))
    before, after = at(cuts[1:-1] - 1), at(cuts[1:-1])
    inner = before + (after - before) / 2.0
    edges = np.concatenate([[_mean(low)], inner, [_mean(high)]])
    return np.maximum.accumulate(edges), cuts / n


def _mean(values: Floats) -> float:
    # Off the first, so that equal values have their own value as mean.
    return float(values[0] + (values - values[0]).sum() / len(values))


def inverse_histogram(u: Floats, edges: Floats, shares: Floats) -> Floats:
    """Values with these shares of records below them: linear within a cell.

    Examples
    --------
    >>> edges, shares = np.array([0.0, 10.0, 30.0]), np.array([0.0, 0.5, 1.0])
    >>> inverse_histogram(np.array([0.0, 0.25, 0.75, 1.0]), edges, shares).tolist()
    [0.0, 5.0, 20.0, 30.0]
    """
    at = np.clip(np.searchsorted(shares, u, side="right") - 1, 0, len(edges) - 2)
    within = (u - shares[at]) / (shares[at + 1] - shares[at])
    return np.asarray(edges[at] + within * (edges[at + 1] - edges[at]))


def category_scores(shares: Sequence[float] | Floats) -> Floats:
    """Normal quantile of the middle of each category's interval, in the order of the shares.

    Examples
    --------
    >>> category_scores([0.5, 0.5]).round(4).tolist()
    [-0.6745, 0.6745]
    """
    widths = np.asarray(shares, np.float64)
    ends = np.cumsum(widths)
    return normal_quantiles(np.clip(ends - widths / 2.0, 2.0**-53, 1.0 - 2.0**-53))


def inverse_shares(u: Floats, shares: Sequence[float] | Floats) -> NDArray[np.int64]:
    """The category whose interval holds u.

    Examples
    --------
    >>> inverse_shares(np.array([0.1, 0.5, 0.99]), [0.5, 0.25, 0.25]).tolist()
    [0, 1, 2]
    """
    ends = np.cumsum(np.asarray(shares, np.float64))
    return np.searchsorted(ends[:-1], u, side="right").astype(np.int64)


def uniforms_of(normals: Sequence[Floats], factor: Sequence[Sequence[float]]) -> list[Floats]:
    """Phi(A z), column by column; added up term by term, so that blocks of any length give the same bits.

    Examples
    --------
    >>> uniforms_of([np.array([0.0]), np.array([1.0])], [[1.0, 0.0], [0.6, 0.8]])[1].round(4).tolist()
    [0.7881]
    """
    found = []
    for row in factor:
        total = np.zeros(len(normals[0]))
        for weight, z in zip(row, normals, strict=True):
            total += weight * z
        found.append(np.asarray(ndtr(total), np.float64))
    return found
