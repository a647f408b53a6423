"""Estimates of a population from the class sizes of a sample: Pitman, negative binomial, Zayatz, Poisson.

Estimates are deterministic: no clock, no random start, no cap on iterations that changes a result. Every estimator
takes the histogram {size: number of classes} and returns None where it has no answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import UsageError

__all__ = ["dankar", "derived_class_size", "pitman", "population_uniques", "snb", "zayatz"]


LEAST_ALPHA = 1e-12
MOST_ALPHA = 1 - 1e-12
# Terms of a sum that are added one by one; after these the Euler-Maclaurin formula is exact to 1e-14.
ONE_BY_ONE = 64


def pitman(sizes: Ints, counts: Ints, population: int) -> float | None:
    """U = Gamma(theta + 1)/Gamma(theta + alpha) N^alpha at the maximum-likelihood parameters.

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
    """Score functions of theta and alpha, given the class sizes of a sample."""

    def __init__(self, sizes: Ints, counts: Ints) -> None:
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
        """Score of theta, times theta + alpha: the part of the classes minus the part of the records.

        Where theta is large each sum is nearly the number of its terms and the difference loses all digits; therefore
        what each sum lacks of that number is added up instead.
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

    A difference of two digammas is equal, but loses every digit where first/step is large.
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
    """Sum of (i + 1)/(first + i step) over i = 0 .. terms - 1, computed like `_reciprocals`."""
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


GRID = np.arange(-40.0, 25.0 + 0.025, 0.05)


def snb(sizes: Ints, counts: Ints, population: int) -> float | None:
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


def _population_classes(sizes: Ints, counts: Ints, fraction: float) -> float:
    """Shlosser's estimate of K; a difference of powers of 1 - f would lose every digit where f is small."""
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
        # ln b - ln(1 - d), where b is nearly 1 without the cancellation that a large a would turn into false roots.
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


PIECE = 1 << 16
UNDERFLOW = -760.0  # exp of less is 0


def population_uniques(sizes: Ints, counts: Ints, population: int, estimator: str) -> float | None:
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
    """An estimate in (0, N]; where all records are unique Zayatz gives N itself, which may be rounded upward."""
    if found is None or not 0 < found <= population * (1 + 1e-9):
        return None
    return min(found, float(population))


def dankar(sizes: Ints, counts: Ints, population: int) -> float | None:
    """The estimator that Dankar et al. choose by the sampling fraction: Pitman up to 0.1, else the lesser of two.

    Above 0.1 it is the lesser of Zayatz and SNB, or Zayatz where SNB has no answer.
    Source: Dankar, El Emam, Neisa, Roffey, BMC Med. Inform. Decis. Mak. 12:66, 2012.
    """
    records = int(sizes @ counts)
    if records * 10 <= population:
        return pitman(sizes, counts, population)
    found = (_possible(estimator(sizes, counts, population), population) for estimator in (zayatz, snb))
    return min((one for one in found if one is not None), default=None)


def zayatz(sizes: Ints, counts: Ints, population: int) -> float | None:
    """U = c_1^2 / sum c_j P_j(1), with P_j(1) the chance that one record is drawn from a population class of size j.
    P_j(1) = j (n/N) prod_{i=1..j-1} (N - n - i + 1)/(N - i), zero where a factor is not positive; its logarithm is a
    cumulative sum, since differences of log-gamma lose eight digits.
    Source: Zayatz, Estimation of the number of unique population elements using a sample, US Census Bureau, 1991.
    """
    records = int(sizes @ counts)
    unique = int(counts[sizes == 1].sum())
    products = _once_in_sample(sizes, records, population)
    once = sizes * (records / population) * products
    return float(unique * unique / (counts * once).sum())


def _once_in_sample(sizes: Ints, records: int, population: int) -> Floats:
    """The product over i = 1 .. size - 1, for each size (ascending); in pieces, until it underflows to 0."""
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


def derived_class_size(k: int, population: int, records: int, significance: float, estimator: str) -> int:
    """k', the sample class size that corresponds to k persons in the population.

    If a class had only k members in the population, its size in the sample would be about Poisson with mean
    lambda = k n/N, and exceed i* with probability at most `significance`. `poisson` requires one record more than
    this needs. k' is at most k, which is always sufficient, and at most n.
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
    # The tail over the rest of the distribution: 1 - a tail near 1 would lose digits. It falls with the size.
    low, high = first, max(first, k)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if pdtrc(middle, mean) / missing <= significance else (middle + 1, high)
    return max(1, min(k, low + more, records))
