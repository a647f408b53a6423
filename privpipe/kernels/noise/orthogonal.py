"""Random orthogonal masking of one block: preserves sums and cross products of its columns, not values.

T = H diag(1, Q) H', where H is orthogonal with first column 1/sqrt(b), and Q is the orthogonal factor (signs fixed to a
positive diagonal) of I + c N with N standard normal; so T 1 = 1. Source: Ting, Fienberg, Trottini, International
Journal of Information and Computer Security 2, 2008. Reflections are applied one by one in compiled serial code: a
library's factorisation may round differently from machine to machine.

How far T moves a record depends on c and on the size of the block: c = .1 moves blocks of 64 by half a variance of a
column and blocks of 8 by a twentieth. `strength` finds the c that moves blocks of a given size by a required ratio.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.draws import Stream
from privpipe.draws.elementary import normal_quantile, unit_interval
from privpipe.draws.siphash import word_of_2

__all__ = ["MOST_RATIO", "block_borders", "rotate_block", "strength"]

MOST_RATIO = 1.9
"""Independent values differ by two variances, and a random rotation moves records no further."""

MOST_DRAWS = 2000

REFERENCE_CELLS = 500_000
"""Cells of the random matrices that `strength` averages over: its standard error is .3 % for blocks of 64."""

U = np.uint64


def block_borders(n: int, block: int) -> Ints:
    """Where blocks of `block` records begin; the last has block .. 2 block - 1, or all n where these are fewer.

    Examples
    --------
    >>> block_borders(200, 64).tolist(), block_borders(70, 64).tolist()
    ([0, 64, 128, 200], [0, 70])
    """
    whole = max(n // block, 1)
    return np.append(np.arange(whole, dtype=np.int64) * block, n)


@cache
def strength(size: int, ratio: float) -> float:
    """c for which the mean square of Y - X is `ratio` times the variance of X within blocks of a given size.

    E |Q x - x|^2 = 2 (1 - E tr Q / m) |x|^2 with m = size - 1, over records in random order. E tr Q has no closed form;
    it is the mean over matrices drawn by a fixed key, so that the result is the same wherever it is computed.

    Parameters
    ----------
    size : int
        Records of a block; below 3 nothing is rotated, and the result is 0.
    ratio : float
        Above 0, at most `MOST_RATIO`.

    Returns
    -------
    float
        Above 0, rounded to six digits.

    Examples
    --------
    >>> 0.09 < strength(64, 0.5) < 0.1
    True
    """
    if size < 3:
        return 0.0
    from scipy.optimize import brentq

    m = size - 1
    stream = Stream(bytes(16))
    draws = min(max(REFERENCE_CELLS // m**2, 1), MOST_DRAWS)
    normals = np.stack([_perturbed(m, 1.0, *stream.child(str(at)).key_words) for at in range(draws)]) - np.eye(m)

    def excess(exponent: float) -> float:
        q, r = np.linalg.qr(np.eye(m) + np.exp(exponent) * normals)
        trace = np.einsum("dii,dii->d", q, np.sign(r)) / m
        return float(2.0 * (1.0 - trace.mean()) - ratio)

    # For smaller c, Q - I is almost antisymmetric, and the ratio is c^2 (m - 1).
    low = 0.5 * np.log(ratio / m) - 1.0
    return float(f"{np.exp(brentq(excess, low, np.log(1e3), xtol=1e-5)):.6g}")


def rotate_block(points: Floats, c: float, stream: Stream) -> Floats:
    """T X for the records of one block.

    Parameters
    ----------
    points : ndarray of float64, shape (b, s)
        X, in keyed order; b >= 1. Blocks of one or two records are returned unchanged: only the identity and an
        exchange would preserve their sums.
    c : float
        At least 0; 0 changes nothing. See `strength`.
    stream : Stream
        The stream of the block.

    Returns
    -------
    ndarray of float64, shape (b, s)

    Examples
    --------
    >>> x = np.array([[1.0, 9.0], [2.0, 7.0], [4.0, 8.0], [7.0, 1.0]])
    >>> y = rotate_block(x, 0.5, Stream(bytes(16)))
    >>> bool(np.allclose(y.sum(axis=0), x.sum(axis=0))), bool(np.allclose(y.T @ y, x.T @ x)), bool(np.allclose(y, x))
    (True, True, False)
    """
    values = read_only(points, np.float64)
    if len(values) < 3:
        return np.array(values)
    return np.asarray(_rotate(values, float(c), *stream.key_words))


@njit(nogil=True, cache=True)
def _reflect(vector: Floats, first: int, target: Floats) -> None:
    """Apply I - 2 v v'/v'v to the rows of `target` from `first` on, where v is `vector` from `first` on."""
    b, s = target.shape
    norm = 0.0
    for i in range(first, b):
        norm += vector[i] * vector[i]
    if norm == 0.0:
        return
    # Row by row, in the memory order of the array.
    factors = np.zeros(s)
    for i in range(first, b):
        for j in range(s):
            factors[j] += vector[i] * target[i, j]
    factors *= 2.0 / norm
    for i in range(first, b):
        for j in range(s):
            target[i, j] -= factors[j] * vector[i]


@njit(nogil=True, cache=True)
def _rotate(points: Floats, c: float, k0: U, k1: U) -> Floats:
    b, s = points.shape
    m = b - 1
    # T does not change constants, so the mean is subtracted first: large values then lose no digits.
    means = np.zeros(s)
    for j in range(s):
        for i in range(b):
            means[j] += points[i, j]
        means[j] /= b
    rows = points - means
    corner = np.full(b, -1.0 / np.sqrt(b))
    corner[0] += 1.0
    _reflect(corner, 0, rows)
    inner = rows[1:].copy()
    _turn(inner, _perturbed(m, c, k0, k1))
    rows[1:] = inner
    _reflect(corner, 0, rows)
    return rows + means


@njit(nogil=True, cache=True)
def _perturbed(m: int, c: float, k0: U, k1: U) -> Floats:
    """I + c N."""
    matrix = np.empty((m, m))
    for i in range(m):
        for j in range(m):
            z = normal_quantile(unit_interval(word_of_2(k0, k1, U(i), U(j))))
            matrix[i, j] = c * z + (1.0 if i == j else 0.0)
    return matrix


@njit(nogil=True, cache=True)
def _turn(rows: Floats, matrix: Floats) -> None:
    """Multiply `rows` by Q of the matrix: Q = H_1 ... H_m D, with D the signs of the diagonal of R."""
    m = len(matrix)
    vectors = np.zeros((m, m))
    signs = np.ones(m)
    for c in range(m):
        norm = 0.0
        for i in range(c, m):
            norm += matrix[i, c] * matrix[i, c]
        norm = np.sqrt(norm)
        if norm == 0.0:
            continue
        # The reflection takes the column to -sign(a) norm, which loses no digits.
        to = -norm if matrix[c, c] >= 0.0 else norm
        for i in range(c, m):
            vectors[c, i] = matrix[i, c]
        vectors[c, c] -= to
        signs[c] = 1.0 if to > 0.0 else -1.0
        _reflect(vectors[c], c, matrix)
    for i in range(m):
        rows[i] *= signs[i]
    for back in range(m):
        c = m - 1 - back
        _reflect(vectors[c], c, rows)
