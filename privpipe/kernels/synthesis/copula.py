"""The Gaussian copula: marginals as scores and inverses, and the correlations of the latent normal variables.

A category is an interval of a normal variable, and so is a number that many records hold; scores of intervals
correlate less than the variables do. The correlation of two grouped variables is a power series in that of the
variables.

Sources: Nelsen, An Introduction to Copulas, Springer, 2006; Olsson, Maximum likelihood estimation of the polychoric
correlation coefficient, Psychometrika 44, 1979; Cario, Nelson, Modeling and generating random vectors with arbitrary
marginal distributions and correlation matrix, Northwestern University, 1997; the series is Mehler's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from privpipe.blocks.arrays import Floats, Ints
from privpipe.kernels.synthesis.scores import normal_quantiles

__all__ = [
    "category_scores",
    "grouped_correlation",
    "interval_terms",
    "inverse_shares",
    "latent_correlation",
    "uniforms_of",
    "within_share",
]


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


def inverse_shares(u: Floats, shares: Sequence[float] | Floats) -> Ints:
    """The category whose interval holds u.

    Examples
    --------
    >>> inverse_shares(np.array([0.1, 0.5, 0.99]), [0.5, 0.25, 0.25]).tolist()
    [0, 1, 2]
    """
    ends = np.cumsum(np.asarray(shares, np.float64))
    return np.searchsorted(ends[:-1], u, side="right").astype(np.int64)


def within_share(u: Floats, codes: Ints, shares: Sequence[float] | Floats) -> Floats:
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


TERMS = 200
STEPS = 50
MOST_INTERVALS = 2000
EDGE = 2.0**-53


def interval_terms(shares: Sequence[float] | Floats) -> Floats:
    """Coefficients of the standardised scores of these intervals in the first 200 normalised Hermite polynomials.

    Parameters
    ----------
    shares : sequence of float
        Of consecutive intervals, above 0, with sum 1. More than 2,000 are joined to about as many.

    Returns
    -------
    ndarray of float64, shape (200,)
        Zeros for a single interval, whose score does not vary.

    Examples
    --------
    >>> interval_terms([0.5, 0.5])[:2].round(4).tolist()
    [0.7979, 0.0]
    """
    widths = np.asarray(shares, np.float64)
    if len(widths) > MOST_INTERVALS:
        middles = np.cumsum(widths) - widths / 2.0
        groups = np.unique(np.floor(middles * MOST_INTERVALS), return_inverse=True)[1]
        widths = np.asarray(np.bincount(groups, weights=widths), np.float64)
    scores = category_scores(widths)
    centred = scores - float(scores @ widths)
    sd = float(np.sqrt((centred * centred) @ widths))
    if len(widths) < 2 or not sd > 0:
        return np.zeros(TERMS)
    cuts = normal_quantiles(np.clip(np.cumsum(widths)[:-1], EDGE, 1.0 - EDGE))
    # The integral of a polynomial over an interval is that of the one before it at its two ends.
    steps = np.diff(centred) / sd * np.exp(-cuts * cuts / 2.0) / np.sqrt(2.0 * np.pi)
    before, here, found = np.zeros(len(cuts)), np.ones(len(cuts)), np.empty(TERMS)
    for k in range(1, TERMS + 1):
        found[k - 1] = float(steps @ here) / np.sqrt(k)
        before, here = here, (cuts * here - np.sqrt(k - 1.0) * before) / np.sqrt(k)
    return found


def grouped_correlation(latent: Floats, first: Floats, second: Floats) -> Floats:
    """Correlation of the scores where the variables have this one.

    Parameters
    ----------
    latent : ndarray of float64, shape (p,)
    first, second : ndarray of float64, shape (p, 200)
        `interval_terms` of both sides.
    """
    terms = first * second
    total = np.zeros(len(latent))
    for k in range(TERMS - 1, -1, -1):
        total = (total + terms[:, k]) * latent
    return total


def latent_correlation(observed: Floats, first: Floats, second: Floats) -> Floats:
    """Correlation of the variables where the scores have this one; -1 or 1 where none reaches it, 0 where it is 0.

    Examples
    --------
    >>> halves = interval_terms([0.5, 0.5])[None]
    >>> latent_correlation(np.array([1 / 3]), halves, halves).round(3).tolist()
    [0.5]
    """
    low, high = np.full(len(observed), -1.0), np.ones(len(observed))
    reached = [grouped_correlation(each, first, second) for each in (low, high)]
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        below = grouped_correlation(middle, first, second) < observed
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found = np.where(observed >= reached[1], 1.0, np.where(observed <= reached[0], -1.0, (low + high) / 2.0))
    return np.where((observed == 0) | ~(first.any(axis=1) & second.any(axis=1)), 0.0, found)
