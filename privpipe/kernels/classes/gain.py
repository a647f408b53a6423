"""How much more, or less, frequent values are in each class than in a base distribution."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privpipe.compiled import njit
from privpipe.draws.elementary import natural_log
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.columns.code_bounds import require_codes

__all__ = ["capped_gain_by_class", "gain_by_class", "gains", "log2_ratio_by_class", "nats"]

Ints = NDArray[np.int64]
LN_2 = 0.69314718055994530942


def gain_by_class(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike) -> NDArray[np.float64]:
    """max(0, max_s (q_s - p_s)/p_s) of each class.

    Source: Cao and Karras, Publishing microdata with a robust privacy guarantee, PVLDB 5(11), 2012.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``; no class is empty.
    codes : ndarray of int64, shape (n_cells,)
        Positions in `p`.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, or persons who have its value, at least 1.
    sizes : ndarray of int64, shape (n_classes,)
        Records of each class, or its persons, of whom one may be in several cells.
    p : array_like of float64, shape (m,)
        Base distribution, every share positive.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        At least 0; values that a class lacks gain nothing.

    Examples
    --------
    >>> cells = np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([4, 1, 3])
    >>> gain_by_class(*cells, np.array([4, 4]), [0.25, 0.75]).tolist()
    [3.0, 0.0]
    """
    return np.asarray(_largest_gain(*_arrays(offsets, codes, counts, sizes, p)))


def capped_gain_by_class(
    offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike, most: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`gain_by_class`, and the same with an infinite gain where a value of the class gains more than its `most`.

    Parameters
    ----------
    offsets, codes, counts, sizes, p
        As in `gain_by_class`.
    most : array_like of float64, shape (m,)
        What each value may gain.

    Examples
    --------
    >>> arrays = np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([4, 1, 3]), np.array([4, 4]), [0.25, 0.75]
    >>> [part.tolist() for part in capped_gain_by_class(*arrays, [2.0, 2.0])]
    [[3.0, 0.0], [inf, 0.0]]
    """
    caps = read_only(most, np.float64)
    require_codes(codes, len(caps), "the table of caps")
    largest, capped = _capped_gains(*_arrays(offsets, codes, counts, sizes, p), caps)
    return np.asarray(largest), np.asarray(capped)


def gains(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike) -> NDArray[np.float64]:
    """(q_s - p_s)/p_s of each cell, shape (n_cells,), arrays as in `gain_by_class`; at least -1.

    Examples
    --------
    >>> gains(np.array([0, 2]), np.array([0, 1]), np.array([1, 1]), np.array([2]), [0.25, 0.75]).round(3).tolist()
    [1.0, -0.333]
    """
    return np.asarray(_gains(*_arrays(offsets, codes, counts, sizes, p)))


def log2_ratio_by_class(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike) -> NDArray[np.float64]:
    """max_s |log2(q_s/p_s)| of each class, over the values it has; arrays as in `gain_by_class`.

    The logarithm rises with the ratio, so only the largest and the smallest ratio of a class are taken to it.
    Source: Brickell and Shmatikov, The cost of privacy, KDD 2008.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        Exactly 0 where the class has the shares of the base.

    Examples
    --------
    >>> cells = np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([4, 1, 1])
    >>> log2_ratio_by_class(*cells, np.array([4, 2]), [0.25, 0.75]).tolist()
    [2.0, 1.0]
    """
    return np.asarray(_log2_ratio(*_arrays(offsets, codes, counts, sizes, p)))


def nats(p: ArrayLike) -> NDArray[np.float64]:
    """-ln p elementwise, with the same bits on every machine.

    Examples
    --------
    >>> nats([1.0, 0.5]).round(3).tolist()
    [0.0, 0.693]
    """
    return np.asarray(_nats(read_only(p, np.float64)))


def _arrays(
    offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike
) -> tuple[Ints, Ints, Ints, Ints, NDArray[np.float64]]:
    base = read_only(p, np.float64)
    require_codes(codes, len(base), "the base distribution")
    ints = (read_only(part, np.int64) for part in (offsets, codes, counts, sizes))
    return (*ints, base)  # type: ignore[return-value]


@njit(nogil=True, cache=True)
def _gains(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(len(counts), np.float64)
    for c in range(len(offsets) - 1):
        size = np.float64(sizes[c])
        for i in range(offsets[c], offsets[c + 1]):
            share = p[codes[i]]
            out[i] = (counts[i] / size - share) / share
    return out


@njit(nogil=True, cache=True)
def _capped_gains(
    offsets: Ints,
    codes: Ints,
    counts: Ints,
    sizes: Ints,
    p: NDArray[np.float64],
    most: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest gain of each class; the same, infinite where a value gains more than its most."""
    largest = np.empty(len(offsets) - 1, np.float64)
    capped = np.empty(len(offsets) - 1, np.float64)
    for c in range(len(largest)):
        size = np.float64(sizes[c])
        best = 0.0
        over = False
        for i in range(offsets[c], offsets[c + 1]):
            share = p[codes[i]]
            gain = (counts[i] / size - share) / share
            best = max(best, gain)
            over |= not gain <= most[codes[i]]
        largest[c] = best
        capped[c] = np.inf if over else best
    return largest, capped


@njit(nogil=True, cache=True)
def _largest_gain(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        size = np.float64(sizes[c])
        best = 0.0
        for i in range(offsets[c], offsets[c + 1]):
            share = p[codes[i]]
            best = max(best, (counts[i] / size - share) / share)
        out[c] = best
    return out


@njit(nogil=True, cache=True)
def _log2_ratio(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(len(offsets) - 1, np.float64)
    # Most classes of a fine table hold one value, whose logarithm is taken once where there are more classes.
    alone = np.empty(len(p) if len(p) <= len(out) else 0, np.float64)
    for s in range(len(alone)):
        alone[s] = abs(_log2(1.0 / p[s])) if p[s] > 0.0 else np.inf
    for c in range(len(out)):
        if len(alone) and offsets[c + 1] == offsets[c] + 1:
            out[c] = alone[codes[offsets[c]]]  # all of the class have it
            continue
        size = np.float64(sizes[c])
        low, high = np.inf, 0.0
        for i in range(offsets[c], offsets[c + 1]):
            ratio = (counts[i] / size) / p[codes[i]]
            low = min(low, ratio)
            high = max(high, ratio)
        out[c] = _farther(low, high)
    return out


@njit(nogil=True, cache=True)
def _farther(low: float, high: float) -> float:
    """max(|log2 low|, |log2 high|); of one logarithm where it is larger by far more than it may be rounded."""
    if low == high or (low < 1.0 < high and low * high > 1.001):
        low = high
    elif low < 1.0 < high and low * high < 0.999:
        high = low
    above = abs(_log2(high))
    farther: float = above if low == high else max(above, abs(_log2(low)))
    return farther


@njit(nogil=True, cache=True)
def _log2(ratio: float) -> float:
    # ln 2^k / ln 2 is not k in floats; powers of two are the ratios people compute by hand.
    fraction, exponent = math.frexp(ratio)
    if fraction == 0.5:
        return np.float64(exponent - 1)
    logarithm: float = natural_log(ratio) / LN_2
    return logarithm


@njit(nogil=True, cache=True)
def _nats(p: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(len(p), np.float64)
    for s in range(len(p)):
        out[s] = -natural_log(p[s]) if p[s] < 1.0 else 0.0
    return out
