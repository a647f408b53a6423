"""What labels have lost of the values they stand for: non-uniform entropy and the divergence of the joint counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_COMPARED", "LabelledColumn", "divergence", "entropy_loss"]

LARGEST_COMPARED = 4_000_000_000
"""Pairs of distinct combinations, an original with a released one, that a divergence goes through at the most."""


@dataclass(frozen=True)
class LabelledColumn:
    """One column of both files in codes.

    Parameters
    ----------
    values, labels : ndarray of int64, shapes (n,) and (n',)
        Code of the original value and of the released label of each record; equally long where records are paired.
    covers : ndarray of bool, shape (values, labels)
        Whether a label stands for a value.
    leaves : ndarray of float64, shape (labels,)
        Values of the domain under each label, at least 1.
    """

    values: NDArray[np.int64] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    covers: NDArray[np.bool_] = field(repr=False)
    leaves: NDArray[np.float64] = field(repr=False)


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

    Q spreads each released record evenly over the combinations of values that its labels stand for. Where a value of
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
    """KL of the two counts with 1/2 more in each cell; a label that is a value shares its cell."""
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
