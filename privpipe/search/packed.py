"""The distinct table packed: neighbouring columns share one small code, so that a node costs a few look-ups a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    codes : ndarray of int32, shape (p, t)
        Code of each combination in each group.
    starts : ndarray of int64, shape (p,)
        Where each group begins when all groups' codes stand in one row.
    size : int
        Codes of all groups.
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
        self.codes: NDArray[np.int32] = np.ascontiguousarray(np.stack(packed))
        self._leaves = leaves
        lengths = [values.shape[1] for values in leaves]
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
        self.size = int(sum(lengths))
        self._tables: dict[Any, tuple[NDArray[np.int32], int]] = {}

    def classes(self, keys: tuple[str, ...], levels: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Class of each combination over some keys at a vector of levels, and the records of each class."""
        table, counts = self.table, self.table.rows.counts
        chosen = frozenset(table.places[key] for key in keys)
        tables, starts, radices, start, space = [], [], [], 0, 1
        groups = []
        for group, members in enumerate(self._members):
            asked = tuple(place for place in members if place in chosen)
            if not asked:
                continue
            labels, radix = self._labels(group, asked, levels)
            tables.append(labels)
            starts.append(start)
            radices.append(radix)
            groups.append(group)
            start += len(labels)
            space *= radix
        if not groups or space >= SPACE:
            numbers, count = class_numbers(table.codes, [table.lookup(key, levels) for key in keys])
            return numbers.astype(np.int32), class_totals(numbers, count, counts)
        codes = self.codes if len(groups) == len(self._members) else np.ascontiguousarray(self.codes[groups])
        joined = tables[0] if len(tables) == 1 else np.concatenate(tables)
        return numbered(codes, joined, np.array(starts), np.array(radices), counts)

    def meetings(
        self, row: int, keys: tuple[str, ...], strides: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each packed code's labels first meet those of one combination, for `class_everywhere`.

        Parameters
        ----------
        row : int
            The combination.
        strides : sequence of int
            Of each generalized column: how far apart its levels lie in the lattice.

        Returns
        -------
        (ndarray of int64, ndarray of int64)
            Tables of all groups after one another, negative where labels never meet; where each begins.
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
        return np.concatenate(parts), self.starts

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

    def _labels(self, group: int, asked: tuple[int, ...], levels: Sequence[int]) -> tuple[NDArray[np.int32], int]:
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
        found = compacted(labels, space)
        self._tables[group, asked, own] = found
        return found


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
