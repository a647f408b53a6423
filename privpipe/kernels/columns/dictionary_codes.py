"""Cells that come as numbers of a file's dictionary, in one pass: renumbered, counted, and packed into keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["append_digits", "placed", "renumbered"]

Codes = NDArray[np.unsignedinteger[Any]]
Ints = NDArray[np.int64]
Places = NDArray[np.signedinteger[Any]]
ONE_BYTE = 1 << 8


def renumbered(indices: NDArray[np.integer[Any]], numbers: NDArray[np.uint16]) -> tuple[Codes, Ints]:
    """The number of each cell's value, and the cells of each number.

    Parameters
    ----------
    indices : ndarray of integers, shape (n,)
        Of values in the dictionary.
    numbers : ndarray of uint16
        Of each value of the dictionary.

    Returns
    -------
    codes : ndarray of uint8, or of uint16 where a number needs it, shape (n,)
    counts : ndarray of int64
        Up to the largest of the numbers.

    Raises
    ------
    IndexError
        An index is not of the dictionary.

    Examples
    --------
    >>> codes, counts = renumbered(np.array([1, 1, 0], np.int32), np.array([5, 2], np.uint16))
    >>> codes.tolist(), counts.tolist()
    ([2, 2, 5], [0, 0, 2, 0, 0, 1])
    """
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(numbers):
        raise IndexError(f"an index that is none of a dictionary of {len(numbers)} values")
    most = int(numbers.max(initial=0))
    kind: type[np.unsignedinteger[Any]] = np.uint8 if most < ONE_BYTE else np.uint16
    codes: Codes = np.empty(len(indices), kind)
    counts = np.zeros(most + 1, np.int64)
    _renumber(read_only(indices, np.int32), numbers.astype(codes.dtype, copy=False), codes, counts)
    return codes, counts


def _renumber_plain(indices: NDArray[np.int32], numbers: Codes, codes: Codes, counts: Ints) -> None:
    codes[:] = numbers[indices]
    counts += np.bincount(codes, minlength=len(counts))


@njit(small=8 * SMALL, plain=_renumber_plain, nogil=True, cache=True)
def _renumber(indices: NDArray[np.int32], numbers: Codes, codes: Codes, counts: Ints) -> None:
    for i in range(len(indices)):
        code = numbers[indices[i]]
        codes[i] = code
        counts[code] += 1


def append_digits(words: Ints, size: int, places: Places, codes: Codes) -> bool:
    """Make room in words for a digit below `size`, and put there what a cell's code stands for.

    Parameters
    ----------
    words : ndarray of int64, shape (n,)
        Changed in place.
    size : int
    places : ndarray of int32 or int64
        The digit of each code; negative for a code that no cell has.
    codes : ndarray of uint8 or uint16, shape (n,)

    Returns
    -------
    bool
        False where a code has no digit; the words are worth nothing then.

    Examples
    --------
    >>> words = np.array([1, 0])
    >>> append_digits(words, 10, np.array([7, 3], np.int32), np.array([0, 1], np.uint8)), words.tolist()
    (True, [17, 3])
    """
    if not len(codes):
        return True
    if int(codes.max()) >= len(places):
        return False
    return int(_append(words, np.int64(size), read_only(places, places.dtype), codes)) >= 0


def _append_plain(words: Ints, size: np.int64, places: Places, codes: Codes) -> int:
    digits = places[codes]
    words *= size
    words += digits
    return int(digits.min())


@njit(small=8 * SMALL, plain=_append_plain, nogil=True, cache=True)
def _append(words: Ints, size: np.int64, places: Places, codes: Codes) -> Any:
    least = np.int64(0)
    for i in range(len(codes)):
        digit = np.int64(places[codes[i]])
        least |= digit  # negative as soon as one is
        words[i] = words[i] * size + digit
    return least


def placed(places: Places, codes: Codes) -> Places | None:
    """What each code stands for; None where it stands for nothing.

    Parameters
    ----------
    places : ndarray of int32 or int64
        Negative for a code that no cell has.
    codes : ndarray of uint8 or uint16, shape (n,)

    Returns
    -------
    ndarray like `places`, shape (n,)

    Examples
    --------
    >>> places = np.array([7, 3, -1], np.int32)
    >>> placed(places, np.array([1, 1, 0], np.uint8)).tolist(), placed(places, np.array([2], np.uint8))
    ([3, 3, 7], None)
    """
    if int(codes.max(initial=0)) >= len(places):
        return np.zeros(0, places.dtype) if not len(codes) else None
    found = np.empty(len(codes), places.dtype)
    return found if int(_place(read_only(places, places.dtype), codes, found)) >= 0 else None


def _place_plain(places: Places, codes: Codes, found: Places) -> int:
    found[:] = places[codes]
    return int(found.min(initial=0))


@njit(small=8 * SMALL, plain=_place_plain, nogil=True, cache=True)
def _place(places: Places, codes: Codes, found: Places) -> Any:
    least = np.int64(0)
    for i in range(len(codes)):
        place = places[codes[i]]
        least |= place
        found[i] = place
    return least
