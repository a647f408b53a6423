"""Classes of the distinct table at one vector of levels: over packed columns, or formed from finer classes known
already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Codes, Ints, read_only
from privpipe.kernels.lattice.node_cells import earliest, tallied, tallies_merged
from privpipe.kernels.lattice.node_classes import class_numbers, class_totals, compacted, numbered
from privpipe.kernels.lattice.vectors import smallest_below
from privpipe.transforms.recoding.encoded_table import EncodedTable

__all__ = ["FormedClasses", "KnownClasses", "PackedTable"]


ROOM = 1 << 26
"""Bytes of classes remembered, or as many as half the table's codes take; beyond, all are forgotten, since classes
hold on to the finer ones they were formed of."""
MOST = 1024


class FormedClasses:
    """Classes over some keys at a vector of levels.

    Parameters
    ----------
    own : ndarray of int32, shape (n,)
        Class of each finer class, or of each combination.
    sizes : ndarray of int64, shape (classes,)
        Records.
    members : ndarray of int32, shape (classes,)
        A finer class (combination) of each.
    codes : sequence of ndarray, each of shape (n,)
        Packed codes of the finer classes (combinations) in each group of columns.
    finer : FormedClasses, optional
        Default: they are of combinations.
    """

    def __init__(
        self,
        own: Codes,
        sizes: Ints,
        members: Codes,
        codes: Sequence[NDArray[Any]],
        finer: FormedClasses | None = None,
    ) -> None:
        self.own = own
        self.sizes = sizes
        self._members = members
        self._finer_codes = codes
        self._finer = finer
        self._tallies: dict[str, Ints] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def codes(self) -> list[NDArray[Any]]:
        """Packed codes of a combination of each class."""
        return [read_only(codes[self._members], codes.dtype) for codes in self._finer_codes]

    @property
    def numbers(self) -> Codes:
        """Class of each combination, shape (t,); not kept, for it would outweigh the rest."""
        found, finer = self.own, self._finer
        while finer is not None:
            found, finer = found[finer.own], finer._finer
        return found

    @cached_property
    def rows(self) -> Codes:
        """The first combination of each class."""
        return self._members if self._finer is None else earliest(self.own, len(self), self._finer.rows)

    def spread(self, chosen: Bools) -> Bools:
        """Which combinations are in the chosen classes, shape (t,)."""
        finer = chosen[self.own]
        return finer if self._finer is None else self._finer.spread(finer)

    def tallies(self, column: str, codes: Codes, counts: Ints, values: int) -> Ints:
        """Records of each value of a column in each class, shape (classes, values)."""
        if column not in self._tallies:
            known = None if self._finer is None else self._finer._tallies.get(column)
            self._tallies[column] = (
                tallied(self.numbers, len(self), codes, counts, values)
                if known is None
                else tallies_merged(self.own, len(self), known)
            )
        return self._tallies[column]


class KnownClasses:
    """Classes formed so far over one set of keys; several threads may ask and add.

    Parameters
    ----------
    columns : int
    width : int
        Bytes remembered per class.
    codes : int
        Bytes of the table's codes.
    """

    def __init__(self, columns: int, width: int, codes: int) -> None:
        self._width = width
        self._room = max(ROOM, codes // 2)
        self._levels = np.empty((MOST, columns), dtype=np.int16)
        self._counts = np.empty(MOST, dtype=np.int64)
        self._formed: list[FormedClasses] = []
        self._bytes = 0
        self._lock = Lock()

    def below(self, levels: NDArray[np.int16]) -> FormedClasses | None:
        """The fewest classes known at levels none of which is above these."""
        with self._lock:
            at = smallest_below(self._levels, self._counts, len(self._formed), levels)
            return None if at < 0 else self._formed[at]

    def remember(self, levels: NDArray[np.int16], formed: FormedClasses) -> None:
        """Keep classes for coarser ones."""
        added = formed.own.nbytes + len(formed) * self._width
        with self._lock:
            if self._bytes + added > self._room or len(self._formed) == MOST:
                self._formed, self._bytes = [], 0
            at = len(self._formed)
            self._levels[at], self._counts[at] = levels, len(formed)
            self._formed.append(formed)
            self._bytes += added


SPACE = 1 << 62


class PackedTable:
    """Groups of columns of an encoded table, each with one code a combination.

    Attributes
    ----------
    codes : list of ndarray of uint16 or int32, shape (t,)
        For each group, the code of each combination.
    """

    def __init__(self, table: EncodedTable) -> None:
        self.table = table
        self._members = table.packed.members
        self.codes: list[NDArray[Any]] = table.packed.codes
        self._leaves = table.packed.leaves
        self._tables: dict[Any, tuple[Ints, int]] = {}
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

    def meetings(self, row: int, keys: tuple[str, ...], strides: Sequence[int]) -> list[Ints]:
        """Where each packed code's labels first meet those of one combination, for `class_everywhere`.

        Parameters
        ----------
        row : int
            The combination.
        strides : sequence of int
            For each generalized column: the distance of its levels in the lattice.

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

    def _first_alike(self, column: int, leaf: int) -> Ints:
        """For each leaf of a column the level, from the least allowed one, at which it first equals one; -1: never."""
        table = self.table
        fixed = column >= len(table.columns)
        low = 0 if fixed else table.hierarchies[column].min_level
        high = 0 if fixed else table.hierarchies[column].max_level
        first = np.full(len(table.lookups[column][0][1]), -1, dtype=np.int64)
        for level in range(high, low - 1, -1):
            labels = table.lookups[column][level][1]
            first[labels == labels[leaf]] = level - low
        return first

    def _labels(self, group: int, asked: tuple[int, ...], levels: Sequence[int]) -> tuple[Ints, int]:
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
