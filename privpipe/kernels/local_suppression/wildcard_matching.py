"""How often patterns with wildcards match: sizes by joins over pairs of masks, weighted frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, Ints

__all__ = [
    "SampleFrequencies",
    "empty_patterns",
    "informative_frequencies",
    "informative_sizes",
    "mask_count",
    "matching_sizes",
    "row_words",
    "sample_frequencies",
]


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
        # Within a mask equal patterns alone match; each is there once.
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

    Else k - 1 records of nothing but blanks, which represent no one, would hide all others.

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
        Those of them that count by `alpha`: they hold blanks and are of another pattern. Of a pattern that is blank in
        every column none are.
    weights, partial_weights : ndarray of float64, shape (t,)
        The same in sums of sampling weights.
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
    """Give the patterns of one mask what matches them in another."""
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
