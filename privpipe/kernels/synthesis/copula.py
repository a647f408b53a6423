"""The Gaussian copula: ranks and scores of its marginals, and the correlations of the latent normal variables.

A category is an interval of a normal variable, and so is a number that many records hold; scores of intervals
correlate less than the variables do. The correlation of two grouped variables is a power series in that of the
variables.

Sources: Nelsen, An Introduction to Copulas, Springer, 2006; Olsson, Maximum likelihood estimation of the polychoric
correlation coefficient, Psychometrika 44, 1979; Cario, Nelson, Modeling and generating random vectors with arbitrary
marginal distributions and correlation matrix, Northwestern University, 1997; the series is Mehler's. Of optimal
scores: Mair, de Leeuw, A general framework for multivariate analysis with optimal scaling: the R package aspect,
J. Statistical Software 32(9), 2010 (aspect: sum of powers of the correlations); the steps are those of reciprocal
averaging (Hill, J. Ecology 61, 1973), weighted by the squared correlations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.special import ndtr

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.draws.elementary import normal_quantile

__all__ = [
    "Pairs",
    "ValueRanks",
    "category_scores",
    "grouped_correlation",
    "interval_terms",
    "inverse_shares",
    "latent_correlation",
    "normal_quantiles",
    "optimal_scores",
    "order_correlation",
    "pearson_of_spearman",
    "proper_correlation",
    "uniforms_of",
    "within_share",
]


@njit(nogil=True, cache=True)
def _quantiles(shares: Floats) -> Floats:
    out = np.empty(len(shares))
    for i in range(len(shares)):
        out[i] = normal_quantile(shares[i])
    return out


def normal_quantiles(shares: Floats) -> Floats:
    """Inverse normal distribution function of shares in (0, 1), with the same bits on every machine.

    Examples
    --------
    >>> normal_quantiles(np.array([0.5, 0.975])).round(4).tolist()
    [0.0, 1.96]
    """
    return np.asarray(_quantiles(read_only(shares, np.float64)))


@dataclass(frozen=True)
class ValueRanks:
    """Distinct values of a column with their ranks: a mid-rank is a function of the value only.

    Parameters
    ----------
    values : ndarray of float64 or int64, shape (m,)
        Distinct, ascending.
    offsets : ndarray of int64, shape (m + 1,)
        Value number i has the ranks offsets[i] .. offsets[i + 1] - 1.

    Examples
    --------
    >>> ranks = ValueRanks.of(np.array([3.0, 1.0, 3.0]), np.array([1, 1, 2]))
    >>> ranks.doubled(np.array([1.0, 3.0])).tolist(), len(ranks)
    ([0, 4], 4)
    """

    values: Floats | Ints = field(repr=False)
    offsets: Ints = field(repr=False)

    @classmethod
    def of(cls, values: Floats | Ints, counts: Ints) -> Self:
        """From values, which may repeat, with their counts."""
        distinct, places = np.unique(values + values.dtype.type(0), return_inverse=True)
        sums = np.bincount(places, weights=counts, minlength=len(distinct)) if len(distinct) else np.empty(0)
        return cls(distinct, np.concatenate([[0], np.cumsum(sums.astype(np.int64))]).astype(np.int64))

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def doubled(self, values: Floats | Ints) -> Ints:
        """Twice the 0-based mid-rank of each value: an integer. Undefined for a value that does not occur."""
        if not len(self.values):
            return np.zeros(len(values), np.int64)
        at = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        return np.asarray(self.offsets[at] + self.offsets[at + 1] - 1)

    def scores(self, values: Floats | Ints) -> Floats:
        """Normal quantile of (mid-rank + 0.5) / n, for each value."""
        if not len(self):
            return np.zeros(len(values))
        return normal_quantiles(np.asarray((self.doubled(values) + 1) / (2 * len(self)), np.float64))


def pearson_of_spearman(spearman: Floats) -> Floats:
    """Correlation of normal variables with this rank correlation: 2 sin(pi/6 r); unknown ones are 0.

    Examples
    --------
    >>> pearson_of_spearman(np.array([[1.0, 0.5], [0.5, np.nan]])).round(4).tolist()
    [[1.0, 0.5176], [0.5176, 1.0]]
    """
    found = 2.0 * np.sin(np.pi / 6.0 * np.nan_to_num(spearman, nan=0.0))
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def proper_correlation(matrix: Floats, least: float = 0.0) -> Floats:
    """The matrix with eigenvalues clipped at `least` and its diagonal scaled back to 1.

    Parameters
    ----------
    matrix : ndarray of float64, shape (s, s)
        Symmetric, ones on the diagonal.
    least : float
        At least 0.

    Examples
    --------
    >>> proper_correlation(np.array([[1.0, 0.5], [0.5, 1.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    >>> bad = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    >>> fixed = proper_correlation(bad)
    >>> bool(np.linalg.eigvalsh(fixed).min() > -1e-12), np.diag(fixed).tolist()
    (True, [1.0, 1.0, 1.0])
    """
    if not len(matrix):
        return matrix
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    if values.min() >= least:
        return matrix
    made = (vectors * np.maximum(values, least)) @ vectors.T
    scale = np.sqrt(np.diag(made))
    made = made / np.outer(scale, scale)
    np.fill_diagonal(made, 1.0)
    return np.asarray((made + made.T) / 2.0)


Pairs = Mapping[tuple[int, int], Ints]
"""Records by the codes of two columns, with the lower column number first."""
SWEEPS = 200
STILL = 1e-12
DIGITS = 9


def optimal_scores(pairs: Pairs, counts: Sequence[Ints], fixed: Mapping[int, Floats]) -> list[Floats]:
    """One score per category: mean 0 and deviation 1 over the records; zeros where a column has no variance.

    Each column without given scores in turn takes as scores the means of the others' scores over its categories,
    weighted by their squared correlations with it; where no value is missing, no step lowers the sum of the cubes of
    the absolute correlations. Strong relations thus weigh more than many weak ones. A column starts with its first
    correspondence axis against all others.

    Parameters
    ----------
    pairs : mapping of (int, int) to ndarray of int64
        Records by the codes of columns i < j, shape (categories of i, categories of j); records that miss one value are
        left out, and pairs may be left out.
    counts : sequence of ndarray of int64
        Records of each category, by column.
    fixed : mapping of int to ndarray of float64
        Scores of columns that have an order.

    Examples
    --------
    >>> table = np.array([[0, 9, 1], [8, 0, 2], [1, 1, 8]])
    >>> scores = optimal_scores({(0, 1): table}, [table.sum(1), table.sum(0)], {})
    >>> [np.argsort(each).tolist() for each in scores]
    [[1, 2, 0], [0, 2, 1]]
    """
    scores = [
        _standard(fixed[at] if at in fixed else _first_axis(at, pairs, counts), each) for at, each in enumerate(counts)
    ]
    free = [at for at in range(len(counts)) if at not in fixed and len(counts[at]) > 1]
    reached = -1.0
    for _ in range(SWEEPS):
        total = 0.0
        for at in free:
            found, cubes = _averaged(at, scores, pairs, counts)
            total += cubes
            scores[at] = _standard(found, counts[at]) if cubes > STILL else scores[at]
        if total - reached < STILL:
            break
        reached = total
    return [np.round(each, DIGITS) for each in scores]


def _averaged(at: int, scores: Sequence[Floats], pairs: Pairs, counts: Sequence[Ints]) -> tuple[Floats, float]:
    """Means of the others' scores by category, weighted by squared correlation; and the sum of the cubes."""
    found, cubes = np.zeros(len(counts[at])), 0.0
    for other, table in _tables_of(at, pairs):
        n = int(table.sum())
        if n:
            sums = table @ scores[other] / n
            r = float(scores[at] @ sums)
            found += abs(r) * r * sums
            cubes += abs(r) ** 3
    return found / np.maximum(counts[at], 1), cubes


def _first_axis(at: int, pairs: Pairs, counts: Sequence[Ints]) -> Floats:
    """First axis of the correspondence analysis of a column's categories against those of all others."""
    rows = np.maximum(counts[at].astype(np.float64), 1.0)
    parts = []
    for _, table in _tables_of(at, pairs):
        n, theirs = table.sum(), table.sum(0).astype(np.float64)
        if n:
            expected = np.outer(table.sum(1), theirs) / n
            parts.append((table - expected) / np.sqrt(np.outer(rows, np.maximum(theirs, 1.0))))
    if not parts:
        return np.zeros(len(rows))
    axes = np.concatenate(parts, axis=1)
    _, vectors = np.linalg.eigh(axes @ axes.T)
    first = vectors[:, -1]
    return np.asarray(first * (np.sign(first[np.abs(first).argmax()]) or 1.0) / np.sqrt(rows))


def _tables_of(at: int, pairs: Pairs) -> list[tuple[int, Ints]]:
    return [(j if i == at else i, table if i == at else table.T) for (i, j), table in pairs.items() if at in (i, j)]


def _standard(scores: Floats, counts: Ints) -> Floats:
    n = max(int(counts.sum()), 1)
    centred = scores - float(scores @ counts) / n
    sd = float(np.sqrt((centred * centred) @ counts / n))
    return np.asarray(centred / sd if sd > STILL else np.zeros(len(scores)))


def order_correlation(classes: Ints, one: Ints, other: Ints) -> tuple[float, float, int]:
    """Spearman's correlation of two orders, pooled over classes.

    Parameters
    ----------
    classes, one, other : ndarray of int64, shape (n,)
        Class of each record, and its position in either order; positions differ.

    Returns
    -------
    rho : float
        T / D in [-1, 1]; T the sum over classes of the products of centred ranks, D = sum f (f^2 - 1) / 12. NaN where
        no class has two members.
    sd : float
        Standard deviation of rho where the orders are unrelated; NaN where rho is.
    compared : int
        Records in classes of at least two.

    Examples
    --------
    >>> classes, order = np.array([0, 1, 0, 1, 0, 1]), np.arange(6)
    >>> rho, sd, compared = order_correlation(classes, order, order)
    >>> rho, round(sd, 4), compared
    (1.0, 0.5, 6)
    >>> order_correlation(classes, order, order[::-1])[0]
    -1.0
    """
    sizes = np.bincount(classes) if len(classes) else np.zeros(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    centred = []
    for order in (one, other):
        ranks = np.empty(len(classes), dtype=np.int64)
        places = np.lexsort((order, classes))
        ranks[places] = np.arange(len(classes)) - starts[classes[places]]
        centred.append(ranks - (sizes[classes] - 1) / 2)
    each = sizes * (sizes.astype(np.float64) ** 2 - 1) / 12
    most = float(each.sum())
    if not most > 0:
        return float("nan"), float("nan"), 0
    several = sizes >= 2
    variance = float((each[several] ** 2 / (sizes[several] - 1)).sum())
    total = float(np.dot(centred[0], centred[1]))
    return total / most, float(np.sqrt(variance)) / most, int(sizes[several].sum())


def category_scores(shares: Sequence[float] | Floats) -> Floats:
    """Normal quantile of the middle of each category's interval, in the order of the shares.

    Examples
    --------
    >>> category_scores([0.5, 0.5]).round(4).tolist()
    [-0.6745, 0.6745]
    """
    widths = np.asarray(shares, np.float64)
    ends = np.cumsum(widths)
    return normal_quantiles(np.clip(ends - widths / 2.0, 2.0**-53, 1.0 - 2.0**-53))


def inverse_shares(u: Floats, shares: Sequence[float] | Floats) -> Ints:
    """The category whose interval holds u.

    Examples
    --------
    >>> inverse_shares(np.array([0.1, 0.5, 0.99]), [0.5, 0.25, 0.25]).tolist()
    [0, 1, 2]
    """
    ends = np.cumsum(np.asarray(shares, np.float64))
    return np.searchsorted(ends[:-1], u, side="right").astype(np.int64)


def within_share(u: Floats, codes: Ints, shares: Sequence[float] | Floats) -> Floats:
    """Relative position of u within the interval of its category, in [0, 1).

    Examples
    --------
    >>> within_share(np.array([0.25, 0.625]), np.array([0, 1]), [0.5, 0.5]).tolist()
    [0.5, 0.25]
    """
    widths = np.asarray(shares, np.float64)
    first = (np.cumsum(widths) - widths)[codes]
    return np.clip((u - first) / widths[codes], 0.0, 1.0 - 2.0**-53)


def uniforms_of(normals: Sequence[Floats], factor: Sequence[Sequence[float]]) -> list[Floats]:
    """Phi(A z), column by column; added up term by term, so that blocks of any length give the same bits.

    Examples
    --------
    >>> uniforms_of([np.array([0.0]), np.array([1.0])], [[1.0, 0.0], [0.6, 0.8]])[1].round(4).tolist()
    [0.7881]
    """
    found = []
    for row in factor:
        total = np.zeros(len(normals[0]))
        for weight, z in zip(row, normals, strict=True):
            total += weight * z
        found.append(np.asarray(ndtr(total), np.float64))
    return found


TERMS = 200
STEPS = 50
MOST_INTERVALS = 2000
EDGE = 2.0**-53


def interval_terms(shares: Sequence[float] | Floats) -> Floats:
    """Coefficients of the standardised scores of these intervals in the first 200 normalised Hermite polynomials.

    Parameters
    ----------
    shares : sequence of float
        Shares of consecutive intervals, above 0, with sum 1. More than 2,000 are merged to about 2,000.

    Returns
    -------
    ndarray of float64, shape (200,)
        Zeros for a single interval, whose score does not vary.

    Examples
    --------
    >>> interval_terms([0.5, 0.5])[:2].round(4).tolist()
    [0.7979, 0.0]
    """
    widths = np.asarray(shares, np.float64)
    if len(widths) > MOST_INTERVALS:
        middles = np.cumsum(widths) - widths / 2.0
        groups = np.unique(np.floor(middles * MOST_INTERVALS), return_inverse=True)[1]
        widths = np.asarray(np.bincount(groups, weights=widths), np.float64)
    scores = category_scores(widths)
    centred = scores - float(scores @ widths)
    sd = float(np.sqrt((centred * centred) @ widths))
    if len(widths) < 2 or not sd > 0:
        return np.zeros(TERMS)
    cuts = normal_quantiles(np.clip(np.cumsum(widths)[:-1], EDGE, 1.0 - EDGE))
    # The integral of a polynomial over an interval follows from the previous polynomial at its two ends.
    steps = np.diff(centred) / sd * np.exp(-cuts * cuts / 2.0) / np.sqrt(2.0 * np.pi)
    before, here, found = np.zeros(len(cuts)), np.ones(len(cuts)), np.empty(TERMS)
    for k in range(1, TERMS + 1):
        found[k - 1] = float(steps @ here) / np.sqrt(k)
        before, here = here, (cuts * here - np.sqrt(k - 1.0) * before) / np.sqrt(k)
    return found


def grouped_correlation(latent: Floats, first: Floats, second: Floats) -> Floats:
    """Correlation of the scores where the variables have this one.

    Parameters
    ----------
    latent : ndarray of float64, shape (p,)
    first, second : ndarray of float64, shape (p, 200)
        `interval_terms` of both sides.
    """
    terms = first * second
    total = np.zeros(len(latent))
    for k in range(TERMS - 1, -1, -1):
        total = (total + terms[:, k]) * latent
    return total


def latent_correlation(observed: Floats, first: Floats, second: Floats) -> Floats:
    """Correlation of the variables where the scores have this one; -1 or 1 where none achieves it, 0 where it is 0.

    Examples
    --------
    >>> halves = interval_terms([0.5, 0.5])[None]
    >>> latent_correlation(np.array([1 / 3]), halves, halves).round(3).tolist()
    [0.5]
    """
    low, high = np.full(len(observed), -1.0), np.ones(len(observed))
    reached = [grouped_correlation(each, first, second) for each in (low, high)]
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        below = grouped_correlation(middle, first, second) < observed
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found = np.where(observed >= reached[1], 1.0, np.where(observed <= reached[0], -1.0, (low + high) / 2.0))
    return np.where((observed == 0) | ~(first.any(axis=1) & second.any(axis=1)), 0.0, found)
