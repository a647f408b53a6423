"""What is left of an audit problem without its constants: open variables, tight bounds, independent components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.errors import DataError
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Integers, Matrix, matrix_of, product

__all__ = ["LARGEST", "NO_BOUND", "OpenSystem", "Shrunk", "components_of", "shrink", "tightened"]

NO_BOUND = 2**62
"""`high` of a variable without an upper bound; `-NO_BOUND` is `low` without a lower one."""
LARGEST = 2**60
ROUNDS = 60


@dataclass(frozen=True)
class OpenSystem:
    """The set {x: matrix x = right, low <= x <= high}, of integers if `whole`; unbounded sides are `NO_BOUND`."""

    matrix: Matrix
    right: Integers
    low: Integers
    high: Integers
    whole: bool

    @property
    def size(self) -> int:
        return len(self.low)

    def part(self, columns: Integers) -> OpenSystem:
        """The system of a component, or of several: every relation of its variables."""
        block = self.matrix[:, columns]
        rows = np.flatnonzero(np.diff(block.indptr))
        return OpenSystem(block[rows], self.right[rows], self.low[columns], self.high[columns], self.whole)

    def copies(self, columns: Integers, copy: Integers, base: Integers, *, inside: bool = False) -> OpenSystem:
        """Some columns as a system, each copy separately, with all others fixed at a point.

        Parameters
        ----------
        columns, copy : ndarray of int64
            Columns, and the number of the copy that each is of.
        base : ndarray of int64
            A point of the system.
        inside : bool
            Leave out relations with columns that a copy does not have: impossible without them is impossible with them.
        """
        by_column = cast(Any, self.matrix).tocsc()
        starts, counts = by_column.indptr[columns].astype(np.int64), np.diff(by_column.indptr)[columns]
        at = np.repeat(np.arange(len(columns)), counts)
        entry = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        relations = self.matrix.shape[0]
        numbers, row = np.unique(copy[at] * relations + by_column.indices[entry], return_inverse=True)
        matrix = matrix_of(by_column.data[entry], row.astype(np.int64), at, (len(numbers), len(columns)))
        if inside:
            matrix = matrix[np.diff(matrix.indptr) == np.diff(self.matrix.indptr)[numbers % relations]]
        right = product(matrix, base[columns])
        return OpenSystem(matrix, right, self.low[columns], self.high[columns], self.whole)


@dataclass(frozen=True)
class Shrunk:
    """An audit problem without constants.

    Parameters
    ----------
    system : OpenSystem
    variables : ndarray of int64
        The variable of the problem that each open variable is.
    place : ndarray of int64
        For each variable of the problem its place among the open ones; -1 for a constant.
    constants : ndarray of int64
        For each variable of the problem its one value, where it has one.
    component : ndarray of int64
        For each open variable the component it is in.
    """

    system: OpenSystem
    variables: Integers
    place: Integers
    constants: Integers
    component: Integers

    @property
    def components(self) -> int:
        return int(self.component.max(initial=-1)) + 1


def shrink(problem: AuditProblem) -> Shrunk:
    """Take constants out of a problem, tighten bounds by each relation to a fixpoint, and split into components.

    Raises
    ------
    DataError
        If relations of published figures do not add up, or no table agrees with the known figures.
    """
    matrix = problem.relations
    low = np.where(problem.low == UNBOUNDED, -NO_BOUND, problem.low).astype(np.int64)
    high = np.where(problem.high == UNBOUNDED, NO_BOUND, problem.high).astype(np.int64)
    _refuse_large(low[low != -NO_BOUND], high[high != NO_BOUND])
    if problem.true is not None:
        _refuse_large(problem.true)
        _refuse_untrue(matrix, low, high, problem.true)
    if (low > high).any():
        raise _impossible(int((low > high).sum()))
    size = len(low)
    variables = np.arange(size)
    right = np.zeros(matrix.shape[0], dtype=np.int64)
    constants = np.zeros(size, dtype=np.int64)
    while True:
        fixed = low == high
        constants[variables[fixed]] = low[fixed]
        right = right - product(matrix, np.where(fixed, low, 0))
        matrix = matrix[:, ~fixed]
        variables, low, high = variables[~fixed], low[~fixed], high[~fixed]
        used = np.diff(matrix.indptr) > 0
        wrong = int(np.count_nonzero(right[~used]))
        if wrong:
            raise DataError(f"the table does not add up: {wrong} relations between published cells do not hold")
        matrix, right = matrix[used], right[used]
        low, high = tightened(OpenSystem(matrix, right, low, high, problem.whole))
        if (low > high).any():
            raise _impossible(int((low > high).sum()))
        if not (low == high).any():
            break
    place = np.full(size, -1, dtype=np.int64)
    place[variables] = np.arange(len(variables))
    system = OpenSystem(matrix, right, low, high, problem.whole)
    return Shrunk(system, variables, place, constants, components_of(matrix))


def tightened(system: OpenSystem, rounds: int = ROUNDS) -> tuple[Integers, Integers]:
    """Bounds that each relation gives from the bounds of its other variables, repeated until nothing changes.

    They are never tighter than the set itself. `low` above `high` shows that the set is empty.
    """
    matrix, low, high = system.matrix, system.low.copy(), system.high.copy()
    if matrix.nnz == 0:
        return low, high
    data, column = matrix.data, matrix.indices
    starts, lengths = matrix.indptr[:-1].astype(np.int64), np.diff(matrix.indptr).astype(np.int64)
    by_column = np.argsort(column, kind="stable")
    sorted_columns = column[by_column]
    first = np.flatnonzero(np.concatenate([[True], sorted_columns[1:] != sorted_columns[:-1]]))
    touched = sorted_columns[first]
    positive = data > 0
    size = np.abs(data)
    right = np.repeat(system.right, lengths)
    for _ in range(rounds):
        most = max(int(np.abs(x[np.abs(x) < NO_BOUND]).max(initial=0)) for x in (low, high, system.right))
        if most * int(size.max()) * (int(lengths.max()) + 1) >= NO_BOUND // 2:
            break  # one more round might leave 64 bits; bounds stay valid unchanged
        least, greatest = _ends(data, positive, low[column], high[column])
        fewest = _without_own(least, starts, lengths)
        utmost = _without_own(greatest, starts, lengths)
        # data * x <= right - (least of the others), and >= right - (greatest of the others)
        above = np.where(fewest == -NO_BOUND, NO_BOUND, right - np.where(fewest == -NO_BOUND, 0, fewest))
        below = np.where(utmost == NO_BOUND, -NO_BOUND, right - np.where(utmost == NO_BOUND, 0, utmost))
        above, below = (
            np.where(positive, _over(above, size, system.whole), -_under(below, size, system.whole)),
            np.where(positive, _under(below, size, system.whole), -_over(above, size, system.whole)),
        )
        new_high, new_low = high.copy(), low.copy()
        new_high[touched] = np.minimum(high[touched], np.minimum.reduceat(above[by_column], first))
        new_low[touched] = np.maximum(low[touched], np.maximum.reduceat(below[by_column], first))
        if np.array_equal(new_high, high) and np.array_equal(new_low, low):
            break
        low, high = new_low, new_high
        if (low > high).any():
            break
    return low, high


def components_of(matrix: Matrix) -> Integers:
    """For each column the number of its component: columns that relations join."""
    rows, columns = matrix.shape
    if columns == 0:
        return np.empty(0, dtype=np.int64)
    row = np.repeat(np.arange(rows), np.diff(matrix.indptr))
    ones = np.ones(matrix.nnz, dtype=np.int64)
    graph = matrix_of(ones, matrix.indices.astype(np.int64), columns + row, (columns + rows, columns + rows))
    _, label = scipy.sparse.csgraph.connected_components(graph, directed=False)
    _, number = np.unique(label[:columns], return_inverse=True)
    return np.asarray(number, dtype=np.int64)


def _ends(data: Integers, positive: NDArray[np.bool_], low: Integers, high: Integers) -> tuple[Integers, Integers]:
    """The least and greatest value of each entry's product; `NO_BOUND` where there is none."""
    at_least, at_most = np.where(positive, low, high), np.where(positive, high, low)
    open_low, open_high = np.abs(at_least) == NO_BOUND, np.abs(at_most) == NO_BOUND
    least = np.where(open_low, -NO_BOUND, data * np.where(open_low, 0, at_least))
    greatest = np.where(open_high, NO_BOUND, data * np.where(open_high, 0, at_most))
    return least.astype(np.int64), greatest.astype(np.int64)


def _without_own(values: Integers, starts: Integers, lengths: Integers) -> Integers:
    """For each entry the sum of the other entries of its row; `NO_BOUND`, signed, if one of them has no bound."""
    unbounded = np.abs(values) == NO_BOUND
    finite = np.where(unbounded, 0, values)
    sums = np.repeat(np.add.reduceat(finite, starts), lengths) - finite
    others = np.repeat(np.add.reduceat(unbounded.astype(np.int64), starts), lengths) - unbounded
    sign = NO_BOUND if values[unbounded].max(initial=0) > 0 else -NO_BOUND
    return np.where(others > 0, sign, sums)


def _over(bound: Integers, size: Integers, whole: bool) -> Integers:
    """An upper bound divided by `size`: down for integers, up otherwise."""
    divided = bound // size if whole else -((-bound) // size)
    return np.where(np.abs(bound) == NO_BOUND, bound, divided)


def _under(bound: Integers, size: Integers, whole: bool) -> Integers:
    divided = -((-bound) // size) if whole else bound // size
    return np.where(np.abs(bound) == NO_BOUND, bound, divided)


def _refuse_large(*figures: Integers) -> None:
    if any(len(values) and max(abs(int(values.max())), abs(int(values.min()))) >= LARGEST for values in figures):
        raise DataError("figures of the table are too large to be added exactly in 64 bits; use fewer decimals")


def _refuse_untrue(matrix: Matrix, low: Integers, high: Integers, true: Integers) -> None:
    wrong = int(np.count_nonzero(product(matrix, true)))
    if wrong:
        raise DataError(f"the table does not add up: {wrong} relations do not hold for the true figures")
    outside = int(((true < low) | (true > high)).sum())
    if outside:
        raise DataError(f"{outside} true figures are not among the values that the published table allows")


def _impossible(cells: int) -> DataError:
    return DataError(f"no table agrees with the published figures: {cells} cells have no possible value")
