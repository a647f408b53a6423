"""Members of cells: who is in which cell of a table, and the figures of cells made again from their contributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.errors import DataError
from privpipe.tables.cells import Cells, Dimension

__all__ = ["Contributions", "Members", "added_up", "expanded", "leaves_of_labels"]


@dataclass(frozen=True, repr=False)
class Members:
    """Persons, and the leaf cell of a table that each record of theirs is in, with what they contribute.

    Parameters
    ----------
    persons, leaves, values : ndarray of int64, shape (n,)
        One row for each person and leaf cell; of a count the values are 1.
    waived : ndarray of int64, shape (n,), optional
        1 where the protection of the contribution is waived; None: of none.
    """

    persons: Ints
    leaves: Ints
    values: Ints
    waived: Ints | None = None

    def __len__(self) -> int:
        return len(self.persons)


@dataclass(frozen=True, repr=False)
class Contributions:
    """Figures of some sets of persons, each person's contributions to a set added first.

    Parameters
    ----------
    contributors, totals, magnitudes, negative, nonzero, single : ndarray of int64, shape (sets,)
        As in `CellFigures`.
    largest, holders : ndarray of int64, shape (sets, m)
    unwaived : ndarray of int64, shape (sets,), optional
    """

    contributors: Ints
    totals: Ints
    magnitudes: Ints
    negative: Ints
    nonzero: Ints
    single: Ints
    largest: Ints
    holders: Ints
    unwaived: Ints | None = None


def ancestors(dimension: Dimension) -> Ints:
    """For each label itself and the labels above it, -1 where there is none left; shape (labels, levels)."""
    depth = int(dimension.depth.max(initial=0)) + 1
    found = np.full((len(dimension.labels), depth), -1, dtype=np.int64)
    parent = np.asarray(dimension.parent, dtype=np.int64)
    code = np.arange(len(dimension.labels))
    for step in range(depth):
        found[:, step] = code
        code = np.where(code >= 0, parent[code], -1)
    return found


def expanded(cells: Cells, leaves: Ints) -> tuple[Ints, Ints]:
    """Each of some cells with every cell that it lies in, itself too: place in `leaves`, and cell.

    Raises
    ------
    DataError
        The table does not hold all combinations of its labels in their order.
    """
    if not np.array_equal(cells.keys, np.arange(len(cells))):
        raise DataError("a table of a ledger must hold every combination of labels")
    rows, keys = np.arange(len(leaves)), np.zeros(len(leaves), dtype=np.int64)
    for place, dimension in enumerate(cells.dimensions):
        above = ancestors(dimension)[cells.codes[leaves[rows], place]]
        one, depth = np.nonzero(above >= 0)
        rows, keys = rows[one], keys[one] * len(dimension.labels) + above[one, depth]
    return rows, keys


def leaves_of_labels(own: Cells, leaves: Ints, other: Cells) -> tuple[Ints, NDArray[np.bool_]]:
    """The leaf cell of another table that each of some leaf cells lies in by its labels, and whether these say it.

    Returns
    -------
    cells : ndarray of int64
        -1 where the other table's `only` leaves it out, and where the labels do not say.
    known : ndarray of bool
    """
    names = [dimension.name for dimension in own.dimensions]
    found, known = np.zeros(len(leaves), dtype=np.int64), np.ones(len(leaves), dtype=np.bool_)
    inside = np.ones(len(leaves), dtype=np.bool_)
    for dimension in other.dimensions:
        lowest = {dimension.labels[code]: code for code in dimension.leaves.tolist()}
        code = np.full(len(leaves), lowest.get(own.only.get(dimension.name, ""), -1), dtype=np.int64)
        if dimension.name in names:
            place = names.index(dimension.name)
            labels = own.dimensions[place].labels
            above = ancestors(own.dimensions[place])
            book = [[lowest.get(labels[each], -1) for each in path if each >= 0] for path in above.tolist()]
            code = np.array([max(each) for each in book], dtype=np.int64)[own.codes[leaves, place]]
        known &= code >= 0
        found = found * len(dimension.labels) + np.maximum(code, 0)
    for column, label in other.only.items():
        if column in names:
            place = names.index(column)
            labels = own.dimensions[place].labels
            above = ancestors(own.dimensions[place])
            bears = np.array([any(each >= 0 and labels[each] == label for each in path) for path in above.tolist()])
            inside &= bears[own.codes[leaves, place]]
        elif column in own.only:
            inside &= own.only[column] == label
        else:
            known &= False
    return np.where(known & inside, found, -1), known


def added_up(
    sets: Ints, persons: Ints, values: Ints, size: int, most: int, waived: Ints | None = None
) -> Contributions:
    """Figures of sets from rows of set, person and value.

    Parameters
    ----------
    size : int
        Number of sets.
    most : int
        Largest contributions that are kept of each.
    waived : ndarray of int64, optional
        1 where a row's protection is waived; a person's is if that of all its rows in a set is.
    """
    order = np.lexsort((persons, sets))
    sets, persons, values = sets[order], persons[order], values[order]
    waived = None if waived is None else waived[order]
    first = np.flatnonzero((np.diff(sets, prepend=-1) != 0) | (np.diff(persons, prepend=-1) != 0))
    if len(first):
        sets, persons, values = sets[first], persons[first], np.add.reduceat(values, first)
        waived = None if waived is None else np.minimum.reduceat(waived, first)
    codes = persons + 1
    contributors = np.bincount(sets, minlength=size).astype(np.int64)
    arrays = {name: np.zeros(size, dtype=np.int64) for name in ("totals", "magnitudes", "single")}
    np.add.at(arrays["totals"], sets, values)
    np.add.at(arrays["magnitudes"], sets, np.abs(values))
    np.maximum.at(arrays["single"], sets, codes)
    arrays["single"][contributors != 1] = 0
    largest, holders = (np.zeros((size, most), dtype=np.int64) for _ in range(2))
    order = np.lexsort((codes, -np.abs(values), sets))
    ranked = sets[order]
    rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    chosen = (rank < most) & (values[order] != 0)
    largest[ranked[chosen], rank[chosen]] = np.abs(values[order])[chosen]
    holders[ranked[chosen], rank[chosen]] = codes[order][chosen]
    unwaived = None
    if waived is not None:
        unwaived = np.full(size, -1, dtype=np.int64)
        np.maximum.at(unwaived, sets[waived == 0], np.abs(values[waived == 0]))
    return Contributions(
        contributors=contributors,
        unwaived=unwaived,
        negative=np.bincount(sets[values < 0], minlength=size).astype(np.int64),
        nonzero=np.bincount(sets[values != 0], minlength=size).astype(np.int64),
        largest=largest,
        holders=holders,
        **arrays,
    )
