"""Local suppression where a blank is a value of its own: the blanks that rescue a class at least cost a record."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.local_suppression.covers import differing_columns

__all__ = ["cheapest_rescue", "columns_to_meet"]

TIE = 1e-12
FAR = 1 << 62


@njit(cache=True, nogil=True)
def columns_to_meet(
    words: NDArray[np.uint64],
    hidden: NDArray[np.uint64],
    fields: NDArray[np.uint64],
    blanks: NDArray[np.int64],
    sizes: NDArray[np.int64],
    one: int,
) -> NDArray[np.int64]:
    """Columns that a class must have blank, at least, to fall together with another class, as bits.

    Parameters
    ----------
    words, hidden : ndarray of uint64, shape (c, words)
        A packed member of each class, and its blanked bits.
    fields : ndarray of uint64, shape (b, words)
        Bits of each column that may be blanked.
    blanks : ndarray of int64, shape (c,)
        Columns blanked in each class, as bits.
    sizes : ndarray of int64, shape (c,)
        Records of each; a size of 0 is no class.
    one : int
        The other class.

    Returns
    -------
    ndarray of int64, shape (c,)
        -1 where they differ in a column that cannot be blanked, and for what is no class.
    """
    found = np.empty(len(words), np.int64)
    for other in range(len(words)):
        differing = differing_columns(words, hidden, fields, one, other) if sizes[other] else -1
        found[other] = -1 if differing < 0 else differing | blanks[other]
    return found


@njit(cache=True, nogil=True)
def cheapest_rescue(
    needs: NDArray[np.int64],
    blanks: NDArray[np.int64],
    sizes: NDArray[np.int64],
    order: NDArray[np.int64],
    cost: NDArray[np.float64],
    own: int,
    k: int,
) -> int:
    """The blanks under which a class and others like it number k, at least cost a rescued record.

    All classes of fewer than k that can fall together there are rescued together. Where they do not number k, records
    of larger classes join: what these have above k, else the smallest of them as a whole.

    Parameters
    ----------
    needs : ndarray of int64, shape (c,)
        `columns_to_meet` of the class.
    blanks, sizes : ndarray of int64, shape (c,)
        Of each class; a size of 0 is no class.
    order : ndarray of int64, shape (2^b,)
        Sets of columns, cheapest first.
    cost : ndarray of float64, shape (2^b,)
    own : int
        Columns that the class has blank already.
    k : int

    Returns
    -------
    int
        Columns as bits; -1 where there are none.
    """
    small, spare = np.zeros(len(cost), np.int64), np.zeros(len(cost), np.int64)
    paid = np.zeros(len(cost), np.float64)
    least = np.full(len(cost), FAR, np.int64)
    there = np.zeros(len(cost), np.bool_)
    for other in range(len(needs)):
        need, size = needs[other], sizes[other]
        if need < 0 or size == 0:
            continue
        if size < k:
            small[need] += size
            paid[need] += size * cost[blanks[other]]
        else:
            spare[need] += size - k
            least[need] = min(least[need], size)
            there[need] |= need == blanks[other]
    _over_subsets(small, spare, paid, least)
    best, found = np.inf, -1
    for blank in order:
        if blank & own != own:
            continue
        records = small[blank]
        price = records * cost[blank] - paid[blank]
        if not there[blank] and records < k:
            if spare[blank] >= k - records:
                price += (k - records) * cost[blank]
            elif least[blank] < FAR:
                price += least[blank] * cost[blank]
            else:
                continue
        if price < (best - TIE) * records:
            best, found = price / records, blank
    return found


@njit(cache=True, nogil=True)
def _over_subsets(small: Any, spare: Any, paid: Any, least: Any) -> None:
    bit = 1
    while bit < len(small):
        for at in range(len(small)):
            if at & bit:
                small[at] += small[at ^ bit]
                spare[at] += spare[at ^ bit]
                paid[at] += paid[at ^ bit]
                least[at] = min(least[at], least[at ^ bit])
        bit <<= 1
