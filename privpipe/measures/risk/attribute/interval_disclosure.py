"""Interval disclosure: whether a masked number discloses narrow bounds of the original, by rank, by standard
deviation, or with intervals that widen for outlying records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.arrays import Bools, Floats
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import LargestShare, OwnColumns, Stricter
from privpipe.blocks.verdict import Comparison, least
from privpipe.errors import DataError
from privpipe.kernels.linkage.interval_disclosure import Estimator
from privpipe.roles import Roles

__all__ = ["Disclosed", "IntervalDisclosure", "RankIntervalDisclosure", "RobustIntervalRisk", "SdIntervalDisclosure"]


Joint = Literal["each", "all", "any"]
Disclosed = tuple[Bools, Bools]


@dataclass(frozen=True, kw_only=True, repr=False)
class IntervalDisclosure(FilePairMeasure):
    """A share of records, per column and jointly. Subclasses give `disclosed`."""

    percent: Annotated[float, Ge(0), Doc("width of the interval, in percent")] = 10.0
    joint: Annotated[
        Joint,
        Stricter("equal"),
        Doc("each: the largest share of a column; all: in every column at once; any: in at least one"),
    ] = "each"
    at_most: Annotated[LargestShare, Doc("largest share of records that is tolerated")] = None

    columns: Annotated[OwnColumns, Doc("number columns; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns()

    def disclosed(self, files: FilePair, column: str, original: Floats, released: Floats) -> Disclosed:
        """Which records are disclosed by a column, and which could be."""
        raise TypeError(f"{type(self).__name__} discloses nothing")

    def judge_files(self, files: FilePair) -> Verdict:
        found = self._disclosed_by_column(files)
        known = np.logical_and.reduce([each[1] for each in found.values()])
        shares = {column: _share(*each) for column, each in found.items()}
        together = {
            "all": _share(np.logical_and.reduce([each[0] for each in found.values()]), known),
            "any": _share(np.logical_or.reduce([each[0] for each in found.values()]), known),
        }
        figures = [share for share in shares.values() if share is not None]
        figure = together[self.joint] if self.joint != "each" else max(figures, default=None)
        if figure is None or (self.joint == "each" and len(figures) < len(shares)):
            return self.not_judged("no record has a value on both sides")
        missing = len(files) - int(known.sum())
        return self.judged(
            figure,
            {"share": figure, "columns": shares, **together},
            reason=(
                f"at least {short(figure)} of the records are disclosed ({self.joint}){self.asked}; over "
                f"{len(files):,} records, {missing:,} of them without a value in some column."
            ),
            compared=self.compared(files, {column: each[1] for column, each in found.items()}),
        )

    def compared(self, files: FilePair, known: dict[str, Bools]) -> tuple[Comparison, ...]:
        """Of the records with an original value those that have a released one: the others disclose nothing."""
        asked = {name: ~np.isnan(files.numbers("original", name)) for name in known}  # type: ignore[arg-type]
        remedy = "leave out columns with few released values"
        if self.joint != "each":
            both, own = (np.logical_and.reduce(list(side.values())) for side in (known, asked))
            what = "records with every original value have every released one"
            return (Comparison(int(both.sum()), int(own.sum()), what, remedy),)
        return least(
            Comparison(
                int(known[name].sum()),
                int(asked[name].sum()),
                f"records with an original value of {name!r} have a released one",
                remedy,
            )
            for name in known
        )

    def _disclosed_by_column(self, files: FilePair) -> dict[str, Disclosed]:
        found: dict[str, Disclosed] = {}
        for column in files.original.schema.names:
            sides = files.numbers("original", column), files.numbers("released", column)
            if sides[0] is None or sides[1] is None:
                raise DataError(f"{self.name()}: column {column!r} is not a number in both tables; leave it out")
            found[column] = self.disclosed(files, column, sides[0], sides[1])
        return found


def _share(disclosed: Bools, known: Bools) -> float | None:
    records = int(known.sum())
    return int((disclosed & known).sum()) / records if records else None


@dataclass(frozen=True, kw_only=True, repr=False)
class RankIntervalDisclosure(IntervalDisclosure):
    """Share of records whose original number is within percent/2 per cent of the ranks around its masked one.

    Parameters
    ----------
    columns : tuple of str, optional
        Numbers in both tables. Default: all quasi-identifiers.
    percent : float
        Ranks of the whole interval in percent of the records, in [0, 200].
    joint : {"each", "all", "any"}
        Compare the largest share of a column, the share disclosed in all columns, or in any of them.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.

    Notes
    -----
    Needs the original next to the release. A record without a value on either side is left out, and counted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x, y = pa.record_batch({"a": [1.0, 2.0, 3.0, 4.0]}), pa.record_batch({"a": [2.0, 4.0, 3.0, 1.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((4, 2), dtype=np.int64), records=4, released_records=4)
    >>> RankIntervalDisclosure(columns=("a",), percent=50, at_most=0.4).judge_files(files).observed["share"]
    0.5
    """

    observes = dict[str, Any]
    source = "Nin, Herranz, Torra, DKE 64(1), 2008"
    threat = "An intruder reads a narrow interval of the original number off the masked one."
    formula = "share of records with R[first - w] <= x <= R[last + w], w = floor(percent n / 200)"
    choose = "percent 10 is usual; a share of 0.2 or less for each column."

    percent: Annotated[float, Ge(0), Le(200), Stricter("equal"), Doc("width of the interval, in percent")] = 10.0

    def disclosed(self, files: FilePair, column: str, original: Floats, released: Floats) -> Disclosed:
        from privpipe.kernels.linkage.interval_disclosure import rank_disclosed

        return rank_disclosed(original, released, self.percent)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(columns=("age",), at_most=0.5), cls(percent=20, joint="all", at_most=0.2)]


@dataclass(frozen=True, kw_only=True, repr=False)
class SdIntervalDisclosure(IntervalDisclosure):
    """Share of records whose original number is within percent per cent of a standard deviation of its masked one.

    Parameters
    ----------
    columns : tuple of str, optional
        Numbers in both tables. Default: all quasi-identifiers.
    percent : float
        In percent of the standard deviation (divisor n - 1), at least 0.
    joint : {"each", "all", "any"}
        Compare the largest share of a column, the share disclosed in all columns, or in any of them.
    sd : {"original", "released"}
        Whose standard deviation.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.

    Notes
    -----
    Needs the original next to the release. Where the deviation is 0, a record is disclosed iff both numbers are equal.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x, y = pa.record_batch({"a": [1.0, 2.0, 3.0]}), pa.record_batch({"a": [1.4, 4.0, 3.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((3, 2), dtype=np.int64), records=3, released_records=3)
    >>> measure = SdIntervalDisclosure(columns=("a",), percent=50, at_most=0.4, sd="released")
    >>> round(measure.judge_files(files).observed["share"], 3)
    0.667
    """

    observes = dict[str, Any]
    source = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012"
    threat = "An intruder takes the masked number for the original, within a margin that is narrow for the column."
    formula = "share of records with abs(x - y) <= percent/100 sd"
    choose = "percent 5 to 10; a share of 0.2 or less for each column."

    percent: Annotated[float, Ge(0), Stricter("equal"), Doc("width of the interval, in percent")] = 5.0
    sd: Annotated[
        Literal["original", "released"], Stricter("equal"), Doc("whose standard deviation: original or released")
    ] = "original"

    def original_moments(self, roles: Roles) -> tuple[str, ...]:
        return self.columns_read(roles) if self.sd == "original" else ()

    def disclosed(self, files: FilePair, column: str, original: Floats, released: Floats) -> Disclosed:
        from privpipe.kernels.linkage.interval_disclosure import sd_disclosed

        files.finite_numbers(column, self.name())
        if self.sd == "original" and column in files.original_facts.moments:
            sd = files.original_facts.sd(column)
        else:
            side = original if self.sd == "original" else released
            values = side[~np.isnan(side)]
            sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return sd_disclosed(original, released, self.percent, sd)

    def compared(self, files: FilePair, known: dict[str, Bools]) -> tuple[Comparison, ...]:
        for name in known:
            values = int((~np.isnan(files.numbers("original", name))).sum())  # type: ignore[arg-type]
            if values == 1:
                return (Comparison(0, 1, f"values of {name!r} have another one to deviate from", "judge more records"),)
        return super().compared(files, known)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(columns=("age",), at_most=0.5), cls(percent=50, joint="all", sd="released", at_most=0.2)]


@dataclass(frozen=True, kw_only=True, repr=False)
class RobustIntervalRisk(FilePairMeasure):
    """Share of records whose masked values are near the original ones, in terms of their distance from the centre.

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

    observes = dict[str, Any]
    source = "Templ, Meindl, Robust statistics meets SDC, PSD 2008"
    threat = "An intruder recognises an outlying record although its values were moved a little."
    formula = "share with any |x - y| < k R_i, R_i = 0.05 sqrt(x_i' C+ x_i)"
    choose = "Experimental: report it, or gate loosely in addition to record_linkage."

    at_most: Annotated[LargestShare, Doc("largest share of records that is tolerated")] = None
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

    columns: Annotated[OwnColumns, Doc("number columns; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns()

    def packages(self) -> dict[str, str]:
        return {"sklearn": "utility"} if self.estimator == "mcd" else {}

    def judge_files(self, files: FilePair) -> Verdict:
        before, after = self._numbers(files)
        whole = ~(np.isnan(before).any(axis=1) | np.isnan(after).any(axis=1))
        first, second = _standardised(before[whole]), _standardised(after[whole])
        told = [column for column in range(before.shape[1]) if first[:, column].any() and second[:, column].any()]
        n = int(whole.sum())
        if n < 2 or not told:
            return self.not_judged("no two records, or no column that distinguishes them")
        first, second = first[:, told], second[:, told]
        radius = self._radius(files, first)
        if radius is None:
            return self.not_judged(
                "more than half of the records are alike and have no scatter; use estimator: classical"
            )
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
            compared=(Comparison(n, asked, what, "leave out columns with few released values"),),
        )

    def _numbers(self, files: FilePair) -> tuple[Floats, Floats]:
        sides: tuple[list[Floats], list[Floats]] = ([], [])
        for name in files.original.schema.names:
            found = files.finite_numbers(name, "robust_interval_risk")
            if found is None:
                raise DataError(
                    f"robust_interval_risk: column {name!r} is not a number in both tables; leave it out of columns"
                )
            sides[0].append(found[0])
            sides[1].append(found[1])
        return np.column_stack(sides[0]), np.column_stack(sides[1])

    def _radius(self, files: FilePair, first: Floats) -> Floats | None:
        from privpipe.kernels.linkage.interval_disclosure import centre_distances

        seed = 0 if files.order is None else int.from_bytes(files.order.key[:4], "little")
        found = centre_distances(first, self.estimator, seed)
        return None if found is None else 0.05 * found

    def _verdict(self, observed: dict[str, float | int | str], n: int) -> Verdict:
        share = float(observed["share"])
        gone = int(observed["left_out"])
        left = f"; {gone:,} records with missing values left out" if gone else ""
        return self.judged(
            share,
            observed,
            reason=(
                f"estimated {short(share)} of {n:,} records lie {self.figure}{self.asked}, by intervals of the "
                f"{self.estimator} scatter (experimental){left}."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(estimator="classical"),
            cls(estimator="classical", at_most=0.2, figure="isolated"),
            cls(columns=("age",), k=0.5, k2=0.1, estimator="classical"),
        ]


def _standardised(columns: Floats) -> Floats:
    """By each column's own mean and deviation; a constant one is 0."""
    if len(columns) < 2:
        return np.zeros_like(columns)
    sd = columns.std(axis=0, ddof=1)
    varied = columns.min(axis=0) < columns.max(axis=0)
    return np.asarray(np.where(varied, (columns - columns.mean(axis=0)) / np.where(varied, sd, 1.0), 0.0))


def _nearest_other(points: Floats) -> Floats:
    """Distance of each point to the nearest other one."""
    from scipy.spatial import cKDTree

    distances = np.asarray(cKDTree(points).query(points, k=2)[0], dtype=np.float64)
    return distances[:, 1]
