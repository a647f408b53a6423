"""Ranks of values among all records, normal scores, and correlation matrices made fit for use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws.elementary import normal_quantile
from privpipe.kernels.columns.arrays import read_only

__all__ = ["ValueRanks", "normal_quantiles", "pearson_of_spearman", "proper_correlation"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    """Distinct values of a column with the ranks they stand at: a mid-rank is a function of the value alone.

    Parameters
    ----------
    values : ndarray of float64 or int64, shape (m,)
        Distinct, ascending.
    offsets : ndarray of int64, shape (m + 1,)
        Value number i stands at ranks offsets[i] .. offsets[i + 1] - 1.

    Examples
    --------
    >>> ranks = ValueRanks.of(np.array([3.0, 1.0, 3.0]), np.array([1, 1, 2]))
    >>> ranks.doubled(np.array([1.0, 3.0])).tolist(), len(ranks)
    ([0, 4], 4)
    """

    values: NDArray[np.float64] | Ints = field(repr=False)
    offsets: Ints = field(repr=False)

    @classmethod
    def of(cls, values: NDArray[np.float64] | Ints, counts: Ints) -> Self:
        """From values, which may repeat, with their counts."""
        distinct, places = np.unique(values + values.dtype.type(0), return_inverse=True)
        sums = np.bincount(places, weights=counts, minlength=len(distinct)) if len(distinct) else np.empty(0)
        return cls(distinct, np.concatenate([[0], np.cumsum(sums.astype(np.int64))]).astype(np.int64))

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def doubled(self, values: NDArray[np.float64] | Ints) -> Ints:
        """Twice the 0-based mid-rank of each value: an integer. Of a value that does not occur, anything."""
        if not len(self.values):
            return np.zeros(len(values), np.int64)
        at = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        return np.asarray(self.offsets[at] + self.offsets[at + 1] - 1)

    def scores(self, values: NDArray[np.float64] | Ints) -> Floats:
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
