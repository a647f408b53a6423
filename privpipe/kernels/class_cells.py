"""Class tables from what an engine hands over: cells sorted by class, or one character a record."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

__all__ = ["LETTERS", "boundaries", "count_letters", "letter_of", "marginal_cells", "sum_by_class"]

SURROGATES = 0xD800
LETTERS = 0x10FFFF - 2048
"""Codes that have a character."""


@nb.njit(cache=True, nogil=True)
def sum_by_class(offsets: Any, counts: Any) -> Any:
    """Sum of the cells of each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    counts : ndarray of int64 or float64, shape (n_cells,)

    Returns
    -------
    ndarray of the counts' type, shape (n_classes,)
        Added up in the order of the cells.

    Examples
    --------
    >>> sum_by_class(np.array([0, 2, 3]), np.array([4, 1, 2])).tolist()
    [5, 2]
    """
    sums = np.zeros(len(offsets) - 1, counts.dtype)
    for c in range(len(sums)):
        for i in range(offsets[c], offsets[c + 1]):
            sums[c] += counts[i]
    return sums


@nb.njit(cache=True, nogil=True)
def count_letters(offsets: Any, data: Any, values: int, column: int = 0, columns: int = 1) -> tuple[Any, Any, Any, Any]:
    """Cells of classes whose records are UTF-8 characters, one a column: code c is the character of `letter_of(c)`.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        The text of class c is ``data[offsets[c]:offsets[c + 1]]``.
    data : ndarray of uint8
    values : int
        Codes of the column are below this.
    column, columns : int
        Which of a record's characters is counted, and how many it has.

    Returns
    -------
    (sizes, offsets, codes, counts)
        Records of each class; its cells, codes ascending.

    Examples
    --------
    >>> text = "".join(map(letter_of, [2, 0, 2, 300])).encode()
    >>> found = count_letters(np.array([0, 3, len(text)]), np.frombuffer(text, np.uint8), 301)
    >>> [part.tolist() for part in found]
    [[3, 1], [0, 2, 3], [0, 2, 300], [1, 2, 1]]
    >>> found = count_letters(np.array([0, len(text)]), np.frombuffer(text, np.uint8), 301, 1, 2)
    >>> [part.tolist() for part in found]
    [[2], [0, 2], [0, 300], [1, 1]]
    """
    classes = len(offsets) - 1
    length = (offsets[classes] - offsets[0]) // columns
    room = min(length, classes * values)
    sizes, starts = np.empty(classes, np.int64), np.zeros(classes + 1, np.int64)
    codes, counts = np.empty(room, np.int64), np.empty(room, np.int64)
    seen = np.zeros(values, np.int64)
    filled = 0
    for c in range(classes):
        first, at, stop, size = filled, offsets[c], offsets[c + 1], 0
        while at < stop:
            for _ in range(column):
                at += _width(data[at])
            code, at = _letter(data, at)
            for _ in range(column + 1, columns):
                at += _width(data[at])
            size += 1
            if seen[code] == 0:
                codes[filled] = code
                filled += 1
            seen[code] += 1
        sizes[c] = size
        if filled > first + 1:
            _sort_codes(codes, first, filled)
        for i in range(first, filled):
            counts[i] = seen[codes[i]]
            seen[codes[i]] = 0
        starts[c + 1] = filled
    return sizes, starts, codes[:filled].copy(), counts[:filled].copy()


@nb.njit(cache=True, nogil=True, inline="always")
def _width(lead: Any) -> Any:
    """Bytes of the character with this first byte."""
    return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)


@nb.njit(cache=True, nogil=True, inline="always")
def _letter(data: Any, at: int) -> Any:
    """The code at a place, and the place behind it."""
    lead = np.int64(data[at])
    if lead < 0x80:
        return lead - 1, at + 1
    if lead < 0xE0:
        return ((lead & 0x1F) << 6 | (data[at + 1] & 0x3F)) - 1, at + 2
    if lead < 0xF0:
        point = (lead & 0x0F) << 12 | np.int64(data[at + 1] & 0x3F) << 6 | (data[at + 2] & 0x3F)
        return point - 1 if point < SURROGATES else point - 2049, at + 3
    point = (lead & 0x07) << 18 | np.int64(data[at + 1] & 0x3F) << 12
    point |= np.int64(data[at + 2] & 0x3F) << 6 | (data[at + 3] & 0x3F)
    return point - 2049, at + 4


@nb.njit(cache=True, nogil=True)
def _sort_codes(codes: Any, start: int, stop: int) -> None:
    if stop - start > 24:
        codes[start:stop] = np.sort(codes[start:stop])
        return
    for i in range(start + 1, stop):
        code, j = codes[i], i - 1
        while j >= start and codes[j] > code:
            codes[j + 1] = codes[j]
            j -= 1
        codes[j + 1] = code


def letter_of(code: int) -> str:
    """The character that stands for a code: no NUL, no surrogate.

    Parameters
    ----------
    code : int
        In 0 .. `LETTERS` - 1.

    Examples
    --------
    >>> [ord(letter_of(code)) for code in (0, 55294, 55295)]
    [1, 55295, 57344]
    """
    point = code + 1
    return chr(point if point < SURROGATES else point + 2048)


@nb.njit(cache=True, nogil=True)
def _sort_pairs(codes: Any, counts: Any, start: int, stop: int) -> None:
    if stop - start > 24:  # classes are small as a rule; a large one is worth two allocations
        order = np.argsort(codes[start:stop], kind="mergesort")
        codes[start:stop] = codes[start:stop][order]
        counts[start:stop] = counts[start:stop][order]
        return
    for i in range(start + 1, stop):
        code, count, j = codes[i], counts[i], i - 1
        while j >= start and codes[j] > code:
            codes[j + 1], counts[j + 1] = codes[j], counts[j]
            j -= 1
        codes[j + 1], counts[j + 1] = code, count


@nb.njit(cache=True, nogil=True)
def marginal_cells(offsets: Any, codes: Any, counts: Any) -> tuple[Any, Any, Any]:
    """Cells of one column from joint cells: codes ascending in each class, counts of equal codes added up.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    codes, counts : ndarray of int64, shape (n_cells,)
        In any order within a class; not changed.

    Returns
    -------
    (offsets, codes, counts)
        Of the marginal cells.

    Examples
    --------
    >>> found = marginal_cells(np.array([0, 3, 4]), np.array([2, 1, 2, 0]), np.array([1, 5, 3, 4]))
    >>> [part.tolist() for part in found]
    [[0, 2, 3], [1, 2, 0], [5, 4, 4]]
    """
    sorted_codes, sorted_counts = codes.copy(), counts.copy()
    starts = np.empty_like(offsets)
    starts[0] = 0
    filled = 0
    for c in range(len(offsets) - 1):
        start, stop = offsets[c], offsets[c + 1]
        _sort_pairs(sorted_codes, sorted_counts, start, stop)
        for i in range(start, stop):
            if i > start and sorted_codes[i] == sorted_codes[filled - 1]:
                sorted_counts[filled - 1] += sorted_counts[i]
            else:
                sorted_codes[filled] = sorted_codes[i]
                sorted_counts[filled] = sorted_counts[i]
                filled += 1
        starts[c + 1] = filled
    return starts, sorted_codes[:filled].copy(), sorted_counts[:filled].copy()


def boundaries(changes: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Class offsets of rows sorted by key, from whether each row's key differs from the row before.

    Parameters
    ----------
    changes : ndarray of bool, shape (n,)
        The first is taken as True.

    Examples
    --------
    >>> boundaries(np.array([True, False, True])).tolist()
    [0, 2, 3]
    """
    if not len(changes):
        return np.zeros(1, np.int64)
    starts = np.flatnonzero(changes[1:]) + 1
    return np.concatenate([[0], starts, [len(changes)]]).astype(np.int64)
