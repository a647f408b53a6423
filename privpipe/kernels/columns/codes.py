"""Columns of codes: packed for few look-ups, renumbered from a file's dictionaries, and without unused values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, read_only
from privpipe.compiled import SMALL, njit

__all__ = ["FUSED", "PackedColumns", "append_digits", "in_order_of_appearance", "padded", "placed", "renumbered"]


Codes = NDArray[Any]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
FUSED = 3
"""Groups that one loop looks up; nine columns of a census fit into three groups."""
LARGEST_GROUP = 8192
"""Most combinations of a group, so that its look-up table stays in the first-level cache."""


class PackedColumns:
    """Groups of columns, each with one code per row.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, m)
        Codes of each column from 0.
    sizes : sequence of int
        Number of values of each column: its codes are below it.

    Attributes
    ----------
    members : tuple of tuple of int
        Columns of each group.
    codes : list of ndarray of uint16 or int32, shape (t,)
        For each group, the code of each row.
    leaves : list of ndarray of int32, shape (members, codes)
        For each group, the columns' codes that a packed code represents.
    """

    def __init__(self, codes: Ints, sizes: Sequence[int]) -> None:
        self.members = _grouped(sizes)
        matrix, packed, self.leaves = read_only(codes, np.int32), [], []
        for members in self.members:
            radices = np.array([max(sizes[place], 1) for place in members], dtype=np.int64)
            found, leaves = _packed(matrix, np.array(members, dtype=np.int64), radices, math.prod(radices.tolist()))
            packed.append(found)
            self.leaves.append(leaves)
        # One type for all, so that code is compiled for one type only; the narrow one is faster by a third.
        kind = np.uint16 if all(leaves.shape[1] <= 1 << 16 for leaves in self.leaves) else np.int32
        self.codes: list[Codes] = [read_only(found, kind) for found in packed]
        ends = np.cumsum(np.array(sizes, dtype=np.int64))
        starts = ends - np.array(sizes, dtype=np.int64)
        self._starts = [starts[list(members)] for members in self.members]
        self._values = int(ends[-1]) if len(ends) else 0

    def totals(self, counts: Longs, chosen: Bools | None = None) -> Longs:
        """Records of each value among the chosen rows, the values of all columns after one another.

        Examples
        --------
        >>> packed = PackedColumns(np.array([[0, 1], [1, 0], [1, 0]], dtype=np.int32), [2, 2])
        >>> packed.totals(np.array([5, 1, 2]), np.array([True, True, False])).tolist()
        [5, 1, 1, 5]
        """
        out = np.zeros(self._values, dtype=np.int64)
        marked = np.ones(len(counts), dtype=np.bool_) if chosen is None else chosen
        records, mask = read_only(counts, np.int64), read_only(marked, np.bool_)
        for first in range(0, len(self.codes), FUSED):
            fused = slice(first, first + FUSED)
            leaves, starts = self.leaves[fused], self._starts[fused]
            sizes = [own.shape[1] for own in leaves] + [1] * (FUSED - len(leaves))
            held = _group_totals(*padded(self.codes[fused]), mask, records, *sizes)
            for of_code, own, start in zip(held, leaves, starts, strict=False):
                _spread_out(of_code, own, start, out)
        return out


def padded(rows: Sequence[Codes]) -> list[Codes]:
    """Pad to the number of groups that a loop looks up; a group of a single code adds nothing."""
    if len(rows) >= FUSED:
        return list(rows)
    nothing = read_only(np.zeros(len(rows[0]), dtype=rows[0].dtype), rows[0].dtype)
    return [*rows, *[nothing] * (FUSED - len(rows))]


def _grouped(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Group neighbouring columns as long as they have few combinations."""
    groups: list[list[int]] = []
    space = 0
    for place, size in enumerate(sizes):
        if groups and space * max(size, 1) <= LARGEST_GROUP:
            groups[-1].append(place)
            space *= max(size, 1)
        else:
            groups.append([place])
            space = max(size, 1)
    return tuple(tuple(group) for group in groups)


@njit(small=SMALL, nogil=True, cache=True)
def _packed(codes: Ints, members: Longs, radices: Longs, space: int) -> tuple[Ints, Ints]:
    """Code of each row among the occurring ones of a group, in their order, and the columns' codes of each."""
    t = len(codes)
    joint = np.empty(t, np.int64)
    place = np.full(space, -1, np.int32)
    for i in range(t):
        key = 0
        for j in range(len(members)):
            key = key * radices[j] + codes[i, members[j]]
        joint[i] = key
        place[key] = 0
    count = 0
    for key in range(space):
        if place[key] == 0:
            place[key] = count
            count += 1
    leaves = np.empty((len(members), count), np.int32)
    for key in range(space):
        if place[key] >= 0:
            left = key
            for j in range(len(members) - 1, -1, -1):
                leaves[j, place[key]] = left % radices[j]
                left //= radices[j]
    numbers = np.empty(t, np.int32)
    for i in range(t):
        numbers[i] = place[joint[i]]
    return numbers, leaves


@njit(small=SMALL, nogil=True, cache=True)
def _group_totals(
    c0: Codes, c1: Codes, c2: Codes, chosen: Bools, counts: Longs, n0: int, n1: int, n2: int
) -> tuple[Longs, Longs, Longs]:
    one, two, three = np.zeros(n0, np.int64), np.zeros(n1, np.int64), np.zeros(n2, np.int64)
    for i in range(len(counts)):
        if chosen[i]:
            records = counts[i]
            one[c0[i]] += records
            two[c1[i]] += records
            three[c2[i]] += records
    return one, two, three


@njit(small=SMALL, nogil=True, cache=True)
def _spread_out(of_code: Longs, leaves: Ints, starts: Longs, out: Longs) -> None:
    for j in range(len(leaves)):
        for code in range(len(of_code)):
            out[starts[j] + leaves[j, code]] += of_code[code]


UnsignedCodes = NDArray[np.unsignedinteger[Any]]
Places = NDArray[np.signedinteger[Any]]
ONE_BYTE = 1 << 8


def renumbered(indices: NDArray[np.integer[Any]], numbers: NDArray[np.uint16]) -> tuple[UnsignedCodes, Longs]:
    """The number of each cell's value, and the cells of each number.

    Parameters
    ----------
    indices : ndarray of integers, shape (n,)
        Index of each cell's value in the dictionary.
    numbers : ndarray of uint16
        Number of each value of the dictionary.

    Returns
    -------
    codes : ndarray of uint8, or of uint16 where a number needs it, shape (n,)
    counts : ndarray of int64
        Cells of each number, up to the largest number.

    Raises
    ------
    IndexError
        An index is outside the dictionary.

    Examples
    --------
    >>> codes, counts = renumbered(np.array([1, 1, 0], np.int32), np.array([5, 2], np.uint16))
    >>> codes.tolist(), counts.tolist()
    ([2, 2, 5], [0, 0, 2, 0, 0, 1])
    """
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(numbers):
        raise IndexError(f"an index is outside a dictionary of {len(numbers)} values")
    most = int(numbers.max(initial=0))
    kind: type[np.unsignedinteger[Any]] = np.uint8 if most < ONE_BYTE else np.uint16
    codes: UnsignedCodes = np.empty(len(indices), kind)
    counts = np.zeros(most + 1, np.int64)
    _renumber(read_only(indices, np.int32), numbers.astype(codes.dtype, copy=False), codes, counts)
    return codes, counts


def _renumber_plain(indices: NDArray[np.int32], numbers: UnsignedCodes, codes: UnsignedCodes, counts: Longs) -> None:
    codes[:] = numbers[indices]
    counts += np.bincount(codes, minlength=len(counts))


@njit(small=8 * SMALL, plain=_renumber_plain, nogil=True, cache=True)
def _renumber(indices: NDArray[np.int32], numbers: UnsignedCodes, codes: UnsignedCodes, counts: Longs) -> None:
    for i in range(len(indices)):
        code = numbers[indices[i]]
        codes[i] = code
        counts[code] += 1


def append_digits(words: Longs, size: int, places: Places, codes: UnsignedCodes) -> bool:
    """Append to words a digit below `size` that represents a cell's code.

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
        False where a code has no digit; the words are then invalid.

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


def _append_plain(words: Longs, size: np.int64, places: Places, codes: UnsignedCodes) -> int:
    digits = places[codes]
    words *= size
    words += digits
    return int(digits.min())


@njit(small=8 * SMALL, plain=_append_plain, nogil=True, cache=True)
def _append(words: Longs, size: np.int64, places: Places, codes: UnsignedCodes) -> Any:
    least = np.int64(0)
    for i in range(len(codes)):
        digit = np.int64(places[codes[i]])
        least |= digit  # negative as soon as one digit is
        words[i] = words[i] * size + digit
    return least


def placed(places: Places, codes: UnsignedCodes) -> Places | None:
    """The place of each code; None where a code has no place.

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


def _place_plain(places: Places, codes: UnsignedCodes, found: Places) -> int:
    found[:] = places[codes]
    return int(found.min(initial=0))


@njit(small=8 * SMALL, plain=_place_plain, nogil=True, cache=True)
def _place(places: Places, codes: UnsignedCodes, found: Places) -> Any:
    least = np.int64(0)
    for i in range(len(codes)):
        place = places[codes[i]]
        least |= place
        found[i] = place
    return least


def in_order_of_appearance(codes: Ints, values: int) -> tuple[Ints, Ints]:
    """Codes for a dictionary of only the values that occur, in order of their first cell.

    Parameters
    ----------
    codes : ndarray of int32, shape (n,)
        Below `values`; a negative one is a missing cell and stays -1.
    values : int
        Number of values of their dictionary.

    Returns
    -------
    codes : ndarray of int32, shape (n,)
    used : ndarray of int32
        The values in the new dictionary.

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
