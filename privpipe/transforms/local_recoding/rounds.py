"""Local recoding in rounds: a combination's round follows from the counts, so that no key stands in a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts
from privpipe.transforms.suppression.class_failures import Classes, Combinations, JudgedSets, failing_rows

if TYPE_CHECKING:
    from privpipe.blocks import ClassModel
    from privpipe.hierarchies import Hierarchy
    from privpipe.kernels.lattice.sweep import CodedTuples

__all__ = ["GONE", "ByClass", "Tuples"]

Ints = NDArray[np.int64]
Levels = NDArray[np.int16]
GONE = -1
"""The level of what no round recodes: it is suppressed."""


@dataclass(frozen=True)
class Tuples:
    """Distinct combinations, coded, and the guarantees they are to meet.

    Parameters
    ----------
    columns : tuple of str
        Columns to generalize, m of them.
    fixed : tuple of str
        Judged quasi-identifiers that stay as they are.
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
    codes: NDArray[np.int32] = field(repr=False)
    rows: Combinations = field(repr=False)
    sets: JudgedSets
    facts: Facts = field(repr=False)

    def __len__(self) -> int:
        return len(self.codes)

    def after(self, rounds: Sequence[Sequence[int]]) -> Levels:
        """Levels of each combination once these rounds have run, `GONE` where none keeps it, shape (t, m).

        A round generalizes what the rounds before it left to one vector of levels and keeps the classes that pass.
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

    def swept(self, vectors: Levels, least: int = 1) -> NDArray[np.int32]:
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

    def levels_of(self, places: NDArray[np.int32], vectors: Sequence[Sequence[int]] | Levels) -> Levels:
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
        """Whether what is kept meets everything: classes of different rounds may have become one."""
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

    def holding(self, members: Sequence[NDArray[np.intp]]) -> NDArray[np.bool_]:
        """Which classes of these combinations meet everything, shape (n,); only where classes decide for themselves."""
        rows, many = np.concatenate([np.zeros(0, np.intp), *members]), len(members)
        numbers = np.repeat(np.arange(many), [len(own) for own in members])
        classes = {keys: Classes(numbers, many) for keys in self.sets.keys}
        found = failing_rows(self.sets, self.rows.take(rows), classes, self.facts, lambda *_: [])
        held = np.full(many, found.met, dtype=np.bool_)
        held[numbers[found.rows]] = False
        return held

    def _failing(self, rest: NDArray[np.intp], levels: Levels) -> NDArray[np.bool_]:
        """Which of some combinations are in classes that must go, all of them where that does not help."""
        named = self.named(rest, levels)
        places = {name: at for at, name in enumerate((*self.columns, *self.fixed))}
        classes = {keys: _classes(named, [places[key] for key in keys]) for keys in self.sets.keys}

        def ties(keys: tuple[str, ...], at: Ints) -> list[Ints]:
            return [named[at, places[key]].astype(np.int64) for key in keys]

        found = failing_rows(self.sets, self.rows.take(rest), classes, self.facts, ties)
        return found.rows if found.met else np.ones(len(rest), dtype=np.bool_)

    def named(self, rest: NDArray[np.intp], levels: Levels) -> NDArray[np.int32]:
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
        """Of each column, the number of the text of each level and leaf."""
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
        Records and distinct sensitive values that a class must hold at the least; 0 values: they are not looked at.
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
        """None where guarantees look at other classes, or at classes over some columns alone."""
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
    """Values that a class must hold at the least; of persons their sets count, 2^m - 1 of m values."""
    return model.least_values().bit_length() if persons else model.least_values()


def _one_sensitive(tuples: Tuples, spread: set[tuple[str, ...]], most: int) -> Ints | None:
    """Codes of the only sensitive column whose values are counted, where they are few enough for a mask."""
    if len(spread) != 1 or len(columns := next(iter(spread))) != 1:
        return None
    own = tuples.rows.sensitive[columns[0]]
    return own if own.min(initial=0) >= 0 and own.max(initial=0) < most else None


def _lookups(tuples: Tuples) -> list[list[Ints]]:
    """Label of each leaf at each level, a column each; one that is not recoded has a level alone."""
    lookups = [
        [hierarchy.codes(level).astype(np.int64) for level in range(hierarchy.height + 1)]
        for hierarchy in tuples.hierarchies
    ]
    for place in range(len(tuples.columns), tuples.codes.shape[1]):
        lookups.append([np.arange(int(tuples.codes[:, place].max(initial=-1)) + 1)])
    return lookups


def _classes(named: NDArray[np.int32], places: Sequence[int]) -> Classes:
    from privpipe.kernels.lattice.tuple_classes import class_numbers

    many = (named.max(axis=0, initial=-1) + 1).tolist()
    return Classes(*class_numbers(named, [(at, np.arange(many[at]), many[at]) for at in places]))
