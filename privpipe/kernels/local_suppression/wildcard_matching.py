"""Wildcard matching: combinations as words, what they match and how often, weighted frequencies, independent covers.

A blank matches anything, on either side; but a record that is blank in every judged column adds to no other record's
class: it matches records like it and no others. Bits mark the judged columns; without any, this rule applies to no
record. Combinations are packed into words, one field of bits per column, so that two of them match when their
difference is hidden by the blanks of either: one exclusive or, one and. Every loop runs in the order of the
combinations, and costs are added in a fixed order, so equal tables give equal blanks. Sizes are joined over pairs of
masks.

Source: M. Templ, A. Kowarik, B. Meindl, J. Statistical Software 67(4), 2015 (the problem).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, Ints, Words
from privpipe.compiled import njit

__all__ = [
    "MOST_COLUMNS",
    "SampleFrequencies",
    "alike",
    "blank_costs",
    "cheapest_covers",
    "cheapest_first",
    "differing_columns",
    "empty_patterns",
    "hidden_words",
    "informative_frequencies",
    "informative_sizes",
    "is_empty",
    "mask_count",
    "matches",
    "matching_sizes",
    "packed",
    "row_words",
    "sample_frequencies",
]


MOST_COLUMNS = 20
"""Most columns that may be blanked: every set of them is examined."""


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
        used += -used % 64 if used % 64 + width > 64 else 0  # no field spans two words
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
    """The cheapest blanks under which each combination, considered separately, matches k records of the given table.

    The result is feasible as a whole: the blanks of others only add matches, since none becomes blank in every judged
    column. Where nothing is missing, one count of groups per set is enough for all combinations, the cheapest sets
    first until all are covered; otherwise each combination is compared with all others, and one sum over all subsets
    of the columns gives its matches under every set.

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
        for column in range(len(fields)):  # without branches: most columns differ about half of the time
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


LARGEST_WORD = 2**62


def mask_count(codes: Ints) -> int:
    """How many different sets of wildcard columns the patterns have.

    Examples
    --------
    >>> mask_count(np.array([[0, -1], [1, -1], [0, 0]]))
    2
    """
    return len(np.unique(codes < 0, axis=0)) if len(codes) else 0


def matching_sizes(codes: Ints, counts: Ints) -> Ints:
    """Records that match each pattern: in every column the two cells are equal, or at least one is the wildcard.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        Distinct patterns; -1 is the wildcard, other codes are at least 0.
    counts : ndarray of int64, shape (t,)
        Records of each pattern, fewer than 2^53 together.

    Returns
    -------
    ndarray of int64, shape (t,)
        w: its own records included. Matching is not transitive, so these are not class sizes.

    Notes
    -----
    Patterns of one mask (set of wildcard columns) meet those of another by a join on the columns concrete in both;
    the cost is a sum over pairs of masks of their patterns, never over pairs of patterns.

    Examples
    --------
    (M, 4711) three times, (*, 4711) twice, (F, 4712), (F, *), (M, *):

    >>> codes = np.array([[0, 0], [-1, 0], [1, 1], [1, -1], [0, -1]])
    >>> matching_sizes(codes, np.array([3, 2, 1, 1, 1])).tolist()
    [6, 7, 2, 4, 6]
    """
    sizes = counts.astype(np.int64, copy=True)
    if not len(codes) or not codes.shape[1]:
        return sizes
    masks, owner = np.unique(codes < 0, axis=0, return_inverse=True)
    order = np.argsort(owner.ravel(), kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(owner.ravel(), minlength=len(masks)))[:-1])
    for one in range(len(masks)):
        for other in range(one):
            shared = np.flatnonzero(~(masks[one] | masks[other]))
            _add_matches(sizes, codes, counts, rows[one], rows[other], shared)
        # Within a mask only equal patterns match; each occurs once.
    return sizes


def empty_patterns(codes: Ints) -> Bools:
    """Patterns that are blank in every column, of which there is at least one: they add to no other class.

    Examples
    --------
    >>> empty_patterns(np.array([[0, -1], [-1, -1]])).tolist()
    [False, True]
    """
    return np.asarray((codes < 0).all(axis=1) & bool(codes.shape[1]), dtype=np.bool_)


def informative_sizes(codes: Ints, counts: Ints) -> Ints:
    """As `matching_sizes`, but a pattern that is blank in every column matches records like it and no others.

    Otherwise k - 1 records that are blank in every column, and so represent no one, would protect all others.

    Examples
    --------
    >>> informative_sizes(np.array([[0, 0], [0, -1], [-1, -1]]), np.array([3, 1, 2])).tolist()
    [4, 4, 2]
    """
    sizes = counts.astype(np.int64, copy=True)
    full = ~empty_patterns(codes)
    sizes[full] = matching_sizes(codes[full], counts[full])
    return sizes


def _add_matches(
    sizes: Ints,
    codes: Ints,
    counts: Ints,
    one: NDArray[np.intp],
    other: NDArray[np.intp],
    shared: NDArray[np.intp],
) -> None:
    """Add to the patterns of each mask the records of the other that are equal on the shared columns."""
    words, bound = row_words(codes[np.ix_(np.concatenate([one, other]), shared)])
    mine, theirs = words[: len(one)], words[len(one) :]
    # Exact below 2^53 records, though bincount adds floats.
    found = np.bincount(theirs, weights=counts[other], minlength=bound)
    sizes[one] += found[mine].astype(np.int64)
    found = np.bincount(mine, weights=counts[one], minlength=bound)
    sizes[other] += found[theirs].astype(np.int64)


def row_words(codes: Ints) -> tuple[Ints, int]:
    """One integer per row, equal exactly where the rows are and below a bound in the order of the rows' number."""
    word, bound = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        radix = int(column.max(initial=0)) + 1
        if bound * radix > LARGEST_WORD:
            word, bound = _dense(word)
        word = word * radix + column
        bound *= radix
    return (word, bound) if bound <= 4 * len(codes) + 1024 else _dense(word)


def _dense(word: Ints) -> tuple[Ints, int]:
    distinct, places = np.unique(word, return_inverse=True)
    return places.astype(np.int64, copy=False), len(distinct)


@dataclass(frozen=True)
class SampleFrequencies:
    """Records that match each pattern, and their weights.

    Parameters
    ----------
    matching : ndarray of int64, shape (t,)
        Records that match, the pattern's own included.
    partial : ndarray of int64, shape (t,)
        Those of them that are weighted by `alpha`: they contain blanks and have another pattern. For a pattern that is
        blank in every column there are none.
    weights, partial_weights : ndarray of float64, shape (t,)
        The same as sums of sampling weights.
    """

    matching: Ints
    partial: Ints
    weights: Floats
    partial_weights: Floats

    def counts(self, alpha: float) -> Floats:
        """f of each pattern."""
        return self.matching - (1.0 - alpha) * self.partial

    def weighted(self, alpha: float) -> Floats:
        """F of each pattern."""
        return self.weights - (1.0 - alpha) * self.partial_weights


def sample_frequencies(codes: Ints, counts: Ints, weights: Floats) -> SampleFrequencies:
    """Count the records, and add up the weights, that match each distinct pattern.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        Distinct patterns; -1 is a blank, other codes are at least 0.
    counts : ndarray of int64, shape (t,)
        Records of each pattern, fewer than 2^53 together.
    weights : ndarray of float64, shape (t,)
        Sum of the sampling weights of each pattern.

    Returns
    -------
    SampleFrequencies

    Notes
    -----
    Patterns of one mask (set of blank columns) meet those of another by a join on the columns blank in neither, so the
    cost is a sum over pairs of masks of their patterns. Sums are added in the order of the patterns.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, -1], [1, 0]])
    >>> found = sample_frequencies(codes, np.array([2, 1, 1]), np.array([20.0, 5.0, 7.0]))
    >>> found.counts(1.0).tolist(), found.counts(0.0).tolist(), found.weighted(0.5).tolist()
    ([3.0, 3.0, 1.0], [2.0, 3.0, 1.0], [22.5, 25.0, 7.0])
    """
    own = np.asarray(weights, dtype=np.float64)
    found = SampleFrequencies(counts.astype(np.int64), np.zeros(len(counts), np.int64), own.copy(), np.zeros(len(own)))
    if not len(codes) or not codes.shape[1]:
        return found
    masks, owner = np.unique(codes < 0, axis=0, return_inverse=True)
    order = np.argsort(owner.ravel(), kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(owner.ravel(), minlength=len(masks)))[:-1])
    for one in range(len(masks)):
        for other in range(one):
            shared = np.flatnonzero(~(masks[one] | masks[other]))
            words, bound = row_words(codes[np.ix_(np.concatenate([rows[one], rows[other]]), shared)])
            mine, theirs = words[: len(rows[one])], words[len(rows[one]) :]
            sides = _Side(rows[one], mine, masks[one]), _Side(rows[other], theirs, masks[other])
            _add(found, *sides, (counts, own), bound)
            _add(found, *sides[::-1], (counts, own), bound)
    return found


def informative_frequencies(codes: Ints, counts: Ints, weights: Floats) -> SampleFrequencies:
    """As `sample_frequencies`, but a pattern that is blank in every column matches records like it and no others.

    Examples
    --------
    >>> codes = np.array([[0, 0], [-1, -1]])
    >>> informative_frequencies(codes, np.array([2, 1]), np.array([20.0, 5.0])).counts(1.0).tolist()
    [2.0, 1.0]
    """
    full = ~empty_patterns(codes)
    found = sample_frequencies(codes[full], counts[full], weights[full])
    own = np.asarray(weights, dtype=np.float64)
    all_of = SampleFrequencies(counts.astype(np.int64), np.zeros(len(counts), np.int64), own.copy(), np.zeros(len(own)))
    for name in ("matching", "partial", "weights", "partial_weights"):
        getattr(all_of, name)[full] = getattr(found, name)
    return all_of


class _Side(NamedTuple):
    """The patterns of one mask, and their words over the columns blank in neither of two."""

    rows: NDArray[np.intp]
    words: Ints
    mask: Bools


def _add(
    found: SampleFrequencies,
    mine: _Side,
    theirs: _Side,
    records_and_weights: tuple[Ints, Floats],
    bound: int,
) -> None:
    """Add to the patterns of one mask the records that match them in another."""
    # Exact below 2^53 records, though bincount adds floats.
    records, sums = (
        np.bincount(theirs.words, weights=each[theirs.rows], minlength=bound)[mine.words]
        for each in records_and_weights
    )
    found.matching[mine.rows] += records.astype(np.int64)
    found.weights[mine.rows] += sums
    if theirs.mask.any() and not mine.mask.all():
        found.partial[mine.rows] += records.astype(np.int64)
        found.partial_weights[mine.rows] += sums
