"""Information loss of masked columns: by cells, moments, correlations, entropy, and association of before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.kernels.exact_sums import measure_sums

__all__ = [
    "LARGEST_COMPARED",
    "CountedPairs",
    "LabelledColumn",
    "arctan_loss",
    "correlation_loss",
    "counted_pairs",
    "cramers_v",
    "divergence",
    "eigen_loss",
    "entropy_loss",
    "moment_loss",
    "rank_correlation",
    "rank_ratio",
    "relative_loss",
    "squared_loss",
    "standardised_loss",
    "uncertainty",
]


Numbers = Floats
Figures = dict[str, float]


def standardised_loss(before: Sequence[Numbers], after: Sequence[Numbers], sd: Sequence[float]) -> list[float]:
    """IL1s of each column: the mean of |x - y| / (sqrt(2) sd) over the cells that are known on both sides.

    NaN for a column without deviation or without such a cell. The mean over all cells is that of the columns, weighted
    by their cells. Source: Mateo-Sanz, Domingo-Ferrer, Sebe, Data Mining and Knowledge Discovery 11, 2005.

    Parameters
    ----------
    before, after : sequence of s ndarrays of float64, shape (n,)
        NaN: no value.
    sd : sequence of s floats
        Standard deviations of the original, divisor n - 1.

    Examples
    --------
    >>> standardised_loss([np.array([1.0, 2.0, 3.0])], [np.array([1.0, 2.0, 5.0])], [1.0])
    [0.4714045207910316]
    """
    return [
        _mean(_apart(x, y) / (math.sqrt(2) * scale)) if scale > 0 else math.nan
        for x, y, scale in zip(before, after, sd, strict=True)
    ]


def relative_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> list[tuple[float, int]]:
    """IL1 of each column and the cells it is based on: the mean of |x - y| / |x|, without cells where x = 0.

    Examples
    --------
    >>> relative_loss([np.array([0.0, 2.0, 4.0])], [np.array([9.0, 3.0, 4.0])])
    [(0.25, 2)]
    """
    found = []
    for x, y in zip(before, after, strict=True):
        kept = x != 0
        shares = _apart(x[kept], y[kept]) / np.abs(x[kept & ~np.isnan(x) & ~np.isnan(y)])
        found.append((_mean(shares), len(shares)))
    return found


def squared_loss(
    before: Sequence[Numbers], after: Sequence[Numbers], mean: Sequence[float], sd: Sequence[float]
) -> Any:
    """SSE and SST of each column on the scale of the original: (sse, sst), both NaN for a constant column.

    Examples
    --------
    >>> [(sse, sst)] = squared_loss([np.array([1.0, 2.0, 3.0])], [np.array([1.0, 2.0, 5.0])], [2.0], [1.0])
    >>> sse, sst
    (4.0, 2.0)
    """
    found = []
    for x, y, centre, scale in zip(before, after, mean, sd, strict=True):
        if not scale > 0:
            found.append((math.nan, math.nan))
            continue
        known = ~np.isnan(x) & ~np.isnan(y)
        sse = math.fsum((((x[known] - y[known]) / scale) ** 2).tolist())
        found.append((sse, math.fsum((((x[known] - centre) / scale) ** 2).tolist())))
    return found


def arctan_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> list[float]:
    """Mean of (2 / pi) arctan |x - y| of each column: depends on units and saturates, so only for comparisons.

    Examples
    --------
    >>> arctan_loss([np.array([0.0, 1.0])], [np.array([1.0, 1.0])])
    [0.25]
    """
    return [_mean(2 / math.pi * np.arctan(_apart(x, y))) for x, y in zip(before, after, strict=True)]


def moment_loss(x: Numbers, y: Numbers) -> Figures:
    """Shifts of mean, median, deviation and median absolute deviation of one column, in deviations of the original.

    For a column without deviation the shift is 0 where the moment is equal to the last bit, otherwise 1.

    Returns
    -------
    dict
        ``mean`` |m' - m| / sd, ``sd`` |sd' / sd - 1|, ``median`` |median' - median| / sd, ``mad`` |mad' - mad| / sd,
        the last with MAD = median |x - median|. NaN without a value on either side.

    Examples
    --------
    >>> moment_loss(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    {'mean': 1.0, 'sd': 0.0, 'median': 1.0, 'mad': 0.0}
    """
    sides = []
    # Relative to the least value: far from 0 a mean has no digits for a shift that is small compared with it.
    start = np.nanmin(x) if (~np.isnan(x)).any() else 0.0
    for values in (x, y):
        known = np.sort(values[~np.isnan(values)] - start)
        if not len(known):
            return dict.fromkeys(("mean", "sd", "median", "mad"), math.nan)
        sums = measure_sums([known])
        middle = float(np.median(known))
        sides.append((sums.mean(), sums.sd() if len(known) > 1 else 0.0, middle, float(np.median(abs(known - middle)))))
    scale = sides[0][1]
    shifts = [abs(new - old) for old, new in zip(*sides, strict=True)]
    if scale > 0:
        return dict(zip(("mean", "sd", "median", "mad"), (shift / scale for shift in shifts), strict=True))
    return dict(zip(("mean", "sd", "median", "mad"), (float(shift > 0) for shift in shifts), strict=True))


def correlation_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> tuple[float, float]:
    """Mean and maximum over pairs of columns of |r - r'|; NaN for fewer than two columns.

    No column may be constant on either side. Records with a null in some column are left out on their side.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    >>> correlation_loss([x, x], [x, y])
    (0.5, 0.5)
    """
    first, second = measure_sums(before).correlation(), measure_sums(after).correlation()
    upper = np.triu_indices(len(first), 1)
    apart = np.abs(first[upper] - second[upper])
    return (_mean(apart), float(apart.max())) if len(apart) else (math.nan, math.nan)


def eigen_loss(before: Sequence[Numbers], after: Sequence[Numbers]) -> float:
    """sum |e - e'| / sum e over the sorted eigenvalues of the correlation matrices.

    Divided by the total, so that an eigenvalue of 0 (collinear columns) does no harm. NaN where a correlation
    is undefined.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    >>> round(eigen_loss([x, x], [x, y]), 12)
    0.5
    """
    matrices = [measure_sums(side).correlation() for side in (before, after)]
    if any(np.isnan(matrix).any() for matrix in matrices):
        return math.nan
    first, second = (np.sort(np.linalg.eigvalsh(matrix)) for matrix in matrices)
    return math.fsum(np.abs(first - second).tolist()) / len(first)


def _apart(x: Numbers, y: Numbers) -> Numbers:
    known = ~np.isnan(x) & ~np.isnan(y)
    apart: Numbers = np.abs(x[known] - y[known])
    return apart


def _mean(values: Numbers) -> float:
    return math.fsum(values.tolist()) / len(values) if len(values) else math.nan


LARGEST_COMPARED = 4_000_000_000
"""Most pairs of distinct combinations, an original with a released one, that a divergence compares."""


@dataclass(frozen=True)
class LabelledColumn:
    """One column of both files in codes.

    Parameters
    ----------
    values, labels : ndarray of int64, shapes (n,) and (n',)
        Code of the original value and of the released label of each record; equally long where records are paired.
    covers : ndarray of bool, shape (values, labels)
        Whether a label represents a value.
    leaves : ndarray of float64, shape (labels,)
        Values of the domain under each label, at least 1.
    """

    values: Ints = field(repr=False)
    labels: Ints = field(repr=False)
    covers: Bools = field(repr=False)
    leaves: Floats = field(repr=False)


def entropy_loss(column: LabelledColumn) -> float:
    """sum -log2 P(x | label) / sum -log2 (share of x) over the records, in [0, 1]; 0 for a constant column.

    P is the count of x over the count of originals that are under the label or were released by it. Source: De Waal,
    Willenborg, Netherlands Official Statistics 14, 1999.

    Examples
    --------
    >>> whole = LabelledColumn(np.array([0, 0, 1, 2]), np.zeros(4, np.int64), np.ones((3, 1), np.bool_), np.ones(1))
    >>> entropy_loss(whole)
    1.0
    """
    counts = np.bincount(column.values, minlength=len(column.covers)).astype(np.float64)
    under = column.covers.copy()
    under[column.values, column.labels] = True
    beneath = counts @ under
    n = len(column.values)
    lost = math.fsum(np.log2(beneath[column.labels] / counts[column.values]).tolist())
    whole = math.fsum(np.log2(n / counts[column.values]).tolist())
    return lost / whole if whole > 0 else 0.0


def divergence(columns: Sequence[LabelledColumn]) -> tuple[float, bool]:
    """sum P ln (P / Q) in nats over the joint distribution, and whether it had to be smoothed.

    Q spreads each released record evenly over the combinations of values that its labels represent. Where a value of
    the original is under no released label (masked values, no recoding), both files are counted in their own cells, 1/2
    is added to each cell that occurs in either. NaN beyond `LARGEST_COMPARED`.

    Examples
    --------
    >>> under_one = np.ones((2, 1), np.bool_)
    >>> column = LabelledColumn(np.array([0, 0, 0, 1]), np.zeros(4, np.int64), under_one, np.full(1, 2.0))
    >>> round(divergence([column])[0], 6), divergence([column])[1]
    (0.130812, False)
    """
    originals, counts = np.unique(np.stack([column.values for column in columns], axis=1), axis=0, return_counts=True)
    releases, weights = np.unique(np.stack([column.labels for column in columns], axis=1), axis=0, return_counts=True)
    if len(originals) * len(releases) > LARGEST_COMPARED:
        return math.nan, False
    total = np.zeros(len(originals))
    for cell, weight in zip(releases, weights, strict=True):
        under = np.arange(len(originals))
        for at, column in enumerate(columns):
            under = under[column.covers[originals[under, at], cell[at]]]
        share = float(weight)
        for at, column in enumerate(columns):
            share /= column.leaves[cell[at]]
        total[under] += share
    n, shown = len(columns[0].values), len(columns[0].labels)
    p = counts / n
    if (total > 0).all():
        return max(0.0, math.fsum((p * np.log(p / (total / shown))).tolist())), False
    return _smoothed(columns), True


def _smoothed(columns: Sequence[LabelledColumn]) -> float:
    """KL divergence of the two counts with 1/2 added to each cell; a label that is a value shares its cell."""
    sides = []
    for column in columns:
        own = np.arange(column.covers.shape[1]) + len(column.covers)
        single = (column.covers.sum(axis=0) == 1) & (column.leaves == 1)
        own[single] = column.covers[:, single].argmax(axis=0)
        sides.append((column.values, own[column.labels]))
    both = np.concatenate([np.stack([first for first, _ in sides], 1), np.stack([second for _, second in sides], 1)])
    cells, places = np.unique(both, axis=0, return_inverse=True)
    places, n = places.ravel(), len(columns[0].values)
    p, q = (
        (np.bincount(side, minlength=len(cells)) + 0.5) / (len(side) + len(cells) / 2)
        for side in (places[:n], places[n:])
    )
    return max(0.0, math.fsum((p * np.log(p / q)).tolist()))


class CountedPairs:
    """Distinct pairs of codes with the records that have them.

    Parameters
    ----------
    before, after, counts : ndarray of int64, shape (n,)
        No pair twice, every count at least 1. Codes are 0, 1, ... in the order of the values.

    Examples
    --------
    >>> pairs = counted_pairs(np.array([0, 0, 1]), np.array([1, 1, 0]), 2)
    >>> pairs.before.tolist(), pairs.after.tolist(), pairs.counts.tolist(), pairs.records
    ([0, 1], [1, 0], [2, 1], 3)
    """

    __slots__ = ("after", "before", "counts")

    def __init__(self, before: Ints, after: Ints, counts: Ints) -> None:
        self.before, self.after, self.counts = before, after, counts

    @property
    def records(self) -> int:
        """Records in all pairs."""
        return int(self.counts.sum())

    def where(self, kept: Bools) -> CountedPairs:
        """Some of the pairs."""
        return CountedPairs(self.before[kept], self.after[kept], self.counts[kept])


def counted_pairs(before: Ints, after: Ints, codes_after: int) -> CountedPairs:
    """The distinct pairs of two columns of codes, those of the second below `codes_after`."""
    joint = before * max(codes_after, 1) + after
    most = int(joint.max(initial=0)) + 1
    if most <= 4 * len(joint):
        totals = np.bincount(joint, minlength=1)
        found = np.flatnonzero(totals)
        counts = totals[found].astype(np.int64, copy=False)
    else:
        found, counts = np.unique(joint, return_counts=True)
    return CountedPairs(found // max(codes_after, 1), found % max(codes_after, 1), counts)


def rank_correlation(pairs: CountedPairs) -> float:
    """Spearman's rho, ties at their mid-ranks; 0 where one side has a single value. Exact except for the last division.

    Examples
    --------
    >>> rank_correlation(counted_pairs(np.array([0, 1, 2]), np.array([0, 2, 1]), 3))
    0.5
    """
    x, y = _centred_ranks(pairs.before, pairs.counts), _centred_ranks(pairs.after, pairs.counts)
    together, own, other = (_exact_sum(a, b, pairs.counts) for a, b in ((x, y), (x, x), (y, y)))
    return together / math.sqrt(own * other) if own and other else 0.0


def rank_ratio(pairs: CountedPairs) -> float | None:
    """The correlation of ranks with the mean rank of their label, corrected for chance.

    The square is epsilon^2 = 1 - (1 - eta^2)(n - 1)/(n - c) for c labels of n records. None where labels have fewer
    than two records each on average: then chance predicts the ranks. Source: Kelley, PNAS 21, 1935.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 1, 1, 1])
    >>> round(rank_ratio(counted_pairs(np.arange(6), labels, 2)), 4)
    0.7792
    """
    x, n = _centred_ranks(pairs.before, pairs.counts), pairs.records
    labels = len(np.unique(pairs.after))
    whole = _exact_sum(x, x, pairs.counts)
    if n < 2 * labels or n < 2:
        return None
    if not whole or labels < 2:
        return 0.0
    order = np.argsort(pairs.after, kind="stable")
    starts = np.flatnonzero(np.diff(pairs.after[order], prepend=-1))
    sums = np.add.reduceat((x * pairs.counts)[order], starts)
    sizes = np.add.reduceat(pairs.counts[order], starts)
    between = math.fsum(float(total) ** 2 / size for total, size in zip(sums.tolist(), sizes.tolist(), strict=True))
    square = 1.0 - (1.0 - between / whole) * (n - 1) / (n - labels)
    return math.sqrt(min(1.0, max(0.0, square)))


def uncertainty(pairs: CountedPairs) -> float | None:
    """Theil's U, the share of the original entropy that the released labels explain, corrected for chance.

    U = (I - E)/(H - E), at least 0, with I the mutual information, H the entropy before and E = (r - 1)(c - 1)/2n the
    information that r and c unrelated labels of n records seem to have (Miller, 1955). None where E is half of H or
    more: labels with so few records agree by chance.

    Examples
    --------
    >>> halved = CountedPairs(np.arange(4), np.arange(4) // 2, np.full(4, 500))
    >>> round(uncertainty(halved), 3)
    0.5
    """
    n = pairs.records
    before, after = (_totals(codes, pairs.counts) for codes in (pairs.before, pairs.after))
    h, g, joint = (_entropy(counts, n) for counts in (before, after, pairs.counts))
    chance = (len(before) - 1) * (len(after) - 1) / (2 * n) if n else 0.0
    if len(before) < 2 or len(after) < 2:
        return 0.0
    if h <= 2 * chance:
        return None
    return min(1.0, max(0.0, (h + g - joint - chance) / (h - chance)))


def cramers_v(pairs: CountedPairs, *, corrected: bool = True) -> float | None:
    """Cramer's V of two columns of labels, in [0, 1]; 0 where a column has one label.

    Corrected for chance: None where labels have fewer than two records each on average. Source: Bergsma, J. Korean
    Statistical Society 42, 2013.

    Examples
    --------
    >>> cramers_v(CountedPairs(np.array([0, 1]), np.array([0, 1]), np.array([500, 500])))
    1.0
    """
    n = pairs.records
    rows, columns = (_by_code(codes, pairs.counts) for codes in (pairs.before, pairs.after))
    r, c = int(np.count_nonzero(rows)), int(np.count_nonzero(columns))
    if corrected and (n < 2 * max(r, c) or n < 2):
        return None
    if min(r, c) < 2:
        return 0.0
    squares = pairs.counts.astype(np.float64) ** 2 / (rows[pairs.before].astype(np.float64) * columns[pairs.after])
    square = math.fsum(squares.tolist()) - 1.0
    if not corrected:
        return math.sqrt(min(1.0, max(0.0, square / (min(r, c) - 1))))
    square -= (r - 1) * (c - 1) / (n - 1)
    most = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1.0
    return math.sqrt(min(1.0, max(0.0, square / most))) if most > 0 else 0.0


def _totals(codes: Ints, counts: Ints) -> Ints:
    totals = _by_code(codes, counts)
    return totals[totals > 0]


def _by_code(codes: Ints, counts: Ints) -> Ints:
    totals = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(totals, codes, counts)
    return totals


def _entropy(counts: Ints, n: int) -> float:
    """In nats; the order of the counts does not matter."""
    sizes, times = np.unique(counts, return_counts=True)
    return math.fsum(
        times * size / n * math.log(n / size) for size, times in zip(sizes.tolist(), times.tolist(), strict=True)
    )


def _centred_ranks(codes: Ints, counts: Ints) -> Ints:
    """Twice the mid-rank of each pair's code, minus its mean: integers that sum to 0 over the records."""
    totals = _by_code(codes, counts)
    ends = np.cumsum(totals)
    n = int(ends[-1]) if len(ends) else 0
    ranks: Ints = (2 * ends - totals - n)[codes]
    return ranks


def _exact_sum(x: Ints, y: Ints, counts: Ints) -> int:
    """sum x y counts: in 64 bits where it certainly fits, otherwise in integers of any size."""
    largest = int(np.abs(x).max(initial=0)) * int(np.abs(y).max(initial=0)) * int(counts.sum())
    if largest < 2**63:
        return int((x * y * counts).sum())
    return sum(a * b * c for a, b, c in zip(x.tolist(), y.tolist(), counts.tolist(), strict=True))
