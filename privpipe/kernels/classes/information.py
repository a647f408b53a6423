"""Entropy of the sensitive values of each class, and their gain over a base distribution.

The terms of the entropy of a class are added in ascending order of their counts, so the bits of a figure do not depend
on the codes that an engine gave the values or on their order.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from privpipe.blocks.arrays import Floats, Ints, read_only, require_codes
from privpipe.compiled import njit
from privpipe.draws.elementary import natural_log
from privpipe.kernels.grouping.sorting import sort_integers

__all__ = [
    "capped_gain_by_class",
    "entropy_by_class",
    "gain_by_class",
    "gains",
    "grassberger_by_class",
    "log2_ratio_by_class",
    "nats",
]


EULER_GAMMA = 0.57721566490153286061
LN_2 = 0.69314718055994530942
TABLED_HALVES = 128
TABLED_SIZES = 64


def entropy_by_class(offsets: Ints, counts: Ints) -> Floats:
    """Shannon entropy of each class, in nats: -sum q ln q.

    Source: Machanavajjhala et al., l-Diversity, ACM TKDD 1(1), 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, at least 1, in any order within a class.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In [0, ln(values of the class)]; exactly 0 for a class of one value.

    Examples
    --------
    >>> entropy_by_class(np.array([0, 2, 3]), np.array([2, 2, 4])).round(3).tolist()
    [0.693, 0.0]
    """
    return np.asarray(_shannon(read_only(offsets, np.int64), read_only(counts, np.int64), _terms()))


def grassberger_by_class(offsets: Ints, counts: Ints) -> Floats:
    """Entropy of each class in nats, corrected for the downward bias of small classes.

    H = G(n) - (1/n) sum n_s G(n_s), with G(1) = -gamma - ln 2 and
    G(2j) = G(2j + 1) = -gamma - ln 2 + sum_{i=1..j} 2/(2i - 1). May exceed ln(values of the class).
    Source: Grassberger, Entropy estimates from insufficient samplings, arXiv physics/0307138, 2003.

    Parameters
    ----------
    offsets, counts
        As in `entropy_by_class`.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        Exactly 0 for a class of one value.

    Examples
    --------
    >>> np.exp(grassberger_by_class(np.array([0, 3]), np.array([1, 1, 1]))).round(3).tolist()
    [7.389]
    """
    table = _grassberger_table(TABLED_HALVES)
    return np.asarray(_grassberger(read_only(offsets, np.int64), read_only(counts, np.int64), table))


def _grassberger_table(halves: int) -> Floats:
    """G(2j) for j = 0 .. halves."""
    steps = 2.0 / (2.0 * np.arange(1, halves + 1) - 1.0)
    return -EULER_GAMMA - LN_2 + np.concatenate([[0.0], np.cumsum(steps)])


@njit(nogil=True, cache=True)
def _ascending(offsets: Ints, counts: Ints, c: int, room: Ints) -> Ints:
    """The counts of class c in ascending order, in `room`, which is enlarged when needed."""
    size = offsets[c + 1] - offsets[c]
    if size > len(room):
        room = np.empty(2 * size, np.int64)
    for i in range(size):
        room[i] = counts[offsets[c] + i]
    sort_integers(room, size)
    return room


@functools.cache
def _terms() -> Floats:
    return read_only(_tabled_terms(), np.float64)


@njit(nogil=True, cache=True)
def _term(count: int, size: float) -> float:
    share = count / size
    term: float = share * natural_log(share)
    return term


@njit(nogil=True, cache=True)
def _tabled_terms() -> Floats:
    """q ln q of every count of a small class, by the class's size."""
    out = np.zeros((TABLED_SIZES + 1, TABLED_SIZES + 1), np.float64)
    for size in range(1, TABLED_SIZES + 1):
        for count in range(1, size + 1):
            out[size, count] = _term(count, np.float64(size))
    return out


@njit(nogil=True, cache=True)
def _shannon(offsets: Ints, counts: Ints, terms: Floats) -> Floats:
    out = np.zeros(len(offsets) - 1, np.float64)
    room = np.empty(64, np.int64)
    for c in range(len(out)):
        cells = offsets[c + 1] - offsets[c]
        if cells < 2:
            continue
        room = _ascending(offsets, counts, c, room)
        size = 0
        for i in range(cells):
            size += room[i]
        entropy = 0.0
        if size < len(terms):
            for i in range(cells):
                entropy -= terms[size, room[i]]
        else:
            term = 0.0
            for i in range(cells):
                if i == 0 or room[i] != room[i - 1]:
                    term = _term(room[i], np.float64(size))
                entropy -= term
        out[c] = entropy
    return out


@njit(nogil=True, cache=True)
def _g(n: int, table: Floats) -> float:
    half = n // 2
    if half < len(table):
        value: float = table[half]
        return value
    # G(2j) = digamma(j + 1/2) + ln 2, by its asymptotic series; the next term is below 1e-15.
    square = 1.0 / (np.float64(half) * np.float64(half))
    series = square * (1.0 / 24.0 + square * (-7.0 / 960.0 + square * (31.0 / 8064.0)))
    asymptotic: float = natural_log(2.0 * half) + series
    return asymptotic


@njit(nogil=True, cache=True)
def _grassberger(offsets: Ints, counts: Ints, table: Floats) -> Floats:
    out = np.zeros(len(offsets) - 1, np.float64)
    room = np.empty(64, np.int64)
    for c in range(len(out)):
        cells = offsets[c + 1] - offsets[c]
        if cells < 2:
            continue
        room = _ascending(offsets, counts, c, room)
        total = 0.0
        for i in range(cells):
            total += room[i] * _g(room[i], table)
        size = room[:cells].sum()
        out[c] = _g(size, table) - total / size
    return out


def gain_by_class(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike) -> Floats:
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
        Records of each class, or its persons, one of whom may be in several cells.
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
) -> tuple[Floats, Floats]:
    """`gain_by_class`, and the same with an infinite gain where a value of the class exceeds its `most`.

    Parameters
    ----------
    offsets, codes, counts, sizes, p
        As in `gain_by_class`.
    most : array_like of float64, shape (m,)
        Largest allowed gain of each value.

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


def gains(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike) -> Floats:
    """(q_s - p_s)/p_s of each cell, shape (n_cells,), arrays as in `gain_by_class`; at least -1.

    Examples
    --------
    >>> gains(np.array([0, 2]), np.array([0, 1]), np.array([1, 1]), np.array([2]), [0.25, 0.75]).round(3).tolist()
    [1.0, -0.333]
    """
    return np.asarray(_gains(*_arrays(offsets, codes, counts, sizes, p)))


def log2_ratio_by_class(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike) -> Floats:
    """max_s |log2(q_s/p_s)| of each class, over the values it has; arrays as in `gain_by_class`.

    The logarithm rises with the ratio, so it is computed only for the largest and the smallest ratio of a class.
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


def nats(p: ArrayLike) -> Floats:
    """-ln p elementwise, with the same bits on every machine.

    Examples
    --------
    >>> nats([1.0, 0.5]).round(3).tolist()
    [0.0, 0.693]
    """
    return np.asarray(_nats(read_only(p, np.float64)))


def _arrays(
    offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: ArrayLike
) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    base = read_only(p, np.float64)
    require_codes(codes, len(base), "the base distribution")
    ints = (read_only(part, np.int64) for part in (offsets, codes, counts, sizes))
    return (*ints, base)  # type: ignore[return-value]


@njit(nogil=True, cache=True)
def _gains(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: Floats) -> Floats:
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
    p: Floats,
    most: Floats,
) -> tuple[Floats, Floats]:
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
def _largest_gain(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: Floats) -> Floats:
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
def _log2_ratio(offsets: Ints, codes: Ints, counts: Ints, sizes: Ints, p: Floats) -> Floats:
    out = np.empty(len(offsets) - 1, np.float64)
    # Most classes of a fine table hold one value, whose logarithm is computed once where there are more classes.
    of_value = np.empty(len(p) if len(p) <= len(out) else 0, np.float64)
    for s in range(len(of_value)):
        of_value[s] = abs(_log2(1.0 / p[s])) if p[s] > 0.0 else np.inf
    for c in range(len(out)):
        if len(of_value) and offsets[c + 1] == offsets[c] + 1:
            out[c] = of_value[codes[offsets[c]]]  # the only value of the class
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
    """max(|log2 low|, |log2 high|); only one logarithm where it is larger by far more than the rounding error."""
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
def _nats(p: Floats) -> Floats:
    out = np.empty(len(p), np.float64)
    for s in range(len(p)):
        out[s] = -natural_log(p[s]) if p[s] < 1.0 else 0.0
    return out
