"""Outliers: a robust sample and centre, the region around the centre, and the records that are outside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import StagePlan
from privpipe.transforms.strata import ByStratum, Strata

__all__ = [
    "LARGEST_SAMPLE",
    "LEAST_SPREAD",
    "Boundary",
    "FirstRecords",
    "OutlierCuts",
    "Region",
    "Sample",
    "median_and_spread",
    "patterns_of",
    "require_alone",
    "with_cuts",
]


Sample = tuple[Ints, Floats]
LARGEST_SAMPLE = 20_000
LEAST_SPREAD = 1e-290
NORMAL_MAD = 1.482602218505602
"""Standard deviations of a normal variable in a median absolute deviation."""


def median_and_spread(values: Floats) -> tuple[float, float]:
    """The median, and 1.4826 times the median absolute deviation from it.

    Examples
    --------
    >>> median_and_spread(np.array([1.0, 2, 3, 4, 90]))
    (3.0, 1.482602218505602)
    """
    middle = float(np.median(values))
    return middle, NORMAL_MAD * float(np.median(np.abs(values - middle)))


@dataclass(frozen=True)
class FirstRecords:
    """A reduction: ids and values, NaN where there is none, of the `most` records of smallest id.

    Ids are keyed, so that this is a random sample, the same on every engine.

    Parameters
    ----------
    columns : tuple of str
    most : int
        Default: `LARGEST_SAMPLE`.
    """

    columns: tuple[str, ...]
    most: int = field(default_factory=lambda: LARGEST_SAMPLE)

    def measure(self, block: RowBlock, facts: Facts) -> Sample:
        return self._first(block.record_ids, np.stack([block[name] for name in self.columns], axis=1))

    def merge(self, left: Sample, right: Sample) -> Sample:
        return self._first(np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]]))

    def _first(self, ids: Ints, points: Floats) -> Sample:
        order = np.lexsort((ids[:, 1], ids[:, 0]))[: self.most]
        return ids[order], points[order]


@dataclass(frozen=True)
class Boundary:
    """Of the records that have a value in the same columns.

    Parameters
    ----------
    axes : tuple of tuples of float
        For each of the columns a row; see `Scatter`.
    cut : float
        Squared distance of the boundary.
    """

    axes: tuple[tuple[float, ...], ...]
    cut: float

    def squared(self, offsets: Floats) -> Floats:
        """Squared distances of records from the centre, by their offsets in scales, shape (n, columns)."""
        found = np.zeros(len(offsets))
        with np.errstate(over="ignore", invalid="ignore"):  # results that are not finite are counted and refused
            for weights in zip(*self.axes, strict=True):
                # Added up term by term: a matrix product may round differently from block to block.
                terms = [offsets[:, at] * weight for at, weight in enumerate(weights)]
                found += sum(terms[1:], terms[0]) ** 2
        return found


@dataclass(frozen=True)
class Region:
    """Centre, scales and scatter of one stratum; none is a value of the data.

    Parameters
    ----------
    centre : tuple of float
        For each column.
    scale : tuple of float
        1.4826 times the median absolute deviation of each column.
    boundaries : mapping of text to Boundary
        ``101`` is for records that miss only the value of the second of three columns.
    rank : int
        Directions of the scatter; see `Scatter`.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    rank: int
    boundaries: Mapping[str, Boundary] = field(default_factory=dict)

    @classmethod
    def of(cls, points: Floats, quantile: float) -> Self:
        """From a sample, shape (n, s), NaN where there is no value, in any order, with 2 (s + 1) complete records.

        A column whose scale is 0 has no distance: there the region is none, and `scale` shows which.
        """
        from privpipe.kernels.noise.minimum_covariance import chi_square_quantile, minimum_covariance

        known = [column[~np.isnan(column)] for column in points.T]
        middles, scale = np.array([median_and_spread(column) for column in known]).T
        if not scale.all():
            return cls(tuple(middles.tolist()), tuple(scale.tolist()), 0)
        whole = points[~np.isnan(points).any(axis=1)]
        with np.errstate(over="ignore"):  # infinitely far is far
            scatter = minimum_covariance((whole - middles) / scale)
        boundary = Boundary(_rows(scatter.axes), chi_square_quantile(quantile, scatter.rank))
        centre = tuple((middles + scatter.centre * scale).tolist())
        return cls(centre, tuple(scale.tolist()), scatter.rank, {"1" * len(centre): boundary})

    def with_boundaries(self, patterns: Iterable[str], quantile: float) -> Self:
        """With a boundary for records of these patterns too: that of the distance over the columns they have."""
        from privpipe.kernels.noise.minimum_covariance import Scatter, chi_square_quantile

        axes = np.array(self.boundaries["1" * len(self.centre)].axes)
        scatter = Scatter(np.zeros(len(axes)), axes, self.rank)
        found = dict(self.boundaries)
        for pattern in sorted(set(patterns) - set(found)):
            if "1" in pattern:
                part = scatter.among([at for at, known in enumerate(pattern) if known == "1"])
                found[pattern] = Boundary(_rows(part.axes), chi_square_quantile(quantile, part.rank))
        return replace(self, boundaries=found)

    def coded(self, points: Floats, upper: bool) -> tuple[Bools, Floats, int]:
        """Which records are coded on that side, where they meet the boundary, and how many are too far to be measured.

        Parameters
        ----------
        points : ndarray of float64, shape (n, s)
            NaN where there is no value.
        upper : bool
            The side on which the value furthest from its centre, in scales, is above it.

        Returns
        -------
        coded : ndarray of bool, shape (n,)
        met : ndarray of float64, shape (n, s)
            Those that are not coded, unchanged.
        too_far : int
        """
        coded, met, too_far = np.zeros(len(points), np.bool_), points.copy(), 0
        with np.errstate(over="ignore"):
            offsets = (points - np.array(self.centre)) / np.array(self.scale)
        for pattern, here in patterns_of(points):
            if "1" not in pattern:
                continue
            if pattern not in self.boundaries:
                raise DataError(f"{len(here):,} records miss other values than the plan knows; make a new plan")
            boundary = self.boundaries[pattern]
            known = offsets[np.ix_(here, np.flatnonzero([each == "1" for each in pattern]))]
            squared = boundary.squared(known)
            too_far += int((~np.isfinite(squared)).sum())
            above, below = known.max(axis=1), -known.min(axis=1)
            beyond = (squared > boundary.cut) & (above >= below if upper else below >= above)
            far = here[beyond]
            share = np.sqrt(boundary.cut / squared[beyond])
            met[far] = np.array(self.centre) + share[:, None] * (points[far] - np.array(self.centre))
            coded[far] = True
        return coded, met, too_far

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "centre": list(self.centre),
            "scale": list(self.scale),
            "rank": self.rank,
            "boundaries": {
                pattern: {"axes": [list(row) for row in each.axes], "cut": each.cut}
                for pattern, each in sorted(self.boundaries.items())
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON of a plan."""
        boundaries = {
            pattern: Boundary(tuple(tuple(row) for row in each["axes"]), each["cut"])
            for pattern, each in data["boundaries"].items()
        }
        return cls(tuple(data["centre"]), tuple(data["scale"]), data["rank"], boundaries)


def patterns_of(points: Floats) -> Iterator[tuple[str, Ints]]:
    """Records by which of their values are known, ``101``.

    Examples
    --------
    >>> [(pattern, here.tolist()) for pattern, here in patterns_of(np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]]))]
    [('01', [1]), ('11', [0, 2])]
    """
    known = ~np.isnan(points)
    if known.all():
        if len(points):
            yield "1" * points.shape[1], np.arange(len(points))
        return
    kinds, places = np.unique(known, axis=0, return_inverse=True)
    for at, kind in enumerate(kinds):
        yield "".join("1" if each else "0" for each in kind), np.flatnonzero(places.reshape(-1) == at)


def _rows(axes: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, axes.tolist()))


@dataclass(frozen=True)
class OutlierCuts:
    """Cuts beyond which a record of one stratum is an outlier; none of the numbers is a value of the data.

    Parameters
    ----------
    everybody : bool
        Too few records to decide: each is one.
    bounds : mapping of column to (float, float)
        Of the columns that vary.
    centre : mapping of column to float
        Of the columns of the distance; none: there is none.
    axes : tuple of tuples of float
        For each column of the distance a row; see `Scatter`.
    cut : float
        Largest squared distance of no outlier.
    """

    everybody: bool = False
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    centre: Mapping[str, float] = field(default_factory=dict)
    axes: tuple[tuple[float, ...], ...] = ()
    cut: float = 0.0

    @classmethod
    def of(cls, points: Floats, columns: Sequence[str], sd: Mapping[str, float], quantile: float) -> Self:
        """From a sample, shape (n, s), NaN where there is no value, in any order."""
        from privpipe.kernels.noise.minimum_covariance import chi_square_quantile

        whole = points[~np.isnan(points).any(axis=1)]
        if len(whole) < 2 * (len(columns) + 1):
            return cls(everybody=True)
        limit = float(np.sqrt(chi_square_quantile(quantile, 1)))
        bounds, units = {}, {}
        for at, column in enumerate(columns):
            middle, spread = median_and_spread(points[~np.isnan(points[:, at]), at])
            if spread > LEAST_SPREAD:
                units[at] = middle, spread
            if scale := spread or sd[column]:
                bounds[column] = middle - limit * scale, middle + limit * scale
        return cls(bounds=bounds, **_distance(whole, columns, units, quantile) if len(units) > 1 else {})

    def outlying(self, values: Mapping[str, Floats]) -> Bools:
        """Whether each record is an outlier."""
        n = len(next(iter(values.values())))
        found = np.full(n, self.everybody)
        for column, (low, high) in self.bounds.items():
            found |= (values[column] < low) | (values[column] > high)
        if not self.centre:
            return found
        squared = np.zeros(n)
        off = [values[column] - middle for column, middle in self.centre.items()]
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is beyond its bounds
            for weights in zip(*self.axes, strict=True):
                # Added up term by term: a matrix product may round differently from block to block.
                terms = [each * weight for each, weight in zip(off, weights, strict=True)]
                squared += sum(terms[1:], terms[0]) ** 2
        return np.asarray(found | (squared > self.cut))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "everybody": self.everybody,
            "bounds": {column: list(ends) for column, ends in self.bounds.items()},
            "centre": list(self.centre.items()),  # its order is that of the axes
            "axes": [list(row) for row in self.axes],
            "cut": self.cut,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON of a plan."""
        return cls(
            everybody=data["everybody"],
            bounds={column: (low, high) for column, (low, high) in data["bounds"].items()},
            centre=dict(data["centre"]),
            axes=tuple(tuple(row) for row in data["axes"]),
            cut=data["cut"],
        )


def _distance(
    whole: Floats, columns: Sequence[str], units: Mapping[int, tuple[float, float]], quantile: float
) -> dict[str, Any]:
    """Centre, axes and cut over the columns that have a unit, in which scatter is sought."""
    from privpipe.kernels.noise.minimum_covariance import chi_square_quantile, minimum_covariance

    middles, spreads = np.array(list(units.values())).T
    with np.errstate(over="ignore"):  # infinitely far is far
        scatter = minimum_covariance((whole[:, list(units)] - middles) / spreads)
    centre = (middles + scatter.centre * spreads).tolist()
    return {
        "centre": {columns[at]: middle for at, middle in zip(units, centre, strict=True)},
        "axes": tuple(map(tuple, (scatter.axes / spreads[:, None]).tolist())),
        "cut": chi_square_quantile(quantile, scatter.rank),
    }


def require_alone(kind: str, bias_correct: bool, same_within: str | None) -> None:
    """Refuse options that do not work for outliers only.

    Raises
    ------
    UsageError
    """
    for text, so in {
        "kind: orthogonal, which keeps sums by masking all records": kind == "orthogonal",
        "bias_correct, which shrinks all records": bias_correct,
        "same_within: of two members of one value one may be an outlier": same_within is not None,
    }.items():
        if so:
            raise UsageError(f"AddNoise: outliers cannot be had with {text}")


def with_cuts(
    plan: StagePlan, engine: Primitives, table: Any, strata: Strata, columns: tuple[str, ...], quantile: float
) -> StagePlan:
    """The plan with the cuts of each stratum, learnt from its records of smallest id, which is keyed."""
    gathered = ByStratum(strata, FirstRecords(columns))
    samples = engine.reduce_rows(table, (*strata.by, *columns), gathered, Facts()) or [None] * len(strata)
    figures = []
    for sample, each in zip(samples, plan.detail["by_stratum"] if strata.by else [plan.detail], strict=True):
        points = np.empty((0, len(columns))) if sample is None else sample[1]
        figures.append({**each, "outliers": OutlierCuts.of(points, columns, each["sd"], quantile).to_dict()})
    return replace(plan, detail={**plan.detail, "by_stratum": figures} if strata.by else figures[0])
