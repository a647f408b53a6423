"""How much of a column is left in its released self, from counts of (value before, value after)."""

from __future__ import annotations

import math

import numpy as np

from privpipe.blocks.arrays import Bools, Ints

__all__ = ["CountedPairs", "counted_pairs", "cramers_v", "rank_correlation", "rank_ratio", "uncertainty"]


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
    """Spearman's rho, ties at their mid-ranks; 0 where one side has a single value. Exact but for the last division.

    Examples
    --------
    >>> rank_correlation(counted_pairs(np.array([0, 1, 2]), np.array([0, 2, 1]), 3))
    0.5
    """
    x, y = _centred_ranks(pairs.before, pairs.counts), _centred_ranks(pairs.after, pairs.counts)
    together, own, other = (_exact_sum(a, b, pairs.counts) for a, b in ((x, y), (x, x), (y, y)))
    return together / math.sqrt(own * other) if own and other else 0.0


def rank_ratio(pairs: CountedPairs) -> float | None:
    """The correlation of ranks with the mean rank of their label, freed of what chance gives.

    The square is epsilon^2 = 1 - (1 - eta^2)(n - 1)/(n - c) for c labels of n records. None where labels have fewer
    than two records each on average: then chance alone predicts the ranks. Source: Kelley, PNAS 21, 1935.

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
    more: labels of so few records agree by chance.

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
    """Twice the mid-rank of each pair's code, less its mean: whole numbers that sum to 0 over the records."""
    totals = _by_code(codes, counts)
    ends = np.cumsum(totals)
    n = int(ends[-1]) if len(ends) else 0
    ranks: Ints = (2 * ends - totals - n)[codes]
    return ranks


def _exact_sum(x: Ints, y: Ints, counts: Ints) -> int:
    """sum x y counts: in 64 bits while it surely fits, else in whole numbers of any size."""
    largest = int(np.abs(x).max(initial=0)) * int(np.abs(y).max(initial=0)) * int(counts.sum())
    if largest < 2**63:
        return int((x * y * counts).sum())
    return sum(a * b * c for a, b, c in zip(x.tolist(), y.tolist(), counts.tolist(), strict=True))
