"""Marginals of a Gaussian copula: shares of categories or cells, their scores, and their inverses.

Source: Nelsen, An Introduction to Copulas, Springer, 2006.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privpipe.kernels.synthesis.normal_scores import normal_quantiles

__all__ = ["category_scores", "inverse_shares", "uniforms_of", "within_share"]

Floats = NDArray[np.float64]


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


def within_share(u: Floats, codes: NDArray[np.int64], shares: Sequence[float] | Floats) -> Floats:
    """How far u lies on its way through the interval of its category, in [0, 1).

    Examples
    --------
    >>> within_share(np.array([0.25, 0.625]), np.array([0, 1]), [0.5, 0.5]).tolist()
    [0.5, 0.25]
    """
    widths = np.asarray(shares, np.float64)
    first = (np.cumsum(widths) - widths)[codes]
    return np.clip((u - first) / widths[codes], 0.0, 1.0 - 2.0**-53)


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
