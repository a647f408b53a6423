"""The distinct table packed: neighbouring columns share one small code, so that a node costs a few look-ups a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.lattice.classes import compacted, numbered
from privpipe.kernels.lattice.tuple_classes import class_numbers, class_totals
from privpipe.transforms.recoding.encoded import EncodedTable
from privpipe.transforms.recoding.formed_classes import FormedClasses, KnownClasses

__all__ = ["PackedTable"]

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
        self._members = table.packed.members
        self.codes: list[NDArray[Any]] = table.packed.codes
        self._leaves = table.packed.leaves
        self._tables: dict[Any, tuple[NDArray[np.int64], int]] = {}
        self._asked: dict[tuple[str, ...], list[tuple[int, tuple[int, ...]]]] = {}
        self._known: dict[tuple[str, ...], KnownClasses] = {}
        cells = sum(int(codes.max(initial=-1)) + 1 for codes in table.rows.sensitive.values())
        self._width = 8 * (2 + cells) + 4

    def classes(self, keys: tuple[str, ...], levels: Sequence[int]) -> FormedClasses:
        """The classes over some keys at a vector of levels, formed of the fewest known that are finer."""
        table, counts = self.table, self.table.rows.counts
        asked = self._asked[keys] if keys in self._asked else self._asked.setdefault(keys, self._places(keys))
        labels, radices = [], []
        for group, places in asked:
            found, radix = self._labels(group, places, levels)
            labels.append(found)
            radices.append(radix)
        if not asked or math.prod(radices) >= SPACE:
            numbers, count = class_numbers(table.codes, [table.lookup(key, levels) for key in keys])
            first = np.unique(numbers, return_index=True)[1].astype(np.int32)
            return FormedClasses(numbers.astype(np.int32), class_totals(numbers, count, counts), first, self.codes)
        if keys not in self._known:
            self._known[keys] = KnownClasses(len(levels), self._width, table.codes.nbytes)
        known = self._known[keys]
        chosen = [place for _, places in asked for place in places if place < len(levels)]
        at = np.zeros(len(levels), dtype=np.int16)
        at[chosen] = [levels[place] for place in chosen]
        finer = known.below(at)
        source = self.codes if finer is None else finer.codes
        records = counts if finer is None else finer.sizes
        formed = FormedClasses(
            *numbered([source[group] for group, _ in asked], labels, radices, records), source, finer
        )
        known.remember(at, formed)
        return formed

    def _places(self, keys: tuple[str, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """Groups that hold any of some columns, and which of their columns these are."""
        chosen = {self.table.places[key] for key in keys}
        asked = [tuple(place for place in members if place in chosen) for members in self._members]
        return [(group, places) for group, places in enumerate(asked) if places]

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
