"""Interval disclosure with intervals that widen for outlying records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.comparison import Comparison
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Columns, Stricter
from privpipe.errors import DataError
from privpipe.kernels.linkage.robust_scatter import Estimator
from privpipe.measures.risk.identity.column_set import require_columns
from privpipe.tolerance import at_most

__all__ = ["RobustIntervalRisk"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, repr=False)
class RobustIntervalRisk(FilePairMeasure):
    """Share of records whose masked values lie near the original ones, as far as their distance from the centre asks.

    Experimental: the robust scatter is found by a randomised search, and other programs find others.

    Parameters
    ----------
    columns : tuple of str, optional
        Number columns. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.
    k : float
        Half the width of an interval, in R_i of the record; above 0.
    k2 : float
        How near another released record must come to hide it, in standard deviations; above 0.
    figure : {"inside", "isolated"}
        Records inside an interval in any column, or of these such as have no other released record near.
    estimator : {"mcd", "classical"}
        Of the scatter of the standardised original; `mcd` needs scikit-learn.

    Notes
    -----
    R_i = 0.05 sqrt(x_i' C+ x_i) with C+ the inverse on the span of the columns, so that collinear ones do no harm.
    Inside: any column with |x_ij - y_ij| < k R_i, each file standardised by its own mean and deviation. `weighted` is
    the number inside times the sum of their R_i over n. Records with a missing value are left out and counted,
    infinite values are refused. Where more than half of the records are alike, `mcd` has no scatter: an error.

    Source: Templ, Meindl, Robust statistics meets SDC, PSD 2008.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x, y = pa.record_batch({"a": [1.0, 2.0, 9.0]}), pa.record_batch({"a": [1.0, 2.5, 8.5]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((3, 2), dtype=np.int64), records=3, released_records=3)
    >>> measure = RobustIntervalRisk(columns=("a",), at_most=0.5, k=1.0, estimator="classical")
    >>> verdict = measure.judge_files(files)
    >>> verdict.outcome, round(verdict.observed["inside"], 3), round(verdict.observed["isolated"], 3)
    ('pass', 0.333, 0.333)
    """

    observes: ClassVar[object] = dict[str, Any]
    source: ClassVar[str] = "Templ, Meindl, PSD 2008"
    threat: ClassVar[str] = "An intruder recognises an outlying record although its values were moved a little."
    formula: ClassVar[str] = "share with any |x - y| < k R_i, R_i = 0.05 sqrt(x_i' C+ x_i)"
    choose: ClassVar[str] = "Experimental: report it, or gate loosely beside record_linkage."

    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest share of records that is tolerated")
    ] = None
    k: Annotated[float, Gt(0), Stricter("equal"), Doc("half the width of an interval, in R of the record")] = 0.01
    k2: Annotated[
        float, Gt(0), Stricter("equal"), Doc("how near another released record hides one, in standard deviations")
    ] = 0.05
    figure: Annotated[
        Literal["inside", "isolated"],
        Stricter("equal"),
        Doc("inside an interval, or isolated: inside and no other released record near"),
    ] = "inside"
    estimator: Annotated[Estimator, Stricter("equal"), Doc("mcd (needs scikit-learn) or classical")] = "mcd"

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Stricter("equal"), Doc("number columns; left out: all quasi-identifiers")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "RobustIntervalRisk"
        if self.columns is not None:
            object.__setattr__(self, "columns", require_columns(owner, self.columns))

    def packages(self) -> dict[str, str]:
        return {"sklearn": "utility"} if self.estimator == "mcd" else {}

    def judge_files(self, files: FilePair) -> Verdict:
        before, after = self._numbers(files)
        whole = ~(np.isnan(before).any(axis=1) | np.isnan(after).any(axis=1))
        first, second = _standardised(before[whole]), _standardised(after[whole])
        told = [column for column in range(before.shape[1]) if first[:, column].any() and second[:, column].any()]
        n = int(whole.sum())
        if n < 2 or not told:
            return self._error("no two records, or no column that tells them apart")
        first, second = first[:, told], second[:, told]
        radius = self._radius(files, first)
        if radius is None:
            return self._error("more than half of the records are alike and have no scatter; use estimator: classical")
        inside = np.asarray((np.abs(first - second) < self.k * radius[:, None]).any(axis=1), dtype=np.bool_)
        isolated = inside & (_nearest_other(second) > self.k2)
        observed: dict[str, float | int | str] = {
            "share": float((inside if self.figure == "inside" else isolated).mean()),
            "inside": float(inside.mean()),
            "isolated": float(isolated.mean()),
            "weighted": float(inside.sum() * radius[inside].sum() / n),
            "left_out": len(files) - n,
            "estimator": self.estimator,
        }
        asked = int((~np.isnan(before)).all(axis=1).sum())
        what = "records with every original number have every released one"
        return replace(
            self._verdict(observed, n),
            compared=(Comparison(n, asked, what, "leave columns out of which the release has few values"),),
        )

    def _numbers(self, files: FilePair) -> tuple[Numbers, Numbers]:
        sides: tuple[list[Numbers], list[Numbers]] = ([], [])
        for name in files.original.schema.names:
            found = files.finite_numbers(name, "robust_interval_risk")
            if found is None:
                raise DataError(
                    f"robust_interval_risk: column {name!r} is not a number in both tables; leave it out of columns"
                )
            sides[0].append(found[0])
            sides[1].append(found[1])
        return np.column_stack(sides[0]), np.column_stack(sides[1])

    def _radius(self, files: FilePair, first: Numbers) -> Numbers | None:
        from privpipe.kernels.linkage.robust_scatter import centre_distances

        seed = 0 if files.order is None else int.from_bytes(files.order.key[:4], "little")
        found = centre_distances(first, self.estimator, seed)
        return None if found is None else 0.05 * found

    def _verdict(self, observed: dict[str, float | int | str], n: int) -> Verdict:
        share = float(observed["share"])
        passed = not self.is_gate() or bool(at_most(share, self.at_most))  # type: ignore[arg-type]
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        gone = int(observed["left_out"])
        left = f"; {gone:,} records with missing values left out" if gone else ""
        return Verdict(
            self,
            observed,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=(
                f"estimated {short(share)} of {n:,} records lie {self.figure}{asked}, by intervals of the "
                f"{self.estimator} scatter (experimental){left}."
            ),
        )

    def _error(self, reason: str) -> Verdict:
        return Verdict(self, None, "error", self.demanded(), reason=f"{reason}.")

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(estimator="classical"),
            cls(estimator="classical", at_most=0.2, figure="isolated"),
            cls(columns=("age",), k=0.5, k2=0.1, estimator="classical"),
        ]


def _standardised(columns: Numbers) -> Numbers:
    """By each column's own mean and deviation; a constant one is 0."""
    if len(columns) < 2:
        return np.zeros_like(columns)
    sd = columns.std(axis=0, ddof=1)
    varied = columns.min(axis=0) < columns.max(axis=0)
    return np.asarray(np.where(varied, (columns - columns.mean(axis=0)) / np.where(varied, sd, 1.0), 0.0))


def _nearest_other(points: Numbers) -> Numbers:
    """Distance of each point to the nearest other one."""
    from scipy.spatial import cKDTree

    distances = np.asarray(cKDTree(points).query(points, k=2)[0], dtype=np.float64)
    return distances[:, 1]
