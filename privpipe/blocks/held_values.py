"""Who holds which values of a sensitive column in each class, where one person may have several records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.cells import Cells

__all__ = ["HeldValues"]

Ints = NDArray[np.int64]


class HeldValues:
    """The values of one sensitive column that each person has in each class, a row for each; rows may repeat.

    Parameters
    ----------
    classes : ndarray of int64, shape (n,)
        Class of each row.
    persons : ndarray of int64, shape (n,)
        Number of the person (or household), the same in all classes.
    codes : ndarray of int64, shape (n,)
        The value, equal within a class exactly where values are.
    counts : ndarray of int64, shape (n,), optional
        Persons that a row stands for, the same in all rows of a number; default: 1.
    """

    __slots__ = ("_sets", "classes", "codes", "counts", "persons")

    def __init__(self, classes: Ints, persons: Ints, codes: Ints, counts: Ints | None = None) -> None:
        self.classes = classes
        self.persons = persons
        self.codes = codes
        self.counts = np.ones(len(codes), dtype=np.int64) if counts is None else counts
        self._sets: Cells | None = None

    def __getstate__(self) -> tuple[Ints, ...]:
        return self.classes, self.persons, self.codes, self.counts

    def __setstate__(self, state: tuple[Ints, ...]) -> None:
        self.classes, self.persons, self.codes, self.counts = state
        self._sets = None

    def rows(self, kept: NDArray[np.bool_]) -> HeldValues:
        """Some of the rows, shape (n,)."""
        return HeldValues(self.classes[kept], self.persons[kept], self.codes[kept], self.counts[kept])

    def take(self, chosen: NDArray[np.bool_]) -> HeldValues:
        """What the chosen classes hold (a mask over classes), which are numbered again."""
        found = self.rows(chosen[self.classes])
        found.classes = (np.cumsum(chosen) - 1)[found.classes].astype(np.int64)
        return found

    def sets(self, classes: int) -> Cells:
        """The cells of each class over sets of values: a person's value is the set of those she has in the class.

        A class in which all persons share some value counts as one of a single value: whoever finds a person there
        knows it. Where each person has one value, the cells are those of values.

        Parameters
        ----------
        classes : int
            How many there are.

        Examples
        --------
        Three persons with the sets {1}, {1, 2} and {2}; two persons with {1, 2} and {1, 3}, who both have 1.

        >>> held = HeldValues(*np.array([[0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 2, 3, 3, 4, 4], [1, 1, 2, 2, 1, 2, 1, 3]]))
        >>> cells = held.sets(2)
        >>> cells.offsets.tolist(), cells.counts.tolist()
        ([0, 3, 4], [1, 1, 1, 2])
        """
        if self._sets is None:
            self._sets = self._counted(classes)
        return self._sets

    def _counted(self, classes: int) -> Cells:
        order = np.lexsort((self.codes, self.persons, self.classes))
        owner, person, code = self.classes[order], self.persons[order], self.codes[order]
        fresh = _changes(owner, person, code)
        owner, person, code, many = owner[fresh], person[fresh], code[fresh], self.counts[order][fresh]
        starts = np.flatnonzero(_changes(owner, person))
        members, weights = owner[starts], many[starts]
        names = _names(members, starts, code, classes)
        names = np.where(_shared(owner, code, many, members, weights, classes)[members], members, names)
        order = np.lexsort((names, members))
        first = np.flatnonzero(_changes(members[order], names[order]))
        counts = np.add.reduceat(weights[order], first) if len(first) else weights
        own = np.bincount(members[order][first], minlength=classes)
        return Cells(np.concatenate([[0], np.cumsum(own)]).astype(np.int64), names[order][first], counts)


def _names(members: Ints, starts: Ints, codes: Ints, classes: int) -> Ints:
    """A number from `classes` on for each set of sorted codes, equal exactly for equal sets of one class."""
    lengths = np.diff(np.append(starts, len(codes)))
    dense = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    width = int(dense.max(initial=0)) + 1
    names, following = members.astype(np.int64), classes
    longest_first = np.argsort(-lengths, kind="stable")
    for at in range(int(lengths.max(initial=0))):
        going = longest_first[: int(np.searchsorted(-lengths[longest_first], -at))]
        steps, number = np.unique(names[going] * width + dense[starts[going] + at], return_inverse=True)
        names[going] = following + number.reshape(-1)
        following += len(steps)
    return names


def _shared(owner: Ints, code: Ints, many: Ints, members: Ints, weights: Ints, classes: int) -> NDArray[np.bool_]:
    """In which classes all persons have some value, shape (classes,)."""
    order = np.lexsort((code, owner))
    first = np.flatnonzero(_changes(owner[order], code[order]))
    sizes, most = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    np.add.at(sizes, members, weights)
    if len(first):
        np.maximum.at(most, owner[order][first], np.add.reduceat(many[order], first))
    shared: NDArray[np.bool_] = most == sizes
    return shared


def _changes(*columns: Ints) -> NDArray[np.bool_]:
    """Which rows differ from the row before."""
    changes = np.ones(len(columns[0]), dtype=np.bool_)
    changes[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changes
