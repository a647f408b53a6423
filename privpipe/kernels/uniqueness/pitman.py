"""Uniques of a population by Pitman's sampling formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pitman"]

LEAST_ALPHA = 1e-12
MOST_ALPHA = 1 - 1e-12
# Terms of a sum that are added one by one; from there on the formula of Euler and Maclaurin is exact to 1e-14.
ONE_BY_ONE = 64


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
    first, alpha = found
    if alpha == 0:
        return first
    return population * math.exp(_log_gamma_ratio(first, 1 - alpha) + (alpha - 1) * math.log(population))


class _Likelihood:
    """Scores of theta and alpha, given the class sizes of a sample."""

    def __init__(self, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self.records = int(sizes @ counts)
        self.classes = int(counts.sum())
        several = sizes >= 2
        self.sizes, self.counts = sizes[several].astype(np.float64), counts[several].astype(np.float64)

    def greatest(self) -> tuple[float, float] | None:
        """(theta + alpha, alpha): a root of both scores, by one bracketed search within another."""
        from scipy.optimize import brentq

        ewens = self.first(0.0)  # (C - 1)/theta = psi(n + theta) - psi(1 + theta)
        if self.least_at_the_boundary(ewens):
            return ewens, 0.0
        if self.profile(LEAST_ALPHA) <= 0:
            return ewens, 0.0
        if self.profile(MOST_ALPHA) >= 0:
            return None
        alpha = float(brentq(self.profile, LEAST_ALPHA, MOST_ALPHA, xtol=1e-14))
        return self.first(alpha), alpha

    def least_at_the_boundary(self, theta: float) -> bool:
        """Whether the profile score at alpha = 0 is not positive: few uniques."""
        drawn = float((self.counts * (_psi(self.sizes) + np.euler_gamma)).sum())
        return self.classes * (self.classes - 1) / (2 * theta) <= drawn

    def first(self, alpha: float) -> float:
        """theta + alpha at the root in theta, given alpha; bracketed by its logarithm."""
        from scipy.optimize import brentq

        high = math.log(1000.0)
        while self.score(high, alpha) > 0:
            high += 2
        return math.exp(brentq(self.score, -40.0, high, (alpha,), xtol=1e-13))

    def score(self, logarithm: float, alpha: float) -> float:
        """Score of theta, times theta + alpha: of the classes less of the records.

        Where theta is large each sum is nearly the number of its terms and the difference loses all digits; what they
        lack of it is added up instead.
        """
        first, rest = math.exp(logarithm), 1 - alpha
        of_classes = first * _reciprocals(first, alpha, self.classes - 1)
        reciprocals = _reciprocals(first + rest, 1.0, self.records - 1)
        if 2 * of_classes < self.records:
            return of_classes - first * reciprocals
        lacking = rest * reciprocals + _rises(first + rest + 1, 1.0, self.records - 2)
        lacking_of_classes = alpha * _rises(first + alpha, alpha, self.classes - 2)
        return lacking - lacking_of_classes - (self.records - self.classes)

    def profile(self, alpha: float) -> float:
        """Score of alpha where theta is at its root; falls from positive to negative when the maximum is inside."""
        falls = float((self.counts * (_psi(self.sizes - alpha) - _psi(1 - alpha))).sum())
        return _rises(self.first(alpha), alpha, self.classes - 1) - falls


def _reciprocals(first: float, step: float, terms: int) -> float:
    """Sum of 1/(first + i step) over i = 0 .. terms - 1.

    A difference of two digammas says the same, but loses every digit where first/step is large.
    """
    if not step:
        return terms / first
    each = np.arange(min(terms, ONE_BY_ONE))
    total = float((1 / (first + each * step)).sum())
    if terms <= ONE_BY_ONE:
        return total
    low, high = first + (ONE_BY_ONE - 1) * step, first + (terms - 1) * step
    area = math.log1p((terms - ONE_BY_ONE) * step / low) / step
    slopes = step * (low**-2 - high**-2) / 12 - step**3 * (low**-4 - high**-4) / 120
    return total + area + (1 / high - 1 / low) / 2 + slopes


def _rises(first: float, step: float, terms: int) -> float:
    """Sum of (i + 1)/(first + i step) over i = 0 .. terms - 1, as the one above."""
    if not step:
        return terms * (terms + 1) / 2 / first
    each = np.arange(min(terms, ONE_BY_ONE))
    total = float(((each + 1) / (first + each * step)).sum())
    if terms <= ONE_BY_ONE:
        return total
    low, high, width = first + (ONE_BY_ONE - 1) * step, first + (terms - 1) * step, float(terms - ONE_BY_ONE)
    ratio = width * step / low
    area = ONE_BY_ONE * math.log1p(ratio) / step + width**2 / low * _beyond_first_order(ratio)
    slopes = (first - step) * ((high**-2 - low**-2) / 12 - step**2 * (high**-4 - low**-4) / 120)
    return total + area + (terms / high - ONE_BY_ONE / low) / 2 + slopes


def _beyond_first_order(ratio: float) -> float:
    """(r - ln(1 + r))/r^2, by its series where the difference would cancel."""
    if ratio < 0.05:
        return sum((-ratio) ** power / (power + 2) for power in range(14))
    return (ratio - math.log1p(ratio)) / ratio**2


def _log_gamma_ratio(start: float, step: float) -> float:
    """ln(Gamma(start + step)/Gamma(start)), step in (0, 1); two logarithms of gammas of 1e11 would cancel."""
    if start < 100:
        return math.lgamma(start + step) - math.lgamma(start)
    end = start + step
    thirds = (1 / end - 1 / start) / 12 - (end**-3 - start**-3) / 360
    return (start - 0.5) * math.log1p(step / start) + step * (math.log(end) - 1) + thirds


def _psi(values: Any) -> Any:
    from scipy.special import digamma

    return digamma(values)
