"""Top and bottom coding of several columns together, by the distance of a record from their robust centre."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Floats
from privpipe.errors import DataError
from privpipe.transforms.base import StageContext
from privpipe.transforms.coding.tail_thresholds import Tail, merged_tails, tail_mean
from privpipe.transforms.numeric_columns import (
    masked_type,
    refuse_nulls,
    require_numeric,
    require_summable,
    with_others_restored,
    written,
)
from privpipe.transforms.outliers import FirstRecords, Region, Sample, patterns_of
from privpipe.transforms.strata import ByStratum, PersonCounts, SmallStrata, Strata, units_of

__all__ = ["DistanceCode"]

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
        """Complete records below which it is undefined who is far."""
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
                    f"{place}: the plan knows no mean of coded records where its own table had none; make a new plan"
                )
            return kept  # type: ignore[no-any-return]

        return {**detail, "nulls": counts, "regions": self._figures(engine, table, strata, regions, context, mean)}

    def apply(self, rows: RowBlock, strata: Strata, regions: list[Mapping[str, Any] | None]) -> RowBlock:
        """One block, with its coded records as they are released."""
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
                f"{names}, too few to know who is far; code the columns one by one, by `quantile`"
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
        """Regions as a plan holds them, with the number of coded records and, where asked, their mean."""
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
            f"{context.place}: the plan knows no boundary for {', '.join(map(repr, self.columns))}, where its own "
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
