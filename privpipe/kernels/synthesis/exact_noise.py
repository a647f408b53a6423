"""Discrete Gaussian noise and the exponential mechanism without a float, and their cost in concentrated privacy.

Source: Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020, algorithms 1 to 3 and
corollary 13; Bun, Steinke, Concentrated differential privacy, TCC 2016.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction

__all__ = ["Below", "chosen", "delta_of", "discrete_gaussian", "rho_within"]

Below = Callable[[int], int]
"""A uniform integer from 0 below a bound; secret, fresh and never from a published seed."""
SECRET: Below = secrets.randbelow
LARGEST_ORDER = 1e6


def _bernoulli(p: Fraction, below: Below) -> bool:
    return below(p.denominator) < p.numerator


def _bernoulli_exp(x: Fraction, below: Below) -> bool:
    """True with probability exp(-x), x >= 0."""
    while x > 1:
        if not _bernoulli_exp(Fraction(1), below):
            return False
        x -= 1
    k = 1
    while _bernoulli(x / k, below):
        k += 1
    return k % 2 == 1


def _geometric_exp(t: int, below: Below) -> int:
    """k with probability proportional to exp(-k / t)."""
    u = below(t)
    while not _bernoulli_exp(Fraction(u, t), below):
        u = below(t)
    v = 0
    while _bernoulli_exp(Fraction(1), below):
        v += 1
    return u + t * v


def discrete_gaussian(variance: Fraction, below: Below = SECRET) -> int:
    """An integer with probability proportional to exp(-y^2 / (2 variance)).

    Examples
    --------
    >>> draws = [discrete_gaussian(Fraction(4)) for _ in range(2000)]
    >>> abs(sum(draws) / 2000) < 0.5, 3 < sum(y * y for y in draws) / 2000 < 5
    (True, True)
    """
    t = math.isqrt(variance.numerator // variance.denominator) + 1
    while True:
        magnitude = _geometric_exp(t, below)
        negative = below(2) == 1
        if negative and not magnitude:
            continue
        y = -magnitude if negative else magnitude
        away = Fraction(abs(y)) - variance / t
        if _bernoulli_exp(away * away / (2 * variance), below):
            return y


def chosen(scores: Sequence[int], rate: Fraction, below: Below = SECRET) -> int:
    """A position with probability proportional to exp(rate * score), exactly: drawn evenly, and taken or left.

    Examples
    --------
    >>> chosen([0, 1000, 3], Fraction(1))
    1
    """
    best = max(scores)
    while True:
        at = below(len(scores))
        if _bernoulli_exp(rate * (best - scores[at]), below):
            return at


def delta_of(rho: float, epsilon: float) -> float:
    """Least delta known for which rho-concentrated privacy is (epsilon, delta)-privacy; any order gives a bound.

    Examples
    --------
    >>> delta_of(0.1, 0.1 + 2 * math.sqrt(0.1 * math.log(1e6))) < 1e-6
    True
    """
    low, high = math.log(1e-6), math.log(LARGEST_ORDER)
    for _ in range(200):  # the exponent is convex in the order
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if _exponent(rho, epsilon, a) < _exponent(rho, epsilon, b):
            high = b
        else:
            low = a
    return min(math.exp(min(_exponent(rho, epsilon, low), 0.0)), 1.0)


def _exponent(rho: float, epsilon: float, log_beyond: float) -> float:
    beyond = math.exp(log_beyond)  # the order less one
    order = 1 + beyond
    return beyond * (order * rho - epsilon) - math.log(beyond) + order * math.log(beyond / order)


def rho_within(epsilon: float, delta: float) -> float:
    """Largest rho that is found to be within (epsilon, delta), from below.

    Examples
    --------
    >>> round(rho_within(1.0, 1e-6), 4), delta_of(rho_within(1.0, 1e-6), 1.0) <= 1e-6
    (0.0244, True)
    """
    low, high = 0.0, epsilon + 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if delta_of(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low
