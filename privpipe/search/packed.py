"""The distinct table packed: neighbouring columns share one small code, so that a node costs a few look-ups a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.arrays import read_only
from privpipe.kernels.search_classes import compacted, numbered
from privpipe.kernels.tuple_classes import class_numbers, class_totals
from privpipe.search.encoded import EncodedTable

__all__ = ["PackedTable"]

LARGEST_GROUP = 8192
"""Combinations of a group: its look-up table stays in the processor's first cache."""
SPACE = 1 << 62


class PackedTable:
    """Groups of columns of an encoded table, each with one code a combination.

    Attributes
    ----------
    codes : list of ndarray of uint16 or int32, shape (t,)
        Of each group, the code of each combination.
    """

    def __init__(self, table: EncodedTable) -> None:
        self.table = table
        columns = table.codes.shape[1]
        sizes = [len(table.lookups[place][0][1]) for place in range(columns)]
        self._members = _grouped(sizes)
        packed, leaves = [], []
        for members in self._members:
            codes, values = _packed(table.codes, members, sizes)
            packed.append(codes)
            leaves.append(values)
        # One type for all, so that compiled code is specialised once; the narrow one is faster by a third.
        kind = np.uint16 if all(values.shape[1] <= 1 << 16 for values in leaves) else np.int32
        self.codes: list[NDArray[Any]] = [read_only(codes, kind) for codes in packed]
        self._leaves = leaves
        self._tables: dict[Any, tuple[NDArray[np.int64], int]] = {}

    def classes(self, keys: tuple[str, ...], levels: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Class of each combination over some keys at a vector of levels, and the records of each class."""
        table, counts = self.table, self.table.rows.counts
        chosen = frozenset(table.places[key] for key in keys)
        codes, labels, radices = [], [], []
        for group, members in enumerate(self._members):
            asked = tuple(place for place in members if place in chosen)
            if asked:
                found, radix = self._labels(group, asked, levels)
                codes.append(self.codes[group])
                labels.append(found)
                radices.append(radix)
        space = math.prod(radices)
        if not codes or space >= SPACE:
            numbers, count = class_numbers(table.codes, [table.lookup(key, levels) for key in keys])
            return numbers.astype(np.int32), class_totals(numbers, count, counts)
        tables, step = [], 1
        for found, radix in zip(labels, radices, strict=True):
            tables.append(found * step)
            step *= radix
        return numbered(codes, tables, space, counts)

    def meetings(self, row: int, keys: tuple[str, ...], strides: Sequence[int]) -> list[NDArray[np.int64]]:
        """Where each packed code's labels first meet those of one combination, for `class_everywhere`.

        Parameters
        ----------
        row : int
            The combination.
        strides : sequence of int
            Of each generalized column: how far apart its levels lie in the lattice.

        Returns
        -------
        list of ndarray of int64
            A table a group, negative where labels never meet.
        """
        table, parts = self.table, []
        for members, values in zip(self._members, self._leaves, strict=True):
            place = np.zeros(values.shape[1], dtype=np.int64)
            never = np.zeros(values.shape[1], dtype=np.bool_)
            for column, leaves in zip(members, values, strict=True):
                if (table.columns + table.fixed)[column] not in keys:
                    continue
                first = self._first_alike(column, int(table.codes[row, column]))[leaves]
                never |= first < 0
                place += first * (strides[column] if column < len(table.columns) else 0)
            place[never] = -1
            parts.append(place)
        return parts

    def _first_alike(self, column: int, leaf: int) -> NDArray[np.int64]:
        """Of each leaf of a column the level, from the least allowed one, at which it first equals one; -1: never."""
        table = self.table
        fixed = column >= len(table.columns)
        low = 0 if fixed else table.hierarchies[column].min_level
        high = 0 if fixed else table.hierarchies[column].max_level
        first = np.full(len(table.lookups[column][0][1]), -1, dtype=np.int64)
        for level in range(high, low - 1, -1):
            labels = table.lookups[column][level][1]
            first[labels == labels[leaf]] = level - low
        return first

    def _labels(self, group: int, asked: tuple[int, ...], levels: Sequence[int]) -> tuple[NDArray[np.int64], int]:
        """Label of each code of a group, numbered without gaps, and how many there are."""
        own = tuple(levels[place] if place < len(self.table.columns) else 0 for place in asked)
        known = self._tables.get((group, asked, own))
        if known is not None:
            return known
        leaves = self._leaves[group]
        labels = np.zeros(leaves.shape[1], dtype=np.int64)
        space = 1
        for place, level in zip(asked, own, strict=True):
            _, codes, count = self.table.lookups[place][level]
            labels = labels * count + codes[leaves[self._members[group].index(place)]]
            space *= max(count, 1)
        numbers, count = compacted(labels, space)
        self._tables[group, asked, own] = numbers.astype(np.int64), count
        return self._tables[group, asked, own]


def _grouped(sizes: Sequence[int]) -> list[tuple[int, ...]]:
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
    return [tuple(group) for group in groups]


def _packed(
    codes: NDArray[np.int32], members: tuple[int, ...], sizes: Sequence[int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Code of each combination among those of a group that occur, and each code's leaves, shape (members, codes)."""
    joint = np.zeros(len(codes), dtype=np.int64)
    space = 1
    for place in members:
        joint = joint * max(sizes[place], 1) + codes[:, place]
        space *= max(sizes[place], 1)
    numbers, count = compacted(joint, space)
    leaves = np.empty((len(members), count), dtype=np.int32)
    for at, place in enumerate(members):
        leaves[at, numbers] = codes[:, place]
    return numbers, leaves
