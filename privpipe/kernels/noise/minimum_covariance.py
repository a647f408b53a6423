"""Centre and scatter that are robust to outliers: the minimum covariance determinant, by FAST-MCD."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints
from privpipe.draws import Stream

__all__ = ["Scatter", "chi_square_quantile", "minimum_covariance"]

Numbers = Floats
Places = Ints

LEAST_STARTS, MOST_STARTS = 500, 5000
KEPT = 10
FIRST = 1500
"""Points in the sample on which the starts are tried; the paper takes five times 300."""
LOOKS = 750_000
"""Points that all starts on a small table may visit together: the fewer points, the more starts."""
TOGETHER = 40_000
MOST_STEPS = 200
FLOOR = 1e-10
"""Least variance of a direction; where the chosen points have less, they are on a plane, and others far from it."""
WEIGHED = 0.975
FARTHEST = 1e70
"""Larger offsets are reduced to this: their squares can then be added up, and they remain outliers."""


@dataclass(frozen=True)
class Scatter:
    """A centre, and axes in which the squared length of a point's offset is its squared robust distance.

    Parameters
    ----------
    centre : ndarray of float64, shape (s,)
    axes : ndarray of float64, shape (s, s)
        A with A A' the inverse of the scatter.
    rank : int
        Directions in which most points differ: the degrees of freedom of a squared distance.
    """

    centre: Numbers
    axes: Numbers
    rank: int

    def squared_distances(self, points: Numbers) -> Numbers:
        """Squared robust distance of each point, shape (n,)."""
        return np.asarray((((points - self.centre) @ self.axes) ** 2).sum(axis=-1))

    def among(self, places: Sequence[int]) -> Scatter:
        """Centre and scatter of only some of the coordinates.

        Examples
        --------
        >>> part = Scatter(np.zeros(2), np.diag([1.0, 0.5]), 2).among([1])
        >>> part.squared_distances(np.array([[4.0]])).round(9).tolist()
        [4.0]
        """
        variances = 1 / (self.axes**2).sum(axis=0)
        scatter = (self.axes * variances**2) @ self.axes.T
        chosen = np.asarray(places)
        # A variance at the floor is recovered only up to rounding.
        return _scatter(self.centre[chosen], scatter[np.ix_(chosen, chosen)], 2 * FLOOR)


def chi_square_quantile(share: float, freedom: int) -> float:
    """The value that a chi-square variable stays below with that probability.

    Examples
    --------
    >>> round(chi_square_quantile(0.975, 2), 4)
    7.3778
    """
    from scipy.special import gammaincinv

    return float(2 * gammaincinv(freedom / 2, share))


def minimum_covariance(points: Numbers) -> Scatter:
    """Mean and covariance of the points that are near the centre of the h = floor((n + s + 1) / 2) closest ones.

    Source: Rousseeuw, Van Driessen, A fast algorithm for the minimum covariance determinant estimator, Technometrics
    41(3), 1999. 500 subsets of s + 1 points, up to 5,000 of few points, take two concentration steps each among 1,500
    points, the ten of least determinant are carried to convergence among all; the best covariance is scaled so that the
    median squared distance is that of the chi-square distribution, and mean and covariance (divisor: weights - 1) are
    taken of the points within its .975 quantile.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        n >= 2 (s + 1), none NaN, in units in which the middle half of each column spreads over about one: directions
        with a variance below 1e-10 are taken to have that much. Their order changes no bit of the result.

    Examples
    --------
    >>> points = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5], [90, 90], [2, 1], [1, 2]])
    >>> minimum_covariance(points).squared_distances(points).argmax().item()
    5
    """
    n, s = points.shape
    points = np.clip(points, -FARTHEST, FARTHEST)
    points = points[np.lexsort(points.T)]
    chosen = _best(points, (n + s + 1) // 2)
    centre, scatter = _moments(points, chosen[None])
    raw = _scatter(centre[0], scatter[0])
    distances = raw.squared_distances(points)
    middle = float(np.median(distances)) / chi_square_quantile(0.5, raw.rank)
    near = distances <= chi_square_quantile(WEIGHED, raw.rank) * (middle or 1.0)
    centre, scatter = _moments(points, np.flatnonzero(near)[None])
    weight = int(near.sum())
    return _scatter(centre[0], scatter[0] * (weight / (weight - 1)))


def _best(points: Numbers, h: int) -> Places:
    """The h points with the least determinant found."""
    n = len(points)
    first = points if n <= FIRST else points[np.argsort(_words("first", n), kind="stable")[:FIRST]]
    share = max(h * len(first) // n, points.shape[1] + 1)
    starts = _subsets(len(first), points.shape[1] + 1)
    tried: list[tuple[float, Places]] = []
    together = TOGETHER // len(first)
    for begin in range(0, len(starts), together):
        chosen = starts[begin : begin + together]
        for _ in range(2):
            chosen = _nearest(first, *_moments(first, chosen), share)
        sizes = _axes(_moments(first, chosen)[1])[1]
        tried.extend(zip(sizes.tolist(), chosen, strict=True))
    tried.sort(key=lambda each: each[0])
    ended = [_converged(points, first[chosen], h) for _, chosen in tried[:KEPT]]
    return min(ended, key=lambda each: each[0])[1]


def _converged(points: Numbers, start: Numbers, h: int) -> tuple[float, Places]:
    """Concentration steps until the determinant stops falling; it falls strictly, so they end."""
    moments = _moments(start, np.arange(len(start))[None])
    least, chosen = np.inf, np.arange(h)
    for _ in range(MOST_STEPS):
        found = _nearest(points, *moments, h)
        moments = _moments(points, found)
        size = float(_axes(moments[1])[1][0])
        if not size < least:
            break
        least, chosen = size, found[0]
    return least, chosen


def _subsets(n: int, size: int) -> Places:
    """Places of `size` random points for each start, shape (starts, size)."""
    starts = min(max(LOOKS // n, LEAST_STARTS), MOST_STARTS)
    return np.argsort(_words("starts", starts * n).reshape(starts, n), axis=1, kind="stable")[:, :size]


def _words(use: str, count: int) -> NDArray[np.uint64]:
    """Words of a public key: no released value depends on them."""
    return Stream(hashlib.sha256(f"privpipe/minimum covariance/{use}".encode()).digest()[:16]).counter(0, count)


def _moments(points: Numbers, chosen: Places) -> tuple[Numbers, Numbers]:
    """Means, shape (m, s), and covariances with divisor h, shape (m, s, s), of m subsets of h points."""
    subsets = points[chosen]
    centre = subsets.mean(axis=1)
    off = subsets - centre[:, None]
    return centre, np.swapaxes(off, 1, 2) @ off / chosen.shape[1]


def _nearest(points: Numbers, centre: Numbers, scatter: Numbers, h: int) -> Places:
    """The h points nearest to each centre, ties in the order of the points."""
    axes, _ = _axes(scatter)
    far = (((points[None] - centre[:, None]) @ axes) ** 2).sum(axis=2)
    return np.sort(np.argsort(far, axis=1, kind="stable")[:, :h], axis=1)


def _axes(scatter: Numbers) -> tuple[Numbers, Numbers]:
    """Factors of the inverses and logarithms of the determinants."""
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values, FLOOR)
    return vectors / np.sqrt(values)[..., None, :], np.log(values).sum(axis=-1)


def _scatter(centre: Numbers, scatter: Numbers, least: float = FLOOR) -> Scatter:
    rank = int((np.linalg.eigvalsh(scatter) > least).sum())
    return Scatter(centre, _axes(scatter)[0], max(rank, 1))
