"""The rest of local recoding, merged: each violating class with the class whose union loses least."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.clusters.labels import UNIT
from privpipe.kernels.clusters.unions import NEVER, Extents, LevelTables, level_tables, union_increases
from privpipe.progress import within
from privpipe.transforms.local_recoding.cell_loss import loss_units, weight_units
from privpipe.transforms.local_recoding.rounds import GONE, ByClass, Tuples

__all__ = ["Merged", "merged"]

Ints = NDArray[np.int64]
Levels = NDArray[np.int16]
NEAREST = 32
"""Partners that are tried, the one that loses least first, where sizes and values alone do not decide."""


class Planned(Protocol):
    """What a way of recoding tells of itself."""

    levels: Levels
    checked: int

    def detail(self) -> dict[str, Any]:
        """What a plan says of it."""


class Merged:
    """What a way of recoding kept, with the rest merged into it."""

    def __init__(self, way: Planned, tuples: Tuples, allowed: int) -> None:
        self.way = way
        self.allowed = allowed
        self.levels = merged(tuples, way.levels, allowed)
        self.left = self.fewest = tuples.left(self.levels)
        self.records = tuples.left(way.levels) - self.left
        self.checked = way.checked

    def detail(self) -> dict[str, Any]:
        """What a plan says of it: enough to merge the same rest again."""
        return {**self.way.detail(), "merging": {"records": self.records, "allowed": self.allowed}}


def merged(tuples: Tuples, levels: Levels, allowed: int) -> Levels:
    """Levels of each combination once the rest is merged, `GONE` where no union is sound, shape (t, m).

    The smallest violating class comes first, ties by the order of labels. Its partner is the class whose union loses
    least, among those that violate too and those whose union holds. Unions that lose no less than suppressing what
    violates are made only while more records are left than allowed, and then with any class if need be.

    Parameters
    ----------
    tuples : Tuples
        Their classes decide for themselves.
    levels : ndarray of int16, shape (t, m)
        `GONE` for the rest.
    allowed : int
        Records with known values that may be left.
    """
    if not (levels[:, 0] == GONE).any() or tuples.by_class is None:
        return levels
    unions = _Unions(tuples, levels, tuples.by_class)
    unions.make()
    if unions.left > allowed:
        unions.make(allowed)
    found = unions.levels()
    found[tuples.failing(found)] = GONE
    return found


class _Unions:
    """Classes as they become fewer, those of the rest under their lowest labels among them.

    They are numbered in the order of their labels. A union has the lower number, and its members' least common labels.
    """

    def __init__(self, tuples: Tuples, levels: Levels, rule: ByClass) -> None:
        self.tuples = tuples
        self.rule = rule
        self.before = levels
        self.least = np.array([hierarchy.min_level for hierarchy in tuples.hierarchies], dtype=np.int16)
        rest = levels[:, 0] == GONE
        start = np.where(rest[:, None], self.least, levels)
        named = tuples.named(np.arange(len(tuples)), start)
        self.named, firsts, numbers = np.unique(named, axis=0, return_index=True, return_inverse=True)
        numbers = numbers.reshape(-1)
        order = np.argsort(numbers, kind="stable")
        self.members = np.split(order, np.searchsorted(numbers[order], np.arange(1, len(firsts))))
        self.level = start[firsts]
        self.tables, self.full = _tables(tuples, levels)
        self.classes = self._extents(numbers, order)
        self.values = np.zeros(len(firsts), dtype=np.int64)
        if rule.values:
            np.bitwise_or.at(self.values, numbers, np.left_shift(np.int64(1), rule.coded.values))
        # Classes that were kept hold; one of the rest may too, where a vector of levels had to keep more than it.
        self.new = np.bincount(numbers, weights=rest, minlength=len(firsts)) > 0
        self.violates = self.new.copy()
        self.violates[self.new] = ~self._hold([[own] for own in np.flatnonzero(self.new).tolist()])

    @property
    def left(self) -> int:
        """Records of the classes that violate."""
        return int(self.classes.records[self.violates].sum())

    def make(self, most: int | None = None) -> None:
        """Unions that lose less than suppressing; with `most` any, until no more than so many records are left."""
        records, made = self.classes.records, 0
        waiting = [(int(records[own]), own) for own in np.flatnonzero(self.violates).tolist()]
        heapq.heapify(waiting)
        while waiting and (most is None or self.left > most):
            size, own = heapq.heappop(waiting)
            if not self.violates[own] or size != records[own]:
                continue  # it went into a union since
            increases, steps = union_increases(self.tables, self.classes, own)
            other = self._partner(own, increases, forced=most is not None)
            if other is None:
                continue
            own = self._united(own, other, self.least + steps[other])
            made += 1
            within("unions", made)
            if self.violates[own]:
                heapq.heappush(waiting, (int(records[own]), own))

    def levels(self) -> Levels:
        """Levels of each combination."""
        found = self.before.copy()
        for own in np.flatnonzero(self.new & (self.classes.records > 0)).tolist():
            found[self.members[own]] = GONE if self.violates[own] else self.level[own]
        return found

    def _partner(self, own: int, increases: Ints, *, forced: bool) -> int | None:
        last = np.partition(increases, NEAREST - 1)[NEAREST - 1] if len(increases) > NEAREST else NEVER
        order = np.flatnonzero((increases <= last) & (increases < NEVER))
        order = order[np.argsort(increases[order], kind="stable")][:NEAREST]
        if not forced:
            order = order[increases[order] < self._saved(own, order)]
        sound = self.violates[order]
        # Behind the first one that violates none is asked for.
        judged = order[: np.argmax(sound)] if sound.any() else order
        sound[: len(judged)] = self.rule.exact or self._hold([[own, other] for other in judged.tolist()])
        if sound.any():
            return int(order[np.argmax(sound)])
        return int(order[0]) if forced and len(order) else None

    def _saved(self, own: int, others: NDArray[np.intp]) -> Ints:
        """What each union may lose more before suppressing what violates in it loses no more."""
        records, costs = self.classes.records, self.classes.costs
        theirs = np.where(self.violates[others], records[others] * self.full - costs[others], 0)
        return np.asarray(theirs + records[own] * self.full - costs[own])

    def _united(self, own: int, other: int, level: Levels) -> int:
        """Number of the union of two classes and of those that have the labels it gets: readers see one class."""
        number = self._joined(own, other)
        self.level[number] = level
        self.named[number] = self.tuples.named(self.members[number][:1], level[None])[0]
        same = (self.named == self.named[number]).all(axis=1) & (self.classes.records > 0)
        for twin in np.flatnonzero(same).tolist():
            if twin != number:
                name, number = self.named[number], self._joined(number, twin)
                self.named[number], self.level[number] = name, level
        first, each = self.classes.low[number], 0
        for at in range(len(level)):
            row = self.tables.starts[at] + (level[at] - self.least[at]) * self.tables.widths[at]
            each += int(self.tables.lost[row + first[at]])
        self.classes.costs[number] = each * self.classes.records[number]
        self.violates[number] = not self._hold([[number]])[0]
        return number

    def _joined(self, one: int, other: int) -> int:
        """Members, extent and values of two classes as one; the number that goes on."""
        number, gone = min(one, other), max(one, other)
        own = self.classes
        self.members[number] = np.concatenate([self.members[number], self.members[gone]])
        own.low[number] = np.minimum(own.low[number], own.low[gone])
        own.high[number] = np.maximum(own.high[number], own.high[gone])
        own.records[number] += own.records[gone]
        own.records[gone] = 0
        self.values[number] |= self.values[gone]
        self.new[number], self.violates[gone] = True, False
        return number

    def _hold(self, groups: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
        """Whether the classes of each group meet the guarantees as one."""
        records, values = self.classes.records, self.values
        held = np.array(
            [
                sum(int(records[own]) for own in group) >= self.rule.k
                and int(np.bitwise_or.reduce(values[list(group)])).bit_count() >= self.rule.values
                for group in groups
            ],
            dtype=np.bool_,
        )
        if not self.rule.exact and held.any():
            some = np.flatnonzero(held)
            held[some] = self.tuples.holding(
                [np.concatenate([self.members[own] for own in groups[at]]) for at in some.tolist()]
            )
        return held

    def _extents(self, numbers: Ints, order: NDArray[np.intp]) -> Extents:
        tuples, wide = self.tuples, len(self.least)
        starts = np.searchsorted(numbers[order], np.arange(len(self.named)))
        codes = tuples.codes[order, :wide].astype(np.int64)
        records = np.zeros(len(self.named), dtype=np.int64)
        np.add.at(records, numbers, tuples.rows.counts)
        each = np.zeros(len(self.named), dtype=np.int64)
        for at in range(wide):
            rows = self.tables.starts[at] + (self.level[:, at] - self.least[at]) * self.tables.widths[at]
            each += self.tables.lost[rows + codes[starts, at]]
        return Extents(
            np.minimum.reduceat(codes, starts, axis=0),
            np.maximum.reduceat(codes, starts, axis=0),
            records,
            each * records,
            np.unique(self.named[:, wide:], axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64),
        )


def _tables(tuples: Tuples, levels: Levels) -> tuple[LevelTables, int]:
    """Labels and losses of the columns, weighted by what each loses before; what a suppressed record loses."""
    counts, gone = tuples.rows.counts, levels[:, 0] == GONE
    codes, lost, full = [], [], 0
    for at, hierarchy in enumerate(tuples.hierarchies):
        units = np.array([loss_units(hierarchy, level) for level in range(hierarchy.height + 1)])
        before = np.where(gone, UNIT, units[levels[:, at], tuples.codes[:, at]])
        weight = weight_units(int((before * counts).sum()), int(counts.sum()))
        used = range(hierarchy.min_level, hierarchy.max_level + 1)
        codes.append([hierarchy.codes(level).astype(np.int64) for level in used])
        lost.append([units[level] * weight // UNIT for level in used])
        full += weight
    return level_tables(codes, lost), full
