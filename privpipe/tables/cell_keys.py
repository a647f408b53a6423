"""Noise of cells by the keys of their contributors: the same people get the same noise in every table.

Sources: Fraser, Wooton 2006; Thompson, Broadfoot, Elazar 2013; Marley, Leaver 2011; Giessing 2016; Giessing, Tent 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np
import scipy

from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.tables.cells import Cells, Dimension

__all__ = ["LARGEST_DEVIATION", "NoiseRow", "NoiseTable", "averaged_variance", "averages"]


STEPS = 500
CLOSE = 1e-13
ENOUGH = 1e-10
SHORTEST = 2.0**-60


def most_even(equal: Floats, right: Floats, below: Floats, most: Floats) -> Floats:
    """The p of sum 1 and greatest entropy with `equal` p = `right` and `below` p <= `most`.

    The dual is solved: p = exp(-conditions' w) / sum for multipliers w, those of inequalities at least 0, which
    minimise log sum exp(-conditions' w) + limits' w. Its gradient is by how much p misses the conditions. Newton's
    method, with the multipliers held at 0 that would become negative.

    Parameters
    ----------
    equal, below : ndarray of float64, shape (conditions, probabilities)
    right, most : ndarray of float64, shape (conditions,)

    Returns
    -------
    ndarray of float64
        Conditions hold to 1e-12 of their largest coefficient where floats allow it.

    Raises
    ------
    NoSolutionError
        If no p with all parts above 0 meets the conditions.

    Examples
    --------
    >>> most_even(np.empty((0, 2)), np.empty(0), np.array([[1.0, 0.0]]), np.array([0.25])).round(12).tolist()
    [0.25, 0.75]
    """
    rows = np.vstack([equal, below])
    size = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
    rows, limits = rows / size[:, None], np.concatenate([right, most]) / size
    bounded = np.arange(len(rows)) >= len(equal)
    w = np.zeros(len(rows))
    value, p = _dual(rows, limits, w)
    for _ in range(STEPS):
        gradient = limits - rows @ p
        held = bounded & (w <= 0) & (gradient >= 0)
        error = float(np.abs(np.where(held, 0.0, gradient)).max(initial=0.0))
        if error < CLOSE:
            break
        free = np.flatnonzero(~held)
        spread = rows[free] - (rows[free] @ p)[:, None]
        curvature = (spread * p) @ spread.T
        ridge = 1e-15 * max(float(np.trace(curvature)), 1e-30)
        step = np.zeros(len(w))
        step[free] = np.linalg.lstsq(curvature + ridge * np.eye(len(free)), -gradient[free], rcond=None)[0]
        length = 1.0
        while length > SHORTEST:
            tried = w + length * step
            tried = np.where(bounded, np.maximum(tried, 0.0), tried)
            lower, q = _dual(rows, limits, tried)
            if lower < value + 1e-4 * float(gradient @ (tried - w)):
                break
            # Close to the optimum the value no longer distinguishes points, but the gradient still does.
            change = limits - rows @ q
            still = bounded & (tried <= 0) & (change >= 0)
            if lower <= value + 1e-12 and float(np.abs(np.where(still, 0.0, change)).max(initial=0.0)) < 0.5 * error:
                break
            length /= 2
        else:
            break
        w, value, p = tried, lower, q
    if error > ENOUGH:
        raise NoSolutionError("no probabilities meet the conditions with room to spare")
    return p


def _dual(rows: Floats, limits: Floats, w: Floats) -> tuple[float, Floats]:
    """The value of the dual, and the probabilities of these multipliers."""
    exponent = -(rows.T @ w)
    top = float(exponent.max())
    parts = np.exp(exponent - top)
    total = float(parts.sum())
    return top + float(np.log(total)) + float(limits @ w), parts / total


ONE = 1 << 32
"""Keys and cumulative probabilities are integers of this part of 1."""
LARGEST_DEVIATION = 1000
LARGEST_INTEGER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class NoiseRow:
    """Deviations of one true count.

    Parameters
    ----------
    values : tuple of int
        Ascending.
    bounds : tuple of int
        Cumulative probabilities in 2^-32; the last is 2^32.
    """

    values: tuple[int, ...]
    bounds: tuple[int, ...]

    @classmethod
    def of(cls, values: Sequence[int], probabilities: Sequence[float | Fraction]) -> Self:
        """The row with cumulative bounds rounded so that the mean of the deviations changes least."""
        bounds: list[int] = []
        reached, error = Fraction(0), Fraction(0)
        for at, probability in enumerate(probabilities[:-1]):
            reached += Fraction(probability)
            exact = reached * ONE
            step = values[at + 1] - values[at]
            bound = min(max(round(exact - error / step), bounds[-1] if bounds else 0), ONE)
            error += (bound - exact) * step
            bounds.append(bound)
        return cls(tuple(values), (*bounds, ONE))

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The probability of each deviation in 2^-32."""
        return tuple(b - a for a, b in zip((0, *self.bounds), self.bounds, strict=False))

    @property
    def mean(self) -> Fraction:
        return Fraction(sum(v * w for v, w in zip(self.values, self.weights, strict=True)), ONE)

    @property
    def variance(self) -> Fraction:
        square = Fraction(sum(v * v * w for v, w in zip(self.values, self.weights, strict=True)), ONE)
        return square - self.mean**2


@dataclass(frozen=True)
class NoiseTable:
    """The distribution of noise for each true count; counts above the last row have its distribution.

    Parameters
    ----------
    rows : tuple of NoiseRow
        Row i is that of count i; row 0 leaves 0 unchanged.

    Examples
    --------
    >>> table = NoiseTable.of_greatest_entropy(2, 1.0)
    >>> [round(weight / 2**32, 4) for weight in table.rows[1].weights]
    [0.3665, 0.3665, 0.1676, 0.0995]
    """

    rows: tuple[NoiseRow, ...]

    def __post_init__(self) -> None:
        for at, row in enumerate(self.rows):
            if len(row.values) != len(row.bounds) or row.bounds[-1] != ONE:
                raise UsageError(f"noise table, row {at}: one cumulative bound for each deviation, the last 2^32")
            if list(row.values) != sorted(set(row.values)) or list(row.bounds) != sorted(row.bounds):
                raise UsageError(f"noise table, row {at}: deviations and cumulative bounds must ascend")
            if row.values[0] + at < 0:
                raise UsageError(f"noise table, row {at}: a deviation makes a count negative")
        if not self.rows or self.rows[0].values != (0,):
            raise UsageError("noise table: row 0 must leave 0 unchanged")

    @classmethod
    def of_greatest_entropy(
        cls, D: int, V: float, js: int = 0, stay: float | None = None, *, monotone: bool = True
    ) -> Self:
        """Noise that is as uncertain as mean 0, a variance of at most V and deviations of at most D allow.

        Parameters
        ----------
        D : int
            Largest deviation.
        V : float
            Largest variance.
        js : int
            Counts 1 .. js are never published.
        stay : float or None
            Least probability of no deviation.
        monotone : bool
            Whether probabilities do not fall from the left up to no deviation.

        Raises
        ------
        UsageError
            If a row cannot have this variance; it names the least one.
        """
        if not 1 <= D <= LARGEST_DEVIATION or not 0 <= js < D or not V > 0 or not 0 <= (stay or 0.0) < 1:
            raise UsageError(
                f"cell_key: D in 1 .. {LARGEST_DEVIATION}, js in 0 .. D - 1, V > 0 and stay in [0, 1) needed"
            )
        last = D + js + 1 if js else D
        rows = [NoiseRow((0,), (ONE,))]
        for count in range(1, last + 1):
            values = np.array([v for v in range(-D, D + 1) if count + v == 0 or count + v > js])
            probabilities = _probabilities(count, values, V, stay, monotone)
            rows.append(NoiseRow.of(values.tolist(), probabilities.tolist()))
        return cls(tuple(rows))

    @property
    def largest(self) -> int:
        """D, the largest deviation."""
        return max(max(abs(row.values[0]), abs(row.values[-1])) for row in self.rows)

    @cached_property
    def _steps(self) -> tuple[Ints, Ints]:
        """The bounds of all rows in one ascending array, row i raised by i 2^32, and the deviation of each."""
        bounds = [at * ONE + bound for at, row in enumerate(self.rows) for bound in row.bounds]
        return np.array(bounds, dtype=np.int64), np.array([v for row in self.rows for v in row.values], dtype=np.int64)

    def deviations(self, rows: Ints, keys: Ints) -> Ints:
        """The deviation of each cell by its row and cell key: the first with a cumulative probability above the key."""
        bounds, values = self._steps
        return np.asarray(values[np.searchsorted(bounds, rows * ONE + keys, side="right")], dtype=np.int64)

    def noisy_counts(self, counts: Ints, keys: Ints) -> Ints:
        """Counts with noise, never negative.

        Raises
        ------
        DataError
            If a count is negative.
        """
        negative = int((counts < 0).sum())
        if negative:
            raise DataError(f"cell_key: {negative} counts are negative")
        return np.asarray(counts + self.deviations(np.minimum(counts, len(self.rows) - 1), keys), dtype=np.int64)

    def noisy_sums(self, sums: Ints, largest: Ints, keys: Ints, delta: Fraction) -> Ints:
        """Sums with noise of delta times the largest contribution times a deviation, rounded half to even.

        The row is that of |sum| / (delta largest); between two rows the deviations of both are interpolated. A
        negative sum gets the noise of its absolute value with the opposite sign.

        Parameters
        ----------
        sums, largest : ndarray of int64
            In units; the largest absolute contribution of a contributor to each cell.
        keys : ndarray of int64
            Cell keys, of another purpose than those of counts.
        delta : Fraction
            More than 0.

        Raises
        ------
        DataError
            If figures are too large for int64.
        """
        if not delta > 0:
            raise UsageError("cell_key: delta must be more than 0")
        p, q = delta.numerator, delta.denominator
        size, noisy = np.abs(sums), sums.copy()
        at = np.flatnonzero(largest > 0)
        top = int(max(size.max(initial=0), largest.max(initial=0)))
        if top * max(p, q) * 4 * self.largest >= LARGEST_INTEGER:
            raise DataError("cell_key: sums are too large to add noise in 64 bits; publish them in larger units")
        step = largest[at] * p
        scaled = size[at] * q
        row, rest = np.divmod(scaled, step)
        last = len(self.rows) - 1
        low = self.deviations(np.minimum(row, last), keys[at])
        high = self.deviations(np.minimum(row + 1, last), keys[at])
        numerator = step * low + rest * (high - low)
        noise, half = np.divmod(numerator, q)
        noise += (2 * half > q) | ((2 * half == q) & (noise % 2 != 0))
        noisy[at] += np.where(sums[at] < 0, -noise, noise)
        return noisy

    def reader_intervals(self, published: Ints) -> tuple[Ints, Ints]:
        """The least and greatest true count that can give each published one.

        Raises
        ------
        DataError
            If no count gives a published one.
        """
        last, far = len(self.rows) - 1, self.largest
        top = last + far
        low = np.full(top + 1, -1)
        high = np.full(top + 1, -1)
        for true in range(top + far + 1):
            row = self.rows[min(true, last)]
            for value, weight in zip(row.values, row.weights, strict=True):
                figure = true + value
                if weight and figure <= top:
                    low[figure] = true if low[figure] < 0 else low[figure]
                    high[figure] = true
        near = np.clip(published, 0, top)
        impossible = int(((low[near] < 0) | (published < 0)).sum())
        if impossible:
            raise DataError(f"cell_key: {impossible} published counts are none that the noise can give")
        beyond = np.maximum(published - top, 0)
        return np.asarray(low[near] + beyond, dtype=np.int64), np.asarray(high[near] + beyond, dtype=np.int64)


def _probabilities(count: int, values: Ints, V: float, stay: float | None, monotone: bool) -> Floats:
    equal = values[None, :].astype(np.float64)
    right = np.zeros(1)
    below, most = [], []
    if stay and 0 in values:
        below.append(-(values == 0).astype(np.float64))
        most.append(-stay)
    if monotone:
        for at in range(int((values <= 0).sum()) - 1):
            below.append((np.arange(len(values)) == at).astype(np.float64) - (np.arange(len(values)) == at + 1))
            most.append(0.0)
    square = (values * values).astype(np.float64)
    limits = (np.array(below).reshape(-1, len(values)), np.array(most))
    sums = np.vstack([equal, np.ones(len(values))])
    least: Any = scipy.optimize.linprog(
        square, A_ub=limits[0], b_ub=limits[1], A_eq=sums, b_eq=[0.0, 1.0], bounds=(0.0, 1.0), method="highs"
    )
    if least.status != 0:
        raise UsageError(f"cell_key: no noise of mean 0 exists for a count of {count}; lower js or stay")
    if least.fun > V * (1 - 1e-9):
        raise UsageError(f"cell_key: a count of {count} needs a variance V above {least.fun:.6f}")
    try:
        return most_even(equal, right, np.vstack([*limits[0], square]), np.append(limits[1], V))
    except NoSolutionError:
        raise UsageError(
            f"cell_key: a count of {count} has almost no noise to choose from; give a variance V well above "
            f"{least.fun:.6f}"
        ) from None


Way = frozenset[tuple[Dimension, int]]
"""How a cell is cut into parts: by how many levels along which dimensions."""


def averages(cells: Cells, counts: Ints, table: NoiseTable) -> Iterator[tuple[Way, Floats]]:
    """The variance of the sum of the parts of each cell, for every way to cut cells; infinite where there is none.

    A cell is published itself and as the sum of its parts at each combination of lower levels.
    """
    row_variance = np.array([float(row.variance) for row in table.rows])
    own = np.where(counts > 0, row_variance[np.minimum(counts, len(table.rows) - 1)], 0.0)
    steps = [_one_level_down(cells, place) for place in range(len(cells.dimensions))]
    heights = [_heights(cells, place) for place in range(len(cells.dimensions))]
    for down in product(*(range(int(height.max(initial=0)) + 1) for height in heights)):
        variance = own
        reaches = counts > 0
        for step, height, levels in zip(steps, heights, down, strict=True):
            reaches &= height >= levels
            for _ in range(levels):
                variance = step @ variance
        way = frozenset((each, levels) for each, levels in zip(cells.dimensions, down, strict=True) if levels)
        yield way, np.where(reaches, variance, np.inf)


def averaged_variance(variances: Iterable[Floats]) -> Floats:
    """What remains of the noise of each cell when all sums that equal it are averaged as well as can be.

    One over the sum of the inverses of their variances; infinite where there is none.

    Examples
    --------
    >>> tree = Dimension.tree("a", {"1": "T", "2": "T", **{f"{i}{j}": f"{i}" for i in "12" for j in "abc"}})
    >>> counts = np.array([60, 30, 30, 10, 10, 10, 10, 10, 10])
    >>> ways = averages(Cells.complete([tree]), counts, NoiseTable.of_greatest_entropy(5, 2.0))
    >>> float(averaged_variance(variance for _, variance in ways)[0].round(6))
    1.2
    """
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / sum((1.0 / variance for variance in variances), start=np.zeros(1)))


def _heights(cells: Cells, place: int) -> Ints:
    dimension = cells.dimensions[place]
    height = np.zeros(len(dimension.labels), dtype=np.int64)
    if not dimension.overlapping:
        for code in reversed(range(1, len(dimension.labels))):
            above = dimension.parent[code]
            height[above] = max(height[above], height[code] + 1)
    return np.asarray(height[cells.codes[:, place]], dtype=np.int64)


def _one_level_down(cells: Cells, place: int) -> scipy.sparse.csr_array:
    """The children of each cell along one dimension; a cell without children is its own part."""
    dimension = cells.dimensions[place]
    step = int(np.prod(cells.shape[place + 1 :], dtype=np.int64))
    code = cells.codes[:, place]
    parent = np.asarray(dimension.parent, dtype=np.int64)[code]
    order = np.argsort(cells.keys)
    above = cells.keys + (parent - code) * step
    at = np.searchsorted(cells.keys, above, sorter=order)
    at = order[np.minimum(at, len(order) - 1)]
    child = np.flatnonzero((code > 0) & (cells.keys[at] == above))
    leaf = np.flatnonzero(np.array([not below for below in dimension.children])[code])
    rows, columns = np.concatenate([at[child], leaf]), np.concatenate([child, leaf])
    shape = (len(cells), len(cells))
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
