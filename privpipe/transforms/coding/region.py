"""The region around a robust centre in which no record is coded, and where a record outside meets its boundary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import DataError
from privpipe.transforms.robust_sample import median_and_spread

__all__ = ["Boundary", "Region", "patterns_of"]

Numbers = NDArray[np.float64]


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

    def squared(self, offsets: Numbers) -> Numbers:
        """Squared distances of records from the centre, by their offsets in scales, shape (n, columns)."""
        found = np.zeros(len(offsets))
        with np.errstate(over="ignore", invalid="ignore"):  # what is no finite number is counted and refused
            for weights in zip(*self.axes, strict=True):
                # Added up term by term: a matrix product may round differently from block to block.
                terms = [offsets[:, at] * weight for at, weight in enumerate(weights)]
                found += sum(terms[1:], terms[0]) ** 2
        return found


@dataclass(frozen=True)
class Region:
    """Centre, scales and scatter of one stratum, none of which is a value of the data.

    Parameters
    ----------
    centre : tuple of float
        Of each column.
    scale : tuple of float
        1.4826 times the median absolute deviation of each column.
    boundaries : mapping of text to Boundary
        ``101`` stands for records that miss a value of the second of three columns alone.
    rank : int
        Directions of the scatter; see `Scatter`.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    rank: int
    boundaries: Mapping[str, Boundary] = field(default_factory=dict)

    @classmethod
    def of(cls, points: Numbers, quantile: float) -> Self:
        """From a sample, shape (n, s), NaN where there is no value, in any order, with 2 (s + 1) complete records.

        A column whose scale is 0 has no distance: there the region is none, and `scale` says which.
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

    def coded(self, points: Numbers, upper: bool) -> tuple[NDArray[np.bool_], Numbers, int]:
        """Which records are coded on that side, where they meet the boundary, and how many are too far to be measured.

        Parameters
        ----------
        points : ndarray of float64, shape (n, s)
            NaN where there is no value.
        upper : bool
            The side on which the value that lies furthest from its centre, in scales, lies above it.

        Returns
        -------
        coded : ndarray of bool, shape (n,)
        met : ndarray of float64, shape (n, s)
            Those that are not coded, as they are.
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


def patterns_of(points: Numbers) -> Iterator[tuple[str, NDArray[np.int64]]]:
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


def _rows(axes: Numbers) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, axes.tolist()))
