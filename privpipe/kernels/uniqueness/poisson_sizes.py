"""Sample class sizes that are evidence of a population class larger than k."""

from __future__ import annotations

import math

from privpipe.errors import UsageError

__all__ = ["derived_class_size"]


def derived_class_size(k: int, population: int, records: int, significance: float, estimator: str) -> int:
    """k', the sample class size that stands for k persons in the population.

    If a class had only k members in the population, its size in the sample would be about Poisson with mean
    lambda = k n/N, and exceed i* with probability at most `significance`. `poisson` asks for one record more than
    this needs. k' is at most k, which is certain, and at most n.
    Source: El Emam and Dankar, Protecting privacy using k-anonymity, JAMIA 15(5), 2008.

    Parameters
    ----------
    k : int
        At least 1.
    population, records : int
        N and n, 1 <= n <= N.
    significance : float
        In (0, 1).
    estimator : {"poisson", "zero_truncated_poisson"}

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> derived_class_size(10, 1000, 100, 0.01, "poisson"), derived_class_size(10, 10**6, 100, 0.01, "poisson")
    (6, 2)
    """
    from scipy.special import pdtrc

    mean = k * records / population
    if estimator == "poisson":
        first, more, missing = 0, 2, 1.0
    elif estimator == "zero_truncated_poisson":
        first, more, missing = 1, 1, -math.expm1(-mean)
    else:
        raise UsageError(f"unknown estimator {estimator!r}")
    # The tail over what is left of the distribution: 1 - a tail near 1 would lose digits. It falls with the size.
    low, high = first, max(first, k)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if pdtrc(middle, mean) / missing <= significance else (middle + 1, high)
    return max(1, min(k, low + more, records))
