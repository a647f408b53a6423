"""Population uniques by plain sums and bisection, to compare the solvers with."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

__all__ = ["uniques_of"]

Sizes = tuple[tuple[int, int], ...]


@functools.cache
def uniques_of(sizes: Sizes, population: int, estimator: str) -> float | None:
    """U, or None where the estimator has no answer in (0, N].

    Parameters
    ----------
    sizes : tuple of (size, number of classes)
    population : int
    estimator : {"dankar", "pitman", "zayatz", "snb"}

    Examples
    --------
    >>> round(uniques_of(((1, 20), (2, 6), (5, 2)), 420, "zayatz"), 2)
    106.84
    """
    if estimator == "dankar":
        records = sum(size * count for size, count in sizes)
        if Fraction(records, population) <= Fraction(1, 10):
            return uniques_of(sizes, population, "pitman")
        usable = [uniques_of(sizes, population, name) for name in ("zayatz", "snb")]
        return min((found for found in usable if found is not None), default=None)
    found = {"zayatz": _zayatz, "pitman": _pitman, "snb": _snb}[estimator](sizes, population)
    return found if found is not None and 0 < found <= population else None


def _zayatz(sizes: Sizes, population: int) -> float | None:
    records = sum(size * count for size, count in sizes)
    product, at, total = Fraction(1), 1, Fraction(0)
    for size, count in sizes:
        while at < size and float(product) > 1e-300:
            product *= Fraction(max(population - records - at + 1, 0), population - at)
            product = product.limit_denominator(10**40)
            at += 1
        chance = size * Fraction(records, population) * product if at == size else Fraction(0)
        total += count * chance
    return float(dict(sizes)[1] ** 2 / total)


def _pitman(sizes: Sizes, population: int) -> float | None:
    records = sum(size * count for size, count in sizes)
    classes = sum(count for _, count in sizes)
    if classes < 2 or all(size == 1 for size, _ in sizes):
        return None
    each, steps = np.arange(1, classes), np.arange(1, records)

    def theta_of(alpha: float) -> float:
        def score(y: float) -> float:
            theta = math.exp(y) - alpha
            return float((1 / (theta + each * alpha)).sum() - (1 / (theta + steps)).sum())

        return math.exp(_root(score, -30.0, 60.0)) - alpha

    def score_of(alpha: float) -> float:
        theta = theta_of(alpha)
        rise = float((each / (theta + each * alpha)).sum())
        falls = sum(count * float((1 / (np.arange(1, size) - alpha)).sum()) for size, count in sizes if size > 1)
        return rise - falls

    if score_of(1e-9) <= 0:
        return theta_of(0.0)
    alpha = _root(score_of, 1e-9, 1 - 1e-12)
    theta = theta_of(alpha)
    logarithm = math.lgamma(theta + 1) - math.lgamma(theta + alpha) + alpha * math.log(population)
    return math.exp(logarithm)


def _snb(sizes: Sizes, population: int) -> float | None:
    f = sum(size * count for size, count in sizes) / population
    ones, twos = dict(sizes)[1], dict(sizes).get(2, 0)
    if not twos:
        return None
    squares = sum(count * size * f**2 * (1 - f**2) ** (size - 1) for size, count in sizes)
    spread = sum(count * (1 - f) ** size * ((1 + f) ** size - 1) for size, count in sizes)
    kept = sum(count * (1 - f) ** size for size, count in sizes)
    single = sum(count * size * f * (1 - f) ** (size - 1) for size, count in sizes)
    classes = sum(count for _, count in sizes) + ones * squares / spread * (kept / single) ** 2

    def a_of(b: float) -> float:
        """The shape at which classes of two and of one are in the ratio seen; the ratio rises with it."""
        d = (1 - f) * (1 - b)

        def ratio(log_a: float) -> float:
            a = math.exp(log_a)
            two = f / 2 * a * (1 - b) * (2 - (1 - a) * d) / ((1 - d) ** 2)
            return two / (1 + a * d / (1 - d)) - twos / ones

        return math.exp(_root(ratio, -60.0, 60.0))

    def level(y: float) -> float:
        b = 1 / (1 + math.exp(-y))
        a, d = a_of(b), (1 - f) * (1 - b)
        return math.log(classes * f) + a * math.log(b / (1 - d)) + math.log1p(a * d / (1 - d)) - math.log(ones)

    grid = np.arange(-25.0, 20.0, 0.25)
    values = [level(float(y)) for y in grid]
    found = []
    for at in range(len(grid) - 1):
        if values[at] * values[at + 1] < 0:
            y = _root(level, float(grid[at]), float(grid[at + 1]))
            b = 1 / (1 + math.exp(-y))
            found.append(classes * b ** a_of(b))
    return max(found, default=None)


def _root(score: Callable[[float], float], low: float, high: float) -> float:
    """Bisection between two points of different sign; the end nearer to a root where there is none."""
    start = score(low)
    for _ in range(100):
        middle = (low + high) / 2
        if (score(middle) > 0) == (start > 0):
            low = middle
        else:
            high = middle
    return (low + high) / 2
