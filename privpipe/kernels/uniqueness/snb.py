"""Uniques of a population whose class sizes are a shifted negative binomial."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["snb"]

GRID = np.arange(-40.0, 25.0 + 0.025, 0.05)


def snb(sizes: NDArray[np.int64], counts: NDArray[np.int64], population: int) -> float | None:
    """U = K b^a, with the sample's classes of size one and two matched, and K population classes by Shlosser.

    Population classes have size 1 + NB(a, b). The reference tool's equations have a sign slip and are not followed.
    Sources: Chen and Keller-McNulty, J. Off. Stat. 14(1), 1998; Haas and Stokes, JASA 93(444), 1998.

    Parameters
    ----------
    sizes, counts : ndarray of int64, shape (j,)
        Distinct class sizes, ascending, and the number of classes of each.
    population : int

    Returns
    -------
    float or None
        None where no class has size two, or nothing solves the equations; the largest where several do.

    Examples
    --------
    >>> round(snb(np.array([1, 2, 5]), np.array([20, 6, 2]), 84), 3)
    24.25
    """
    fraction = int(sizes @ counts) / population
    ones, twos = (int(counts[sizes == size].sum()) for size in (1, 2))
    if fraction >= 1:
        return float(ones)
    if not ones or not twos:
        return None
    equation = _Equation(fraction, ones, twos, _population_classes(sizes, counts, fraction))
    roots = equation.roots()
    return max((equation.uniques(root) for root in roots), default=None)


def _population_classes(sizes: NDArray[np.int64], counts: NDArray[np.int64], fraction: float) -> float:
    """K of Shlosser's kind; a power of 1 - f less another loses every digit where f is small."""
    f = fraction
    ones = int(counts[sizes == 1].sum())
    squares = (sizes * f**2 * np.exp((sizes - 1) * math.log1p(-(f**2))) * counts).sum()
    kept = np.exp(sizes * math.log1p(-f))
    spread = (np.exp(sizes * math.log1p(-(f**2))) * -np.expm1(-sizes * math.log1p(f)) * counts).sum()
    single = (sizes * f * np.exp((sizes - 1) * math.log1p(-f)) * counts).sum()
    return float(counts.sum() + ones * squares / spread * ((kept * counts).sum() / single) ** 2)


@dataclass(frozen=True)
class _Equation:
    """One equation in y = logit b; a follows from a quadratic."""

    f: float
    ones: int
    twos: int
    classes: float

    def parts(self, y: float) -> tuple[float, float, float, float]:
        """(ln b, 1 - d, d, a) at that y."""
        b, rest = 1 / (1 + math.exp(-y)), 1 / (1 + math.exp(y))  # 1 - b, and 1 - d below, without cancellation
        d, left = (1 - self.f) * rest, self.f + b * (1 - self.f)
        ratio = 2 * self.twos / (self.f * self.ones)
        square = rest * d
        linear = rest * (2 - d) - ratio * left * d
        constant = -ratio * left**2
        root = math.sqrt(linear * linear - 4 * square * constant)
        a = -2 * constant / (linear + root) if linear > 0 else (root - linear) / (2 * square)
        log_b = -math.log1p(math.exp(-y)) if y > 0 else y - math.log1p(math.exp(y))
        return log_b, left, d, a

    def __call__(self, y: float) -> float:
        log_b, rest, d, a = self.parts(y)
        level = math.log(self.classes * self.f) - math.log(self.ones)
        # ln b - ln(1 - d), where b is nearly 1 without the cancellation that a large a would blow up to false roots.
        step = math.log1p(-self.f / (1 + math.exp(y)) / rest) if y > 0 else log_b - math.log(rest)
        return level + a * step + math.log1p(a * d / rest)

    def roots(self) -> list[float]:
        """Every change of sign on a fixed grid, refined."""
        from scipy.optimize import brentq

        values = np.array([self(float(y)) for y in GRID])
        signs = np.sign(values)
        changes = np.flatnonzero((signs[:-1] * signs[1:] < 0) & np.isfinite(values[:-1] + values[1:]))
        exact = [float(y) for y in GRID[signs == 0]]
        return exact + [float(brentq(self, GRID[at], GRID[at + 1], xtol=1e-14)) for at in changes]

    def uniques(self, y: float) -> float:
        """K b^a."""
        log_b, _, _, a = self.parts(y)
        return self.classes * math.exp(a * log_b)
