"""Sensitive values of classes of combinations: tables of class by value, and the cells of some of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import read_only
from privpipe.compiled import SMALL, njit

__all__ = ["cells_of", "earliest", "tallied", "tallied_cells", "tallies_merged"]


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


def cells_of(
    numbers: Ints, places: Ints, kept: int, codes: Ints, counts: Longs, values: int
) -> tuple[Longs, Longs, Longs]:
    """Cells of a sensitive column in some of the classes: offsets, codes ascending within a class, counts.

    Parameters
    ----------
    numbers : ndarray of int32, shape (t,)
        Class of each combination.
    places : ndarray of int32, shape (classes,)
        Place of each class among those kept; -1: left out.
    kept, values : int
        Classes kept, and values of the column; a table of their product is held.
    codes : ndarray of int32, shape (t,)

    Examples
    --------
    >>> numbers, codes = np.array([0, 1, 0], dtype=np.int32), np.array([2, 0, 1], dtype=np.int32)
    >>> places = np.array([0, -1], dtype=np.int32)
    >>> [part.tolist() for part in cells_of(numbers, places, 1, codes, np.array([4, 5, 6]), 3)]
    [[0, 2], [1, 2], [6, 4]]
    """
    found: tuple[Longs, Longs, Longs] = _cells_of(
        read_only(numbers, np.int32),
        read_only(places, np.int32),
        kept,
        read_only(codes, np.int32),
        read_only(counts, np.int64),
        values,
    )
    return found


def tallied(numbers: Ints, classes: int, codes: Ints, counts: Longs, values: int) -> Longs:
    """Records of each value in each class, shape (classes, values).

    Parameters
    ----------
    numbers, codes : ndarray of int32, shape (t,)
        Class and value of each combination.

    Examples
    --------
    >>> numbers, codes = np.array([0, 1, 0], dtype=np.int32), np.array([2, 0, 1], dtype=np.int32)
    >>> tallied(numbers, 2, codes, np.array([4, 5, 6]), 3).tolist()
    [[0, 6, 4], [5, 0, 0]]
    """
    found: Longs = _tallied(
        read_only(numbers, np.int32), classes, read_only(codes, np.int32), read_only(counts, np.int64), values
    )
    return found


def tallies_merged(coarser: Ints, classes: int, tallies: Longs) -> Longs:
    """Records of each value in each class, from those of the finer classes that it consists of.

    Parameters
    ----------
    coarser : ndarray of int32, shape (n,)
        Of each finer class, the class it belongs to.
    tallies : ndarray of int64, shape (n, values)

    Examples
    --------
    >>> tallies_merged(np.array([0, 0], dtype=np.int32), 1, np.array([[1, 0], [2, 3]])).tolist()
    [[3, 3]]
    """
    found: Longs = _tallies_merged(read_only(coarser, np.int32), classes, read_only(tallies, np.int64))
    return found


def tallied_cells(tallies: Longs, kept: Longs) -> tuple[Longs, Longs, Longs]:
    """Cells of some classes of a table of class by value, as `cells_of` gives them.

    Examples
    --------
    >>> [part.tolist() for part in tallied_cells(np.array([[0, 6, 4], [5, 0, 0]]), np.array([0]))]
    [[0, 2], [1, 2], [6, 4]]
    """
    found: tuple[Longs, Longs, Longs] = _tallied_cells(read_only(tallies, np.int64), read_only(kept, np.int64))
    return found


def earliest(coarser: Ints, classes: int, rows: Ints) -> Ints:
    """The least row of each class, from those of the finer classes that it consists of.

    Examples
    --------
    >>> earliest(np.array([0, 1, 0], dtype=np.int32), 2, np.array([7, 3, 2], dtype=np.int32)).tolist()
    [2, 3]
    """
    found: Ints = _earliest(read_only(coarser, np.int32), classes, read_only(rows, np.int32))
    return found


@njit(small=SMALL, nogil=True, cache=True)
def _cells_of(
    numbers: Ints, places: Ints, kept: int, codes: Ints, counts: Longs, values: int
) -> tuple[Longs, Longs, Longs]:
    held = np.zeros(kept * values, np.int64)
    for i in range(len(numbers)):
        place = places[numbers[i]]
        if place >= 0:
            held[np.int64(place) * values + codes[i]] += counts[i]
    cells = 0
    for figure in held:
        if figure > 0:
            cells += 1
    offsets = np.zeros(kept + 1, np.int64)
    cell_codes, cell_counts = np.empty(cells, np.int64), np.empty(cells, np.int64)
    at = 0
    for c in range(kept):
        for code in range(values):
            figure = held[c * values + code]
            if figure > 0:
                cell_codes[at], cell_counts[at] = code, figure
                at += 1
        offsets[c + 1] = at
    return offsets, cell_codes, cell_counts


@njit(small=SMALL, nogil=True, cache=True)
def _tallied(numbers: Ints, classes: int, codes: Ints, counts: Longs, values: int) -> Longs:
    held = np.zeros((classes, values), np.int64)
    for i in range(len(numbers)):
        held[numbers[i], codes[i]] += counts[i]
    return held


@njit(small=SMALL, nogil=True, cache=True)
def _tallies_merged(coarser: Ints, classes: int, tallies: Longs) -> Longs:
    values = tallies.shape[1]
    held = np.zeros((classes, values), np.int64)
    for c in range(len(coarser)):
        for value in range(values):
            held[coarser[c], value] += tallies[c, value]
    return held


@njit(small=SMALL, nogil=True, cache=True)
def _tallied_cells(tallies: Longs, kept: Longs) -> tuple[Longs, Longs, Longs]:
    values = tallies.shape[1]
    offsets = np.zeros(len(kept) + 1, np.int64)
    codes, counts = np.empty(len(kept) * values + 1, np.int64), np.empty(len(kept) * values + 1, np.int64)
    at = 0
    for c in range(len(kept)):
        for value in range(values):
            codes[at], counts[at] = value, tallies[kept[c], value]
            at += counts[at] > 0
        offsets[c + 1] = at
    return offsets, codes[:at].copy(), counts[:at].copy()


@njit(small=SMALL, nogil=True, cache=True)
def _earliest(coarser: Ints, classes: int, rows: Ints) -> Ints:
    least = np.full(classes, np.iinfo(np.int32).max, np.int32)
    for c in range(len(coarser)):
        least[coarser[c]] = min(least[coarser[c]], rows[c])
    return least
