"""Whose the values of a column are: up to so many persons of each value, and the values that they hold together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pairs", "ValuePersons", "first_of_each"]

Ints = NDArray[np.int64]
Pairs = tuple[Ints, Ints]
"""Places of values, ascending, with a person of each."""


def first_of_each(places: Ints, persons: Ints, enough: int) -> Pairs:
    """Different persons of each place, the smallest codes first and no more than are enough.

    Examples
    --------
    >>> [each.tolist() for each in first_of_each(np.array([1, 0, 1, 1, 1]), np.array([9, 4, 9, 7, 8]), 2)]
    [[0, 1, 1], [4, 7, 8]]
    """
    if not len(places):
        return places, persons
    order = np.lexsort((persons, places))
    places, persons = places[order], persons[order]
    new = np.ones(len(places), np.bool_)
    new[1:] = (places[1:] != places[:-1]) | (persons[1:] != persons[:-1])
    places, persons = places[new], persons[new]
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
    within = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
    return places[within < enough], persons[within < enough]


@dataclass(frozen=True)
class ValuePersons:
    """Persons of values 0 .. m - 1.

    Parameters
    ----------
    offsets : tuple of ndarray of int64, shape (m + 1,)
        Of each unit (persons, households) where the codes of each value begin.
    codes : tuple of ndarray of int64
        The codes of each unit, value by value: all that a value has, or as many as are enough.

    Examples
    --------
    >>> held = ValuePersons.of([(np.array([0, 0, 2]), np.array([5, 6, 6]))], 3)
    >>> held.counts().tolist(), held.number(np.array([0, 2])), held.joined(np.array([0, 1, 2]), 2).tolist()
    ([2, 0, 1], 2, [0])
    """

    offsets: tuple[Ints, ...] = field(repr=False)
    codes: tuple[Ints, ...] = field(repr=False)

    @classmethod
    def of(cls, units: Sequence[Pairs], size: int) -> Self:
        """From the pairs of `first_of_each`, unit by unit, of so many values."""
        return cls(
            tuple(np.searchsorted(places, np.arange(size + 1)) for places, _ in units),
            tuple(persons for _, persons in units),
        )

    def counts(self) -> Ints:
        """Persons of each value, no more than are enough: of several units the fewest."""
        return np.asarray(np.min([np.diff(offsets) for offsets in self.offsets], axis=0), np.int64)

    def number(self, places: Ints) -> int:
        """Persons that hold one or more of these values."""
        return min(
            len(np.unique(np.concatenate([codes[:0], *(codes[offsets[at] : offsets[at + 1]] for at in places)])))
            for offsets, codes in zip(self.offsets, self.codes, strict=True)
        )

    def taken(self, places: Ints) -> ValuePersons:
        """Those of some of the values, numbered from 0."""
        units = []
        for offsets, codes in zip(self.offsets, self.codes, strict=True):
            sizes = np.diff(offsets)[places]
            ends = np.cumsum(sizes)
            at = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes) + np.repeat(offsets[places], sizes)
            units.append((np.concatenate([[0], ends]).astype(np.int64), codes[at]))
        return ValuePersons(tuple(each for each, _ in units), tuple(each for _, each in units))

    def joined(self, firsts: Ints, least: int) -> Ints:
        """First values of runs of consecutive values, of those given: each of at least so many persons, if all are.

        A run of fewer goes on into the next; the last one belongs to the run before it.
        """
        kept: list[int] = []
        first: int | None = None
        for start, end in zip(firsts.tolist(), [*firsts[1:].tolist(), len(self.offsets[0]) - 1], strict=True):
            first = start if first is None else first
            if self._between(first, end) >= least:
                kept.append(first)
                first = None
        return np.array(kept or [0], np.int64)

    def _between(self, first: int, end: int) -> int:
        return min(
            len(np.unique(codes[offsets[first] : offsets[end]]))
            for offsets, codes in zip(self.offsets, self.codes, strict=True)
        )
