"""Parameters of SafePub, rounded so that no rounding weakens its proof."""

from __future__ import annotations

import functools
import math

from privpipe.errors import UsageError

__all__ = ["MOST_EPSILON", "delta_of", "safepub_parameters", "sampling_rate"]


OUTWARD = 1 - 1e-13
"""Keeps rounding from decreasing n gamma where it is an integer in exact arithmetic."""
MOST_EPSILON = 15
"""Above this, gamma differs from 1 only by rounding; classes of 50 million records would be too small."""


@functools.lru_cache(maxsize=64)
def safepub_parameters(epsilon: float, delta: float) -> tuple[float, int]:
    """(beta, k): draw each record with probability beta, then suppress classes of fewer than k records.

    Source: Bild, Kuhn, Prasser, SafePub, PoPETs 2018(1); Li, Qardaji, Su, On sampling, anonymization, and
    differential privacy, ASIACCS 2012.

    Parameters
    ----------
    epsilon : float
        In (0, 15].
    delta : float
        In (0, 1).

    Examples
    --------
    >>> beta, k = safepub_parameters(0.1, 1e-3)
    >>> round(beta, 12), k
    (0.095162581964, 27)
    """
    if not (0 < epsilon <= MOST_EPSILON and 0 < delta < 1):
        raise UsageError(
            f"safepub needs epsilon in (0, {MOST_EPSILON}] and delta in (0, 1), got {epsilon!r} and {delta!r}"
        )
    low, high = 0, 1
    while delta_of(high, epsilon) >= delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if delta_of(middle, epsilon) < delta else (middle, high)
    return sampling_rate(epsilon), high + 1


def sampling_rate(epsilon: float) -> float:
    """beta = 1 - exp(-epsilon), rounded toward 0.

    Examples
    --------
    >>> round(sampling_rate(1.0), 6)
    0.632121
    """
    return math.nextafter(-math.expm1(-epsilon), 0.0)


def delta_of(k: int, epsilon: float) -> float:
    """The delta for classes of at least k records: the largest tail of a binomial over all class sizes.

    Falls with k. Larger classes are examined until a Chernoff bound shows that none of them can be worse.

    Examples
    --------
    >>> delta_of(30, 0.1) < delta_of(20, 0.1)
    True
    """
    from scipy.special import betainc

    beta = sampling_rate(epsilon)
    gamma = (math.expm1(epsilon) + beta) / math.exp(epsilon)
    rate = gamma * math.log(gamma / beta) - (gamma - beta)
    size = max(math.ceil((k / gamma - 1) * OUTWARD), 1)
    worst = 0.0
    while True:
        above = math.floor(size * gamma * OUTWARD)
        # P(Bin(size, beta) > above); scipy's tail of the binomial has only eight digits where beta is tiny.
        worst = max(worst, float(betainc(above + 1, size - above, beta)) if above < size else 0.0)
        if worst >= math.exp(-size * rate):
            return worst
        size += _falling(size, gamma)


def _falling(size: int, gamma: float) -> int:
    """Number of sizes from this one on that need no check: tails fall while as many records may be left undrawn.

    Where gamma is nearly 1 there are millions (epsilon = 8: nine).
    """

    def undrawn(more: int) -> int:
        return size + more - math.floor((size + more) * gamma * OUTWARD)

    high = 1
    while undrawn(high) <= undrawn(0):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if undrawn(middle) <= undrawn(0) else (low, middle)
    return high
