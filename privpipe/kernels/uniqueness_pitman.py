"""Uniques of a population by Pitman's sampling formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pitman"]

LEAST_ALPHA = 1e-6
MOST_ALPHA = 1 - 1e-12


def pitman(sizes: NDArray[np.int64], counts: NDArray[np.int64], population: int) -> float | None:
    """U = Gamma(theta + 1)/Gamma(theta + alpha) N^alpha at the parameters of greatest likelihood.

    Sources: Pitman, Probab. Theory Relat. Fields 102, 1995; Hoshino, Applying Pitman's sampling formula to microdata
    disclosure risk assessment, J. Off. Stat. 17(4), 2001.

    Parameters
    ----------
    sizes, counts : ndarray of int64, shape (j,)
        Distinct class sizes, ascending, and the number of classes of each.
    population : int

    Returns
    -------
    float or None
        None where every class has one record, or there are fewer than two classes. Where few records are unique
        the likelihood is greatest at alpha <= 0; alpha = 0 (Ewens) is taken, which errs high.

    Examples
    --------
    >>> round(pitman(np.array([1, 2, 5]), np.array([20, 6, 2]), 420), 2)
    50.88
    """
    if int(counts.sum()) < 2 or int(sizes.max()) < 2 or 1 not in sizes:
        return None
    found = _Likelihood(sizes, counts).greatest()
    if found is None:
        return None
    theta, alpha = found
    if alpha == 0:
        return theta
    log_share = math.lgamma(theta + 1) - math.lgamma(theta + alpha) + (alpha - 1) * math.log(population)
    return population * math.exp(log_share)


class _Likelihood:
    """Scores of theta and alpha, given the class sizes of a sample."""

    def __init__(self, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self.records = int(sizes @ counts)
        self.classes = int(counts.sum())
        several = sizes >= 2
        self.sizes, self.counts = sizes[several].astype(np.float64), counts[several].astype(np.float64)

    def greatest(self) -> tuple[float, float] | None:
        """(theta, alpha): a root of both scores, by one bracketed search within another."""
        from scipy.optimize import brentq

        ewens = self.ewens()
        if ewens is None:
            return None
        if self.least_at_the_boundary(ewens):
            return ewens, 0.0
        if self.profile(LEAST_ALPHA) <= 0:
            return ewens, 0.0
        if self.profile(MOST_ALPHA) >= 0:
            return None
        alpha = float(brentq(self.profile, LEAST_ALPHA, MOST_ALPHA, xtol=1e-14))
        return self.theta(alpha), alpha

    def ewens(self) -> float | None:
        """theta at alpha = 0: (C - 1)/theta = psi(n + theta) - psi(1 + theta)."""
        from scipy.optimize import brentq

        def score(log_theta: float) -> float:
            theta = math.exp(log_theta)
            return (self.classes - 1) / theta - float(_psi(self.records + theta) - _psi(1 + theta))

        high = math.log(1000.0)
        while score(high) > 0:
            high += 2
            if high > 600:
                return None
        return math.exp(brentq(score, -40.0, high, xtol=1e-13))

    def least_at_the_boundary(self, theta: float) -> bool:
        """Whether the profile score at alpha = 0 is not positive: few uniques."""
        drawn = float((self.counts * (_psi(self.sizes) + np.euler_gamma)).sum())
        return self.classes * (self.classes - 1) / (2 * theta) <= drawn

    def theta(self, alpha: float) -> float:
        """The root in theta, given alpha; bracketed in y = ln(theta + alpha)."""
        from scipy.optimize import brentq

        def score(y: float) -> float:
            theta = math.exp(y) - alpha
            rise = float(_psi(self.classes + theta / alpha) - _psi(1 + theta / alpha))
            return rise / alpha - float(_psi(self.records + theta) - _psi(1 + theta))

        high = math.log(1000.0)
        while score(high) > 0:
            high += 2
        return math.exp(brentq(score, -40.0, high, xtol=1e-13)) - alpha

    def profile(self, alpha: float) -> float:
        """Score of alpha where theta is at its root; falls from positive to negative when the maximum is inside."""
        theta = self.theta(alpha)
        rise = float(_psi(self.classes + theta / alpha) - _psi(1 + theta / alpha))
        falls = float((self.counts * (_psi(self.sizes - alpha) - _psi(1 - alpha))).sum())
        return ((self.classes - 1) - theta / alpha * rise) / alpha - falls


def _psi(values: Any) -> Any:
    from scipy.special import digamma

    return digamma(values)
