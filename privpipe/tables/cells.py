"""Cells of an aggregated table: dimensions with a total, relations between cells, cells that tables share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Literal, cast

import numpy as np
import scipy

from privpipe.blocks.arrays import Bools
from privpipe.errors import DataError
from privpipe.tables.audit_problem import Integers, Matrix, matrix_of

__all__ = ["MOST_CELLS", "Cells", "Dimension", "LinkedCells", "linked"]

Restriction = frozenset[tuple[str, str]]
MOST_CELLS = 5_000_000


@dataclass(frozen=True)
class Dimension:
    """A column of a table with a label for the total: flat, or a tree of labels.

    Parameters
    ----------
    name : str
        Column of the table.
    labels : tuple of str
        The total first; a parent before its children.
    parent : tuple of int
        Position of each label's parent in `labels`; -1 for the total.
    overlapping : bool
        Whether a record may be in several labels, so that children do not add up to their parent.

    Examples
    --------
    >>> region = Dimension.tree("region", {"North": "Total", "South": "Total", "Coast": "South", "Hills": "South"})
    >>> region.labels
    ('Total', 'North', 'South', 'Coast', 'Hills')
    >>> region.leaves.tolist()
    [1, 3, 4]
    """

    name: str
    labels: tuple[str, ...]
    parent: tuple[int, ...]
    overlapping: bool = False

    @classmethod
    def tree(cls, name: str, parents: Mapping[str, str], *, overlapping: bool = False) -> Dimension:
        """The dimension in which each label is mapped to its parent; the one label without a parent is the total.

        Raises
        ------
        DataError
            If there is not exactly one label without a parent, or labels form a circle.
        """
        roots = sorted(set(parents.values()) - set(parents))
        if len(roots) != 1:
            raise DataError(f"dimension {name!r} has {len(roots)} labels without a parent; exactly one is the total")
        children: dict[str, list[str]] = {}
        for label, higher in parents.items():
            children.setdefault(higher, []).append(label)
        labels, parent, waiting = [roots[0]], [-1], [0]
        while waiting:
            above = waiting.pop(0)
            for below in children.get(labels[above], ()):
                waiting.append(len(labels))
                labels.append(below)
                parent.append(above)
        if len(labels) != len(parents) + 1:
            raise DataError(f"dimension {name!r}: {len(parents) + 1 - len(labels)} labels are not below the total")
        return cls(name, tuple(labels), tuple(parent), overlapping)

    @property
    def total(self) -> str:
        return self.labels[0]

    @cached_property
    def codes(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the children of each label."""
        below: list[list[int]] = [[] for _ in self.labels]
        for code, above in enumerate(self.parent):
            if above >= 0:
                below[above].append(code)
        return tuple(map(tuple, below))

    @cached_property
    def leaves(self) -> Integers:
        return np.array([code for code, below in enumerate(self.children) if not below], dtype=np.int64)

    @cached_property
    def depth(self) -> Integers:
        """Steps from the total to each label."""
        steps = np.zeros(len(self.labels), dtype=np.int64)
        for code, above in enumerate(self.parent):
            if above >= 0:
                steps[code] = steps[above] + 1
        return steps


@dataclass(frozen=True)
class Cells:
    """The cells of one table: one label for each dimension.

    Parameters
    ----------
    dimensions : tuple of Dimension
    codes : ndarray of int64, shape (cells, dimensions)
        Position of each cell's label in its dimension.
    only : mapping of str to str
        Restriction of the population; it is part of the definition of each cell.

    Raises
    ------
    DataError
        If a cell occurs twice.
    """

    dimensions: tuple[Dimension, ...]
    codes: Integers
    only: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        twice = len(self) - len(np.unique(self.keys))
        if twice:
            where = ", ".join(f"{dimension.name}=?" for dimension in self.dimensions)
            raise DataError(f"cell ({where}) occurs more than once: {twice} rows too many; give one row for each cell")

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def labelled(
        cls, dimensions: Sequence[Dimension], rows: Sequence[Sequence[str]], only: Mapping[str, str] | None = None
    ) -> Cells:
        """The cells whose labels are `rows`.

        Raises
        ------
        DataError
            If a label is not one of its dimension.
        """
        codes = np.empty((len(rows), len(dimensions)), dtype=np.int64)
        for place, dimension in enumerate(dimensions):
            known = dimension.codes
            unknown = sum(row[place] not in known for row in rows)
            if unknown:
                raise DataError(f"dimension {dimension.name!r}: {unknown} rows have a label that it does not hold")
            codes[:, place] = [known[row[place]] for row in rows]
        return cls(tuple(dimensions), codes, dict(only or {}))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(dimension.labels) for dimension in self.dimensions)

    @cached_property
    def keys(self) -> Integers:
        """One number for each cell: its place among all combinations of labels."""
        key = np.zeros(len(self.codes), dtype=np.int64)
        for place, size in enumerate(self.shape):
            key = key * size + self.codes[:, place]
        return key

    def restriction(self, cell: int) -> Restriction:
        """What the records of a cell have in common: column and label, without totals."""
        inside = (
            (dimension.name, dimension.labels[code])
            for dimension, code in zip(self.dimensions, self.codes[cell], strict=True)
            if code
        )
        return frozenset((*inside, *self.only.items()))

    def name(self, cell: int) -> str:
        """``"dim=label, ..."`` sorted by dimension, totals left out; ``"total"`` for the cell of all."""
        parts = sorted(
            f"{dimension.name}={dimension.labels[code]}"
            for dimension, code in zip(self.dimensions, self.codes[cell], strict=True)
            if code
        )
        return ", ".join(parts) or "total"

    @cached_property
    def missing_totals(self) -> dict[str, int]:
        """By dimension, how many of its totals and inner labels have no row although a cell below them has one."""
        keys = np.unique(self.keys)
        absent = np.setdiff1d(self._with_ancestors(keys), keys, assume_unique=True)
        found = {}
        for dimension, size, step in zip(self.dimensions, self.shape, self._steps(), strict=True):
            inner = np.array([bool(below) for below in dimension.children])
            found[dimension.name] = int(inner[absent // step % size].sum())
        return {name: number for name, number in found.items() if number}

    @cached_property
    def relations(self) -> Matrix:
        """Sums over cells that are 0, one row for each, shape (relations, cells): a cell minus the cells it is made of.

        A relation is along one dimension, the other labels fixed; there is none along an overlapping dimension.
        A cell without a row is 0 if no cell below it has a row; otherwise it represents the cells below it.
        """
        keys, order = np.unique(self.keys, return_index=True)
        every = self._with_ancestors(keys)
        entries = [self._along(place, every) for place in range(len(self.dimensions))]
        counts = np.cumsum([0, *(len(parents) for parents, *_ in entries)])
        matrix = matrix_of(
            np.concatenate([value for *_, value in entries]),
            np.concatenate([row + start for (_, row, _, _), start in zip(entries, counts, strict=False)]),
            np.concatenate([cell for _, _, cell, _ in entries]),
            (int(counts[-1]), len(every)),
        )
        parents = np.concatenate([parents for parents, *_ in entries])
        present = np.searchsorted(every, keys)
        matrix = _without_absent(matrix, parents, present) if len(every) > len(keys) else matrix[:, present]
        backwards = np.empty(len(keys), dtype=np.int64)
        backwards[order] = np.arange(len(keys))
        return _rows_in_use(matrix[:, backwards])

    def relations_along(self, names: Sequence[str]) -> Bools:
        """Which of some dimensions each relation is along: one, or more where cells are absent."""
        entries = self.relations.tocoo()
        rows = self.relations.shape[0]
        whole = np.zeros(rows, dtype=np.int64)
        whole[entries.row[entries.data > 0]] = entries.col[entries.data > 0]
        found = np.zeros((rows, len(names)), dtype=np.bool_)
        for place, dimension in enumerate(self.dimensions):
            codes = self.codes[:, place]
            found[entries.row[codes[entries.col] != codes[whole[entries.row]]], names.index(dimension.name)] = True
        return found

    def _steps(self) -> list[int]:
        """For each dimension, how far one label is from the next among the keys."""
        steps = [1]
        for size in reversed(self.shape[1:]):
            steps.append(steps[-1] * size)
        return steps[::-1]

    def _with_ancestors(self, keys: Integers) -> Integers:
        """The keys and those of all cells above them, sorted."""
        for place, step in enumerate(self._steps()):
            size = self.shape[place]
            above = np.asarray(self.dimensions[place].parent, dtype=np.int64)
            newest = keys
            while len(newest):
                code = newest // step % size
                lower, code = newest[code > 0], code[code > 0]
                higher = np.unique(lower + (above[code] - code) * step)
                newest = higher[~np.isin(higher, keys, assume_unique=True)]
                keys = np.union1d(keys, newest)
        return keys

    @cached_property
    def overlaps(self) -> Matrix:
        """For each total along an overlapping dimension: 1 for it, -1 for its parts, of which it is at most the sum.

        Over totals that have a row; parts without one are 0.
        """
        keys, order = np.unique(self.keys, return_index=True)
        every = self._with_ancestors(keys)
        back = np.full(len(every), -1, dtype=np.int64)
        back[np.searchsorted(every, keys)] = order
        rows, columns, values, start = [], [], [], 0
        for place, dimension in enumerate(self.dimensions):
            if dimension.overlapping:
                parents, row, cell, value = self._along(place, every, overlapping=True)
                kept = (back[cell] >= 0) & (back[parents[row]] >= 0)
                rows.append(row[kept] + start)
                columns.append(back[cell[kept]])
                values.append(value[kept])
                start += len(parents)
        none = [np.empty(0, dtype=np.int64)]
        data, row, column = (np.concatenate(none + each) for each in (values, rows, columns))
        return _rows_in_use(matrix_of(data, row, column, (start, len(self))))

    def _along(
        self, place: int, keys: Integers, *, overlapping: bool = False
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Relations along one dimension: the parent of each, then row, cell and value of each entry."""
        dimension, size, step = self.dimensions[place], self.shape[place], self._steps()[place]
        if dimension.overlapping and not overlapping:
            none = np.empty(0, dtype=np.int64)
            return none, none, none, none
        above = np.asarray(dimension.parent, dtype=np.int64)
        inner = np.array([bool(below) for below in dimension.children])
        code = keys // step % size
        own, child = np.flatnonzero(inner[code]), np.flatnonzero(code > 0)
        parent_of_child = np.searchsorted(keys, keys[child] + (above[code[child]] - code[child]) * step)
        row_of = np.zeros(len(keys), dtype=np.int64)
        row_of[own] = np.arange(len(own))
        return (
            own,
            np.concatenate([np.arange(len(own)), row_of[parent_of_child]]),
            np.concatenate([own, child]),
            np.concatenate([np.ones(len(own), dtype=np.int64), np.full(len(child), -1, dtype=np.int64)]),
        )

    def completed(self) -> Cells:
        """These cells, then every other combination of labels.

        Raises
        ------
        DataError
            If there are more than 5,000,000 combinations.
        """
        combinations = prod(self.shape)
        if combinations > MOST_CELLS:
            raise DataError(
                f"the table has {combinations} combinations of labels, too many to take absent cells as unknown; "
                "give every cell a row, or set absent: zero"
            )
        missing = np.setdiff1d(np.arange(combinations), self.keys)
        codes = np.stack(np.unravel_index(missing, self.shape), axis=1).astype(np.int64)
        return Cells(self.dimensions, np.concatenate([self.codes, codes]), self.only)

    @classmethod
    def complete(cls, dimensions: Sequence[Dimension]) -> Cells:
        """Every combination of labels, in the order of the labels."""
        codes = np.array(list(product(*(range(len(d.labels)) for d in dimensions))), dtype=np.int64)
        return cls(tuple(dimensions), codes.reshape(-1, len(dimensions)))


def _rows_in_use(matrix: Matrix) -> Matrix:
    matrix.eliminate_zeros()
    return matrix[np.diff(matrix.indptr) > 0]


def _without_absent(matrix: Matrix, parents: Integers, present: Integers) -> Matrix:
    """Relations in which each cell without a row is replaced by the cells below it, over the cells with a row."""
    size = matrix.shape[1]
    absent = np.ones(size, dtype=np.bool_)
    absent[present] = False
    # Any one relation of an absent cell defines it.
    defining = np.full(size, -1, dtype=np.int64)
    defining[parents[::-1]] = np.arange(len(parents))[::-1]
    defined = np.flatnonzero(absent & (defining >= 0))
    rows = matrix[defining[defined]].tocoo()
    made_of = matrix_of(-rows.data, defined[rows.row], rows.col.astype(np.int64), (size, size))
    # A cell is made of cells strictly below it: what is absent among those is replaced in the next step.
    every = np.arange(size)
    # Where the total itself is absent there is no relation: two ways to add it up agree by those of cells with a row.
    matrix = matrix[np.flatnonzero(~absent[parents])]
    replaced = made_of + matrix_of(np.ones(size, dtype=np.int64), every, every, (size, size))
    while np.bincount(matrix.indices, minlength=size)[defined].any():
        matrix = matrix @ replaced
        matrix.eliminate_zeros()
    # Absent cells that remain have no relation of their own (an overlapping dimension): they may hold anything.
    undefined = absent[matrix.indices].astype(np.int64)
    rows_of = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    closed = np.bincount(rows_of, undefined, minlength=matrix.shape[0]) == 0
    return cast("Matrix", matrix[closed][:, present])


@dataclass(frozen=True)
class LinkedCells:
    """Cells of several tables, where cells with the same restriction are one variable.

    Parameters
    ----------
    tables : tuple of Cells
    variables : tuple of ndarray of int64
        For each table, the variable of each cell.
    relations : csr_array of int64, shape (relations, variables)
        The relations of all tables. Variables beyond those of cells are cells without a row that may hold anything.
    """

    tables: tuple[Cells, ...]
    variables: tuple[Integers, ...]
    relations: Matrix

    @property
    def size(self) -> int:
        return int(self.relations.shape[1])


def linked(tables: Sequence[Cells], *, absent: Literal["zero", "unknown"] = "zero") -> LinkedCells:
    """The cells of several tables with their shared variables and relations.

    Parameters
    ----------
    tables : sequence of Cells
    absent : {"zero", "unknown"}
        What a reader knows of a cell without a row; unknown ones are variables after those of the cells.

    Raises
    ------
    DataError
        If unknown cells are more than the audit can hold.
    """
    whole = [table if absent == "zero" else table.completed() for table in tables]
    if len(tables) == 1:
        return LinkedCells(tuple(tables), (np.arange(len(tables[0])),), whole[0].relations)
    known: dict[Restriction, int] = {}
    for table in tables:
        for cell in range(len(table)):
            known.setdefault(table.restriction(cell), len(known))
    variables = [
        np.array([known.setdefault(table.restriction(cell), len(known)) for cell in range(len(table))], dtype=np.int64)
        for table in whole
    ]
    parts = []
    for table, variable in zip(whole, variables, strict=True):
        entries = table.relations.tocoo()
        shape = (table.relations.shape[0], len(known))
        parts.append(matrix_of(entries.data, entries.row.astype(np.int64), variable[entries.col], shape))
    shown = tuple(variable[: len(table)] for table, variable in zip(tables, variables, strict=True))
    return LinkedCells(tuple(tables), shown, scipy.sparse.csr_array(scipy.sparse.vstack(parts)))
