"""Population uniqueness from its definition: uniques by plain sums and bisection, to compare the solvers with."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from privpipe.blocks.oracle_classes import Classes, Expected, slack
from privpipe.errors import DataError

__all__ = ["oracle", "thresholds", "uniques_of"]


Sizes = tuple[tuple[int, int], ...]


def oracle(model: Any, classes: Classes) -> Expected:
    """The estimated uniques over the population."""
    sizes = Counter(classes.sizes)
    records = sum(size * count for size, count in sizes.items())
    if records > model.population_size:
        raise DataError("the population is smaller than the table")
    if not records:
        return Expected("fail", None)
    uniques: float | None = 0.0
    if records == model.population_size:
        uniques = float(sizes[1])
    elif sizes[1]:
        uniques = uniques_of(tuple(sorted(sizes.items())), model.population_size, model.estimator)
    share = None if uniques is None else uniques / model.population_size
    met = model.at_most is None or (share is not None and share <= model.at_most + slack(model.at_most))
    return Expected("pass" if met else "fail", share)


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
    """In 50 digits: where the level nears zero without reaching it, floats cannot decide whether there is a root."""
    if not dict(sizes).get(2, 0):
        return None
    with localcontext(prec=50):
        found = _snb_roots(sizes, population)
    return max(found, default=None)


def _snb_roots(sizes: Sizes, population: int) -> list[float]:
    f = Decimal(sum(size * count for size, count in sizes)) / population
    ones, twos = dict(sizes)[1], dict(sizes)[2]
    g = 1 - f

    def total(term: Callable[[Decimal], Decimal]) -> Decimal:
        return sum((count * term(Decimal(size)) for size, count in sizes), Decimal(0))

    squares = total(lambda size: size * f * f * (1 - f * f) ** (size - 1))
    spread, kept = total(lambda size: g**size * ((1 + f) ** size - 1)), total(lambda size: g**size)
    single = total(lambda size: size * f * g ** (size - 1))
    classes = sum(count for _, count in sizes) + ones * squares / spread * (kept / single) ** 2
    seen = 2 * twos / (f * ones)

    def shape(b: Decimal, d: Decimal) -> Decimal:
        """The positive a at which classes of two and of one are in the ratio seen: a quadratic."""
        square, constant = (1 - b) * d, -seen * (1 - d) * (1 - d)
        linear = (1 - b) * (2 - d) - seen * (1 - d) * d
        return ((linear * linear - 4 * square * constant).sqrt() - linear) / (2 * square)

    def level(y: Decimal) -> tuple[Decimal, Decimal]:
        """ln of the classes of one expected over those seen, and of the uniques over the classes of the population."""
        b = 1 / (1 + (-y).exp())
        d = (1 - f) * (1 - b)
        a = shape(b, d)
        expected = classes * f * (1 + a * d / (1 - d)) / ones
        return expected.ln() + a * (b / (1 - d)).ln(), a * b.ln()

    grid = [Decimal(at) / 4 for at in range(-160, 101)]
    above = [level(y)[0] > 0 for y in grid]
    found = []
    for at in range(len(grid) - 1):
        low, high = grid[at], grid[at + 1]
        if above[at] != above[at + 1]:
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if (level(middle)[0] > 0) == above[at] else (low, middle)
            found.append(float(classes * level(low)[1].exp()))
    return found


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


def thresholds(rng: Any) -> dict[str, Any]:
    """Parameters of a random gate."""
    return {"at_most": float(rng.uniform(0, 1))}
