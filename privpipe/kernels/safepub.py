"""Sampling rate and class size that make a sampled, generalized and suppressed table differentially private."""

from __future__ import annotations

import functools
import math

from privpipe.errors import UsageError

__all__ = ["delta_of", "safepub_parameters", "sampling_rate"]

OUTWARD = 1 - 1e-13
"""n gamma is an integer in exact arithmetic for some parameters; rounding must not take it below."""


@functools.lru_cache(maxsize=64)
def safepub_parameters(epsilon: float, delta: float) -> tuple[float, int]:
    """(beta, k): draw each record with probability beta, then suppress classes of fewer than k records.

    Source: Bild, Kuhn, Prasser, SafePub, PoPETs 2018(1); Li, Qardaji, Su, On sampling, anonymization, and
    differential privacy, ASIACCS 2012.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1).

    Examples
    --------
    >>> beta, k = safepub_parameters(0.1, 1e-3)
    >>> round(beta, 12), k
    (0.095162581964, 27)
    """
    if not (epsilon > 0 and math.isfinite(epsilon) and 0 < delta < 1):
        raise UsageError(f"safepub needs epsilon > 0 and delta in (0, 1), got {epsilon!r} and {delta!r}")
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
    """The delta that classes of at least k records give: the largest tail of a binomial over all class sizes.

    Falls with k. Larger classes are looked at until a Chernoff bound says that none of them can be worse.

    Examples
    --------
    >>> delta_of(30, 0.1) < delta_of(20, 0.1)
    True
    """
    from scipy.special import bdtrc

    beta = sampling_rate(epsilon)
    gamma = (math.expm1(epsilon) + beta) / math.exp(epsilon)
    rate = gamma * math.log(gamma / beta) - (gamma - beta)
    size = max(math.ceil((k / gamma - 1) * OUTWARD), 1)
    worst = 0.0
    while True:
        above = math.floor(size * gamma * OUTWARD)
        worst = max(worst, float(bdtrc(above, size, beta)) if above < size else 0.0)
        bound = math.exp(-size * rate)
        size += 1
        if worst >= bound:
            return worst
