"""Local suppression under wildcard matching: combinations as words, what they match, and independent covers.

A blank matches anything, on either side; but a record that is blank in every judged column adds to no other record's
class: it matches records like it and no others. Bits mark the judged columns; without any, that applies to no
record. Combinations are packed into words, one field of bits per column, so that two of them match when their
difference is hidden by the blanks of either: one exclusive or, one and. Every loop runs in the order of the
combinations; costs are added in one order, so equal tables give equal blanks.

Source: M. Templ, A. Kowarik, B. Meindl, J. Statistical Software 67(4), 2015 (the problem).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints, Words
from privpipe.compiled import njit

__all__ = [
    "MOST_COLUMNS",
    "alike",
    "blank_costs",
    "cheapest_covers",
    "cheapest_first",
    "differing_columns",
    "hidden_words",
    "is_empty",
    "matches",
    "packed",
]

MOST_COLUMNS = 20
"""Columns that may be blanked: every set of them is looked at."""


def cheapest_first(weights: Floats) -> tuple[Ints, Floats]:
    """Every set of columns as bits, by weight, then fewest columns, then column order; and the weight of each set.

    Parameters
    ----------
    weights : ndarray of float64, shape (b,)
        Above 0; at most `MOST_COLUMNS`.

    Returns
    -------
    (ndarray of int64, shape (2^b,), ndarray of float64, shape (2^b,))
        Sets in order; weights by set.

    Examples
    --------
    >>> order, cost = cheapest_first(np.array([1.0, 2.0]))
    >>> order.tolist(), cost.tolist()
    ([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0])
    """
    columns = len(weights)
    sets = np.arange(1 << columns, dtype=np.int64)
    cost, taken, mirrored = np.zeros(len(sets)), np.zeros(len(sets), np.int64), np.zeros(len(sets), np.int64)
    for column, weight in enumerate(weights.tolist()):
        held = (sets >> column) & 1
        cost += held * weight
        taken += held
        mirrored |= held << (columns - 1 - column)
    return np.lexsort((-mirrored, taken, cost)).astype(np.int64), cost


def packed(codes: Ints, columns: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Combinations as words, the bits that are missing in them, and the fields of the first columns.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        -1 is a missing value, which matches anything; other codes are at least 0.
    columns : int
        How many of the columns, from the first on, may be blanked.

    Returns
    -------
    (ndarray, ndarray, ndarray) of uint64, shapes (t, words), (t, words) and (columns, words)

    Examples
    --------
    >>> words, missing, fields = packed(np.array([[3, 0], [-1, 1]]), 1)
    >>> words.tolist(), missing.tolist(), fields.tolist()
    ([[3], [4]], [[0], [3]], [[3]])
    """
    widths = [max(1, int(column.max(initial=0)).bit_length()) for column in codes.T]
    places, used = [], 0
    for width in widths:
        used += -used % 64 if used % 64 + width > 64 else 0  # no field lies across two words
        places.append(divmod(used, 64))
        used += width
    words, missing = np.zeros((2, len(codes), max(1, -(-used // 64))), np.uint64)
    fields = np.zeros((columns, words.shape[1]), np.uint64)
    for at, (width, (word, shift)) in enumerate(zip(widths, places, strict=True)):
        field = np.uint64(((1 << width) - 1) << shift)
        words[:, word] |= codes[:, at].clip(0).astype(np.uint64) << np.uint64(shift)
        missing[codes[:, at] < 0, word] |= field
        if at < columns:
            fields[at, word] = field
    return words, missing, fields


def hidden_words(blanks: Ints, fields: Words, start: Words) -> NDArray[Any]:
    """Bits that are hidden in each combination: those missing from the start, and the blanked columns' fields."""
    hidden = start.copy()
    for column in range(len(fields)):
        hidden[(blanks >> column) & 1 == 1] |= fields[column]
    return hidden


def blank_costs(blanks: Ints, counts: Ints, cost: Floats) -> float:
    """Sum of the weights of all blanked cells, combination by combination."""
    return float(np.cumsum(counts * cost[blanks])[-1]) if len(blanks) else 0.0


@njit(cache=True, nogil=True)
def matches(words: Words, hidden: Words, judged: Words, counts: Ints) -> Ints:
    """Records that match each combination, its own included, shape (t,)."""
    sizes = counts.copy()
    empty = np.empty(len(words), np.bool_)
    for one in range(len(words)):
        empty[one] = is_empty(hidden, judged, one)
        for other in range(one):
            if empty[one] == empty[other] and alike(words, hidden, one, other):
                sizes[one] += counts[other]
                sizes[other] += counts[one]
    return sizes


def cheapest_covers(
    words: Words,
    hidden: Words,
    judged: Words,
    fields: Words,
    counts: Ints,
    sizes: Ints,
    order: Ints,
    k: int,
) -> Ints:
    """The cheapest blanks under which a combination matches k records of the table as it is, each by itself.

    What comes out is feasible as a whole: the blanks of others only add matches, since none becomes blank in every
    judged column. Where nothing is missing, one count
    of groups a set serves all combinations, the cheapest sets first until all are covered; else each combination is
    compared with all others, and one sum over all subsets of the columns gives its matches under every set.

    Parameters
    ----------
    words, hidden : ndarray of uint64, shape (t, words)
        Packed combinations, none of them empty, and which of their bits match anything.
    judged : ndarray of uint64, shape (words,)
        Bits of the columns of which not all may be blank; zeros: all may.
    fields : ndarray of uint64, shape (b, words)
        Bits of each column that may be blanked; the others must match.
    counts, sizes : ndarray of int64, shape (t,)
        Records of each, and records that match it (`matches`).
    order : ndarray of int64, shape (2^b,)
        Sets of columns, cheapest first.
    k : int

    Returns
    -------
    ndarray of int64, shape (t,)
        Columns to blank as bits; 0 where k records match already, -1 where no blanks suffice.
    """
    by = _covers_by_pairs if hidden.any() else _covers_by_groups
    return by(words, hidden, judged, fields, counts, sizes, order, k)


def _covers_by_groups(
    words: Any, hidden: Any, judged: Any, fields: Any, counts: Any, sizes: Any, order: Any, k: int
) -> Ints:
    found = np.where(sizes >= k, 0, -1).astype(np.int64)
    left = np.flatnonzero(sizes < k)
    for blanks in order:
        if not len(left):
            break
        blanked = hidden_words(np.array([blanks]), fields, np.zeros_like(hidden[:1]))
        if is_empty(blanked, judged, 0):
            continue
        shown = words & ~blanked
        rows = np.ascontiguousarray(shown).view(f"V{shown.itemsize * shown.shape[1]}").ravel()
        _, owner = np.unique(shown[:, 0] if shown.shape[1] == 1 else rows, return_inverse=True)
        alike_now = np.bincount(owner, weights=counts)[owner[left]]
        found[left[alike_now >= k]] = blanks
        left = left[alike_now < k]
    return found


@njit(cache=True, nogil=True)
def _covers_by_pairs(
    words: Any, hidden: Any, judged: Any, fields: Any, counts: Any, sizes: Any, order: Any, k: int
) -> Ints:
    found = np.zeros(len(words), np.int64)
    alike = np.empty(len(order), np.int64)
    for one in range(len(words)):
        if sizes[one] >= k:
            continue
        alike[:] = 0
        for other in range(len(words)):
            differing = differing_columns(words, hidden, fields, one, other)
            if differing >= 0:
                alike[differing] += counts[other]
        _sum_over_subsets(alike, len(fields))
        found[one] = -1
        for place in range(len(order)):
            if alike[order[place]] >= k and not _would_be_empty(hidden, judged, fields, one, order[place]):
                found[one] = order[place]
                break
    return found


@njit(cache=True, nogil=True)
def is_empty(hidden: Any, judged: Any, one: int) -> bool:
    """Whether a combination is blank in every judged column."""
    found = False
    for word in range(hidden.shape[1]):
        if judged[word] & ~hidden[one, word]:
            return False
        found |= judged[word] != 0
    return found


@njit(cache=True, nogil=True)
def _would_be_empty(hidden: Any, judged: Any, fields: Any, one: int, blanks: int) -> bool:
    found = False
    for word in range(hidden.shape[1]):
        bits = hidden[one, word]
        for column in range(len(fields)):
            if (blanks >> column) & 1:
                bits |= fields[column, word]
        if judged[word] & ~bits:
            return False
        found |= judged[word] != 0
    return found


@njit(cache=True, nogil=True)
def alike(words: Any, hidden: Any, one: int, other: int) -> bool:
    """Whether two combinations match: their difference is hidden by the blanks of either."""
    for word in range(words.shape[1]):
        if (words[one, word] ^ words[other, word]) & ~(hidden[one, word] | hidden[other, word]):
            return False
    return True


@njit(cache=True, nogil=True)
def differing_columns(words: Any, hidden: Any, fields: Any, one: int, other: int) -> int:
    """Columns in which two combinations differ visibly, as bits; -1: in one that cannot be blanked."""
    found = 0
    for word in range(words.shape[1]):
        seen = (words[one, word] ^ words[other, word]) & ~(hidden[one, word] | hidden[other, word])
        if not seen:
            continue
        blankable = np.uint64(0)
        for column in range(len(fields)):  # without branches: most columns differ as often as not
            field = fields[column, word]
            found |= int((seen & field) != 0) << column
            blankable |= field
        if seen & ~blankable:
            return -1
    return found


@njit(cache=True, nogil=True)
def _sum_over_subsets(sums: Any, columns: int) -> None:
    for column in range(columns):
        bit = 1 << column
        for at in range(len(sums)):
            if at & bit:
                sums[at] += sums[at ^ bit]
