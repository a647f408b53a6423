"""Populations that published cells imply: the sum of the cells hidden below a published cell is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.audit_problem import Integers, Matrix, matrix_of, product
from privpipe.tables.cells import Cells, LinkedCells

__all__ = ["ImpliedPopulations", "implied_populations"]


@dataclass(frozen=True)
class ImpliedPopulations:
    """Sets of hidden variables whose sum follows from published ones.

    Parameters
    ----------
    of : ndarray of int64
        The published variable that each set is hidden below.
    sets : csr_array of int64, shape (sets, variables)
        1 where a variable is in a set.
    expanded : ndarray of bool
        Whether a set takes published cells below hidden children away, and so is not of one relation.
    known_by : mapping of int to int
        Variables of no published table that follow by themselves, and the set that shows them.
    """

    of: Integers
    sets: Matrix
    expanded: NDArray[np.bool_]
    known_by: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.of)

    def members(self, number: int) -> Integers:
        """Variables of one set, in ascending order."""
        start, end = self.sets.indptr[number : number + 2]
        return np.sort(self.sets.indices[start:end]).astype(np.int64)

    def sums(self, values: Integers) -> Integers:
        """The sum of each set: contributors, if none is in two cells of a set, records, totals."""
        return product(self.sets, values)

    def greatest(self, values: Integers) -> Integers:
        """The largest value in each set: the fewest contributors that it can have, if they are in several cells."""
        return np.asarray(
            np.maximum.reduceat(values[self.sets.indices], self.sets.indptr[:-1]) if len(self) else values[:0]
        )

    def largest(self, contributions: Integers, holders: Integers) -> tuple[Integers, Integers]:
        """The largest contributions of each set, those of one contributor added, and who made them.

        Parameters
        ----------
        contributions, holders : ndarray of int64, shape (variables, m)
            The m largest contributions of each variable, 0 where there are fewer, and codes of their contributors;
            code 0 is another one each time.

        Returns
        -------
        tuple of ndarray of int64, shape (sets, m)
        """
        most = contributions.shape[1]
        rows = np.repeat(np.arange(len(self)), np.diff(self.sets.indptr) * most)
        value = contributions[self.sets.indices].ravel()
        code = holders[self.sets.indices].ravel()
        nameless = code == 0
        # Contributors without a code are different ones: each gets a code that no one has.
        code = np.where(nameless, np.arange(len(code)) + code.max(initial=0) + 1, code)
        order = np.lexsort((code, rows))
        rows, value, code, nameless = rows[order], value[order], code[order], nameless[order]
        first = np.flatnonzero(np.diff(rows, prepend=-1).astype(np.bool_) | (np.diff(code, prepend=-1) != 0))
        if not len(first):
            return np.zeros((len(self), most), dtype=np.int64), np.zeros((len(self), most), dtype=np.int64)
        value = np.add.reduceat(value, first)
        rows, code = rows[first], np.where(nameless[first], 0, code[first])
        order = np.lexsort((code, -value, rows))
        rows, value, code = rows[order], value[order], code[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        chosen = rank < most
        found, who = (np.zeros((len(self), most), dtype=np.int64) for _ in range(2))
        found[rows[chosen], rank[chosen]] = value[chosen]
        who[rows[chosen], rank[chosen]] = code[chosen]
        return found, who


def implied_populations(
    cells: LinkedCells,
    hidden: NDArray[np.bool_],
    *,
    empty: NDArray[np.bool_] | None = None,
    unseen: NDArray[np.bool_] | None = None,
) -> ImpliedPopulations:
    """What is hidden below each published cell along one dimension.

    For each relation with a published total: its hidden children; and where published cells are below hidden children,
    what remains hidden when those are taken away too.

    Parameters
    ----------
    cells : LinkedCells
    hidden : ndarray of bool, shape (variables,)
    empty : ndarray of bool, shape (variables,), optional
        Hidden variables that readers know to be 0.
    unseen : ndarray of bool, shape (variables,), optional
        Variables that are in no published table: with `empty`, one that follows by itself is known from then on.
    """
    found = _Sets()
    if empty is None or unseen is None or not empty.any():
        found.add(cells, hidden)
        return found.populations(cells.size)
    hidden = hidden[: cells.size] & ~empty
    known_by: dict[int, int] = {}
    while True:
        found.add(cells, hidden)
        known = {variable: at for variable, at in found.singles() if unseen[variable] and hidden[variable]}
        if not known:
            return replace(found.populations(cells.size), known_by=known_by)
        known_by |= known
        hidden[list(known)] = False


class _Sets:
    """Sets of hidden variables below a known one, each once."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self.sets: list[Integers] = []
        self.expanded: list[bool] = []
        self._seen: set[tuple[int, frozenset[int]]] = set()

    def add(self, cells: LinkedCells, hidden: NDArray[np.bool_]) -> None:
        """Those of all tables, by the cells hidden now."""
        for table, variables in zip(cells.tables, cells.variables, strict=True):
            self._add(table, variables, hidden)

    def _add(self, table: Cells, variables: Integers, hidden: NDArray[np.bool_]) -> None:
        for matrix, parent in _along_dimensions(table):
            inside = hidden[variables]
            deeper = _expanded(matrix, parent, inside)
            for is_expanded, rows in ((False, matrix), (True, deeper)):
                for row in np.flatnonzero(~inside[parent]):
                    children = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
                    members = variables[children[inside[children]]]
                    key = (int(variables[parent[row]]), frozenset(members.tolist()))
                    if len(members) and key not in self._seen:
                        self._seen.add(key)
                        self.parents.append(key[0])
                        self.expanded.append(is_expanded)
                        self.sets.append(np.sort(members))

    def singles(self) -> Iterator[tuple[int, int]]:
        """Variables that form a set alone, and the number of the set."""
        return ((int(members[0]), at) for at, members in enumerate(self.sets) if len(members) == 1)

    def populations(self, size: int) -> ImpliedPopulations:
        lengths = [len(members) for members in self.sets]
        columns = np.concatenate(self.sets) if self.sets else np.empty(0, dtype=np.int64)
        number = np.repeat(np.arange(len(self.sets)), lengths)
        matrix = matrix_of(np.ones(len(columns), dtype=np.int64), number, columns, (len(self.sets), size))
        parents, expanded = np.array(self.parents, dtype=np.int64), np.array(self.expanded, dtype=np.bool_)
        return ImpliedPopulations(parents, matrix, expanded)


def _along_dimensions(table: Cells) -> list[tuple[Matrix, Integers]]:
    """For each dimension its relations with one total, and the cell of that total."""
    matrix = table.relations
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    above = matrix.data > 0
    single = np.bincount(rows[above], minlength=matrix.shape[0]) == 1
    parent = np.full(matrix.shape[0], -1, dtype=np.int64)
    parent[rows[above]] = matrix.indices[above]
    child = np.full(matrix.shape[0], -1, dtype=np.int64)
    child[rows[~above]] = matrix.indices[~above]
    useful = np.flatnonzero(single & (child >= 0))
    place = (table.codes[parent[useful]] != table.codes[child[useful]]).argmax(axis=1)
    return [
        (matrix[useful[place == dimension]], parent[useful[place == dimension]])
        for dimension in range(len(table.dimensions))
    ]


def _expanded(matrix: Matrix, parent: Integers, hidden: NDArray[np.bool_]) -> Matrix:
    """Relations in which hidden children with published cells below them are replaced by their children."""
    size = matrix.shape[1]
    row_of = np.full(size, -1, dtype=np.int64)
    row_of[parent] = np.arange(len(parent))
    rows = np.repeat(np.arange(len(parent)), np.diff(matrix.indptr))
    below = matrix.data < 0
    # Whether something published is below a cell: upwards until nothing changes.
    shown = np.zeros(size, dtype=np.bool_)
    while True:
        found = below & (~hidden[matrix.indices] | shown[matrix.indices])
        new = shown.copy()
        new[parent[rows[found]]] = True
        if np.array_equal(new, shown):
            break
        shown = new
    while True:
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        opened = (matrix.data < 0) & hidden[matrix.indices] & shown[matrix.indices] & (row_of[matrix.indices] >= 0)
        if not opened.any():
            return matrix
        chosen = matrix_of(
            np.ones(int(opened.sum()), dtype=np.int64),
            rows[opened],
            row_of[matrix.indices[opened]],
            (matrix.shape[0], len(parent)),
        )
        matrix = matrix + chosen @ matrix
        matrix.eliminate_zeros()
