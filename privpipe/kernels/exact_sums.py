"""Exact sums of values, squares and cross products, independent of the order of the additions; exact moments.

Every finite double is an integer times 2^-1074, so a sum of doubles, or of products of two, is an integer times a
power of two. The kernel adds these integers without rounding; a state is a handful of Python integers; means and
deviations are exact fractions rounded once at the end. Hence the same bits on every engine and under every
partitioning, which plans need: the engines' own deviations differ in the last digits.

In the limbs, a number enters as part x 2^(place - 1074) with a signed part of 64 bits: a finite double has a part of
53 bits, an integer is its own part at place 1074.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Moments, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints, read_only
from privpipe.compiled import is_small, njit
from privpipe.draws.siphash import high_product
from privpipe.errors import DataError
from privpipe.kernels.columns.cell_words import scaled_numbers

__all__ = [
    "FINEST",
    "INFINITE",
    "LIMBS",
    "MISSING",
    "ExactMoments",
    "ExactSums",
    "add_up",
    "carry",
    "counted_alone",
    "exact_sum_by_class",
    "measure_sums",
    "rounded_sqrt",
    "split_floats",
    "split_integers",
]


U = np.uint64
FINEST = 1074
LIMB = 0xFFFFFFFF
LIMBS = 136  # products reach 2^(2 * 2045 + 128), with room for carries
MISSING, INFINITE = 1, 2


@njit(nogil=True, cache=True)
def carry(limbs: Ints) -> Ints:
    """Bring every limb into 0 .. 2^32 - 1; the remainder at the top is the sign."""
    tops = np.zeros(len(limbs), np.int64)
    for row in range(len(limbs)):
        over = 0
        for k in range(limbs.shape[1]):
            value = limbs[row, k] + over
            limbs[row, k] = value & LIMB
            over = value >> 32
        tops[row] = over
    return tops


@njit(nogil=True, cache=True)
def split_floats(
    column: Floats,
    gaps: Bools,
    parts: Ints,
    places: Ints,
    absent: NDArray[np.uint8],
    extremes: Floats,
) -> int:
    """Write each value as part and place, mark records without a finite value, widen the extremes."""
    infinite = 0
    for r in range(len(column)):
        x = column[r]
        bits = np.float64(x).view(np.int64)
        if (len(gaps) > 0 and gaps[r]) or np.isnan(x):
            absent[r] |= MISSING
        elif np.isinf(x):
            absent[r] |= INFINITE
            infinite += 1
        else:
            part = bits & 0xFFFFFFFFFFFFF
            place = (bits >> 52) & 0x7FF
            if place > 0:
                part |= 0x10000000000000
                place -= 1
            parts[r] = -part if bits < 0 else part
            places[r] = place
            positive = x + 0.0  # -0.0 and 0.0 are equal: the order of the cells would decide
            extremes[0] = np.fmin(extremes[0], positive)
            extremes[1] = np.fmax(extremes[1], positive)
    return infinite


def split_integers(
    column: Ints,
    gaps: Bools,
    parts: Ints,
    places: Ints,
    absent: NDArray[np.uint8],
    extremes: Floats,
) -> int:
    """As `split_floats`, for integers."""
    parts[: len(column)] = column
    places[: len(column)] = FINEST
    present = column
    if len(gaps):
        absent |= gaps
        present = column[~gaps]
    if len(present):
        extremes[0] = np.fmin(extremes[0], np.float64(present.min()))
        extremes[1] = np.fmax(extremes[1], np.float64(present.max()))
    return 0


@njit(nogil=True, cache=True)
def _add(limbs: Ints, high: U, low: U, place: int, sign: int) -> None:
    """Add sign x (high 2^64 + low) x 2^place."""
    k, shift = place >> 5, U(place & 31)
    first = low << shift
    second = (high << shift) | ((low >> U(1)) >> (U(63) - shift))
    third = (high >> U(1)) >> (U(63) - shift)
    limbs[k] += sign * np.int64(first & U(LIMB))
    limbs[k + 1] += sign * np.int64(first >> U(32))
    limbs[k + 2] += sign * np.int64(second & U(LIMB))
    limbs[k + 3] += sign * np.int64(second >> U(32))
    limbs[k + 4] += sign * np.int64(third)


@njit(nogil=True, cache=True)
def _magnitude(part: int) -> U:
    magnitude: U = U(-part) if part < 0 else U(part)
    return magnitude


@njit(nogil=True, cache=True)
def add_up(
    parts: Ints,
    places: Ints,
    absent: NDArray[np.uint8],
    limbs: Ints,
) -> None:
    """Add the records with a value in all columns: a row of limbs for each column, then one for each pair."""
    s = len(parts)
    for i in range(s):
        for r in range(len(absent)):
            if absent[r]:
                parts[i, r] = 0
                places[i, r] = 0
            part = parts[i, r]
            _add(limbs[i], U(0), _magnitude(part), places[i, r], -1 if part < 0 else 1)
    row = s
    for i in range(s):
        for j in range(i, s):
            for r in range(len(absent)):
                a, b = _magnitude(parts[i, r]), _magnitude(parts[j, r])
                sign = -1 if (parts[i, r] ^ parts[j, r]) < 0 else 1
                _add(limbs[row], high_product(a, b), a * b, places[i, r] + places[j, r], sign)
            row += 1


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
        Extremes of the finite cells of each column; NaN where there are none.
    decimals : tuple of int
        Digits after the point of each column: its values are the summed integers divided by 10 to that power.

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

    def covariance(self) -> Floats:
        """Covariance matrix, shape (s, s)."""
        s = range(len(self.totals))
        return np.array([[self._covariance(min(i, j), max(i, j)) for j in s] for i in s])

    def correlation(self) -> Floats:
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
    columns: Sequence[Floats | Ints],
    missing: Sequence[Bools | None] | None = None,
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


def counted_alone(present: Bools) -> ExactSums:
    """The state of the present records over no column, where only their number is needed.

    Examples
    --------
    >>> counted_alone(np.array([True, False, True])).count
    2
    """
    return ExactSums(int(np.count_nonzero(present)), 0, (), (), (), (), (), ())


class _PlainSums:
    """Running sums of one block, in Python integers."""

    def __init__(self, s: int) -> None:
        self.count = self.lost = 0
        self.infinite = np.zeros(s, np.int64)
        self.extremes = np.full((s, 2), np.nan)
        self.whole = [0] * (s + s * (s + 1) // 2)

    def add(self, columns: list[NDArray[Any]], masks: list[Bools]) -> None:
        """Add some records."""
        absent = np.zeros(len(columns[0]), np.uint8)
        for i, (column, gaps) in enumerate(zip(columns, masks, strict=True)):
            nothing = np.isnan(column) | (gaps if len(gaps) else False)
            beyond = np.isinf(column) & ~nothing
            absent |= np.where(nothing, np.uint8(MISSING), np.where(beyond, np.uint8(INFINITE), np.uint8(0)))
            self.infinite[i] += int(beyond.sum())
            present = column[~nothing & ~beyond] + 0  # -0.0 and 0.0 are equal: the order would decide
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
        """All sums are in Python integers already."""


class _LimbSums(_PlainSums):
    """Running sums of one block: in limbs, and now and then in Python integers."""

    def __init__(self, s: int) -> None:
        super().__init__(s)
        self._pending = 0
        self._limbs = np.zeros((len(self.whole), LIMBS), np.int64)
        self._parts, self._places = np.empty((s, CHUNK), np.int64), np.empty((s, CHUNK), np.int64)

    def add(self, columns: list[NDArray[Any]], masks: list[Bools]) -> None:
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
    """The double nearest to a fraction; infinite above the largest double, NaN for a denominator of 0."""
    if denominator == 0:
        return math.nan
    try:
        return float(Fraction(numerator, denominator))
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


@dataclass(frozen=True)
class ExactMoments:
    """Sums of columns, and of their products when the covariance is wanted.

    Parameters
    ----------
    columns : tuple of str
        Numbers, integers, decimals, dates (days) or timestamps (microseconds).
    products : bool

    Examples
    --------
    >>> import pyarrow as pa
    >>> learn = ExactMoments(("income",))
    >>> halves = [RowBlock(pa.record_batch({"income": part})) for part in ([1.0, None], [2.0])]
    >>> left, right = (learn.measure(half, Facts()) for half in halves)
    >>> learn.finish(learn.merge(left, right))[0]["income"]
    Moments(records=2, nulls=1, mean=1.5, sd=0.7071067811865476, minimum=1.0, maximum=2.0)
    """

    columns: tuple[str, ...]
    products: bool = False

    def measure(self, block: RowBlock, facts: Facts) -> tuple[ExactSums, ...]:
        """One state per column, then the joint one if products are wanted."""

        found = [scaled_numbers(block.column(name), name) for name in self.columns]
        sums = [measure_sums([values], [gaps], [scale]) for values, gaps, scale in found]
        if self.products and found:
            values, gaps, scales = zip(*found, strict=True)
            sums.append(measure_sums(values, gaps, scales))
        return tuple(sums)

    def merge(self, left: tuple[ExactSums, ...], right: tuple[ExactSums, ...]) -> tuple[ExactSums, ...]:
        """State by state."""
        return tuple(a.merge(b) for a, b in zip(left, right, strict=True))

    def finish(self, sums: tuple[ExactSums, ...] | None) -> tuple[Mapping[str, Moments], Floats | None]:
        """Moments by column, and the covariance matrix if it is wanted; `sums` is None for no records.

        Raises
        ------
        DataError
            A column holds infinities.
        """
        if sums is None:
            nothing = Moments(records=0, nulls=0, mean=float("nan"), sd=float("nan"))
            s = len(self.columns)
            return dict.fromkeys(self.columns, nothing), np.full((s, s), np.nan) if self.products else None
        moments = {}
        for name, state in zip(self.columns, sums, strict=False):
            if state.infinite[0]:
                raise DataError(f"column {name!r} holds {state.infinite[0]:,} infinite values, which have no mean")
            moments[name] = Moments(
                records=state.count,
                nulls=state.missing,
                mean=state.mean(),
                sd=state.sd(),
                minimum=state.minima[0],
                maximum=state.maxima[0],
            )
        return moments, sums[-1].covariance() if self.products and self.columns else None


SPLITTER = 134217729.0  # 2^27 + 1
MOST_PARTS = 64


@njit(cache=True, nogil=True)
def exact_sum_by_class(offsets: Any, values: Any, counts: Any) -> Any:
    """The double nearest to the sum of value x count over the cells of each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    values : ndarray of float64, shape (n_cells,)
        A class with a value that is not finite gets the plain sum.
    counts : ndarray of int64, shape (n_cells,)
        Below 2^53.

    Returns
    -------
    ndarray of float64, shape (n_classes,)

    Notes
    -----
    A product is kept as two doubles, a sum as doubles that do not overlap. Sources: Dekker, Numer. Math. 18, 1971;
    Shewchuk, Discrete Comput. Geom. 18, 1997.

    Examples
    --------
    >>> cells = np.array([1e16, 1.0, -1e16]), np.array([1, 3, 1])
    >>> exact_sum_by_class(np.array([0, 3]), *cells).tolist()
    [3.0]
    """
    sums = np.zeros(len(offsets) - 1, np.float64)
    parts = np.zeros(MOST_PARTS, np.float64)
    for c in range(len(sums)):
        held = 0
        plain = 0.0
        for i in range(offsets[c], offsets[c + 1]):
            value, count = values[i], np.float64(counts[i])
            product = value * count
            plain += product
            held = _added(parts, held, product)
            if count != 1.0:
                held = _added(parts, held, _error(value, count, product))
        sums[c] = _nearest(parts, held) if np.isfinite(plain) else plain
    return sums


@njit(cache=True, nogil=True)
def _error(value: float, count: float, product: float) -> Any:
    """The exact value x count minus its rounded product."""
    wide = SPLITTER * value
    if not np.isfinite(wide):
        return 0.0
    a = wide - (wide - value)
    b = value - a
    wide = SPLITTER * count
    c = wide - (wide - count)
    d = count - c
    return ((a * c - product) + a * d + b * c) + b * d


@njit(cache=True, nogil=True)
def _added(parts: Any, held: int, x: float) -> Any:
    """Add to doubles that do not overlap; how many there are then."""
    kept = 0
    for j in range(held):
        y = parts[j]
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            parts[kept] = low
            kept += 1
        x = high
    parts[kept] = x
    return kept + 1


@njit(cache=True, nogil=True)
def _nearest(parts: Any, held: int) -> Any:
    """Their sum, rounded once, halves to even."""
    if held == 0:
        return 0.0
    at = held - 1
    high, low = parts[at], 0.0
    while at > 0:
        at -= 1
        before = high
        high = before + parts[at]
        low = parts[at] - (high - before)
        if low != 0.0:
            break
    if at > 0 and ((low < 0.0 and parts[at - 1] < 0.0) or (low > 0.0 and parts[at - 1] > 0.0)):
        twice = low * 2.0
        other = high + twice
        if twice == other - high:
            high = other
    return high
