"""What a reader of released tables knows about each cell, as exact matrices of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.errors import DataError

__all__ = ["UNBOUNDED", "AuditProblem", "Insider", "Integers", "Levels", "Matrix", "matrix_of", "product", "with_means"]


Integers: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = "scipy.sparse.csr_array[Any, tuple[int, int]]"
"""In rows, int64, without stored zeros."""


def matrix_of(values: Integers, rows: Integers, columns: Integers, shape: tuple[int, int]) -> Matrix:
    """The matrix with these entries; entries at one place are added."""
    found = cast(Any, scipy.sparse.csr_array)((values, (rows, columns)), shape=shape, dtype=np.int64)
    found.eliminate_zeros()
    return cast("Matrix", found)


def product(matrix: Matrix, values: Integers) -> Integers:
    """The exact product of a matrix and a vector.

    Raises
    ------
    DataError
        If a sum might leave 64 bits.
    """
    if matrix.nnz == 0:
        return np.zeros(matrix.shape[0], dtype=np.int64)
    longest = int(np.diff(matrix.indptr).max(initial=0))
    most = max(abs(int(values.max())), abs(int(values.min())))
    if most * int(np.abs(matrix.data).max()) * longest >= 2**62:
        raise DataError("figures of the table are too large to be added exactly in 64 bits; use fewer decimals")
    return np.asarray(matrix @ values, dtype=np.int64)


UNBOUNDED = np.iinfo(np.int64).max
"""In `low` and `high`: no bound."""


@dataclass(frozen=True, repr=False, eq=False)
class Levels:
    """Protection levels of sensitive variables, in fractions of the unit: numerators over one denominator.

    A sensitive variable with true value a is protected if a reader finds at least a + upper / denominator and at most
    a - lower / denominator possible, at least span / denominator apart, and never one value alone.
    """

    variables: Integers
    lower: Integers
    upper: Integers
    span: Integers
    denominator: int = 1


@dataclass(frozen=True, repr=False, eq=False)
class Insider:
    """What one contributor knows about hidden variables in addition to every reader. Private.

    Parameters
    ----------
    known : ndarray of int64
        Variables that it knows, in ascending order.
    sensitive : ndarray of int64
        Sensitive variables of all contributors; those that it does not know are of `others`.
    low, high : ndarray of int64, optional
        Between which values it knows each; without them it knows the true values.
    """

    known: Integers
    sensitive: Integers
    low: Integers | None = None
    high: Integers | None = None

    @property
    def others(self) -> Integers:
        """Sensitive variables that must not follow from what it knows."""
        return self.sensitive[~np.isin(self.sensitive, self.known)]


@dataclass(frozen=True, repr=False, eq=False)
class AuditProblem:
    """The set {x: relations x = 0, low <= x <= high} of tables that agree with everything published. Private.

    Parameters
    ----------
    relations : csr_array of int64, shape (relations, variables)
    low, high : ndarray of int64, shape (variables,)
        What a reader knows before relations; `UNBOUNDED` where there is no bound; equal for a published value.
    whole : bool
        Whether every variable is an integer (counts).
    true : ndarray of int64 or None
        True values, where they are known; they are in the set.
    levels : Levels or None
        What must hold for sensitive variables; without it (or without `true`) every open variable is sensitive.
    knowing : tuple of Insider
        None of the sensitive variables of others may have one value for such a contributor.
    implied : ndarray of bool, optional
        For each implied population (`implied_populations`) whether it fails the primary rules.
    at_least : int, optional
        The least count that may be published; without true values an interval within 1 to `at_least` - 1 fails,
        unless it is all of that.
    insider_levels : bool
        Whether sensitive variables keep their levels for insiders as well.
    """

    relations: Matrix
    low: Integers
    high: Integers
    whole: bool
    true: Integers | None = None
    levels: Levels | None = None
    knowing: tuple[Insider, ...] = field(default=())
    implied: NDArray[np.bool_] | None = None
    at_least: int | None = None
    insider_levels: bool = False

    @property
    def published(self) -> NDArray[np.bool_]:
        """Whether a reader knows the value of each variable before relations."""
        return np.asarray((self.low == self.high) & (self.low != UNBOUNDED))


Mean = tuple[int, int, Fraction, Fraction]
"""Variable of the count, variable of the sum, least and greatest mean that the published figure allows."""


def with_means(counts: AuditProblem, sums: AuditProblem, means: Sequence[Mean]) -> AuditProblem:
    """What a reader knows of counts, and of sums in whole units, in addition to means of some cells.

    Variables are those of `counts`, then those of `sums`, then one more for each end of a rounded mean. Levels and
    insiders are those of `counts`.

    Examples
    --------
    A count of 7 to 11 with an exact mean of 45/4 is 8: only then is the sum a whole number.

    >>> from privpipe.tables.exact_audit import intervals
    >>> none = matrix_of(*(np.empty(0, dtype=np.int64) for _ in range(3)), (0, 1))
    >>> counts = AuditProblem(none, np.array([7]), np.array([11]), True)
    >>> sums = AuditProblem(none, np.array([0]), np.array([UNBOUNDED]), True)
    >>> mean = Fraction(45, 4)
    >>> [str(end[0]) for end in intervals(with_means(counts, sums, [(0, 0, mean, mean)])).closest]
    ['8', '8']
    """
    size = len(counts.low), len(sums.low)
    ends = [
        (count, size[0] + total, end, sign)
        for count, total, least, greatest in means
        for sign, end in ([(0, least)] if least == greatest else [(1, least), (-1, greatest)])
    ]
    rows, columns, values = [], [], []
    slack = sum(size)
    for row, (count, total, end, sign) in enumerate(ends):
        # denominator * sum - numerator * count is 0, or at least (at most) 0
        entries = [(total, end.denominator), (count, -end.numerator)]
        if sign:
            entries.append((slack, -sign))
            slack += 1
        for column, value in entries:
            rows.append(row)
            columns.append(column)
            values.append(value)
    blocks = [(counts.relations.tocoo(), 0, 0), (sums.relations.tocoo(), counts.relations.shape[0], size[0])]
    above = counts.relations.shape[0] + sums.relations.shape[0]
    relations = matrix_of(
        np.concatenate([*(block.data for block, _, _ in blocks), np.array(values, dtype=np.int64)]),
        np.concatenate([*(block.row + row for block, row, _ in blocks), np.array(rows, dtype=np.int64) + above]),
        np.concatenate([*(block.col + column for block, _, column in blocks), np.array(columns, dtype=np.int64)]),
        (above + len(ends), slack),
    )
    slacks = slack - sum(size)
    true = None
    if counts.true is not None and sums.true is not None:
        figures = np.concatenate([counts.true, sums.true]).tolist()
        distances = [
            sign * (figures[total] * end.denominator - figures[count] * end.numerator)
            for count, total, end, sign in ends
            if sign
        ]
        true = np.array([*figures, *distances], dtype=np.int64)
    return AuditProblem(
        relations,
        _joined(counts.low, sums.low, np.zeros(slacks, dtype=np.int64)),
        _joined(counts.high, sums.high, np.full(slacks, UNBOUNDED)),
        True,
        true,
        counts.levels,
        counts.knowing,
        counts.implied,
        counts.at_least,
        counts.insider_levels,
    )


def _joined(*parts: Integers) -> Integers:
    return np.concatenate(parts).astype(np.int64)
