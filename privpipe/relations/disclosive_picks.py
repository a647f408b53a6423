"""Which rows of a person to remove so that none of some picks of them is left: a greedy choice over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints

__all__ = ["CopiesGone", "Picks"]

Words = NDArray[np.int64]
"""Hashes of rows, shape (n, 2)."""


@dataclass(frozen=True)
class CopiesGone:
    """Rows of persons of which copies go.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, 2)
        Hash of the person and of what may be known of the row.
    first : ndarray of int64, shape (n,)
        Of equal rows of the person, this and every later one go; 1: all.
    """

    rows: Words
    first: Ints

    @classmethod
    def none(cls) -> Self:
        """No row."""
        return cls(np.empty((0, 2), np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, parts: Sequence[CopiesGone]) -> Self:
        """All of them, each row once, in the order of their hashes."""
        rows = np.concatenate([np.empty((0, 2), np.int64), *(each.rows for each in parts)])
        first = np.concatenate([np.empty(0, np.int64), *(each.first for each in parts)])
        order = np.lexsort((first, rows[:, 1], rows[:, 0]))
        rows, first = rows[order], first[order]
        fresh = np.ones(len(rows), np.bool_)
        fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        return cls(rows[fresh], first[fresh])


@dataclass(frozen=True)
class Picks:
    """Picks of up to m rows of a person each, that have to go.

    Parameters
    ----------
    persons : ndarray of int64, shape (n, 2)
        Hash of the person.
    sizes : ndarray of int64, shape (n,)
        Rows of each pick, at least 1.
    rows : ndarray of int64, shape (n, m, 2)
        Hash of the person and of each row of a pick; those beyond its size mean nothing.
    holders : ndarray of int64, shape (n, m)
        How many persons with the same root row have a row like it.
    """

    persons: Words
    sizes: Ints
    rows: NDArray[np.int64]
    holders: NDArray[np.int64]

    @classmethod
    def together(cls, parts: Sequence[Picks]) -> Self:
        """The picks of several guarantees."""
        most = max(each.rows.shape[1] for each in parts)
        wide = [np.pad(each.rows, ((0, 0), (0, most - each.rows.shape[1]), (0, 0))) for each in parts]
        holders = [np.pad(each.holders, ((0, 0), (0, most - each.holders.shape[1]))) for each in parts]
        return cls(
            np.concatenate([each.persons for each in parts]),
            np.concatenate([each.sizes for each in parts]),
            np.concatenate(wide),
            np.concatenate(holders),
        )

    def chosen(self) -> CopiesGone:
        """Rows without which no pick of those that are smallest for their person is left.

        Of a person, the row that most of these picks hold goes first; among such, one that most persons have, whom the
        others miss least. Where a pick holds a row twice, the person keeps one.
        """
        if not len(self.sizes):
            return CopiesGone.none()
        persons = np.unique(self.persons, axis=0, return_inverse=True)[1].reshape(-1)
        least = np.full(persons.max() + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, persons, self.sizes)
        small = np.flatnonzero(self.sizes == least[persons])
        part = Picks(self.persons[small], self.sizes[small], self.rows[small], self.holders[small])
        return part._hit(persons[small])

    def _hit(self, persons: Ints) -> CopiesGone:
        picks, rows, copies, holders = self._elements()
        elements, code = np.unique(np.column_stack([rows, copies]), axis=0, return_inverse=True)
        code = code.reshape(-1)
        owner, common = np.empty(len(elements), np.int64), np.empty(len(elements), np.int64)
        owner[code], common[code] = persons[picks], holders
        left = np.ones(len(self.sizes), np.bool_)
        gone = np.zeros(len(elements), np.bool_)
        while left.any():
            hits = np.bincount(code[left[picks]], minlength=len(elements))
            order = np.lexsort((np.arange(len(elements)), -common, -hits, owner))
            first = np.ones(len(order), np.bool_)
            first[1:] = owner[order][1:] != owner[order][:-1]
            best = order[first]
            best = best[hits[best] > 0]
            gone[best] = True
            left[picks[np.isin(code, best)]] = False
        return CopiesGone.of([CopiesGone(elements[gone, :2], elements[gone, 2])])

    def _elements(self) -> tuple[Ints, Words, Ints, Ints]:
        """Each distinct row of each pick: the pick, the row's hash, how often the pick holds it, and who have it."""
        most = self.rows.shape[1]
        inside = np.arange(most) < self.sizes[:, None]
        same = (self.rows[:, :, None] == self.rows[:, None, :]).all(axis=3) & inside[:, :, None] & inside[:, None, :]
        copies = same.sum(axis=2)
        before = np.tril(np.ones((most, most), np.bool_), -1)
        fresh = inside & ~(same & before).any(axis=2)
        picks, places = np.nonzero(fresh)
        return picks, self.rows[picks, places], copies[picks, places], self.holders[picks, places]
