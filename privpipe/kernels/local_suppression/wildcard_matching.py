"""Matching sizes of patterns with wildcards, by joins over pairs of masks instead of pairs of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["empty_patterns", "informative_sizes", "mask_count", "matching_sizes", "row_words"]

LARGEST_WORD = 2**62


def mask_count(codes: NDArray[np.int64]) -> int:
    """How many different sets of wildcard columns the patterns have.

    Examples
    --------
    >>> mask_count(np.array([[0, -1], [1, -1], [0, 0]]))
    2
    """
    return len(np.unique(codes < 0, axis=0)) if len(codes) else 0


def matching_sizes(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
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
        w: its own records included. Matching is not transitive, so these are no class sizes.

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


def empty_patterns(codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Patterns that are blank in every column, of which there is at least one: they vouch for nobody.

    Examples
    --------
    >>> empty_patterns(np.array([[0, -1], [-1, -1]])).tolist()
    [False, True]
    """
    return np.asarray((codes < 0).all(axis=1) & bool(codes.shape[1]), dtype=np.bool_)


def informative_sizes(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """As `matching_sizes`, but a pattern that is blank in every column matches records like it and no others.

    Else k - 1 records of nothing but blanks, which stand for nobody, would hide all others.

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
    sizes: NDArray[np.int64],
    codes: NDArray[np.int64],
    counts: NDArray[np.int64],
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


def row_words(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """One integer a row, equal exactly where the rows are and below a bound in the order of the rows' number."""
    word, bound = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        radix = int(column.max(initial=0)) + 1
        if bound * radix > LARGEST_WORD:
            word, bound = _dense(word)
        word = word * radix + column
        bound *= radix
    return (word, bound) if bound <= 4 * len(codes) + 1024 else _dense(word)


def _dense(word: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    distinct, places = np.unique(word, return_inverse=True)
    return places.astype(np.int64, copy=False), len(distinct)
