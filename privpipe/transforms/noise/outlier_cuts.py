"""Which records are outliers: by one of their values, or by their robust distance from the centre."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives
from privpipe.errors import UsageError
from privpipe.transforms.base import StagePlan
from privpipe.transforms.robust_sample import LEAST_SPREAD, FirstRecords, median_and_spread
from privpipe.transforms.strata import ByStratum, Strata

__all__ = ["OutlierCuts", "require_alone", "with_cuts"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class OutlierCuts:
    """Cuts beyond which a record of one stratum is an outlier; none of the numbers is a value of the data.

    Parameters
    ----------
    everybody : bool
        Too few records to tell: each is one.
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
    def of(cls, points: Numbers, columns: Sequence[str], sd: Mapping[str, float], quantile: float) -> Self:
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

    def outlying(self, values: Mapping[str, Numbers]) -> NDArray[np.bool_]:
        """Whether each record is an outlier."""
        n = len(next(iter(values.values())))
        found = np.full(n, self.everybody)
        for column, (low, high) in self.bounds.items():
            found |= (values[column] < low) | (values[column] > high)
        if not self.centre:
            return found
        squared = np.zeros(n)
        off = [values[column] - middle for column, middle in self.centre.items()]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows lies beyond its bounds
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
    whole: Numbers, columns: Sequence[str], units: Mapping[int, tuple[float, float]], quantile: float
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
    """Refuse what cannot be had for outliers alone.

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
