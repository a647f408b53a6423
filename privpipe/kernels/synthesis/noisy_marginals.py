"""Differentially private marginals over a tree of pairs, with discrete Gaussian noise drawn without floats.

Sources: McKenna, Miklau, Sheldon, Winning the NIST contest (MST), J. Privacy and Confidentiality 11(3), 2021; for the
noise Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020, algorithms 1 to 3 and
corollary 13; Bun, Steinke, Concentrated differential privacy, TCC 2016.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints

__all__ = [
    "Below",
    "chosen",
    "delta_of",
    "discrete_gaussian",
    "discrete_geometric",
    "discrete_laplace",
    "fitted",
    "measured",
    "on_simplex",
    "rho_within",
]


Below = Callable[[int], int]
"""Draws a uniform integer from 0 to below a bound; secret, fresh and never from a published seed."""
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


def discrete_geometric(scale: Fraction, below: Below = SECRET) -> int:
    """An integer from 0 with probability proportional to exp(-k / scale).

    Examples
    --------
    >>> 1.2 < sum(discrete_geometric(Fraction(2)) for _ in range(2000)) / 2000 < 1.9
    True
    """
    return _geometric_exp(scale.numerator, below) // scale.denominator


def discrete_laplace(scale: Fraction, below: Below = SECRET) -> int:
    """An integer with probability proportional to exp(-|y| / scale).

    Examples
    --------
    >>> draws = [discrete_laplace(Fraction(3, 2)) for _ in range(2000)]
    >>> abs(sum(draws) / 2000) < 0.5, 3 < sum(y * y for y in draws) / 2000 < 6
    (True, True)
    """
    while True:
        magnitude = discrete_geometric(scale, below)
        negative = below(2) == 1
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def chosen(scores: Sequence[int], rate: Fraction, below: Below = SECRET) -> int:
    """A position with probability exactly proportional to exp(rate * score), by uniform draws and rejection.

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
    beyond = math.exp(log_beyond)  # the order minus one
    order = 1 + beyond
    return beyond * (order * rho - epsilon) - math.log(beyond) + order * math.log(beyond / order)


def rho_within(epsilon: float, delta: float) -> float:
    """Largest rho found to be within (epsilon, delta), approximated from below.

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


ROUNDS = 50
GRAIN = 1 << 20


def measured(
    ones: Sequence[Ints],
    pairs: Mapping[tuple[int, int], Ints],
    rho: float,
    most: int,
    noise: Callable[[Fraction], int],
    choice: Callable[[Sequence[int], Fraction], int],
) -> dict[str, Any]:
    """Noisy one-way marginals, a tree of pairs chosen by them, and noisy marginals of its pairs.

    A third of rho is spent on each. One unit changes counts by at most `most` records in total.

    Parameters
    ----------
    ones : sequence of ndarray of int64
        Exact counts of each column.
    pairs : mapping of (i, j), i < j, to ndarray of int64, shape (codes of i, codes of j)
    noise, choice : callables
        As in `privpipe.kernels.synthesis.noisy_marginals`.

    Returns
    -------
    dict
        `ones`, `tree` (list of pairs), `pairs` (noisy counts of each), `spent` (rho, at most the given one).
    """
    d = len(ones)
    third = Fraction(int(rho * GRAIN * GRAIN), 3 * GRAIN * GRAIN)
    first = _variance(d, most, third * 3 if d == 1 else third)
    noisy = [np.array([int(count) + noise(first) for count in counts.tolist()], np.int64) for counts in ones]
    spent = Fraction(most * most * d) / (2 * first)
    tree: list[tuple[int, int]] = []
    tables = []
    if d > 1:
        tree, cost = _chosen_tree(noisy, pairs, third / (d - 1), most, choice)
        second = _variance(d - 1, most, third)
        for pair in tree:
            counts = pairs[pair]
            table = [int(count) + noise(second) for count in counts.ravel().tolist()]
            tables.append(np.array(table, np.int64).reshape(counts.shape))
        spent += cost + Fraction(most * most * (d - 1)) / (2 * second)
    return {"ones": noisy, "tree": tree, "pairs": tables, "spent": float(spent)}


def _variance(queries: int, most: int, rho: Fraction) -> Fraction:
    """Variance of the noise on this number of queries; rounded up, so that no more than rho is spent."""
    wanted = Fraction(queries * most * most) / (2 * rho)
    return Fraction(-((-wanted.numerator * 1024) // wanted.denominator), 1024)


def _chosen_tree(
    noisy: Sequence[Ints],
    pairs: Mapping[tuple[int, int], Ints],
    rho: Fraction,
    most: int,
    choice: Callable[[Sequence[int], Fraction], int],
) -> tuple[list[tuple[int, int]], Fraction]:
    """Pairs that differ most from the product of their marginals, one after another, each connecting two parts."""
    # The exponential mechanism of rate e/2 a unit costs e^2/8; the root is rounded down.
    e = Fraction(int(float(8 * rho) ** 0.5 * GRAIN * (1 - 1e-9)), GRAIN)
    estimates = [on_simplex(counts.astype(np.float64), max(float(counts.sum()), 1.0)) for counts in noisy]
    scores = {}
    for (i, j), counts in pairs.items():
        # Whole numbers, so that one record changes a score by at most one.
        product = np.rint(np.outer(estimates[i], estimates[j]) / max(float(estimates[i].sum()), 1.0)).astype(np.int64)
        scores[i, j] = int(np.abs(counts - product).sum())
    part = list(range(len(noisy)))
    tree: list[tuple[int, int]] = []
    while len(tree) < len(noisy) - 1:
        open_pairs = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        pair = open_pairs[choice([scores[each] for each in open_pairs], e / (2 * most))]
        tree.append(pair)
        part = [part[pair[0]] if each == part[pair[1]] else each for each in part]
    return tree, e * e / 8 * (len(noisy) - 1)


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest non-negative numbers that add up to `total`.

    Examples
    --------
    >>> on_simplex(np.array([6.0, 5.0, -3.0]), 10.0).tolist()
    [5.5, 4.5, 0.0]
    """
    ordered = np.sort(values)[::-1]
    shift = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - shift[np.flatnonzero(ordered > shift)[-1]], 0.0))


def fitted(found: Mapping[str, Any]) -> dict[str, Any]:
    """One distribution of the noisy marginals: `total`, and steps of (column, parent or -1, shares by parent's code).

    Each pair is projected to non-negative counts and scaled in turn to the one-way marginals of its two columns, so
    that pairs agree in the columns they share and the tree needs no further fitting.

    Examples
    --------
    >>> ones = [np.array([50, 50]), np.array([50, 50])]
    >>> model = fitted({"ones": ones, "tree": [(0, 1)], "pairs": [np.array([[50, 0], [0, 50]])]})
    >>> [(column, parent, shares.round(3).tolist()) for column, parent, shares in model["steps"]]
    [(0, -1, [[0.5, 0.5]]), (1, 0, [[1.0, 0.0], [0.0, 1.0]])]
    """
    totals = [float(counts.sum()) for counts in (*found["ones"], *found["pairs"])]
    total = max(round(sum(totals) / len(totals)), 1)
    ones = [on_simplex(counts.astype(np.float64), float(total)) for counts in found["ones"]]
    tables = {}
    for (i, j), counts in zip(found["tree"], found["pairs"], strict=True):
        table = on_simplex(counts.astype(np.float64).ravel(), float(total)).reshape(counts.shape)
        tables[i, j] = _scaled(table, ones[i], ones[j])
    steps: list[tuple[int, int, Floats]] = [(0, -1, ones[0][None, :] / total)]
    placed = {0}
    while len(placed) < len(ones):
        for (i, j), table in tables.items():
            for parent, child, across in ((i, j, table), (j, i, table.T)):
                if parent in placed and child not in placed:
                    sums = across.sum(axis=1, keepdims=True)
                    shares = np.where(sums > 0, across / np.where(sums > 0, sums, 1.0), ones[child] / total)
                    steps.append((child, parent, shares))
                    placed.add(child)
    return {"total": total, "steps": steps}


def _scaled(table: Floats, rows: Floats, columns: Floats) -> Floats:
    # A cell of 0 never grows: adding a little of the independent table keeps every marginal reachable.
    table = table + 1e-6 * np.outer(rows, columns) / max(float(rows.sum()), 1.0)
    for _ in range(ROUNDS):
        sums = table.sum(axis=1)
        table = table * np.where(sums > 0, rows / np.where(sums > 0, sums, 1.0), 0.0)[:, None]
        sums = table.sum(axis=0)
        table = table * np.where(sums > 0, columns / np.where(sums > 0, sums, 1.0), 0.0)
    return np.asarray(table)
