"""Scores of unordered categories that make their columns correlate most with the others.

Source: Mair, de Leeuw, A general framework for multivariate analysis with optimal scaling: the R package aspect, J.
Statistical Software 32(9), 2010 (aspect: sum of powers of the correlations); the steps are those of reciprocal
averaging (Hill, J. Ecology 61, 1973), weighted by the squared correlations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pairs", "optimal_scores"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Pairs = Mapping[tuple[int, int], Ints]
"""Records by the codes of two columns, the lower column number first."""
SWEEPS = 200
STILL = 1e-12
DIGITS = 9


def optimal_scores(pairs: Pairs, counts: Sequence[Ints], fixed: Mapping[int, Floats]) -> list[Floats]:
    """One score a category: mean 0 and deviation 1 over the records; zeros where a column has no variance.

    Each column without given scores in turn takes as scores the means of the others' scores over its categories, added
    up by their squared correlations with it; where no record misses any, no step lowers the sum of the cubes of the
    absolute correlations. Strong relations so weigh more than many weak ones. It begins with its first correspondence
    axis against all others.

    Parameters
    ----------
    pairs : mapping of (int, int) to ndarray of int64
        Records by the codes of columns i < j, shape (categories of i, categories of j); records that miss one are left
        out, and a pair may be.
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
