"""Exact arithmetic for proofs about a process: generators for integral privacy, and the parameters of SafePub."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from privpipe.errors import UsageError

__all__ = [
    "MOST_EPSILON",
    "Generators",
    "delta_of",
    "minimal_generators",
    "published",
    "safepub_parameters",
    "sampling_rate",
]


Statistic = Literal["mean", "sum", "count"]


@dataclass(frozen=True)
class Generators:
    """Minimal sets of changes that keep a statistic.

    `single` have one change, `pairs` two; `common` is whether one change is in every set.
    """

    single: int
    pairs: int
    common: bool

    @property
    def total(self) -> int:
        """All of them."""
        return self.single + self.pairs


def minimal_generators(
    values: Sequence[Fraction], counts: Sequence[int], statistic: Statistic, digits: int, changes: int
) -> Generators:
    """Count the minimal sets of changes after which a statistic, rounded to `digits`, is the same.

    A change adds a record with one of the values, or deletes one that is there; records of one value are alike, so
    changes are distinguished by value and direction. Source: Torra and Navarro-Arribas, Integral privacy, CANS 2016.

    Parameters
    ----------
    values : sequence of Fraction
        The domain: distinct values of the column, ascending.
    counts : sequence of int
        Records of each, at least 1.
    statistic : {"mean", "sum", "count"}
    digits : int
        Digits after the point that are published; below 0: tens, hundreds and so on.
    changes : int
        Largest number of changes at once, 1 or 2.

    Returns
    -------
    Generators
        Exhaustive: O(m) for one change, O(m log m) for two.

    Examples
    --------
    >>> minimal_generators([Fraction(1), Fraction(2), Fraction(3)], [5, 5, 5], "mean", 1, 1).single
    2
    """
    if changes not in (1, 2):
        raise UsageError(f"changes must be 1 or 2, got {changes!r}")
    records = sum(counts)
    total = sum((value * count for value, count in zip(values, counts, strict=True)), start=Fraction(0))
    kept = _Kept(total, records, statistic, digits)
    free: dict[int, list[Fraction]] = {1: [], -1: []}
    often: dict[int, list[Fraction]] = {1: [], -1: []}
    single = 0
    for way in (1, -1):
        start, stop = _keeping(kept, 0, Fraction(0), way, values)
        single += stop - start
        free[way] = [*values[:start], *values[stop:]]
        often[way] = [v for v, count in zip(values, counts, strict=True) if way == 1 or count > 1]
    if changes == 1:
        return Generators(single, 0, common=single == 1)
    pairs, most = _pairs(kept, free, often)
    whole = single + pairs
    common = whole > 0 and ((single == 1 and not pairs) or (not single and most == pairs))
    return Generators(single, pairs, common)


def published(total: Fraction, records: int, statistic: Statistic, digits: int) -> Fraction | None:
    """The rounded statistic, half to even; None for the mean of no record."""
    if statistic == "count":
        exact = Fraction(records)
    elif statistic == "sum":
        exact = total
    elif records < 1:
        return None
    else:
        exact = total / records
    unit = Fraction(10) ** -digits
    return round(exact / unit) * unit


class _Kept:
    """Whether a change keeps the statistic: the sum of what is added may lie in an interval."""

    def __init__(self, total: Fraction, records: int, statistic: Statistic, digits: int) -> None:
        self.total, self.records, self.statistic, self.digits = total, records, statistic, digits
        self.shown = published(total, records, statistic, digits)

    def __call__(self, added: Fraction, more: int) -> bool:
        return published(self.total + added, self.records + more, self.statistic, self.digits) == self.shown

    def interval(self, more: int) -> tuple[Fraction, Fraction, bool] | None:
        """Least and largest sum that keeps the statistic with so many records more, and whether the ends do."""
        records = self.records + more
        if self.shown is None or (self.statistic == "mean" and records < 1):
            return None
        unit = Fraction(10) ** -self.digits
        low, high = self.shown - unit / 2, self.shown + unit / 2
        closed = round(self.shown / unit) % 2 == 0  # halves go to the even neighbour
        if self.statistic == "mean":
            low, high = low * records, high * records
        return low - self.total, high - self.total, closed


def _pairs(kept: _Kept, free: dict[int, list[Fraction]], often: dict[int, list[Fraction]]) -> tuple[int, int]:
    """Pairs of changes, neither of which keeps the statistic alone; and in how many the most frequent change is."""
    pairs = 0
    within: dict[tuple[int, int], int] = {}
    for first, second in ((1, 1), (-1, -1), (1, -1)):
        for at, value in enumerate(free[first]):
            partners = _partners(kept, first, value, second, free[second])
            if first == second:  # with itself, where there are two such records
                itself = kept(2 * first * value, 2 * first)
                twice = itself and _holds(often[first], value)
                within[first, at] = within.get((first, at), 0) + partners - itself + twice
                pairs += partners - itself + 2 * twice  # each pair of two values is met from both sides
            else:  # adding a record and deleting its equal is no change
                nothing = kept(Fraction(0), 0) and _holds(free[second], value)
                within[first, at] = within.get((first, at), 0) + partners - nothing
                pairs += 2 * (partners - nothing)
    for at, value in enumerate(free[-1]):
        partners = _partners(kept, -1, value, 1, free[1])
        within[-1, at] = within.get((-1, at), 0) + partners - _holds(free[1], value)
    return pairs // 2, max(within.values(), default=0)


def _partners(kept: _Kept, first: int, value: Fraction, second: int, others: Sequence[Fraction]) -> int:
    """How many of `others`, changed together with `value`, keep the statistic."""
    start, stop = _keeping(kept, first, value, second, others)
    return stop - start


def _keeping(kept: _Kept, first: int, value: Fraction, second: int, others: Sequence[Fraction]) -> tuple[int, int]:
    """Which of `others`, which ascend, these are: start and stop."""
    if kept.statistic == "count":
        return (0, len(others)) if kept(Fraction(0), first + second) else (0, 0)
    bounds = kept.interval(first + second)
    if bounds is None:
        return 0, 0
    low, high, closed = bounds
    low, high = (bound - first * value for bound in (low, high))
    if second < 0:
        low, high = -high, -low
    start, stop = (
        (bisect_left(others, low), bisect_right(others, high))
        if closed
        else (bisect_right(others, low), bisect_left(others, high))
    )
    return start, max(start, stop)


def _holds(values: list[Fraction], value: Fraction) -> bool:
    at = bisect_left(values, value)
    return at < len(values) and values[at] == value


OUTWARD = 1 - 1e-13
"""n gamma is an integer in exact arithmetic for some parameters; rounding must not take it below."""
MOST_EPSILON = 15
"""Beyond, gamma differs from 1 by rounding alone; classes of 50 million records would be too small."""


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
    """The delta that classes of at least k records give: the largest tail of a binomial over all class sizes.

    Falls with k. Larger classes are looked at until a Chernoff bound says that none of them can be worse.

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
        # P(Bin(size, beta) > above); scipy's own tail of the binomial has eight digits where beta is tiny.
        worst = max(worst, float(betainc(above + 1, size - above, beta)) if above < size else 0.0)
        if worst >= math.exp(-size * rate):
            return worst
        size += _falling(size, gamma)


def _falling(size: int, gamma: float) -> int:
    """Sizes from this one on whose tails fall, for as many records as here may be left undrawn: not looked at.

    Where gamma is nearly 1 they are millions (epsilon = 8: nine).
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
