"""Cells of a column of numbers, their persons, and the points at which values are released.

A value that enough records hold is a separate cell and is released unchanged. The rare ones form cells of
consecutive values; within a cell, groups of at least five records are released as two points of their mean and
deviation (mean minus and plus deviation, unless the group is skewed), so that mean and variance of a tail are
preserved, and no point is a value that only few records hold. Where all near numbers are taken, as for serial numbers
or days, the point is the nearest number within the range: it represents its group, and reveals only that the numbers
are dense. Where a column has no number between its ends, the point is the rounded mean of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints
from privpipe.kernels.synthesis.copula import ValueRanks

__all__ = ["FEWEST", "Pairs", "ValueCells", "ValuePersons", "first_of_each"]


Pairs = tuple[Ints, Ints]
"""Places of values, ascending, with one person for each entry."""


def first_of_each(places: Ints, persons: Ints, enough: int) -> Pairs:
    """Different persons of each place, the smallest codes first and at most `enough`.

    Examples
    --------
    >>> [each.tolist() for each in first_of_each(np.array([1, 0, 1, 1, 1]), np.array([9, 4, 9, 7, 8]), 2)]
    [[0, 1, 1], [4, 7, 8]]
    """
    if not len(places):
        return places, persons
    order = np.lexsort((persons, places))
    places, persons = places[order], persons[order]
    new = np.ones(len(places), np.bool_)
    new[1:] = (places[1:] != places[:-1]) | (persons[1:] != persons[:-1])
    places, persons = places[new], persons[new]
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
    within = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
    return places[within < enough], persons[within < enough]


@dataclass(frozen=True)
class ValuePersons:
    """Persons of values 0 .. m - 1.

    Parameters
    ----------
    offsets : tuple of ndarray of int64, shape (m + 1,)
        For each unit (persons, households), where the codes of each value begin.
    codes : tuple of ndarray of int64
        The codes of each unit, value by value: all persons of a value, or as many as are enough.

    Examples
    --------
    >>> held = ValuePersons.of([(np.array([0, 0, 2]), np.array([5, 6, 6]))], 3)
    >>> held.counts().tolist(), held.number(np.array([0, 2])), held.joined(np.array([0, 1, 2]), 2).tolist()
    ([2, 0, 1], 2, [0])
    """

    offsets: tuple[Ints, ...] = field(repr=False)
    codes: tuple[Ints, ...] = field(repr=False)

    @classmethod
    def of(cls, units: Sequence[Pairs], size: int) -> Self:
        """From the pairs of `first_of_each`, unit by unit, for `size` values."""
        return cls(
            tuple(np.searchsorted(places, np.arange(size + 1)) for places, _ in units),
            tuple(persons for _, persons in units),
        )

    def counts(self) -> Ints:
        """Persons of each value, at most as many as are enough: the fewest over several units."""
        return np.asarray(np.min([np.diff(offsets) for offsets in self.offsets], axis=0), np.int64)

    def number(self, places: Ints) -> int:
        """Persons that hold one or more of these values."""
        return min(
            len(np.unique(np.concatenate([codes[:0], *(codes[offsets[at] : offsets[at + 1]] for at in places)])))
            for offsets, codes in zip(self.offsets, self.codes, strict=True)
        )

    def taken(self, places: Ints) -> ValuePersons:
        """Persons of some of the values, numbered from 0."""
        units = []
        for offsets, codes in zip(self.offsets, self.codes, strict=True):
            sizes = np.diff(offsets)[places]
            ends = np.cumsum(sizes)
            at = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes) + np.repeat(offsets[places], sizes)
            units.append((np.concatenate([[0], ends]).astype(np.int64), codes[at]))
        return ValuePersons(tuple(each for each, _ in units), tuple(each for _, each in units))

    def joined(self, firsts: Ints, least: int) -> Ints:
        """First values of runs of consecutive given values, each of at least `least` persons if all together are.

        A run of fewer persons continues into the next; a last one belongs to the run before it.
        """
        kept: list[int] = []
        first: int | None = None
        for start, end in zip(firsts.tolist(), [*firsts[1:].tolist(), len(self.offsets[0]) - 1], strict=True):
            first = start if first is None else first
            if self._between(first, end) >= least:
                kept.append(first)
                first = None
        return np.array(kept or [0], np.int64)

    def _between(self, first: int, end: int) -> int:
        return min(
            len(np.unique(codes[offsets[first] : offsets[end]]))
            for offsets, codes in zip(self.offsets, self.codes, strict=True)
        )


FEWEST = 5
"""Least records of a group, whatever count makes a value rare."""
MOST_GROUPS = 32
MOST_ATOMS = 1000
FARTHEST = 64
"""Most grid steps that a point moves to avoid a rare value."""
MOST_DECIMALS = 6
EIGHTHS = 8
LEAST_GAIN = 0.01
WITHIN = 0.9
"""Largest share of the distance to the end of its group that a point moves: with two values it would equal these."""


@dataclass(frozen=True)
class ValueCells:
    """Cells by number, ascending by their mean.

    Parameters
    ----------
    atoms : ndarray, shape (a,)
        Values that are released unchanged, ascending.
    atom_cells : ndarray of int64, shape (a,)
        Cell of each.
    starts : ndarray, shape (r,)
        Least value of each cell of rare values, ascending.
    start_cells : ndarray of int64, shape (r,)
        Cell of each.
    means : ndarray of float64, shape (cells,)
    points : tuple of tuples of numbers
        Points of each cell, equally likely; none: its values cannot be released.
    """

    atoms: NDArray[Any] = field(repr=False)
    atom_cells: Ints = field(repr=False)
    starts: NDArray[Any] = field(repr=False)
    start_cells: Ints = field(repr=False)
    means: Floats = field(repr=False)
    points: tuple[tuple[Any, ...], ...] = field(repr=False)

    @classmethod
    def of(
        cls,
        ranks: ValueRanks,
        bins: int,
        min_count: int,
        *,
        parted: bool = False,
        persons: ValuePersons | None = None,
    ) -> Self:
        """The cells of a column.

        Parameters
        ----------
        ranks : ValueRanks
        bins : int
            Most cells of rare values.
        min_count : int
            A value of fewer records is rare.
        parted : bool
            Half of the cells hold equal counts, and the others result from splitting those that vary most: for models
            that do not distinguish the values of a cell.
        persons : ValuePersons, optional
            Persons of each value, counted instead of records, also in cells and in the groups of a cell.

        Examples
        --------
        >>> cells = ValueCells.of(ValueRanks.of(np.array([0, 7, 20, 31, 50, 62]), np.array([9, 2, 2, 2, 2, 2])), 10, 5)
        >>> cells.cells(np.array([0, 31])).tolist(), cells.points
        ([0, 1], ((0,), (14, 54)))
        """
        counts = np.diff(ranks.offsets)
        holders = counts if persons is None else persons.counts()
        is_atom = holders >= min_count
        if is_atom.sum() > MOST_ATOMS:
            least = np.sort(counts)[-MOST_ATOMS]
            is_atom &= counts > least
        rare, held = ranks.values[~is_atom], counts[~is_atom]
        atoms = ranks.values[is_atom]
        forbidden = ranks.values[holders < min_count]
        fewest = max(min_count, FEWEST)
        whose = None if persons is None else persons.taken(np.flatnonzero(~is_atom))
        together = held.sum() if whose is None else whose.number(np.arange(len(rare)))
        if together < fewest:  # too few to have a separate mean
            return cls._of_atoms(atoms, rare)
        most = max(min(bins, int(held.sum()) // (2 * fewest)), 1)
        even = max(most // 2, 1) if parted else most
        firsts = np.flatnonzero(np.diff(_runs(held, even), prepend=-1))
        firsts = _parted(rare, held, firsts, most, 2 * fewest) if parted else firsts
        firsts = firsts if whose is None else whose.joined(firsts, 2 * fewest)
        grid = _Grid.of(ranks.values, forbidden)
        means, points = [], []
        for first, last in zip(firsts, [*firsts[1:], len(rare)], strict=True):
            values, weights = rare[first:last], held[first:last]
            means.append(_moments(values, weights)[0])
            here = None if whose is None else whose.taken(np.arange(first, last))
            points.append(_points(values, weights, fewest, grid, here))
        every = np.concatenate([atoms.astype(np.float64), np.array(means)])
        order = np.argsort(every, kind="stable")
        cells = np.empty(len(order), np.int64)
        cells[order] = np.arange(len(order))
        released: list[tuple[Any, ...]] = [*((value,) for value in atoms.tolist()), *points]
        found = _filled([released[at] for at in order], every[order])
        a = len(atoms)
        return cls(atoms, cells[:a], rare[firsts], cells[a:], every[order], tuple(found))

    @classmethod
    def _of_atoms(cls, atoms: NDArray[Any], rare: NDArray[Any]) -> Self:
        """Without cells of rare values: each rare value goes to the nearest value that is not rare."""
        means = atoms.astype(np.float64)
        if not len(atoms):
            return cls(
                atoms, np.empty(0, np.int64), rare[:1], np.zeros(min(len(rare), 1), np.int64), np.zeros(1), ((),)
            )
        nearest = np.array([int(np.abs(means - float(value)).argmin()) for value in rare], np.int64)
        points = tuple((value,) for value in atoms.tolist())
        return cls(atoms, np.arange(len(atoms)), rare, nearest, means, points)

    def __len__(self) -> int:
        return len(self.points)

    def cells(self, values: NDArray[Any]) -> Ints:
        """Cell of each value; undefined for a missing one."""
        found = np.zeros(len(values), np.int64)
        if len(self.starts):
            at = np.searchsorted(self.starts, values, side="right") - 1
            found = self.start_cells[np.clip(at, 0, len(self.starts) - 1)]
        if len(self.atoms):
            at = np.minimum(np.searchsorted(self.atoms, values), len(self.atoms) - 1)
            if not len(self.starts):
                return self.atom_cells[at]
            found = np.where(self.atoms[at] == values, self.atom_cells[at], found)
        return np.asarray(found)

    def is_whole(self) -> bool:
        """Whether all parts are consistent: cells may be read from JSON, which may contain anything."""
        owners, count = (self.atom_cells, self.start_cells), len(self.points)
        held = (self.atoms, self.starts, self.means)
        released = np.array([point for points in self.points for point in points], self.atoms.dtype)
        return bool(
            [len(each) for each in owners] == [len(self.atoms), len(self.starts)]
            and len(self.means) == count
            and all(((each >= 0) & (each < count)).all() for each in owners)
            and all(np.isfinite(each).all() for each in (*held, released))
            and all((np.diff(each.astype(np.float64)) >= 0).all() for each in held)
            and (len(self.atoms) or len(self.starts))
            and all(type(point) is int for points in self.points for point in points if self.atoms.dtype.kind == "i")
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "atoms": self.atoms.tolist(),
            "atom_cells": self.atom_cells.tolist(),
            "starts": self.starts.tolist(),
            "start_cells": self.start_cells.tolist(),
            "means": self.means.tolist(),
            "points": [list(each) for each in self.points],
            "whole": self.atoms.dtype.kind == "i",
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The cells of `to_dict`."""
        kind = np.int64 if data["whole"] else np.float64
        return cls(
            np.array(data["atoms"], kind),
            np.array(data["atom_cells"], np.int64),
            np.array(data["starts"], kind),
            np.array(data["start_cells"], np.int64),
            np.array(data["means"], np.float64),
            tuple(tuple(each) for each in data["points"]),
        )


@dataclass(frozen=True)
class _Grid:
    """The grid of released numbers, and which of them would equal the value of a single record."""

    step: float | int | None
    decimals: int
    origin: int
    low: Any
    high: Any
    forbidden: NDArray[Any] = field(repr=False)

    @classmethod
    def of(cls, values: NDArray[Any], forbidden: NDArray[Any]) -> Self:
        low, high = values[0], values[-1]
        if values.dtype.kind == "i":
            step = int(np.gcd.reduce(values - low)) or 1 if int(high) - int(low) < 2**62 else 1
            return cls(step, 0, int(low), int(low), int(high), forbidden)
        for decimals in range(MOST_DECIMALS + 1):
            scaled = values * 10.0**decimals
            if np.abs(scaled).max() < 2.0**52 and (np.rint(scaled) / 10.0**decimals == values).all():
                return cls(10.0**-decimals, decimals, 0, float(low), float(high), forbidden)
        return cls(None, 0, 0, float(low), float(high), forbidden)

    def free(self, value: float, mean: float) -> Any:
        """The nearest number to release for a group with this mean; None where no near number is free.

        Where all near numbers of the grid are taken, at least five of them, the nearest is released: it reveals that
        the column is dense, as ages and days are. If fewer are taken, a number between two of them is released; and
        the rounded mean of the group where there is none.
        """
        if self.step is None:
            return None if self._is_taken(value) else value
        found = self._nearest(value, 0)
        if found is None and len(self.forbidden) >= FEWEST:
            found = self._within(value)
        finest = min(self.step - 1, 1) if isinstance(self.step, int) else 2
        for finer in range(1, finest + 1):
            found = self._nearest(value, finer) if found is None else found
        found = self._within(value) if found is None else found
        return self._at(mean, 0, 0) if found is None else found

    def _nearest(self, value: float, finer: int) -> Any:
        for k in range(FARTHEST + 1):
            for away in (k, -k) if k else (0,):
                at = self._at(value, away, finer)
                if self.low < at < self.high and not self._is_taken(at):
                    return at
        return None

    def _within(self, value: float) -> Any:
        """The nearest number of the grid between the ends of the column, taken or not; None where there is none."""
        for end in (self._at(value, 0, 0), self._at(float(self.low), 1, 0), self._at(float(self.high), -1, 0)):
            if self.low < end < self.high:
                return end
        return None

    def _at(self, value: float, away: int, finer: int) -> Any:
        if isinstance(self.step, int):
            first = self.origin + finer * (self.step // 2)
            return first + (round((value - first) / self.step) + away) * self.step
        scale = 10.0 ** (self.decimals + finer)
        return float((np.rint(value * scale) + away) / scale)

    def _is_taken(self, value: Any) -> bool:
        at = int(np.searchsorted(self.forbidden, value))
        return at < len(self.forbidden) and bool(self.forbidden[at] == value)


def _runs(held: Ints, count: int) -> Ints:
    """Run of each value: runs of consecutive values with nearly equal numbers of records."""
    before = np.cumsum(held) - held
    return np.asarray(np.unique(before * count // int(held.sum()), return_inverse=True)[1])


def _parted(values: NDArray[Any], held: Ints, firsts: Ints, most: int, least: int) -> Ints:
    """First value of each of up to `most` cells: repeatedly splits the cell whose deviation a cut reduces most.

    Cells of equal counts would put a whole long tail into one cell, and lose its relation to other columns.
    """
    away = values.astype(np.float64) - float(values[len(values) // 2])
    away /= max(float(np.abs(away).max()), 1e-300)
    running = np.cumsum(np.column_stack([held, away * held]), axis=0)
    sums = np.concatenate([np.zeros((1, 2)), running])

    def cut(first: int, end: int) -> tuple[float, int]:
        at = np.arange(first + 1, end)
        below, above = sums[at] - sums[first], sums[end] - sums[at]
        at, below, above = (each[(below[:, 0] >= least) & (above[:, 0] >= least)] for each in (at, below, above))
        if not len(at):
            return 0.0, first
        apart = below[:, 1] / below[:, 0] - above[:, 1] / above[:, 0]
        gains = apart * apart * below[:, 0] * above[:, 0] / (below[:, 0] + above[:, 0])
        best = int(gains.argmax())
        return float(gains[best]), int(at[best])

    ends = dict(zip(firsts.tolist(), [*firsts[1:].tolist(), len(values)], strict=True))
    cuts = {first: cut(first, end) for first, end in ends.items()}
    while len(ends) < most:
        first = max(cuts, key=lambda each: cuts[each][0])
        gain, at = cuts[first]
        if gain <= 0:
            break
        ends[first], ends[at] = at, ends[first]
        cuts[first], cuts[at] = cut(first, at), cut(at, ends[at])
    return np.array(sorted(ends), np.int64)


def _moments(values: NDArray[Any], weights: Ints) -> tuple[float, float]:
    first = values[0]
    away = (values - first).astype(np.float64)  # relative to the first, so that the mean of equal values is exact
    total = float(weights.sum())
    mean = float((away * weights).sum() / total)
    return float(first) + mean, float(np.sqrt(max(float((away * away * weights).sum() / total) - mean * mean, 0.0)))


def _points(
    values: NDArray[Any], weights: Ints, fewest: int, grid: _Grid, persons: ValuePersons | None
) -> tuple[Any, ...]:
    groups = _runs(weights, max(min(MOST_GROUPS, int(weights.sum()) // (2 * fewest)), 1))
    firsts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    firsts = firsts if persons is None else persons.joined(firsts, 2 * fewest)
    pairs = [
        _two_points(values[first:last], weights[first:last])
        for first, last in zip(firsts, [*firsts[1:], len(values)], strict=True)
    ]
    # Points are equally likely, and so are groups: where one is skewed, each has as many points.
    even = all(above == EIGHTHS // 2 for _, _, _, above in pairs)
    found = []
    for mean, low, high, above in pairs:
        times = (1, 1) if even else (EIGHTHS - above, above)
        for point, count in zip((grid.free(low, mean), grid.free(high, mean)), times, strict=True):
            found += [point] * count if point is not None else []
    return tuple(sorted(found))


def _two_points(values: NDArray[Any], weights: Ints) -> tuple[float, float, float, int]:
    """The mean of the group, and a low and a high point with this mean and its deviation as far as its ends allow.

    Also how many eighths of the group go to the high point: half, unless other shares preserve more of the deviation.
    """
    mean, sd = _moments(values, weights)
    below, over = WITHIN * (mean - float(values[0])), WITHIN * (float(values[-1]) - mean)
    best = (-1.0, 0.0, 0.0, 0)
    for above in sorted(range(1, EIGHTHS), key=lambda each: abs(each - EIGHTHS / 2)):
        share = above / EIGHTHS
        down, up = sd * np.sqrt(share / (1.0 - share)), sd * np.sqrt((1.0 - share) / share)
        kept = min(1.0, below / down, over / up) if sd > 0 else 1.0
        if kept > best[0] + LEAST_GAIN:
            best = (kept, mean - kept * down, mean + kept * up, above)
    return mean, best[1], best[2], best[3]


def _filled(points: list[tuple[Any, ...]], means: Floats) -> list[tuple[Any, ...]]:
    """Cells without points take those of the nearest cell that has some."""
    have = [at for at, each in enumerate(points) if each]
    if not have:
        return points
    near = np.array(have, np.int64)
    return [each or points[int(near[np.abs(means[near] - means[at]).argmin()])] for at, each in enumerate(points)]
