"""Cells of classes in another order of their values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.columns.code_bounds import require_codes

__all__ = ["cells_by_rank"]

Longs = NDArray[np.int64]
FEW = 32
"""Cells of a class that are sorted by insertion."""


def cells_by_rank(offsets: Longs, codes: Longs, counts: Longs, rank: Longs) -> tuple[Longs, Longs]:
    """Ranks of each class's values, ascending within the class, with their counts.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    codes, counts : ndarray of int64, shape (n_cells,)
        Codes are distinct within a class.
    rank : ndarray of int64, shape (m,)
        Of each code; a permutation.

    Examples
    --------
    >>> found = cells_by_rank(np.array([0, 2]), np.array([0, 1]), np.array([5, 7]), np.array([1, 0]))
    >>> [part.tolist() for part in found]
    [[0, 1], [7, 5]]
    """
    require_codes(codes, len(rank), "the order of values")
    ints = (read_only(part, np.int64) for part in (offsets, codes, counts, rank))
    found: tuple[Longs, Longs] = _by_rank(*ints)
    return found


@njit(nogil=True, cache=True)
def _by_rank(offsets: Longs, codes: Longs, counts: Longs, rank: Longs) -> tuple[Longs, Longs]:
    ranked, held = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
    for c in range(len(offsets) - 1):
        start, end = offsets[c], offsets[c + 1]
        if end - start > FEW:
            own = rank[codes[start:end]]
            order = np.argsort(own)
            ranked[start:end] = own[order]
            held[start:end] = counts[start:end][order]
            continue
        for i in range(start, end):
            own_rank, own_count = rank[codes[i]], counts[i]
            at = i
            while at > start and ranked[at - 1] > own_rank:
                ranked[at], held[at] = ranked[at - 1], held[at - 1]
                at -= 1
            ranked[at], held[at] = own_rank, own_count
    return ranked, held
