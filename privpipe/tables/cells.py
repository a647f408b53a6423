"""Cells of an aggregated table: dimensions with a total, relations between cells, cells that tables share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privpipe.errors import DataError

__all__ = ["Cells", "Dimension", "LinkedCells", "linked"]

Restriction = frozenset[tuple[str, str]]


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
        for label, above in parents.items():
            children.setdefault(above, []).append(label)
        labels, parent, waiting = [roots[0]], [-1], [0]
        while waiting:
            above = waiting.pop(0)
            for label in children.get(labels[above], ()):
                waiting.append(len(labels))
                labels.append(label)
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
    def leaves(self) -> NDArray[np.int64]:
        return np.array([code for code, below in enumerate(self.children) if not below], dtype=np.int64)

    @cached_property
    def depth(self) -> NDArray[np.int64]:
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
        Restriction of the population, which is part of what each cell counts.

    Raises
    ------
    DataError
        If a cell occurs twice.
    """

    dimensions: tuple[Dimension, ...]
    codes: NDArray[np.int64]
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
    def keys(self) -> NDArray[np.int64]:
        """One number for each cell: its place among all combinations of labels."""
        key = np.zeros(len(self.codes), dtype=np.int64)
        for place, size in enumerate(self.shape):
            key = key * size + self.codes[:, place]
        return key

    def restriction(self, cell: int) -> Restriction:
        """What the records of a cell have in common: column and label, totals left out."""
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
    def relations(self) -> sparse.csr_array:
        """Parent minus children = 0, one row for each relation, shape (relations, cells), entries 1 and -1.

        A cell that the table does not hold is 0. A relation is along one dimension, the other labels fixed; there
        is none along an overlapping dimension, and none whose cells are all absent.
        """
        rows: list[NDArray[np.int64]] = []
        columns: list[NDArray[np.int64]] = []
        values: list[NDArray[np.int64]] = []
        relations = 0
        step = 1
        for place in reversed(range(len(self.dimensions))):
            dimension, size = self.dimensions[place], self.shape[place]
            if not dimension.overlapping:
                base = self.keys - self.codes[:, place] * step
                above = np.asarray(dimension.parent, dtype=np.int64)
                inner = np.array([bool(below) for below in dimension.children])
                code = self.codes[:, place]
                # Each cell is a child in the relation of its parent and the parent of its own.
                child, own = code > 0, inner[code]
                key = np.concatenate([(base + above[code] * step)[child], self.keys[own]])
                cell = np.concatenate([np.flatnonzero(child), np.flatnonzero(own)])
                value = np.concatenate([np.full(child.sum(), -1), np.full(own.sum(), 1)]).astype(np.int64)
                found, row = np.unique(key, return_inverse=True)
                rows.append(row + relations)
                columns.append(cell)
                values.append(value)
                relations += len(found)
            step *= size
        if not relations:
            return sparse.csr_array((0, len(self)), dtype=np.int64)
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return sparse.csr_array(entries, shape=(relations, len(self)), dtype=np.int64)

    @classmethod
    def complete(cls, dimensions: Sequence[Dimension]) -> Cells:
        """Every combination of labels, in the order of the labels."""
        codes = np.array(list(product(*(range(len(d.labels)) for d in dimensions))), dtype=np.int64)
        return cls(tuple(dimensions), codes.reshape(-1, len(dimensions)))


@dataclass(frozen=True)
class LinkedCells:
    """Cells of several tables, where cells with the same restriction are one variable.

    Parameters
    ----------
    tables : tuple of Cells
    variables : tuple of ndarray of int64
        For each table, the variable of each cell.
    relations : csr_array of int64, shape (relations, variables)
        The relations of all tables, each once.
    """

    tables: tuple[Cells, ...]
    variables: tuple[NDArray[np.int64], ...]
    relations: sparse.csr_array

    @property
    def size(self) -> int:
        return int(self.relations.shape[1])


def linked(tables: Sequence[Cells]) -> LinkedCells:
    """The cells of several tables with their shared variables and relations."""
    if len(tables) == 1:
        return LinkedCells(tuple(tables), (np.arange(len(tables[0])),), tables[0].relations)
    known: dict[Restriction, int] = {}
    variables = tuple(
        np.array([known.setdefault(table.restriction(cell), len(known)) for cell in range(len(table))], dtype=np.int64)
        for table in tables
    )
    parts = []
    for table, variable in zip(tables, variables, strict=True):
        entries = table.relations.tocoo()
        shape = (table.relations.shape[0], len(known))
        parts.append(
            sparse.csr_array((entries.data, (entries.row, variable[entries.col])), shape=shape, dtype=np.int64)
        )
    return LinkedCells(tuple(tables), variables, sparse.csr_array(sparse.vstack(parts)))
