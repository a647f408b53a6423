"""Dictionaries without what no cell holds: a file shows the whole of one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["in_order_of_appearance"]

Ints = NDArray[np.int32]


def in_order_of_appearance(codes: Ints, values: int) -> tuple[Ints, Ints]:
    """Codes of a dictionary that holds the values which occur, in order of their first cell.

    Parameters
    ----------
    codes : ndarray of int32, shape (n,)
        Below `values`; a negative one is a missing cell and stays -1.
    values : int
        Values of the dictionary that they are of.

    Returns
    -------
    codes : ndarray of int32, shape (n,)
    used : ndarray of int32
        Which values the new dictionary holds.

    Examples
    --------
    >>> codes, used = in_order_of_appearance(np.array([3, -1, 0, 3], np.int32), 5)
    >>> codes.tolist(), used.tolist()
    ([0, -1, 1, 0], [3, 0])
    """
    if len(codes) and int(codes.max()) >= values:
        raise IndexError(f"a code of {int(codes.max())} in a dictionary of {values} values")
    places, used = _renumbered(read_only(codes, np.int32), values)
    return places, used


def _renumbered_plain(codes: Ints, values: int) -> tuple[Ints, Ints]:
    known = codes[codes >= 0]
    found, first = np.unique(known, return_index=True)
    used = found[np.argsort(first)].astype(np.int32)
    places = np.full(values + 1, -1, np.int32)
    places[used] = np.arange(len(used), dtype=np.int32)
    return places[np.where(codes < 0, values, codes)], used


@njit(small=8 * SMALL, plain=_renumbered_plain, nogil=True, cache=True)
def _renumbered(codes: Ints, values: int) -> tuple[Ints, Ints]:
    places = np.full(values, -1, np.int32)
    used = np.empty(min(values, len(codes)), np.int32)
    out = np.empty(len(codes), np.int32)
    seen = np.int32(0)
    for i in range(len(codes)):
        code = codes[i]
        if code < 0:
            out[i] = -1
            continue
        place = places[code]
        if place < 0:
            place = seen
            places[code] = place
            used[seen] = code
            seen += 1
        out[i] = place
    return out, used[:seen].copy()
