"""Records of each digit of numbers in a mixed radix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit

__all__ = ["digit_sums"]

Ints = NDArray[np.int64]


def digit_sums(words: Ints, records: Ints, radices: Sequence[int]) -> list[Ints]:
    """How many records have each digit, place by place.

    Parameters
    ----------
    words : ndarray of int64, shape (n,)
        In [0, product of the radices).
    records : ndarray of int64, shape (n,)
        Of each word.
    radices : sequence of int
        Of each place, the first one counting most; their sum is what is held in memory.

    Returns
    -------
    list of ndarray of int64, shape (radix,)

    Examples
    --------
    >>> [sums.tolist() for sums in digit_sums(np.array([0, 4, 5]), np.array([1, 2, 3]), [2, 3])]
    [[1, 5], [1, 2, 3]]
    """
    starts = np.concatenate([[0], np.cumsum(radices, dtype=np.int64)])
    sums = np.zeros(starts[-1], np.int64)
    _add(words, records, np.array(radices, np.int64), starts, sums)
    return np.split(sums, starts[1:-1]) if len(radices) else []


def _add_plain(words: Ints, records: Ints, radices: Ints, starts: Ints, sums: Ints) -> None:
    rest = words
    for place in range(len(radices) - 1, -1, -1):
        rest, digits = np.divmod(rest, radices[place])
        np.add.at(sums, starts[place] + digits, records)


@njit(small=8 * SMALL, plain=_add_plain, nogil=True, cache=True)
def _add(words: Ints, records: Ints, radices: Ints, starts: Ints, sums: Ints) -> None:
    for i in range(len(words)):
        rest, own = np.uint64(words[i]), records[i]  # no sign to look at: a division of words of 64 bits alone
        for place in range(len(radices) - 1, -1, -1):
            radix = np.uint64(radices[place])
            above = rest // radix
            sums[starts[place] + np.int64(rest - above * radix)] += own
            rest = above
