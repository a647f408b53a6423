"""Sums of values, squares and cross products that do not depend on the order of the additions.

Every finite double is an integer times 2^-1074, so a sum of doubles, or of products of two, is an integer times a
power of two. The kernel adds these integers without rounding; a state is a handful of Python
integers; means and deviations are exact fractions rounded once at the end. Hence the same bits on every
engine and under every partitioning, which plans need: the engines' own deviations differ in the last digits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import is_small
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.sums.limbs import FINEST, INFINITE, LIMBS, MISSING, add_up, carry, split_floats, split_integers

__all__ = ["ExactSums", "measure_sums", "rounded_sqrt"]

CHUNK = 8192


@dataclass(frozen=True)
class ExactSums:
    """Exact sums over the records that have a finite value in each of s columns.

    States of blocks merge in any order to the same state, and every figure is rounded once. Figures use divisor
    n - 1 and are NaN where undefined: no record, one record, a correlation with a constant column.

    Parameters
    ----------
    count : int
        Records with a finite value in every column.
    missing : int
        Records with a null or NaN in some column.
    infinite : tuple of int
        Infinite cells of each column; the caller makes them an error that names the column.
    totals : tuple of int
        Sum of each column, in units of 2^-1074.
    products : tuple of int
        Sums of x_i x_j for i <= j, row by row of the upper triangle, in units of 2^-2148.
    minima, maxima : tuple of float
        Of the finite cells of each column; NaN without any.
    decimals : tuple of int
        Digits after the point of each column: its values are the integers measured, over 10 to that power.

    Examples
    --------
    >>> left, right = measure_sums([np.array([1.0, 2.0])]), measure_sums([np.array([np.nan, 6.0])])
    >>> whole = left.merge(right)
    >>> whole.count, whole.missing, whole.mean(), round(whole.sd(), 4)
    (3, 1, 3.0, 2.6458)
    """

    count: int
    missing: int
    infinite: tuple[int, ...]
    totals: tuple[int, ...]
    products: tuple[int, ...]
    minima: tuple[float, ...]
    maxima: tuple[float, ...]
    decimals: tuple[int, ...]

    def merge(self, other: ExactSums) -> ExactSums:
        """The state of both sets of records; associative and commutative."""
        return ExactSums(
            self.count + other.count,
            self.missing + other.missing,
            tuple(a + b for a, b in zip(self.infinite, other.infinite, strict=True)),
            tuple(a + b for a, b in zip(self.totals, other.totals, strict=True)),
            tuple(a + b for a, b in zip(self.products, other.products, strict=True)),
            tuple(float(np.fmin(a, b)) for a, b in zip(self.minima, other.minima, strict=True)),
            tuple(float(np.fmax(a, b)) for a, b in zip(self.maxima, other.maxima, strict=True)),
            self.decimals,
        )

    def sum(self, i: int = 0) -> float:
        """Sum of column i."""
        return _rounded(self.totals[i], 10 ** self.decimals[i] << FINEST)

    def mean(self, i: int = 0) -> float:
        """Mean of column i."""
        return _rounded(self.totals[i], self.count * 10 ** self.decimals[i] << FINEST)

    def variance(self, i: int = 0) -> float:
        """Variance of column i."""
        return self._covariance(i, i)

    def sd(self, i: int = 0) -> float:
        """Standard deviation of column i."""
        if self.count < 2:
            return math.nan
        return rounded_sqrt(self._spread(i, i), self._divisor(i, i))

    def covariance(self) -> NDArray[np.float64]:
        """Covariance matrix, shape (s, s)."""
        s = range(len(self.totals))
        return np.array([[self._covariance(min(i, j), max(i, j)) for j in s] for i in s])

    def correlation(self) -> NDArray[np.float64]:
        """Correlation matrix, shape (s, s); exactly 1 on the diagonal and for columns in exact proportion."""
        s = range(len(self.totals))
        return np.array([[self._correlation(min(i, j), max(i, j)) for j in s] for i in s])

    def _spread(self, i: int, j: int) -> int:
        """n sum x_i x_j - (sum x_i)(sum x_j), for i <= j."""
        product = self.products[i * len(self.totals) - i * (i + 1) // 2 + j]
        return self.count * product - self.totals[i] * self.totals[j]

    def _covariance(self, i: int, j: int) -> float:
        return _rounded(self._spread(i, j), self._divisor(i, j))

    def _divisor(self, i: int, j: int) -> int:
        scale: int = 10 ** (self.decimals[i] + self.decimals[j])
        return self.count * (self.count - 1) * scale << 2 * FINEST

    def _correlation(self, i: int, j: int) -> float:
        together, apart = self._spread(i, j), self._spread(i, i) * self._spread(j, j)
        if apart == 0:
            return math.nan
        size = rounded_sqrt(together * together, apart)
        return size if together >= 0 else -size


def measure_sums(
    columns: Sequence[NDArray[np.float64] | NDArray[np.int64]],
    missing: Sequence[NDArray[np.bool_] | None] | None = None,
    decimals: Sequence[int] | None = None,
) -> ExactSums:
    """Exact sums of one block of records.

    Parameters
    ----------
    columns : sequence of s ndarrays, shape (n,)
        Floats (NaN: no value) or integers of any width up to 64 bits, signed. A decimal column enters as the
        integers of its scale, dates and timestamps as counts of their unit. At least one column.
    missing : sequence of ndarrays of bool, shape (n,), or None, optional
        Cells without a value, for columns that cannot hold NaN.
    decimals : sequence of s ints, optional
        Scale of each decimal column, 0 for the others.

    Examples
    --------
    >>> measure_sums([np.array([1, 2**62, -(2**62)])]).mean() == 1 / 3
    True
    >>> measure_sums([np.array([0.0, 1.0, 2.0]), np.array([5, 3, 1])]).correlation().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    typed = [read_only(c, np.float64 if np.asarray(c).dtype.kind == "f" else np.int64) for c in columns]
    gaps = missing if missing is not None else [None] * len(typed)
    masks = [read_only(np.zeros(0) if gap is None else gap, np.bool_) for gap in gaps]
    scales = tuple(decimals) if decimals is not None else (0,) * len(typed)
    sums = _PlainSums(len(typed)) if is_small(len(typed[0]) * len(typed) ** 2) else _LimbSums(len(typed))
    for start in range(0, len(typed[0]), CHUNK):
        stop = start + CHUNK
        sums.add([column[start:stop] for column in typed], [mask[start:stop] for mask in masks])
    sums.drain()
    low, high = (tuple(float(x) / 10**d for x, d in zip(row, scales, strict=True)) for row in sums.extremes.T)
    return ExactSums(
        sums.count,
        sums.lost,
        tuple(int(cells) for cells in sums.infinite),
        tuple(sums.whole[: len(typed)]),
        tuple(sums.whole[len(typed) :]),
        low,
        high,
        scales,
    )


class _PlainSums:
    """Running sums of one block, in Python integers."""

    def __init__(self, s: int) -> None:
        self.count = self.lost = 0
        self.infinite = np.zeros(s, np.int64)
        self.extremes = np.full((s, 2), np.nan)
        self.whole = [0] * (s + s * (s + 1) // 2)

    def add(self, columns: list[NDArray[Any]], masks: list[NDArray[np.bool_]]) -> None:
        """Add some records."""
        absent = np.zeros(len(columns[0]), np.uint8)
        for i, (column, gaps) in enumerate(zip(columns, masks, strict=True)):
            nothing = np.isnan(column) | (gaps if len(gaps) else False)
            beyond = np.isinf(column) & ~nothing
            absent |= np.where(nothing, np.uint8(MISSING), np.where(beyond, np.uint8(INFINITE), np.uint8(0)))
            self.infinite[i] += int(beyond.sum())
            present = column[~nothing & ~beyond] + 0  # of -0.0 and 0.0, which are equal, the order would choose
            if len(present):
                ends = np.array([present.min(), present.max()], np.float64)
                self.extremes[i] = np.fmin(self.extremes[i, 0], ends[0]), np.fmax(self.extremes[i, 1], ends[1])
        self.count += int(np.count_nonzero(absent == 0))
        self.lost += int(np.count_nonzero(absent & MISSING))
        units = [_in_units(column[absent == 0]) for column in columns]
        at = len(units)
        for i, one in enumerate(units):
            self.whole[i] += sum(one)
            for other in units[i:]:
                self.whole[at] += sum(map(operator.mul, one, other))
                at += 1

    def drain(self) -> None:
        """All is in Python integers already."""


class _LimbSums(_PlainSums):
    """Running sums of one block: in limbs, and now and then in Python integers."""

    def __init__(self, s: int) -> None:
        super().__init__(s)
        self._pending = 0
        self._limbs = np.zeros((len(self.whole), LIMBS), np.int64)
        self._parts, self._places = np.empty((s, CHUNK), np.int64), np.empty((s, CHUNK), np.int64)

    def add(self, columns: list[NDArray[Any]], masks: list[NDArray[np.bool_]]) -> None:
        absent = np.zeros(len(columns[0]), np.uint8)
        for i, (column, gaps) in enumerate(zip(columns, masks, strict=True)):
            split = split_floats if column.dtype.kind == "f" else split_integers
            found = split(column, gaps, self._parts[i], self._places[i], absent, self.extremes[i])
            self.infinite[i] += found
        self.count += int(np.count_nonzero(absent == 0))
        self.lost += int(np.count_nonzero(absent & MISSING))
        add_up(self._parts, self._places, absent, self._limbs)
        self._pending += len(absent)
        if self._pending > 2**30:  # a limb takes 2^31 additions of 32 bits
            self.drain()

    def drain(self) -> None:
        """Move what the limbs hold into the Python integers."""
        for row, top in enumerate(carry(self._limbs)):
            digits = self._limbs[row].astype("<u4").tobytes()
            self.whole[row] += int.from_bytes(digits, "little") + (int(top) << (32 * LIMBS))
        self._limbs[:] = 0
        self._pending = 0


def _in_units(column: NDArray[Any]) -> list[int]:
    """Finite numbers as integers, in units of 2^-1074."""
    if column.dtype.kind != "f":
        return [value << FINEST for value in column.tolist()]
    parts = [value.as_integer_ratio() for value in column.tolist()]
    return [above * ((1 << FINEST) // below) for above, below in parts]


def rounded_sqrt(numerator: int, denominator: int) -> float:
    """The double nearest to the square root of a non-negative fraction.

    Examples
    --------
    >>> rounded_sqrt(2, 1) == 2**0.5, rounded_sqrt(1, 9)
    (True, 0.3333333333333333)
    """
    if numerator == 0:
        return 0.0
    # 55 bits of the root or more; an odd last bit marks an inexact root, so that the division rounds it right.
    shift = max(0, 110 - numerator.bit_length() + denominator.bit_length())
    shift += shift % 2
    quotient, remainder = divmod(numerator << shift, denominator)
    root = math.isqrt(quotient)
    if remainder or root * root != quotient:
        root |= 1
    return _rounded(root, 1 << (shift // 2))


def _rounded(numerator: int, denominator: int) -> float:
    """The double nearest to a fraction; infinite beyond the largest, NaN for a denominator of 0."""
    if denominator == 0:
        return math.nan
    try:
        return float(Fraction(numerator, denominator))
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
