"""Rounds of local recoding: a combination's round follows from the counts, so that a plan holds no key; the remaining
violating classes are merged with the class whose union loses least.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts
from privpipe.blocks.arrays import Bools, Codes, Ints
from privpipe.kernels.cluster_labels import NEVER, UNIT, Extents, LevelTables, level_tables, union_increases
from privpipe.progress import within
from privpipe.transforms.recoding.labelling import loss_units, weight_units
from privpipe.transforms.suppression.class_failures import Classes, Combinations, failing_rows
from privpipe.transforms.suppression.judged_sets import JudgedSets

if TYPE_CHECKING:
    from privpipe.blocks import ClassModel
    from privpipe.hierarchies import Hierarchy
    from privpipe.kernels.lattice.sweep import CodedTuples

__all__ = ["GONE", "ByClass", "Merged", "Tuples", "merged"]


Levels = NDArray[np.int16]
GONE = -1
"""The level of records that no round recodes: they are suppressed."""


@dataclass(frozen=True)
class Tuples:
    """Distinct combinations, coded, and the guarantees they are to meet.

    Parameters
    ----------
    columns : tuple of str
        Columns to generalize, m of them.
    fixed : tuple of str
        Judged quasi-identifiers that stay unchanged.
    hierarchies : tuple of Hierarchy, one a generalized column
    codes : ndarray of int32, shape (t, m + fixed)
        Leaf codes, then ranks of the fixed columns' values.
    rows : Combinations
    sets : JudgedSets
    facts : Facts
    """

    columns: tuple[str, ...]
    fixed: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    codes: Codes = field(repr=False)
    rows: Combinations = field(repr=False)
    sets: JudgedSets
    facts: Facts = field(repr=False)

    def __len__(self) -> int:
        return len(self.codes)

    def after(self, rounds: Sequence[Sequence[int]]) -> Levels:
        """Levels of each combination once these rounds have run, `GONE` where none keeps it, shape (t, m).

        A round generalizes the records left by earlier ones to one vector of levels and keeps the classes that pass.
        """
        if self.by_class is not None:
            return self.levels_of(self.swept(np.array(rounds, dtype=np.int16).reshape(-1, len(self.columns))), rounds)
        found = np.full((len(self), len(self.columns)), GONE, dtype=np.int16)
        rest = np.arange(len(self))
        for levels in rounds:
            if not len(rest):
                break
            gone = self._failing(rest, np.tile(np.array(levels, dtype=np.int16), (len(rest), 1)))
            found[rest[~gone]] = levels
            rest = rest[gone]
        return found

    @cached_property
    def by_class(self) -> ByClass | None:
        """The same for compiled code, where each class decides for itself over all the columns; else None."""
        return ByClass.of(self)

    def swept(self, vectors: Levels, least: int = 1) -> Codes:
        """The vector of levels that keeps each combination, walked in their order, -1 where none does, shape (t,).

        Parameters
        ----------
        vectors : ndarray of int16, shape (v, m)
        least : int
            Records that a vector must keep, or it keeps nothing.
        """
        from privpipe.kernels.lattice.sweep import next_vector, swept

        own, rest = self.by_class, np.arange(len(self))
        if own is None:
            raise TypeError("classes do not decide for themselves")
        if own.exact:
            return swept(own.coded, vectors, rest, own.k, own.values, max(least, 1))
        found = np.full(len(self), GONE, dtype=np.int32)
        at = -1
        while len(rest):
            at, likely = next_vector(own.coded, vectors, rest, own.k, own.values, first=at + 1)
            if at < 0:
                break
            some = rest[likely]
            kept = some[~self._failing(some, np.tile(vectors[at], (len(some), 1)))]
            if self.rows.counts[kept].sum() >= max(least, 1):
                found[kept] = at
                rest = rest[found[rest] < 0]
        return found

    def levels_of(self, places: Codes, vectors: Sequence[Sequence[int]] | Levels) -> Levels:
        """Levels of each combination from the vector that keeps it."""
        table = np.vstack([np.array(vectors, dtype=np.int16).reshape(-1, len(self.columns)), self._nowhere])
        return np.asarray(table[places])

    @property
    def _nowhere(self) -> Levels:
        return np.full((1, len(self.columns)), GONE, dtype=np.int16)

    def passing(self, some: NDArray[np.intp], vector: Sequence[int]) -> bool:
        """Whether all of some combinations pass at one vector of levels."""
        return not self._failing(some, np.tile(np.array(vector, dtype=np.int16), (len(some), 1))).any()

    def holds(self, levels: Levels) -> bool:
        """Whether the kept records meet everything: classes of different rounds may have become one."""
        kept = np.flatnonzero(levels[:, 0] != GONE)
        return len(kept) > 0 and not self._failing(kept, levels[kept]).any()

    def failing(self, levels: Levels) -> NDArray[np.intp]:
        """Combinations that are kept and in classes that must go."""
        kept = np.flatnonzero(levels[:, 0] != GONE)
        return kept[self._failing(kept, levels[kept])] if len(kept) else kept

    def left(self, levels: Levels) -> int:
        """Records that are not kept."""
        return int(self.rows.counts[levels[:, 0] == GONE].sum())

    def part(self, some: NDArray[np.intp]) -> Self:
        """Some of the combinations."""
        return replace(self, codes=self.codes[some], rows=self.rows.take(some))

    def classes_of(self, levels: Levels) -> int:
        """Classes that are released, over all the columns."""
        kept = np.flatnonzero(levels[:, 0] != GONE)
        return _classes(self.named(kept, levels[kept]), range(self.codes.shape[1])).count

    def labels(self, at: int, levels: Levels) -> tuple[Ints, list[str | None]]:
        """Number of each combination's label in a column, and the texts they number; None: a missing value."""
        hierarchy, texts = self.hierarchies[at], self._texts[at]
        numbers = self._numbers[at][levels[:, at], self.codes[:, at]]
        return np.where(levels[:, at] == GONE, 0, numbers), texts if len(hierarchy.values) else [None]

    def holding(self, members: Sequence[NDArray[np.intp]]) -> Bools:
        """Which classes of these combinations meet everything, shape (n,); only where classes decide for themselves."""
        rows, many = np.concatenate([np.zeros(0, np.intp), *members]), len(members)
        numbers = np.repeat(np.arange(many), [len(own) for own in members])
        classes = {keys: Classes(numbers, many) for keys in self.sets.keys}
        found = failing_rows(self.sets, self.rows.take(rows), classes, self.facts, lambda *_: [])
        held = np.full(many, found.met, dtype=np.bool_)
        held[numbers[found.rows]] = False
        return held

    def _failing(self, rest: NDArray[np.intp], levels: Levels) -> Bools:
        """Which of some combinations are in classes that must go, all of them where that does not help."""
        named = self.named(rest, levels)
        places = {name: at for at, name in enumerate((*self.columns, *self.fixed))}
        classes = {keys: _classes(named, [places[key] for key in keys]) for keys in self.sets.keys}

        def ties(keys: tuple[str, ...], at: Ints) -> list[Ints]:
            return [named[at, places[key]].astype(np.int64) for key in keys]

        found = failing_rows(self.sets, self.rows.take(rest), classes, self.facts, ties)
        return found.rows if found.met else np.ones(len(rest), dtype=np.bool_)

    def named(self, rest: NDArray[np.intp], levels: Levels) -> Codes:
        """Numbers of the released texts, equal for equal texts of a column and in their order, shape (n, c)."""
        named = self.codes[rest].copy()
        for at, numbers in enumerate(self._numbers):
            named[:, at] = numbers[levels[:, at], self.codes[rest, at]]
        return named

    @cached_property
    def _texts(self) -> list[list[str | None]]:
        """Every text a column may release, in order, a missing value last."""
        found = []
        for hierarchy in self.hierarchies:
            texts = {text for level in range(hierarchy.height + 1) for text in hierarchy.released(level)}
            found.append(sorted(texts, key=lambda text: (text is None, text or "")))
        return found

    @cached_property
    def _numbers(self) -> list[Ints]:
        """For each column, the number of the text of each level and leaf."""
        found = []
        for hierarchy, texts in zip(self.hierarchies, self._texts, strict=True):
            known = {text: number for number, text in enumerate(texts)}
            levels = [[known[text] for text in hierarchy.released(level)] for level in range(hierarchy.height + 1)]
            found.append(np.array(levels, dtype=np.int64))
        return found


@dataclass(frozen=True)
class ByClass:
    """What compiled code needs to decide which classes pass, or may.

    Parameters
    ----------
    coded : CodedTuples
        With the records of each combination; the persons, where these are counted.
    k, values : int
        Records and distinct sensitive values that a class must hold at least; 0 values: they are not looked at.
    exact : bool
        Whether that is all that the guarantees ask. Never where persons are counted: one with several combinations
        counts in each of these, so that a class may hold fewer, and sets of values are counted.
    """

    coded: CodedTuples = field(repr=False)
    k: int
    values: int
    exact: bool

    @classmethod
    def of(cls, tuples: Tuples) -> ByClass | None:
        """None where guarantees read other classes, or classes over only some columns."""
        from privpipe.kernels.lattice.sweep import LARGEST_MASK, CodedTuples

        sets, every = tuples.sets, {*tuples.columns, *tuples.fixed}
        if sets.compared or sets.labels or sets.size_models or len(sets.keys) != 1 or set(sets.keys[0]) != every:
            return None
        models = [model for model in sets.class_models[sets.keys[0]] if model.is_gate()]
        spread = {model.sensitive_columns() for model in models if model.least_values() > 1}
        codes, who = _one_sensitive(tuples, spread, LARGEST_MASK), tuples.rows.persons
        counts = tuples.rows.counts if who is None else who.counts
        return cls(
            coded=CodedTuples.of(tuples.codes, _lookups(tuples), counts, codes),
            k=max([1, *(model.least_size() for model in models)]),
            values=0 if codes is None else max(_values_needed(model, persons=who is not None) for model in models),
            exact=who is None
            and all(model.decided_by_minima for model in models)
            and (not spread or codes is not None),
        )


def _values_needed(model: ClassModel, *, persons: bool) -> int:
    """Values that a class must hold at least; of persons their sets count, 2^m - 1 of m values."""
    return model.least_values().bit_length() if persons else model.least_values()


def _one_sensitive(tuples: Tuples, spread: set[tuple[str, ...]], most: int) -> Ints | None:
    """Codes of the only sensitive column whose values are counted, where they are few enough for a mask."""
    if len(spread) != 1 or len(columns := next(iter(spread))) != 1:
        return None
    own = tuples.rows.sensitive[columns[0]]
    return own if own.min(initial=0) >= 0 and own.max(initial=0) < most else None


def _lookups(tuples: Tuples) -> list[list[Ints]]:
    """Label of each leaf at each level, one column each; a column that is not recoded has only one level."""
    lookups = [
        [hierarchy.codes(level).astype(np.int64) for level in range(hierarchy.height + 1)]
        for hierarchy in tuples.hierarchies
    ]
    for place in range(len(tuples.columns), tuples.codes.shape[1]):
        lookups.append([np.arange(int(tuples.codes[:, place].max(initial=-1)) + 1)])
    return lookups


def _classes(named: Codes, places: Sequence[int]) -> Classes:
    from privpipe.kernels.lattice.node_classes import class_numbers

    many = (named.max(axis=0, initial=-1) + 1).tolist()
    return Classes(*class_numbers(named, [(at, np.arange(many[at]), many[at]) for at in places]))


NEAREST = 32
"""Partners that are tried, in ascending order of loss, where sizes and values alone do not decide."""


class Planned(Protocol):
    """What a way of recoding reports about itself."""

    levels: Levels
    checked: int

    def detail(self) -> dict[str, Any]:
        """What a plan states about it."""


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
        """What a plan states about it: enough to merge the same rest again."""
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
        """Unions that lose less than suppressing; with `most` any, until at most that many records are left."""
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
        # No class after the first one without a violation is needed.
        judged = order[: np.argmax(sound)] if sound.any() else order
        sound[: len(judged)] = self.rule.exact or self._hold([[own, other] for other in judged.tolist()])
        if sound.any():
            return int(order[np.argmax(sound)])
        return int(order[0]) if forced and len(order) else None

    def _saved(self, own: int, others: NDArray[np.intp]) -> Ints:
        """The additional loss up to which each union is no worse than suppressing its violating parts."""
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

    def _hold(self, groups: Sequence[Sequence[int]]) -> Bools:
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
    """Labels and losses of the columns, weighted by their earlier losses; the loss of a suppressed record."""
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
