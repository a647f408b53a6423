"""Top and bottom coding: a threshold for each stratum, and the value that replaces those beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Bools
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of
from privpipe.transforms.base import RowTransformer, StageContext, StagePlan, checked_columns
from privpipe.transforms.coding.tail_thresholds import (
    BeyondSums,
    DistanceCode,
    Tail,
    exact_limit,
    instant_of,
    limits_of,
    lying_beyond,
    quantile_limits,
    scalar_of,
    tail_mean,
)
from privpipe.transforms.numeric_columns import masked_type, refuse_nulls, require_numeric, written
from privpipe.transforms.strata import PersonCounts, SmallStrata, Strata, checked_by, units_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["BottomCode", "TailCode", "TopCode"]


@dataclass(frozen=True, kw_only=True, repr=False)
class TailCode(RowTransformer):
    """Base of `TopCode` and `BottomCode`; `upper` states which end."""

    taxon = "non-perturbative"
    upper: ClassVar[bool] = True
    source = (
        "Hundepool et al., Statistical Disclosure Control, Wiley, 2012; Rousseeuw, Van Driessen, "
        "Technometrics 41(3), 1999 (FAST-MCD)"
    )

    columns: Annotated[tuple[str, ...], Columns(), Doc("numeric or date columns")]
    # An integer is exact beyond 2^53 too.
    at: Annotated[int | float | str | None, Doc("threshold: a number, or a date as text")] = None
    quantile: Annotated[
        float | None, Gt(0), Lt(1), Doc("instead of at: the lower empirical quantile to take, in (0, 1)")
    ] = None
    distance: Annotated[
        float | None,
        Ge(0.5),
        Lt(1),
        Doc("instead of at: code the columns together beyond this quantile of distance, as 0.975"),
    ] = None
    replace: Annotated[
        Literal["threshold", "mean", "label"],
        Doc("what replaces a value beyond: threshold (or boundary), mean (of the replaced) or label"),
    ] = "threshold"
    label: Annotated[str | None, Doc("text for replace: label; the column becomes text")] = None
    at_least: Annotated[int, Ge(1), Doc("fewest records (or persons, with person_id) that a mean may be of")] = 5
    round: Annotated[bool, Doc("round a mean, or a value on a boundary, to a whole number")] = False
    nulls: Annotated[Literal["keep", "refuse"], Doc("keep leaves missing values; refuse makes them an error")] = "keep"
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns whose combinations have a threshold and mean each")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata without records enough: refuse, suppress or merge")] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        object.__setattr__(self, "columns", checked_columns(owner, self.columns))
        object.__setattr__(self, "by", checked_by(owner, self.by, self.columns, self.small_strata))
        if [self.at, self.quantile, self.distance].count(None) != 2:
            raise UsageError(f"{owner}: give at, quantile or distance, one of the three")
        if self.distance is not None:
            self._require_together(owner)
        if isinstance(self.at, str):
            instant_of(owner, self.at)
        if (self.label is None) == (self.replace == "label"):
            raise UsageError(f"{owner}: label requires replace: label, and that requires a label")
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    @property
    def shows_values(self) -> str:
        shown = self.quantile is not None and self.replace == "threshold"
        return "a quantile, which is the value of a record" if shown else ""

    @property
    def needs_ids(self) -> bool:
        return self.distance is not None  # which is learnt from records of smallest id

    def _require_together(self, owner: str) -> None:
        if len(self.columns) < 2:
            raise UsageError(f"{owner}: distance is over at least two columns; of one give at or quantile")
        if self.replace == "label" or self.label is not None:
            raise UsageError(
                f"{owner}: label replaces a single value, and distance codes several together; set replace: "
                "threshold or replace: mean"
            )

    @property
    def _together(self) -> DistanceCode | None:
        if self.distance is None:
            return None
        return DistanceCode(
            columns=self.columns,
            distance=self.distance,
            upper=self.upper,
            mean=self.replace == "mean",
            at_least=self.at_least,
            round=self.round,
            by=self.by,
        )

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        if self._together is not None:
            detail = self._together.learn(engine, table, context, nulls=self.nulls, small=self.small_strata)
            return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)
        require_numeric(self.columns, context)
        strata = Strata.learn(engine, table, self.by, self.columns, context, small=self.small_strata)
        for column in self.columns:
            if self.nulls == "refuse":
                refuse_nulls(column, sum(strata.records) - sum(strata.known[column]), context)
        thresholds = {column: self._thresholds(engine, table, column, strata, context) for column in self.columns}
        beyond = self._beyond(engine, table, strata, thresholds, context)
        columns = {
            column: [
                self._tail(column, number, thresholds[column][number], beyond.get((at, number)), strata, context)
                for number in range(len(strata))
            ]
            for at, column in enumerate(self.columns)
        }
        depends = self.quantile is not None or self.replace == "mean"
        detail = {
            "strata": strata.to_dict(),
            "columns": columns,
            "nulls": {column: sum(strata.records) - sum(strata.known[column]) for column in self.columns},
            "confidential": depends,
            "warnings": ["a quantile or mean is learnt from the data and shows in the release"] if depends else [],
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        if self.at is not None and self.replace != "mean":
            return self.learn(engine, table, context)  # nothing is learnt, and the checks are made again
        if self._together is not None:
            return replace(plan, detail=self._together.carried(engine, table, plan.detail, context, nulls=self.nulls))
        require_numeric(self.columns, context)
        strata = Strata.from_dict(plan.detail["strata"], context.seed_key)
        thresholds = {name: [tail["threshold"] for tail in tails] for name, tails in plan.detail["columns"].items()}
        beyond = self._beyond(engine, table, strata, thresholds, context)
        nulls = engine.facts(table, FactsRequest(nulls=self.columns)).nulls
        columns: dict[str, list[dict[str, Any]]] = {}
        for at, column in enumerate(self.columns):
            if self.nulls == "refuse":
                refuse_nulls(column, nulls[column], context)
            columns[column] = []
            for number, tail in enumerate(plan.detail["columns"][column]):
                found = beyond.get((at, number))
                replaced = found[0].count if found else 0
                if tail["threshold"] is None or (replaced and self.replace == "mean" and tail["mean"] is None):
                    raise DataError(
                        f"{context.place}: the plan has no threshold or mean for column {column!r}, where its own "
                        "table had no values; make a new plan"
                    )
                columns[column].append({**tail, "replaced": replaced})
        return replace(plan, detail={**plan.detail, "columns": columns, "nulls": dict(nulls)})

    def _beyond(
        self,
        engine: Primitives,
        table: Any,
        strata: Strata,
        thresholds: Mapping[str, list[Any]],
        context: StageContext,
    ) -> dict[tuple[int, int], Tail]:
        """What is beyond in each column and stratum."""
        persons = PersonCounts(units_of(context), self.at_least, context.seed_key)
        counting = BeyondSums(strata, self.columns, thresholds, self.upper, persons, self.replace == "mean")
        columns = tuple(dict.fromkeys((*self.by, *self.columns, *persons.columns)))
        beyond, infinite = engine.reduce_rows(table, columns, counting, Facts()) or ({}, {})
        for column, count in infinite.items():
            raise DataError(f"{context.place}: column {column!r} holds {count:,} infinite values; code them first")
        return beyond

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        for column in self.columns:
            at = schema.get_field_index(column)
            schema = schema.set(at, schema.field(at).with_type(self._target(schema.field(at))))
        return schema

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        from privpipe.hierarchies import canonical_text

        strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
        if self._together is not None:
            return self._together.apply(rows, strata, plan.detail["regions"])
        rows, numbers = strata.kept(rows)
        for column, tails in plan.detail["columns"].items():
            array, target = rows.column(column), self._target(rows.schema.field(column))
            limits = limits_of([tail["threshold"] for tail in tails], array.type)
            beyond = lying_beyond(array, column, limits[numbers] if strata.by else limits[0], self.upper)
            if self.replace == "label":
                released = canonical_text(array, column_type_of(array.type))
            else:
                released = array if array.type == target else array.cast(target, safe=False)
            for number, tail in enumerate(tails):
                if tail["replaced"]:
                    scalar = self._replacement(column, tail, array.type, target)
                    here = beyond & (numbers == number) if strata.by else beyond
                    released = _where(here, scalar, released)
            rows = rows.replace(column, released)
        return rows

    def _target(self, field: Any) -> Any:
        import pyarrow as pa

        if self.replace == "label":
            return pa.string()
        fractional = isinstance(self.at, float) and not self.at.is_integer() and not self.round
        if (
            self.replace == "mean"
            or self.distance is not None
            or (column_type_of(field.type) == "integer" and fractional)
        ):
            return masked_type(field, self.round)
        return field.type

    def _thresholds(
        self, engine: Primitives, table: Any, column: str, strata: Strata, context: StageContext
    ) -> list[Any]:
        """For each stratum, in the exact units of the column; None without values."""
        if self.at is not None:
            found = context.schema.field(column).type
            return [exact_limit(type(self).__name__, self.at, found, self.upper)] * len(strata)
        return quantile_limits(
            engine,
            table,
            column,
            strata,
            units_of(context),
            quantile=cast(float, self.quantile),
            upper=self.upper,
        )

    def _tail(
        self,
        column: str,
        number: int,
        threshold: Any,
        beyond: Tail | None,
        strata: Strata,
        context: StageContext,
    ) -> dict[str, Any]:
        replaced = beyond[0].count if beyond else 0
        known = strata.known[column][number]
        if known and replaced == known:
            other = "bottom_code" if self.upper else "top_code"
            raise DataError(
                f"{context.place}: all {known:,} values of column {column!r} are beyond the threshold; with {other} on "
                "the same column, bottom must be below top"
            )
        mean = None
        if self.replace == "mean" and beyond and replaced:
            mean = tail_mean(beyond, self.at_least, column, context.place, "move the threshold, or replace by it")
        return {"threshold": threshold, "replaced": replaced, "mean": mean}

    def _replacement(self, column: str, tail: Mapping[str, Any], found: Any, target: Any) -> Any:
        import pyarrow as pa

        if self.replace == "label":
            return pa.scalar(self.label, pa.string())
        if self.replace == "mean":
            return written(np.array([tail["mean"]]), target, column=column, rounded=self.round)[0]
        if self.quantile is None and isinstance(self.at, float | int) and pa.types.is_floating(target):
            return pa.scalar(float(self.at), target)
        return scalar_of(tail["threshold"], found)


def _where(mask: Bools, scalar: Any, array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(mask), scalar, array)


@dataclass(frozen=True, kw_only=True, repr=False)
class TopCode(TailCode):
    """Replace every value above a threshold (strictly) by the threshold, the mean of the replaced, or a label.

    Parameters
    ----------
    columns : tuple of str
        Numbers, decimals, dates or timestamps.
    at : float or str, optional
        Threshold; of a date as text (``2024-01-31``).
    quantile : float, optional
        Instead: the lower empirical quantile, the value at rank ceil(q n) - 1, q in (0, 1). Where the policy
        distinguishes persons, it is that of the persons, each with the largest of its values.
    distance : float, optional
        Instead: q in [0.5, 1), as 0.975, for two columns or more, which are coded together. A record outside the
        ellipsoid d^2 = chi2(r, q) around the robust centre moves along the ray to the centre until it meets the
        boundary: each of its values keeps its side of the centre, and records that are extreme only in combination
        are coded too. Top coding takes the records whose value furthest from its centre is above it, bottom
        coding the others; both together leave none outside. Centre and scatter are the minimum covariance determinant
        (FAST-MCD, re-weighted) of the complete records of the stratum, r is its rank, and distances are
        measured in units of 1.4826 times the median absolute deviation. A record that misses values is measured over
        those it has. A record off a plane that holds most records is moved next to the centre.
    replace : {"threshold", "mean", "label"}
        threshold: of a distance, the point of the boundary. mean: of the replaced values, which keeps the sum of each
        column; refused where fewer than `at_least` records are replaced. label: the column becomes text; not for a
        distance.
    label : str, optional
        For ``replace: label``.
    at_least : int
        At least 1. It counts persons where the policy distinguishes them, and households too where a guarantee
        counts them.
    round : bool
        A mean or a point of a boundary in whole numbers, half to even, which may lie off the boundary by as much; an
        integer column then stays one.
    nulls : {"keep", "refuse"}
    by : tuple of str
        Strata with a quantile or region and a mean each.
    small_strata : {"refuse", "suppress", "merge"}

    Examples
    --------
    >>> TopCode(columns=["age"], at=99, replace="label", label="100+").replace
    'label'
    >>> TopCode(columns=["income", "wealth"], distance=0.975).replace
    'threshold'
    """

    upper = True
    preserves = "every value up to the threshold; with mean, the sum of the column"
    reveals = "that a value is beyond the threshold; of a distance, also in which direction from the centre"

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), at=50),
            cls(columns=("income",), quantile=0.5, replace="mean", at_least=1),
            cls(columns=("income",), at=99.5, replace="label", label="more"),
            cls(columns=("income", "age"), distance=0.9),
        ]


@dataclass(frozen=True, kw_only=True, repr=False)
class BottomCode(TailCode):
    """Replace every value below a threshold (strictly) by the threshold, the mean of the replaced, or a label.

    Parameters
    ----------
    columns : tuple of str
        Numbers, decimals, dates or timestamps.
    at : float or str, optional
        Threshold; of a date as text (``2024-01-31``).
    quantile : float, optional
        Instead: the lower empirical quantile, the value at rank ceil(q n) - 1, q in (0, 1). Where the policy
        distinguishes persons, it is that of the persons, each with the smallest of its values.
    distance : float, optional
        Instead: q in [0.5, 1), as 0.975, for two columns or more, which are coded together. A record outside the
        ellipsoid d^2 = chi2(r, q) around the robust centre moves along the ray to the centre until it meets the
        boundary: each of its values keeps its side of the centre, and records that are extreme only in combination
        are coded too. Bottom coding takes the records whose value furthest from its centre is below it, top
        coding the others; both together leave none outside. Centre and scatter are the minimum covariance determinant
        (FAST-MCD, re-weighted) of the complete records of the stratum, r is its rank, and distances are
        measured in units of 1.4826 times the median absolute deviation. A record that misses values is measured over
        those it has. A record off a plane that holds most records is moved next to the centre.
    replace : {"threshold", "mean", "label"}
        threshold: of a distance, the point of the boundary. mean: of the replaced values, which keeps the sum of each
        column; refused where fewer than `at_least` records are replaced. label: the column becomes text; not for a
        distance.
    label : str, optional
        For ``replace: label``.
    at_least : int
        At least 1. It counts persons where the policy distinguishes them, and households too where a guarantee
        counts them.
    round : bool
        A mean or a point of a boundary in whole numbers, half to even, which may lie off the boundary by as much; an
        integer column then stays one.
    nulls : {"keep", "refuse"}
    by : tuple of str
        Strata with a quantile or region and a mean each.
    small_strata : {"refuse", "suppress", "merge"}

    Examples
    --------
    >>> BottomCode(columns=["age"], at=18, replace="label", label="under 18").replace
    'label'
    >>> BottomCode(columns=["income", "wealth"], distance=0.975).replace
    'threshold'
    """

    upper = False
    preserves = "every value up to the threshold; with mean, the sum of the column"
    reveals = "that a value is beyond the threshold; of a distance, also in which direction from the centre"

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), at=3),
            cls(columns=("income",), quantile=0.5, replace="mean", at_least=1),
            cls(columns=("income",), at=0.5, replace="label", label="less"),
            cls(columns=("income", "age"), distance=0.9),
        ]
