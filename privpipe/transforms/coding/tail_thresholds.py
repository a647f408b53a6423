"""Thresholds of top and bottom coding in the exact units of a column, the values beyond them with their exact sums,
and the persons behind those values.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of
from privpipe.transforms.exact_quantiles import known_values, values_at
from privpipe.transforms.strata import PersonCounts, Persons, Strata, person_codes, without_person

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.kernels.exact_sums import ExactSums

__all__ = [
    "BeyondSums",
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
    """The group of each record's person, of so many."""

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
    """Whether each value lies beyond its limit, strictly."""
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
    """The threshold in the column's exact units: an integer x lies beyond `at` iff it lies beyond the rounded one."""
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

    `averaged`: whether a mean is asked of them; else they are only counted.
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
