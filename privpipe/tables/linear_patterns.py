"""Patterns of hidden cells from which linear algebra alone works out no sensitive cell."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["drawn_prime", "linear_pattern"]

Row = dict[int, int]
WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # decide primality of every number below 3.3 * 10^24


def drawn_prime() -> int:
    """A random prime of 61 bits.

    Examples
    --------
    >>> drawn_prime().bit_length()
    61
    """
    while True:
        candidate = (1 << 60) | secrets.randbits(60) | 1
        if all(_passes(candidate, base) for base in WITNESSES):
            return candidate


def _passes(n: int, base: int) -> bool:
    """The test of Miller and Rabin."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    power = pow(base, odd, n)
    if power in (1, n - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % n
        if power == n - 1:
            return True
    return False


def linear_pattern(
    relations: scipy.sparse.csr_array,
    primary: NDArray[np.bool_],
    order: Sequence[int],
    prime: int | None = None,
    given: Sequence[int] = (),
) -> NDArray[np.bool_]:
    """Publish cells in this order, each unless a primary cell then lies in the span of the published ones.

    Source: Langsrud, GaussSuppression. There the cells are vectors over inner cells; here the relations between cells
    are eliminated, which gives the same pattern. With the columns of cells that are not primary in the order from the
    last to the first, a cell without a pivot depends on cells that are decided later and is published freely; the row
    of a pivot is the equation that publishing its cell adds to those known about primary cells.

    Parameters
    ----------
    relations : csr_array of int64, shape (relations, cells)
    primary : ndarray of bool, shape (cells,)
    order : sequence of int
        Cells that are not primary, the first to be published first; those that are left out are published anyway.
    prime : int or None
        Modulus of the arithmetic, of 61 bits; drawn unless given.
    given : sequence of int
        Cells that are neither published nor in need of protection.

    Returns
    -------
    ndarray of bool
        Hidden cells, the primary ones among them. Those that what is published anyway gives away are as lost.

    Examples
    --------
    >>> sum_of_two = scipy.sparse.csr_array([[1, -1, -1]])
    >>> linear_pattern(sum_of_two, np.array([False, True, False]), [0, 2]).tolist()
    [False, True, True]
    """
    modulus = prime or drawn_prime()
    hidden = primary.copy()
    hidden[np.asarray(given, dtype=np.int64)] = True
    # Eliminated first and never published, they take with them every equation that they could be worked out of.
    rows, left = _eliminated(relations, primary, [*order, *given], modulus)
    known = _Equations(modulus)
    for row in left:
        known.add(row, anyway=True)
    kept: dict[int, Row] = {}
    for cell in order:
        if cell not in rows:
            continue
        row = rows.pop(cell)
        equation = {at: value for at, value in row.items() if primary[at]}
        for other in [at for at in row if at in kept]:
            _subtract(equation, kept[other], row[other], modulus)
        if not known.add(equation):
            kept[cell] = equation
            hidden[cell] = True
    return hidden


def _eliminated(
    relations: scipy.sparse.csr_array, primary: NDArray[np.bool_], order: Sequence[int], prime: int
) -> tuple[dict[int, Row], list[Row]]:
    """The row of each pivot, with 1 at its cell, and the rows between primary cells alone."""
    useful = primary.copy()
    useful[np.asarray(order, dtype=np.int64)] = True
    rows: list[Row] = []
    holders: dict[int, set[int]] = {}
    for first, last in zip(relations.indptr[:-1], relations.indptr[1:], strict=True):
        columns, values = relations.indices[first:last], relations.data[first:last]
        row = {int(c): int(v) % prime for c, v in zip(columns, values, strict=True) if useful[c]}
        for column in row:
            holders.setdefault(column, set()).add(len(rows))
        rows.append(row)
    pivots: dict[int, Row] = {}
    for cell in reversed(order):
        holding = holders.pop(cell, None)
        if not holding:
            continue
        best = min(holding, key=lambda at: (len(rows[at]), at))
        pivot = rows[best]
        rows[best] = {}
        holding.discard(best)
        for column in pivot:
            if column != cell:
                holders[column].discard(best)
        scale = pow(pivot[cell], -1, prime)
        if scale != 1:
            pivot = {column: value * scale % prime for column, value in pivot.items()}
        for at in holding:
            row = rows[at]
            factor = row.pop(cell)
            for column, value in pivot.items():
                if column == cell:
                    continue
                before = row.get(column)
                if before is None:
                    row[column] = -factor * value % prime
                    holders[column].add(at)
                else:
                    after = (before - factor * value) % prime
                    if after:
                        row[column] = after
                    else:
                        del row[column]
                        holders[column].discard(at)
        pivots[cell] = pivot
    return pivots, [row for row in rows if row]


def _subtract(row: Row, other: Row, factor: int, prime: int) -> None:
    for column, value in other.items():
        after = (row.get(column, 0) - factor * value) % prime
        if after:
            row[column] = after
        else:
            row.pop(column, None)


class _Equations:
    """Equations between primary cells, reduced so that each has a cell that no other has."""

    def __init__(self, prime: int) -> None:
        self.prime = prime
        self.rows: dict[int, Row] = {}
        self.holders: dict[int, set[int]] = {}

    def add(self, equation: Row, *, anyway: bool = False) -> bool:
        """Add one, unless one more cell then follows from the equations; whether it was added or followed already."""
        prime, row = self.prime, dict(equation)
        for column in [at for at in row if at in self.rows]:
            _subtract(row, self.rows[column], row[column], prime)
        if not row:
            return True
        if len(row) == 1 and not anyway:
            return False
        # The cell that is in fewest equations leaves fewest to be changed.
        pivot = min(row, key=lambda at: (len(self.holders.get(at, ())), at))
        scale = pow(row[pivot], -1, prime)
        row = {column: value * scale % prime for column, value in row.items()}
        changed: dict[int, Row] = {}
        for at in self.holders.get(pivot, ()):
            other = dict(self.rows[at])
            _subtract(other, row, other[pivot], prime)
            if len(other) == 1 and not anyway:
                return False
            changed[at] = other
        changed[pivot] = row
        for at, other in changed.items():
            for column in self.rows.get(at, ()):
                self.holders[column].discard(at)
            for column in other:
                self.holders.setdefault(column, set()).add(at)
            self.rows[at] = other
        return True
