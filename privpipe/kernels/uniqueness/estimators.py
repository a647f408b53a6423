"""How many records are unique in the population, estimated from the class sizes of a sample.

Deterministic: no clock, no random start, no cap on iterations that changes a result. Every estimator takes the
histogram {size: number of classes} and returns None where it has no answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.uniqueness.pitman import pitman
from privpipe.kernels.uniqueness.snb import snb

__all__ = ["dankar", "pitman", "population_uniques", "snb", "zayatz"]

PIECE = 1 << 16
UNDERFLOW = -760.0  # exp of less is 0


def population_uniques(
    sizes: NDArray[np.int64], counts: NDArray[np.int64], population: int, estimator: str
) -> float | None:
    """U, the estimated number of records that are unique in the population.

    Parameters
    ----------
    sizes, counts : ndarray of int64, shape (j,)
        Distinct class sizes, ascending, and the number of classes of each, at least 1.
    population : int
        N, at least the records of the sample.
    estimator : {"dankar", "pitman", "zayatz", "snb"}

    Returns
    -------
    float or None
        In (0, N], or exactly 0 where no record of the sample is unique; None where no estimate is available. The
        number of uniques of the sample where the sample is the population.

    Examples
    --------
    >>> round(population_uniques(np.array([1, 2, 5]), np.array([20, 6, 2]), 420, "zayatz"), 3)
    106.84
    """
    unique = int(counts[sizes == 1].sum())
    if not unique:
        return 0.0
    if int(sizes @ counts) == population:
        return float(unique)
    found = {"dankar": dankar, "pitman": pitman, "zayatz": zayatz, "snb": snb}[estimator](sizes, counts, population)
    return _possible(found, population)


def _possible(found: float | None, population: int) -> float | None:
    """An estimate in (0, N]; of unique records alone Zayatz gives N itself, which may be rounded upward."""
    if found is None or not 0 < found <= population * (1 + 1e-9):
        return None
    return min(found, float(population))


def dankar(sizes: NDArray[np.int64], counts: NDArray[np.int64], population: int) -> float | None:
    """The estimator that Dankar et al. choose by the sampling fraction: Pitman up to 0.1, else the lesser of two.

    Above 0.1 the lesser of Zayatz and SNB, Zayatz alone where SNB has no answer.
    Source: Dankar, El Emam, Neisa, Roffey, BMC Med. Inform. Decis. Mak. 12:66, 2012.
    """
    records = int(sizes @ counts)
    if records * 10 <= population:
        return pitman(sizes, counts, population)
    found = (_possible(estimator(sizes, counts, population), population) for estimator in (zayatz, snb))
    return min((one for one in found if one is not None), default=None)


def zayatz(sizes: NDArray[np.int64], counts: NDArray[np.int64], population: int) -> float | None:
    """U = c_1^2 / sum c_j P_j(1), with P_j(1) the chance that a population class of size j has one record drawn.

    P_j(1) = j (n/N) prod_{i=1..j-1} (N - n - i + 1)/(N - i), zero where a factor is not positive; its logarithm is a
    cumulative sum, for differences of log-gamma lose eight digits.
    Source: Zayatz, Estimation of the number of unique population elements using a sample, US Census Bureau, 1991.
    """
    records = int(sizes @ counts)
    unique = int(counts[sizes == 1].sum())
    products = _once_in_sample(sizes, records, population)
    once = sizes * (records / population) * products
    return float(unique * unique / (counts * once).sum())


def _once_in_sample(sizes: NDArray[np.int64], records: int, population: int) -> NDArray[np.float64]:
    """The product over i = 1 .. size - 1, for each size (ascending); in pieces, until nothing is left of it."""
    products = np.zeros(len(sizes), np.float64)
    products[sizes == 1] = 1.0
    total, first, most = 0.0, 1, int(sizes.max())
    while first < most and total > UNDERFLOW:
        steps = np.arange(first, min(first + PIECE, most), dtype=np.float64)
        left = float(population - records) - steps + 1
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = total + np.cumsum(np.where(left > 0, np.log(left / (population - steps)), -np.inf))
        here = (sizes > first) & (sizes <= first + len(steps))
        products[here] = np.exp(logs[sizes[here] - first - 1])
        total, first = float(logs[-1]), first + len(steps)
    return products
