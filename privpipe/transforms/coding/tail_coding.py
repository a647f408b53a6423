"""What top and bottom coding share: a threshold for each stratum, and what takes the place of values beyond it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of
from privpipe.transforms.base import Kind, RowTransformer, StageContext, StagePlan, checked_columns
from privpipe.transforms.coding.distance_coding import DistanceCode
from privpipe.transforms.coding.quantile_rank import quantile_rank
from privpipe.transforms.numeric import masked_type, refuse_nulls, require_numeric, written
from privpipe.transforms.strata import SmallStrata, Strata, checked_by

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws
    from privpipe.kernels.sums.exact import ExactSums

__all__ = ["TailCode"]

EPOCH = datetime.datetime(1970, 1, 1)
Beyond = dict[tuple[int, int], "ExactSums"]


@dataclass(frozen=True, kw_only=True, repr=False)
class TailCode(RowTransformer):
    """Base of `TopCode` and `BottomCode`; `upper` says which end."""

    taxon: ClassVar[Kind] = "non-perturbative"
    upper: ClassVar[bool] = True
    source: ClassVar[str] = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012"

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
        Doc("what takes the place of a value beyond: threshold (or boundary), mean (of the replaced) or label"),
    ] = "threshold"
    label: Annotated[str | None, Doc("text for replace: label; the column becomes text")] = None
    at_least: Annotated[int, Ge(1), Doc("fewest records that a published mean may be of")] = 5
    round: Annotated[bool, Doc("round a mean, or what lies on a boundary, to a whole number")] = False
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
            _instant(owner, self.at)
        if (self.label is None) == (self.replace == "label"):
            raise UsageError(f"{owner}: label goes with replace: label, and that with a label")
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
                f"{owner}: label stands for one value, and distance codes several together; say replace: threshold or "
                "replace: mean"
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
        counting = _BeyondSums(strata, self.columns, thresholds, self.upper)
        beyond, infinite = engine.reduce_rows(table, (*self.by, *self.columns), counting, Facts()) or ({}, {})
        self._require_finite(infinite, context)
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
        counting = _BeyondSums(strata, self.columns, thresholds, self.upper)
        beyond, infinite = engine.reduce_rows(table, (*self.by, *self.columns), counting, Facts()) or ({}, {})
        self._require_finite(infinite, context)
        nulls = engine.facts(table, FactsRequest(nulls=self.columns)).nulls
        columns: dict[str, list[dict[str, Any]]] = {}
        for at, column in enumerate(self.columns):
            if self.nulls == "refuse":
                refuse_nulls(column, nulls[column], context)
            columns[column] = []
            for number, tail in enumerate(plan.detail["columns"][column]):
                found = beyond.get((at, number))
                replaced = found.count if found else 0
                if tail["threshold"] is None or (replaced and self.replace == "mean" and tail["mean"] is None):
                    raise DataError(
                        f"{context.place}: the plan knows no threshold or mean for column {column!r}, where its own "
                        "table had no values; make a new plan"
                    )
                columns[column].append({**tail, "replaced": replaced})
        return replace(plan, detail={**plan.detail, "columns": columns, "nulls": dict(nulls)})

    def _require_finite(self, infinite: Mapping[str, int], context: StageContext) -> None:
        for column, count in infinite.items():
            raise DataError(f"{context.place}: column {column!r} holds {count:,} infinite values; code them first")

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
            limits = _limits([tail["threshold"] for tail in tails], array.type)
            beyond = _beyond(array, column, limits[numbers], self.upper)
            if self.replace == "label":
                released = canonical_text(array, column_type_of(array.type))
            else:
                released = array if array.type == target else array.cast(target, safe=False)
            for number, tail in enumerate(tails):
                if tail["replaced"]:
                    scalar = self._replacement(column, tail, array.type, target)
                    released = _where(beyond & (numbers == number), scalar, released)
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
        """Of each stratum in the exact units of the column; None without values."""
        found = context.schema.field(column).type
        if self.at is not None:
            limit = _exact_limit(type(self).__name__, self.at, found, self.upper)
            return [limit] * len(strata)
        from privpipe.kernels.columns.scaled_numbers import scaled_numbers

        distinct = engine.distinct(table, (*strata.by, column)).combine_chunks()
        places = np.zeros(len(distinct), np.int64)
        if strata.by and len(distinct):
            places = strata.of(RowBlock(distinct.select(list(strata.by)).to_batches()[0]))
        values, gaps, _ = scaled_numbers(_whole(distinct[column]), column)
        counts = distinct["__count"].to_numpy().astype(np.int64)
        known = ~(np.zeros(len(values), np.bool_) if gaps is None else gaps) & ~np.isnan(values)
        limits: list[Any] = []
        for number in range(len(strata)):
            here = np.flatnonzero(known & (places == number))
            here = here[np.argsort(values[here], kind="stable")]
            sums = np.cumsum(counts[here])
            rank = quantile_rank(cast(float, self.quantile), int(sums[-1])) if len(here) else 0
            limits.append(values[here[np.searchsorted(sums, rank, side="right")]].item() if len(here) else None)
        return limits

    def _tail(
        self,
        column: str,
        number: int,
        threshold: Any,
        sums: ExactSums | None,
        strata: Strata,
        context: StageContext,
    ) -> dict[str, Any]:
        replaced = sums.count if sums else 0
        known = strata.known[column][number]
        if known and replaced == known:
            other = "bottom_code" if self.upper else "top_code"
            raise DataError(
                f"{context.place}: all {known:,} values of column {column!r} lie beyond the threshold; with {other} on "
                "the same column, bottom must lie below top"
            )
        mean = None
        if self.replace == "mean" and sums and replaced:
            if replaced < self.at_least:
                raise DataError(
                    f"{context.place}: {replaced:,} values of column {column!r} would be replaced by their mean, fewer "
                    f"than at_least = {self.at_least}: that discloses them; move the threshold, or replace by it"
                )
            mean = sums.mean()
        return {"threshold": threshold, "replaced": replaced, "mean": mean}

    def _replacement(self, column: str, tail: Mapping[str, Any], found: Any, target: Any) -> Any:
        import pyarrow as pa

        if self.replace == "label":
            return pa.scalar(self.label, pa.string())
        if self.replace == "mean":
            return written(np.array([tail["mean"]]), target, column=column, rounded=self.round)[0]
        if self.quantile is None and isinstance(self.at, float | int) and pa.types.is_floating(target):
            return pa.scalar(float(self.at), target)
        return _scalar(tail["threshold"], found)


@dataclass(frozen=True)
class _BeyondSums:
    """Exact sums of the values beyond, by column and stratum; and infinite cells by column."""

    strata: Strata
    columns: tuple[str, ...]
    thresholds: Mapping[str, list[Any]]
    upper: bool

    def measure(self, block: RowBlock, facts: Facts) -> tuple[Beyond, dict[str, int]]:
        from privpipe.kernels.columns.scaled_numbers import scaled_numbers
        from privpipe.kernels.sums.exact import measure_sums

        numbers = self.strata.of(block)
        found: Beyond = {}
        infinite: dict[str, int] = {}
        for at, column in enumerate(self.columns):
            array = block.column(column)
            values, _, scale = scaled_numbers(array, column)
            if values.dtype.kind == "f" and np.isinf(values).any():
                infinite[column] = int(np.isinf(values).sum())
            limits = _limits(self.thresholds[column], array.type)
            beyond = _beyond(array, column, limits[numbers], self.upper)
            for number in np.unique(numbers[beyond & (numbers >= 0)]).tolist():
                found[at, number] = measure_sums([values[beyond & (numbers == number)]], None, [scale])
        return found, infinite

    def merge(
        self, left: tuple[Beyond, dict[str, int]], right: tuple[Beyond, dict[str, int]]
    ) -> tuple[Beyond, dict[str, int]]:
        sums = dict(left[0])
        for key, state in right[0].items():
            sums[key] = sums[key].merge(state) if key in sums else state
        infinite = {name: left[1].get(name, 0) + right[1].get(name, 0) for name in left[1] | right[1]}
        return sums, infinite


def _beyond(array: pa.Array, column: str, limits: NDArray[Any], upper: bool) -> NDArray[np.bool_]:
    from privpipe.kernels.columns.scaled_numbers import scaled_numbers

    values, gaps, _ = scaled_numbers(array, column)
    beyond = values > limits if upper else values < limits
    return np.asarray(beyond if gaps is None else beyond & ~gaps)


def _limits(thresholds: list[Any], found: Any) -> NDArray[Any]:
    """Thresholds by stratum; one more entry, of the same type, for suppressed records."""
    import pyarrow as pa

    dtype = np.float64 if pa.types.is_floating(found) else np.int64
    return np.array([0 if limit is None else limit for limit in [*thresholds, None]], dtype)


def _whole(column: Any) -> Any:
    import pyarrow as pa

    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _where(mask: NDArray[np.bool_], scalar: Any, array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(mask), scalar, array)


def _exact_limit(owner: str, at: float | str, found: Any, upper: bool) -> float | int:
    """The threshold in the column's exact units: an integer x lies beyond `at` iff it lies beyond the rounded one."""
    import pyarrow as pa

    kind = column_type_of(found)
    if isinstance(at, str):
        moment = _instant(owner, at)
        if kind not in ("date", "timestamp"):
            raise DataError(f"{owner}: at is a date, the column holds {found}")
        span = moment - EPOCH
        at_units = Decimal(span // datetime.timedelta(microseconds=1))
        exact = at_units / (86_400_000_000 if kind == "date" else 1)
    elif pa.types.is_floating(found):
        return float(at)
    else:
        exact = Decimal(repr(at)).scaleb(found.scale if kind == "decimal" else 0)
    whole = int(exact.to_integral_value(rounding=ROUND_FLOOR if upper else ROUND_CEILING))
    return min(max(whole, -(2**63)), 2**63 - 1)


def _instant(owner: str, text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{owner}: at must be a number, or a date like 2024-01-31") from None
    return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _scalar(units: int | float, found: Any) -> Any:
    """A value of the column from its exact units."""
    import pyarrow as pa

    if pa.types.is_decimal(found):
        return pa.scalar(Decimal(units).scaleb(-found.scale), found)
    if pa.types.is_date32(found):
        return pa.scalar(units, pa.int32()).cast(found)
    if pa.types.is_date(found):
        return pa.scalar(units, pa.int32()).cast(pa.date32()).cast(found)
    if pa.types.is_timestamp(found):
        return pa.scalar(units, pa.int64()).cast(found)
    return pa.scalar(units, found)
