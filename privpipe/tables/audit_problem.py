"""What a reader of released tables knows about each cell, as exact matrices of integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.errors import DataError

__all__ = ["UNBOUNDED", "AuditProblem", "Insider", "Integers", "Levels", "Matrix", "matrix_of", "product"]


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
    """What one contributor knows of hidden variables in addition to every reader. Private.

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
        True values, where they are known; they lie in the set.
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
