"""Columns of codes packed: neighbouring ones share one small code, so that a pass costs a few look-ups a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import SMALL, njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["FUSED", "PackedColumns", "padded"]

Codes = NDArray[Any]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
FUSED = 3
"""Groups that one loop looks up; nine columns of a census need no more."""
LARGEST_GROUP = 8192
"""Combinations of a group: its look-up table stays in the processor's first cache."""


class PackedColumns:
    """Groups of columns, each with one code a row.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, m)
        Codes of each column from 0.
    sizes : sequence of int
        Values of each column: its codes are below.

    Attributes
    ----------
    members : tuple of tuple of int
        Columns of each group.
    codes : list of ndarray of uint16 or int32, shape (t,)
        Of each group, the code of each row.
    leaves : list of ndarray of int32, shape (members, codes)
        Of each group, the columns' codes that a packed code stands for.
    """

    def __init__(self, codes: Ints, sizes: Sequence[int]) -> None:
        self.members = _grouped(sizes)
        matrix, packed, self.leaves = read_only(codes, np.int32), [], []
        for members in self.members:
            radices = np.array([max(sizes[place], 1) for place in members], dtype=np.int64)
            found, leaves = _packed(matrix, np.array(members, dtype=np.int64), radices, math.prod(radices.tolist()))
            packed.append(found)
            self.leaves.append(leaves)
        # One type for all, so that compiled code is specialised once; the narrow one is faster by a third.
        kind = np.uint16 if all(leaves.shape[1] <= 1 << 16 for leaves in self.leaves) else np.int32
        self.codes: list[Codes] = [read_only(found, kind) for found in packed]
        ends = np.cumsum(np.array(sizes, dtype=np.int64))
        starts = ends - np.array(sizes, dtype=np.int64)
        self._starts = [starts[list(members)] for members in self.members]
        self._values = int(ends[-1]) if len(ends) else 0

    def totals(self, counts: Longs, chosen: NDArray[np.bool_] | None = None) -> Longs:
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
    """At least as many groups as a loop looks up; one of a single code adds nothing."""
    if len(rows) >= FUSED:
        return list(rows)
    nothing = read_only(np.zeros(len(rows[0]), dtype=rows[0].dtype), rows[0].dtype)
    return [*rows, *[nothing] * (FUSED - len(rows))]


def _grouped(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Neighbouring columns together as long as their combinations stay few."""
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
    """Code of each row among those of a group that occur, in their order, and the columns' codes of each."""
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
    c0: Codes, c1: Codes, c2: Codes, chosen: NDArray[np.bool_], counts: Longs, n0: int, n1: int, n2: int
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
