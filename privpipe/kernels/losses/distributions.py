"""How much two tables differ: distances between their distributions, and regressions fitted to both."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from privpipe.blocks.arrays import Floats, Ints

__all__ = [
    "IntervalOverlap",
    "PropensityFit",
    "canonical_order",
    "chances",
    "hellinger",
    "independent_columns",
    "interval_overlap",
    "largest_gap",
    "logistic",
    "propensity",
    "quantile_bins",
    "total_variation",
    "transport",
]


Numbers = Floats
Codes = Ints


def quantile_bins(known: Numbers, values: Numbers, bins: int) -> Codes:
    """The bin of each value, with edges at the quantiles of `known`, shape (n,); missing values have a separate bin.

    A bin includes its lower edge; the first and the last are open, equal edges are merged. A constant column has three
    bins: below, at and above its value.

    Parameters
    ----------
    known : ndarray of float64
        NaN is missing.
    values : ndarray of float64
    bins : int

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> quantile_bins(x, np.array([-9.0, 2.0, 3.0, 9.0, np.nan]), 2).tolist()
    [0, 0, 1, 1, -1]
    """
    own = known[~np.isnan(known)]
    edges = np.unique(np.quantile(own, np.linspace(0, 1, bins + 1))) if len(own) else np.zeros(0)
    found = np.full(len(values), -1, dtype=np.int64)
    there = ~np.isnan(values)
    if len(edges) == 1:
        found[there] = np.sign(values[there] - edges[0]).astype(np.int64) + 1
    else:
        found[there] = np.searchsorted(edges[1:-1], values[there], side="right")
    return found


def hellinger(before: Codes, after: Codes) -> float:
    """sqrt(1 - sum sqrt(p q)) of the shares of two columns of codes, in [0, 1].

    Examples
    --------
    >>> round(hellinger(np.array([0, 1]), np.array([0, 0])), 6), hellinger(np.array([0]), np.array([1]))
    (0.541196, 1.0)
    """
    p, q = _shares(before, after)
    # For nearly equal shares 1 - sum loses all digits: this is equal, term by term.
    return math.sqrt(min(1.0, 0.5 * math.fsum(((np.sqrt(p) - np.sqrt(q)) ** 2).tolist())))


def total_variation(before: Codes, after: Codes) -> float:
    """1/2 sum |p - q| of the shares of two columns of codes, in [0, 1].

    Examples
    --------
    >>> total_variation(np.array([0, 1]), np.array([0, 0]))
    0.5
    """
    p, q = _shares(before, after)
    return 0.5 * math.fsum(np.abs(p - q).tolist())


def transport(x: Numbers, y: Numbers) -> float:
    """Integral of |F_X - F_Y| over the numbers: first Wasserstein distance; NaN without a value on either side.

    Examples
    --------
    >>> transport(np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    1.5
    """
    first, second = (np.sort(side[~np.isnan(side)]) for side in (x, y))
    if not len(first) or not len(second):
        return math.nan
    union = np.unique(np.concatenate([first, second]))
    gaps = [np.searchsorted(side, union[:-1], side="right") / len(side) for side in (first, second)]
    return math.fsum((np.abs(gaps[0] - gaps[1]) * np.diff(union)).tolist())


def largest_gap(scores: Numbers, told: Numbers) -> float:
    """Kolmogorov-Smirnov distance: largest difference of the distribution functions of scores with labels 0 and 1.

    Scores are compared to nine decimals: equal rows may differ in the last bits of a fit.

    Examples
    --------
    >>> largest_gap(np.array([0.1, 0.2, 0.8, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    1.0
    """
    values, places = np.unique(np.round(scores, 9), return_inverse=True)
    places = places.ravel()
    shares = [
        np.cumsum(np.bincount(places[told == side], minlength=len(values))) / max(int((told == side).sum()), 1)
        for side in (0.0, 1.0)
    ]
    return float(np.abs(shares[0] - shares[1]).max(initial=0.0))


def _shares(before: Codes, after: Codes) -> tuple[Numbers, Numbers]:
    _, places = np.unique(np.concatenate([before, after]), return_inverse=True)
    places = places.ravel()
    width = int(places.max()) + 1 if len(places) else 0
    p, q = (np.bincount(side, minlength=width) / len(side) for side in (places[: len(before)], places[len(before) :]))
    return p, q


RIDGE = 1e-6
STEPS = 100
SMALLEST_STEP = 1e-10
EXACT = 1e-22
"""Residual share of the response's squares below which a least-squares residual is only rounding."""


@dataclass(frozen=True)
class PropensityFit:
    """How well a model distinguishes released records from original ones.

    Parameters
    ----------
    pmse : float
        Mean of (p - c)^2, in [0, c (1 - c)]; 0: indistinguishable.
    ratio : float
        pmse over its expectation by chance; NaN for a model with only an intercept.
    rank : int
        Rank of the design, including the intercept.
    scores, told : ndarray of float64, shape (n + n',)
        Fitted probability that a row is a released one, and its membership: 1 for a released row, 0 for an original.
    """

    pmse: float
    ratio: float
    rank: int
    scores: Numbers = field(repr=False)
    told: Numbers = field(repr=False)


def propensity(before: Numbers, after: Numbers) -> PropensityFit:
    """Propensity-score error of two design matrices with the same columns, an intercept first.

    Source: Woo, Reiter, Oganian, Karr, 2009; the null expectation: Snoke et al., JRSS A 181, 2018.

    Parameters
    ----------
    before, after : ndarray of float64, shapes (n, q), (n', q)
        The rows may come in any order.

    Examples
    --------
    >>> one = np.ones((4, 1))
    >>> propensity(np.hstack([one, [[0.0], [1.0], [2.0], [3.0]]]), np.hstack([one, [[0.0], [1.0], [2.0], [3.0]]])).pmse
    0.0
    """
    design = np.vstack([before, after])
    membership = np.concatenate([np.zeros(len(before)), np.ones(len(after))])
    order = canonical_order(np.column_stack([design, membership]))
    design, membership = design[order], membership[order]
    share = len(after) / len(design)
    scores = chances(design, logistic(design, membership))
    pmse = math.fsum(((scores - share) ** 2).tolist()) / len(design)
    rank = len(independent_columns(design))
    expected = (rank - 1) * (1 - share) ** 2 * share / len(design)
    return PropensityFit(pmse, pmse / expected if expected > 0 else math.nan, rank, scores, membership)


def logistic(design: Numbers, told: Numbers, ridge: float = RIDGE) -> Numbers:
    """Coefficients of a logistic regression with a small ridge on all but the first column, the intercept.

    Newton steps, halved until the likelihood grows, so that it converges even where the two sides are separable.

    Parameters
    ----------
    design : ndarray of float64, shape (n, q)
    told : ndarray of float64, shape (n,)
        Label of each row: 0 or 1.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> chances(x, logistic(x, np.array([0.0, 1.0, 1.0, 1.0, 0.0]))).round(4).tolist()
    [0.5, 0.5, 0.6667, 0.6667, 0.6667]
    """
    weights = np.full(design.shape[1], ridge)
    weights[0] = 0.0
    found = np.zeros(design.shape[1])
    now = _penalised(design, told, found, weights)
    for _ in range(STEPS):
        p = chances(design, found)
        slope = design.T @ (told - p) - weights * found
        curve = (design * (p * (1 - p))[:, None]).T @ design
        curve[np.diag_indices_from(curve)] += weights + 1e-12
        step = _solved(curve, slope)
        size = 1.0
        while size > SMALLEST_STEP and _penalised(design, told, found + size * step, weights) < now:
            size /= 2
        found = found + size * step
        before, now = now, _penalised(design, told, found, weights)
        if now - before <= SMALLEST_STEP * (1 + abs(now)):
            break
    return found


def chances(design: Numbers, coefficients: Numbers) -> Numbers:
    """Fitted probabilities, shape (n,)."""
    from scipy.special import expit

    return np.asarray(expit(design @ coefficients), dtype=np.float64)


def _penalised(design: Numbers, membership: Numbers, coefficients: Numbers, weights: Numbers) -> float:
    scores = design @ coefficients
    likelihood = membership * scores - np.logaddexp(0.0, scores)
    return float(likelihood.sum() - 0.5 * (weights * coefficients * coefficients).sum())


def _solved(curve: Numbers, slope: Numbers) -> Numbers:
    try:
        return np.asarray(np.linalg.solve(curve, slope))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(curve, slope, rcond=None)[0])


def independent_columns(design: Numbers) -> Ints:
    """Places of columns that the columns before them do not explain, ascending.

    Examples
    --------
    >>> independent_columns(np.array([[1.0, 2.0, 3.0], [1.0, 0.0, 1.0], [1.0, 1.0, 2.0]])).tolist()
    [0, 1]
    """
    if len(design) > design.shape[1]:
        design = np.asarray(np.linalg.qr(design, mode="r"))  # preserves the relations between columns
    kept: list[int] = []
    basis = np.zeros((len(design), 0))
    for at in range(design.shape[1]):
        column = design[:, at]
        length = float(np.linalg.norm(column))
        rest = column - basis @ (basis.T @ column)
        rest = rest - basis @ (basis.T @ rest)  # a second pass removes the rounding of the first
        left = float(np.linalg.norm(rest))
        if length > 0 and left > 1e-9 * length:
            kept.append(at)
            basis = np.column_stack([basis, rest / left])
    return np.array(kept, dtype=np.int64)


@dataclass(frozen=True)
class IntervalOverlap:
    """Overlap of the confidence intervals of two regressions.

    Parameters
    ----------
    overlaps : ndarray of float64, shape (coefficients,)
        At most 1; below 0 where the intervals are apart.
    kept : ndarray of int64, shape (coefficients,)
        Columns of the design that have a coefficient; the others are explained by them.
    """

    overlaps: Numbers = field(repr=False)
    kept: Ints = field(repr=False)


def interval_overlap(
    before: Numbers, after: Numbers, response: Numbers, released: Numbers, confidence: float = 0.95
) -> IntervalOverlap:
    """1/2 [o / (U - L) + o / (U' - L')] with o = min(U, U') - max(L, L') for each coefficient of two fits.

    Columns that others explain, on either side, are left out on both. Intervals of width 0 overlap by 1 where they are
    equal, otherwise by 0. Source: Karr et al., The American Statistician 60, 2006.

    Parameters
    ----------
    before, after : ndarray of float64, shapes (n, q), (n', q)
        Designs of the original and of the release, an intercept first.
    response, released : ndarray of float64, shapes (n,), (n',)

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    >>> y = np.array([0.0, 1.0, 2.0, 4.0])
    >>> interval_overlap(x, x, y, y).overlaps.round(12).tolist()
    [1.0, 1.0]
    """
    first = canonical_order(np.column_stack([before, response]))
    second = canonical_order(np.column_stack([after, released]))
    # Overlaps do not depend on units, but the squares of large numbers overflow.
    units = np.maximum(np.abs(before).max(axis=0), np.abs(after).max(axis=0))
    unit = max(float(np.abs(response).max()), float(np.abs(released).max()), 0.0) or 1.0
    units[units == 0] = 1.0
    before, response = before[first] / units, response[first] / unit
    after, released = after[second] / units, released[second] / unit
    kept = np.intersect1d(independent_columns(before), independent_columns(after))
    (low, high), (other_low, other_high) = (
        _intervals(design[:, kept], values, confidence) for design, values in ((before, response), (after, released))
    )
    overlap = np.minimum(high, other_high) - np.maximum(low, other_low)
    widths = high - low, other_high - other_low
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [overlap / width for width in widths]
    flat = (widths[0] == 0) | (widths[1] == 0)
    same = np.isclose(low, other_low, rtol=1e-9, atol=1e-12) & np.isclose(high, other_high, rtol=1e-9, atol=1e-12)
    return IntervalOverlap(np.where(flat, same.astype(np.float64), 0.5 * (shares[0] + shares[1])), kept)


def _intervals(design: Numbers, response: Numbers, confidence: float) -> tuple[Numbers, Numbers]:
    from scipy.stats import t

    scale = np.linalg.norm(design, axis=0)
    q, r = np.linalg.qr(design / scale)
    fitted = np.linalg.solve(r, q.T @ response)
    rest = response - design / scale @ fitted
    free = len(design) - design.shape[1]
    if free < 1:
        raise ValueError("a regression needs more records than coefficients")
    squares = math.fsum((rest * rest).tolist())
    # The residual of a perfect fit is rounding, and intervals as narrow as that would overlap by chance.
    variance = 0.0 if squares <= EXACT * math.fsum((response * response).tolist()) else squares / free
    spread = np.sqrt(variance * (np.linalg.inv(r) ** 2).sum(axis=1)) * float(t.ppf(0.5 + confidence / 2, free))
    return (fitted - spread) / scale, (fitted + spread) / scale


def canonical_order(rows: Numbers) -> Ints:
    """An order of rows that depends only on their values, so that no fit depends on that of the files; shape (n,)."""
    return np.lexsort(rows.T[::-1])
