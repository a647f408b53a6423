"""Entropy of the sensitive values of each class.

The terms of a class are added in ascending order of their counts, so a figure has the same bits whatever codes an
engine gave the values and in whatever order it listed them.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws.elementary import natural_log
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.grouping.sorting import sort_integers

__all__ = ["entropy_by_class", "grassberger_by_class"]

EULER_GAMMA = 0.57721566490153286061
LN_2 = 0.69314718055994530942
TABLED_HALVES = 128
TABLED_SIZES = 64


def entropy_by_class(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
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


def grassberger_by_class(offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
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


def _grassberger_table(halves: int) -> NDArray[np.float64]:
    """G(2j) for j = 0 .. halves."""
    steps = 2.0 / (2.0 * np.arange(1, halves + 1) - 1.0)
    return -EULER_GAMMA - LN_2 + np.concatenate([[0.0], np.cumsum(steps)])


@njit(nogil=True, cache=True)
def _ascending(
    offsets: NDArray[np.int64], counts: NDArray[np.int64], c: int, room: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The counts of class c in ascending order, in `room`, which grows when it must."""
    size = offsets[c + 1] - offsets[c]
    if size > len(room):
        room = np.empty(2 * size, np.int64)
    for i in range(size):
        room[i] = counts[offsets[c] + i]
    sort_integers(room, size)
    return room


@functools.cache
def _terms() -> NDArray[np.float64]:
    return read_only(_tabled_terms(), np.float64)


@njit(nogil=True, cache=True)
def _term(count: int, size: float) -> float:
    share = count / size
    term: float = share * natural_log(share)
    return term


@njit(nogil=True, cache=True)
def _tabled_terms() -> NDArray[np.float64]:
    """q ln q of every count of a small class, by the class's size."""
    out = np.zeros((TABLED_SIZES + 1, TABLED_SIZES + 1), np.float64)
    for size in range(1, TABLED_SIZES + 1):
        for count in range(1, size + 1):
            out[size, count] = _term(count, np.float64(size))
    return out


@njit(nogil=True, cache=True)
def _shannon(offsets: NDArray[np.int64], counts: NDArray[np.int64], terms: NDArray[np.float64]) -> NDArray[np.float64]:
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
def _g(n: int, table: NDArray[np.float64]) -> float:
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
def _grassberger(
    offsets: NDArray[np.int64], counts: NDArray[np.int64], table: NDArray[np.float64]
) -> NDArray[np.float64]:
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
