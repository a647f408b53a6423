"""Thresholds of top and bottom coding in the exact units of a column, the values beyond them with their exact sums,
and the persons behind those values; or of several columns together, by the distance of a record from their robust
centre.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext
from privpipe.transforms.exact_quantiles import known_values, values_at
from privpipe.transforms.numeric_columns import (
    masked_type,
    refuse_nulls,
    require_numeric,
    require_summable,
    with_others_restored,
    written,
)
from privpipe.transforms.outliers import FirstRecords, Region, Sample, patterns_of
from privpipe.transforms.strata import (
    ByStratum,
    PersonCounts,
    Persons,
    SmallStrata,
    Strata,
    person_codes,
    units_of,
    without_person,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.kernels.exact_sums import ExactSums

__all__ = [
    "BeyondSums",
    "DistanceCode",
    "Tail",
    "exact_limit",
    "instant_of",
    "limits_of",
    "lying_beyond",
    "merged_tails",
    "quantile_limits",
    "quantile_rank",
    "scalar_of",
    "tail_mean",
]


EPOCH = datetime.datetime(1970, 1, 1)
RECORDS_PER_GROUP = 100_000
"""Of persons that are worked on together."""


def quantile_rank(quantile: float, n: int) -> int:
    """0-based rank of the lower empirical quantile among n values: ceil(q n) - 1, in exact decimals.

    Examples
    --------
    >>> quantile_rank(0.5, 4), quantile_rank(0.99, 100), quantile_rank(0.29, 100)
    (1, 98, 28)
    """
    exact = Decimal(repr(float(quantile))) * n - Decimal("1e-9")
    return max(int(exact.to_integral_value(rounding=ROUND_CEILING)) - 1, 0)


def quantile_limits(
    engine: Primitives,
    table: Any,
    column: str,
    strata: Strata,
    units: tuple[str, ...],
    *,
    quantile: float,
    upper: bool,
) -> list[Any]:
    """The quantile of each stratum in the exact units of the column; None without values.

    Parameters
    ----------
    units : tuple of str
        Where persons are distinguished, the quantile is that of the persons, each with the value furthest out: eight
        records of one person are one. Of persons and households the threshold that codes more.
    """
    if not units:
        return _at_quantile(engine, table, column, strata, strata.known[column], quantile)
    missing = engine.facts(table, FactsRequest(nulls=units)).nulls
    found = []
    for unit in units:
        if missing[unit]:
            raise without_person(unit, missing[unit])
        ends = _ends(engine, table, column, strata, unit, upper=upper)
        counted = engine.reduce_rows(ends, (*strata.by, column), _Number(strata), Facts())
        known: list[int] = [0] * len(strata) if counted is None else counted.tolist()
        found.append(_at_quantile(engine, ends, column, strata, known, quantile))
    furthest = min if upper else max
    return [None if None in limits else furthest(limits) for limits in zip(*found, strict=True)]


def _at_quantile(
    engine: Primitives, table: Any, column: str, strata: Strata, known: Sequence[int], quantile: float
) -> list[Any]:
    """The quantile of the values of each stratum, None without any."""
    ranks = [[quantile_rank(quantile, n)] if n else [] for n in known]
    found = values_at(engine, table, column, strata, known, ranks)
    return [each[0].value if each else None for each in found]


def _ends(engine: Primitives, table: Any, column: str, strata: Strata, unit: str, *, upper: bool) -> Any:
    """The largest (or smallest) value of each person in each stratum, a row each."""
    names = tuple(dict.fromkeys((*strata.by, column)))
    chosen = engine.select(table, tuple(dict.fromkeys((*names, unit))))
    groups = max(sum(strata.records) // RECORDS_PER_GROUP, 1)
    ends = _PersonEnds(column, names, strata, unit, upper)
    schema = engine.select(table, names).schema
    return engine.map_groups(chosen, _PersonGroup(unit, strata.key, groups), ends, schema)


@dataclass(frozen=True)
class _PersonGroup:
    """The group of each record's person, one of `groups`."""

    unit: str
    key: bytes = field(repr=False)
    groups: int

    def __call__(self, rows: RowBlock) -> Ints:
        return person_codes(rows.batch, self.unit, self.key) % self.groups


@dataclass(frozen=True)
class _PersonEnds:
    column: str
    names: tuple[str, ...]
    strata: Strata
    unit: str
    upper: bool

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        values, known, _ = known_values(rows.column(self.column), self.column)
        places = np.flatnonzero(known)
        persons, numbers = person_codes(rows.batch, self.unit, self.strata.key)[places], self.strata.of(rows)[places]
        order = np.lexsort((values[places], persons, numbers))
        same = (np.diff(numbers[order]) == 0) & (np.diff(persons[order]) == 0)
        ends = np.append(~same, True) if self.upper else np.insert(~same, 0, True)
        chosen = rows.take(places[order[ends[: len(order)]]])
        return chosen.drop([name for name in chosen.schema.names if name not in self.names])


@dataclass(frozen=True)
class _Number:
    """Records of each stratum."""

    strata: Strata

    def measure(self, block: RowBlock, facts: Facts) -> Ints:
        numbers = self.strata.of(block)
        return np.bincount(numbers[numbers >= 0], minlength=len(self.strata))

    def merge(self, left: Ints, right: Ints) -> Ints:
        return left + right


def lying_beyond(array: pa.Array, column: str, limits: NDArray[Any], upper: bool) -> Bools:
    """Whether each value is beyond its limit, strictly."""
    from privpipe.kernels.columns.cell_words import scaled_numbers

    values, gaps, _ = scaled_numbers(array, column)
    return beyond_limits(values, gaps, limits, upper)


def beyond_limits(values: NDArray[Any], gaps: Bools | None, limits: Any, upper: bool) -> Bools:
    """As `lying_beyond`, of numbers and where there are none."""
    beyond = values > limits if upper else values < limits
    return np.asarray(beyond if gaps is None else beyond & ~gaps)


def limits_of(thresholds: list[Any], found: Any) -> NDArray[Any]:
    """Thresholds by stratum; one more entry, of the same type, for suppressed records."""
    import pyarrow as pa

    dtype = np.float64 if pa.types.is_floating(found) else np.int64
    return np.array([0 if limit is None else limit for limit in [*thresholds, None]], dtype)


def exact_limit(owner: str, at: float | str, found: Any, upper: bool) -> float | int:
    """The threshold in the column's exact units: an integer x is beyond `at` iff it is beyond the rounded one."""
    import pyarrow as pa

    kind = column_type_of(found)
    if isinstance(at, str):
        moment = instant_of(owner, at)
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


def instant_of(owner: str, text: str) -> datetime.datetime:
    """The moment that a threshold names, in UTC.

    Raises
    ------
    UsageError
    """
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{owner}: at must be a number, or a date like 2024-01-31") from None
    return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment


def scalar_of(units: int | float, found: Any) -> Any:
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


Tail = tuple["ExactSums", Persons]
"""Exact sums of some values, and whose they are."""
Tails = dict[tuple[int, int], Tail]


@dataclass(frozen=True)
class BeyondSums:
    """Sums of the values beyond and their persons, by column and stratum; and infinite cells by column.

    `averaged`: whether their mean is needed; else they are only counted.
    """

    strata: Strata
    columns: tuple[str, ...]
    thresholds: Mapping[str, list[Any]]
    upper: bool
    persons: PersonCounts
    averaged: bool

    def measure(self, block: RowBlock, facts: Facts) -> tuple[Tails, dict[str, int]]:
        from privpipe.kernels.columns.cell_words import scaled_numbers
        from privpipe.kernels.exact_sums import counted_alone, measure_sums

        numbers, codes = self.strata.of(block), self.persons.codes(block)
        found: Tails = {}
        infinite: dict[str, int] = {}
        for at, column in enumerate(self.columns):
            array = block.column(column)
            values, gaps, scale = scaled_numbers(array, column)
            if values.dtype.kind == "f" and np.isinf(values).any():
                infinite[column] = int(np.isinf(values).sum())
            limits = limits_of(self.thresholds[column], array.type)
            beyond = beyond_limits(values, gaps, limits[numbers] if self.strata.by else limits[0], self.upper)
            for number in np.unique(numbers[beyond]).tolist():
                if number < 0:
                    continue
                here = beyond & (numbers == number) if self.strata.by else beyond
                sums = measure_sums([values[here]], None, [scale]) if self.averaged else counted_alone(here)
                found[at, number] = sums, self.persons.of(codes, here)
        return found, infinite

    def merge(
        self, left: tuple[Tails, dict[str, int]], right: tuple[Tails, dict[str, int]]
    ) -> tuple[Tails, dict[str, int]]:
        infinite = {name: left[1].get(name, 0) + right[1].get(name, 0) for name in left[1] | right[1]}
        return merged_tails(left[0], right[0], self.persons), infinite


def merged_tails(left: Tails, right: Tails, persons: PersonCounts) -> Tails:
    """The tails of two blocks as those of both."""
    found = dict(left)
    for key, (sums, theirs) in right.items():
        mine = found.get(key)
        found[key] = (sums, theirs) if mine is None else (mine[0].merge(sums), persons.merged(mine[1], theirs))
    return found


def tail_mean(tail: Tail, at_least: int, column: str, place: str, instead: str) -> float:
    """The mean that replaces the values of a tail.

    Raises
    ------
    DataError
        It would be of fewer than `at_least` persons, or of fewer records where no persons are distinguished.
    """
    sums, persons = tail
    counted = PersonCounts.number(persons) if persons else sums.count
    if counted < at_least:
        whose = f" (different persons: {counted:,})" if persons else ""
        raise DataError(
            f"{place}: {sums.count:,} values of column {column!r}{whose} would be replaced by their mean, fewer than "
            f"at_least = {at_least}: that discloses them; {instead}"
        )
    return sums.mean()


Looked = tuple[Sample, frozenset[str]]
Coded = tuple[dict[tuple[int, int], Tail], Counter[int], int]


@dataclass(frozen=True)
class DistanceCode:
    """What `TailCode` does by distance; the names are its parameters.

    Parameters
    ----------
    mean : bool
        The mean of the coded records takes their place, instead of the boundary.
    """

    columns: tuple[str, ...]
    distance: float
    upper: bool
    mean: bool
    at_least: int
    round: bool
    by: tuple[str, ...]

    @property
    def least(self) -> int:
        """Complete records below which it is undefined which records are far."""
        return 2 * (len(self.columns) + 1)

    def learn(
        self, engine: Primitives, table: Any, context: StageContext, *, nulls: str, small: SmallStrata
    ) -> dict[str, Any]:
        """The detail of the plan."""
        require_numeric(self.columns, context)
        strata = Strata.learn(engine, table, self.by, self.columns, context, least=self.least, small=small)
        self._require_numbers(engine, table, nulls, context)
        looked = ByStratum(strata, _Look(FirstRecords(self.columns)))
        found = engine.reduce_rows(table, (*self.by, *self.columns), looked, Facts()) or [None] * len(strata)
        regions = self._regions(found, context)
        detail = {
            "strata": strata.to_dict(),
            "nulls": {column: sum(strata.records) - sum(strata.known[column]) for column in self.columns},
            "confidential": True,
            "warnings": ["a boundary is learnt from the data and shows in the release"],
        }
        return {**detail, "regions": self._figures(engine, table, strata, regions, context, self._mean)}

    def carried(
        self, engine: Primitives, table: Any, detail: Mapping[str, Any], context: StageContext, *, nulls: str
    ) -> dict[str, Any]:
        """The detail of a frozen plan for another table."""
        require_numeric(self.columns, context)
        strata = Strata.from_dict(detail["strata"], context.seed_key)
        counts = self._require_numbers(engine, table, nulls, context)
        looked = ByStratum(strata, _Patterns(self.columns))
        found = engine.reduce_rows(table, (*self.by, *self.columns), looked, Facts()) or [None] * len(strata)
        regions: list[Region | None] = []
        for kinds, figures in zip(found, detail["regions"], strict=True):
            if figures is None:
                if kinds and any("1" in kind for kind in kinds):
                    raise self._unknown(context)
                regions.append(None)
                continue
            regions.append(Region.from_dict(figures).with_boundaries(kinds or (), self.distance))

        def mean(number: int, sums: list[Tail | None], place: str) -> list[float | None] | None:
            kept = detail["regions"][number]["mean"]
            if self.mean and any(each and (kept is None or kept[at] is None) for at, each in enumerate(sums)):
                raise DataError(
                    f"{place}: the plan has no mean of coded records where its own table had none; make a new plan"
                )
            return kept  # type: ignore[no-any-return]

        return {**detail, "nulls": counts, "regions": self._figures(engine, table, strata, regions, context, mean)}

    def apply(self, rows: RowBlock, strata: Strata, regions: list[Mapping[str, Any] | None]) -> RowBlock:
        """One block, with its coded records as released."""
        rows, numbers = strata.kept(rows)
        points = _points(rows, self.columns)
        coded, made = np.zeros(len(rows), np.bool_), points.copy()
        for number, figures in enumerate(regions):
            here = np.flatnonzero(numbers == number)
            if figures is None or not len(here):
                continue
            coded[here], met, _ = Region.from_dict(figures).coded(points[here], self.upper)
            if self.mean and figures["mean"] is not None:
                means = np.array([np.nan if each is None else each for each in figures["mean"]])
                met = np.where(np.isnan(met), np.nan, means)
            made[here] = met
        released = rows
        for at, column in enumerate(self.columns):
            target = masked_type(rows.schema.field(column), self.round)
            values = np.where(coded, made[:, at], np.nan)
            released = released.replace(column, written(values, target, column=column, rounded=self.round))
        return with_others_restored(released, rows, self.columns, coded)

    def _require_numbers(self, engine: Primitives, table: Any, nulls: str, context: StageContext) -> dict[str, int]:
        """Refuse what cannot be measured; the missing values of each column."""
        moments = engine.facts(table, FactsRequest(moments=self.columns)).moments
        for column in self.columns:
            if nulls == "refuse":
                refuse_nulls(column, moments[column].nulls, context)
            require_summable(column, moments[column].minimum, moments[column].maximum, context.place)
        return {column: moments[column].nulls for column in self.columns}

    def _regions(self, found: list[Looked | None], context: StageContext) -> list[Region | None]:
        regions: list[Region | None] = []
        short, flat = 0, Counter[str]()
        for each in found:
            regions.append(None)
            if each is None or not any("1" in pattern for pattern in each[1]):
                continue
            points = each[0][1]
            if int((~np.isnan(points).any(axis=1)).sum()) < self.least:
                short += 1
                continue
            region = Region.of(points, self.distance)
            flat.update(column for column, scale in zip(self.columns, region.scale, strict=True) if not scale)
            regions[-1] = region if region.boundaries else None
            if region.boundaries:
                regions[-1] = region.with_boundaries(each[1], self.distance)
        names = ", ".join(map(repr, self.columns))
        if short:
            raise DataError(
                f"{context.place}: {self._in_strata(short)}fewer than {self.least:,} records have a value in each of "
                f"{names}, too few to know which are far; code the columns one by one, by `quantile`"
            )
        for column, count in flat.items():
            raise DataError(
                f"{context.place}: {self._in_strata(count)}half of the values of column {column!r} or more are equal, "
                "so that no distance is measured along it; leave it out and code it alone, by `at` or `quantile`"
            )
        return regions

    def _in_strata(self, count: int) -> str:
        return f"in {count:,} strata by {', '.join(map(repr, self.by))}, " if self.by else ""

    def _figures(
        self,
        engine: Primitives,
        table: Any,
        strata: Strata,
        regions: list[Region | None],
        context: StageContext,
        mean: Any,
    ) -> list[dict[str, Any] | None]:
        """Regions as a plan holds them, with the number of coded records and, where needed, their mean."""
        persons = PersonCounts(units_of(context), self.at_least, context.seed_key)
        counting = _CodedSums(strata, self.columns, tuple(regions), self.upper, persons)
        columns = tuple(dict.fromkeys((*self.by, *self.columns, *persons.columns)))
        sums, coded, too_far = engine.reduce_rows(table, columns, counting, Facts()) or ({}, Counter(), 0)
        if too_far:
            raise DataError(
                f"{context.place}: {too_far:,} records hold values of {', '.join(map(repr, self.columns))} too far "
                "from the others for a distance to be a number; code the columns by `at` first"
            )
        made: list[dict[str, Any] | None] = []
        for number, region in enumerate(regions):
            if region is None:
                made.append(None)
                continue
            of_columns = [sums.get((number, at)) for at in range(len(self.columns))]
            figures = {"coded": coded[number], "mean": mean(number, of_columns, context.place)}
            made.append({**region.to_dict(), **figures})
        return made

    def _mean(self, number: int, sums: list[Tail | None], place: str) -> list[float | None] | None:
        if not self.mean or not any(sums):
            return None
        instead = "take a smaller distance, or replace by threshold"
        return [
            tail_mean(each, self.at_least, column, place, instead) if each else None
            for column, each in zip(self.columns, sums, strict=True)
        ]

    def _unknown(self, context: StageContext) -> DataError:
        return DataError(
            f"{context.place}: the plan has no boundary for {', '.join(map(repr, self.columns))}, where its own "
            "table had no values; make a new plan"
        )


@dataclass(frozen=True)
class _Patterns:
    """Which values are missing together."""

    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> frozenset[str]:
        return frozenset(pattern for pattern, _ in patterns_of(_points(block, self.columns)))

    def merge(self, left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
        return left | right


@dataclass(frozen=True)
class _Look:
    """A sample, and which values are missing together in all records."""

    sample: FirstRecords

    def measure(self, block: RowBlock, facts: Facts) -> Looked:
        return self.sample.measure(block, facts), _Patterns(self.sample.columns).measure(block, facts)

    def merge(self, left: Looked, right: Looked) -> Looked:
        return self.sample.merge(left[0], right[0]), left[1] | right[1]


@dataclass(frozen=True)
class _CodedSums:
    """Coded values and whose they are by stratum and column, coded records by stratum, and records too far away."""

    strata: Strata
    columns: tuple[str, ...]
    regions: tuple[Region | None, ...]
    upper: bool
    persons: PersonCounts

    def measure(self, block: RowBlock, facts: Facts) -> Coded:
        from privpipe.kernels.columns.cell_words import scaled_numbers
        from privpipe.kernels.exact_sums import measure_sums

        numbers, points = self.strata.of(block), _points(block, self.columns)
        numeric = [scaled_numbers(block.column(name), name) for name in self.columns]
        codes = self.persons.codes(block)
        sums: dict[tuple[int, int], Tail] = {}
        counts, too_far = Counter[int](), 0
        for number, region in enumerate(self.regions):
            here = np.flatnonzero(numbers == number)
            if region is None or not len(here):
                continue
            coded, _, far = region.coded(points[here], self.upper)
            too_far += far
            counts[number] += int(coded.sum())
            chosen = here[coded]
            for at, (values, _, scale) in enumerate(numeric):
                known = chosen[~np.isnan(points[chosen, at])]
                if len(known):
                    sums[number, at] = measure_sums([values[known]], None, [scale]), self.persons.of(codes, known)
        return sums, counts, too_far

    def merge(self, left: Coded, right: Coded) -> Coded:
        return merged_tails(left[0], right[0], self.persons), left[1] + right[1], left[2] + right[2]


def _points(rows: RowBlock, columns: tuple[str, ...]) -> Floats:
    """Values of the columns, shape (n, s), NaN where there is none."""
    return np.stack([rows[name] for name in columns], axis=1)
