"""Integral privacy of a published statistic."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Annotated, ClassVar, Literal, Self

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, Guarantee, Histogram, Tally, Verdict
from privpipe.blocks.marks import LeastNumber, Stricter
from privpipe.blocks.parameters import check_parameters
from privpipe.blocks.way import FACTS
from privpipe.errors import DataError, UsageError

__all__ = ["Generators", "IntegralPrivacy", "StatisticQuery", "minimal_generators", "published"]

Statistic = Literal["mean", "sum", "count"]


@dataclass(frozen=True, kw_only=True)
class StatisticQuery:
    """A statistic that is published of one column.

    Parameters
    ----------
    statistic : {"mean", "sum", "count"}
    column : str
        A number column; missing values are left out.
    digits : int
        Digits after the point; below 0: tens, hundreds and so on.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # an unknown key is an error

    statistic: Statistic
    column: str
    digits: Annotated[int, Ge(-30), Le(30)] = 0

    def __post_init__(self) -> None:
        check_parameters(self, "IntegralPrivacy", "query.")


@dataclass(frozen=True, kw_only=True, repr=False)
class IntegralPrivacy(Guarantee):
    """At least `k` ways to change the data leave a published statistic unchanged; observed = number of minimal ways.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the number is reported.
    query : mapping
        The statistic: ``{statistic: mean | sum | count, column, digits}``.
    changes : int
        Records added or deleted at once, at most: 1 or 2.
    quasi_identifiers : tuple of str, optional
        Not used.

    Notes
    -----
    The testable form: a change adds a record with a value that the column has, or deletes one that is there; records
    of one value are alike. A set of changes counts when it keeps the rounded statistic and no smaller part of it
    does. No change may be in every set. The test is exhaustive, in exact arithmetic, halves rounded to even.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from privpipe.blocks import Facts, Histogram, Tally
    >>> facts = Facts(histograms={"income": Histogram(pa.array([1, 2, 3]), np.array([5, 5, 5]))})
    >>> model = IntegralPrivacy(k=2, query={"statistic": "mean", "column": "income", "digits": 1})
    >>> verdict = model.judge(Tally(), facts)
    >>> verdict.outcome, verdict.observed
    ('pass', 2)
    """

    way = FACTS
    threshold_field = "k"
    protects_nobody_at = 1
    observes = int
    source = "Torra and Navarro-Arribas, Integral privacy, CANS 2016; Torra, Navarro-Arribas, Galvan, PSD 2020"
    threat = (
        "An intruder who knows all records but a few learns from a published figure which one was added or deleted."
    )
    formula = "at least k minimal sets of changes keep the rounded statistic, and no change is in all of them"
    choose = (
        "k of 3 or more. Publish fewer digits where it fails. It judges one statistic, not the table: pair it with a "
        "model of the table."
    )

    k: Annotated[LeastNumber, Doc("least number of minimal sets of changes that keep the statistic")] = None
    query: Annotated[
        StatisticQuery,
        Stricter("equal"),
        Doc("the statistic: {statistic: mean | sum | count, column: name, digits: 2}"),
    ]
    changes: Annotated[int, Ge(1), Le(2), Stricter("equal"), Doc("most records added or deleted at once: 1 or 2")] = 1

    def __post_init__(self) -> None:
        if isinstance(self.query, Mapping):
            try:
                object.__setattr__(self, "query", StatisticQuery(**self.query))
            except TypeError:
                raise UsageError(
                    "IntegralPrivacy: query must be {statistic: mean | sum | count, column: name, digits: 2}"
                ) from None
        super().__post_init__()
        if not isinstance(self.query.column, str) or not self.query.column:
            raise UsageError("IntegralPrivacy: query.column must be a column name")

    def counted_columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (self.query.column,)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        values, counts, scale = _numbers(self.query.column, facts.histograms[self.query.column])
        if not values:
            return self.not_judged("the column has no value to compute a statistic of")
        query = self.query
        found = minimal_generators(values, counts, query.statistic, query.digits, self.changes, scale=scale)
        passed = self.k is None or (found.total >= self.k and not found.common)
        asked = "" if self.k is None else f", required at least {self.k:,}"
        common = "; one change is in every set" if found.common else ""
        return Verdict(
            self,
            found.total,
            outcome="pass" if passed else "fail",
            threshold=self.k,
            reason=(
                f"observed {found.total:,} minimal sets of at most {self.changes:,} changes that keep the "
                f"{self.query.statistic}{asked}{common}; exhaustive."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(k=3, query=StatisticQuery(statistic="mean", column="income", digits=0)),
            cls(k=2, query=StatisticQuery(statistic="sum", column="income", digits=-2), changes=2),
            cls(query=StatisticQuery(statistic="count", column="income"), changes=2),
        ]


def _numbers(column: str, histogram: Histogram) -> tuple[list[int], list[int], int]:
    """Values times the least scale that makes them integers, ascending, and their counts; missing ones left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = histogram.values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"integral_privacy: column {column!r} is not a number column")
    order = pc.sort_indices(histogram.values)  # missing ones come last
    known = order.slice(0, len(order) - pc.sum(pc.is_null(histogram.values, nan_is_null=True), min_count=0).as_py())
    try:
        ratios = [value.as_integer_ratio() for value in histogram.values.take(known).to_pylist()]
    except OverflowError:
        raise DataError(f"integral_privacy: column {column!r} has infinite values") from None
    scale = math.lcm(*{denominator for _, denominator in ratios})
    values = [numerator * (scale // denominator) for numerator, denominator in ratios]
    return values, histogram.counts[known.to_numpy()].tolist(), scale


@dataclass(frozen=True)
class Generators:
    """Minimal sets of changes that keep a statistic.

    `single` have one change, `pairs` two; `common` is whether one change is in every set.
    """

    single: int
    pairs: int
    common: bool

    @property
    def total(self) -> int:
        """All of them."""
        return self.single + self.pairs


def minimal_generators(
    values: Sequence[int], counts: Sequence[int], statistic: Statistic, digits: int, changes: int, *, scale: int = 1
) -> Generators:
    """Count the minimal sets of changes after which a statistic, rounded to `digits`, is the same.

    A change adds a record with one of the values, or deletes one that is there; records of one value are alike, so
    changes are distinguished by value and direction. Source: Torra and Navarro-Arribas, Integral privacy, CANS 2016.

    Parameters
    ----------
    values : sequence of int
        The domain: distinct values of the column times `scale`, ascending.
    counts : sequence of int
        Records of each, at least 1.
    statistic : {"mean", "sum", "count"}
    digits : int
        Digits after the point that are published; below 0: tens, hundreds and so on.
    changes : int
        Largest number of changes at once, 1 or 2.
    scale : int
        At least 1.

    Returns
    -------
    Generators
        Exhaustive: O(log m) for one change once the values are summed, O(m log m) for two.

    Examples
    --------
    >>> minimal_generators([1, 2, 3], [5, 5, 5], "mean", 1, 1).single
    2
    """
    if changes not in (1, 2):
        raise UsageError(f"changes must be 1 or 2, got {changes!r}")
    total, records, largest = sum(map(mul, values, counts)), sum(counts), max(-values[0], values[-1])
    kept = _Kept(
        {more: _interval(total, records, more, statistic, digits, scale, largest) for more in (-2, -1, 0, 1, 2)}
    )
    free: dict[int, Sequence[int]] = {}
    single = 0
    for way in (1, -1):
        start, stop = kept.among(values, 0, 0, way)
        single += stop - start
        if changes == 2:
            free[way] = [*values[:start], *values[stop:]]
    if changes == 1:
        return Generators(single, 0, common=single == 1)
    repeated = [value for value, count in zip(values, counts, strict=True) if count > 1]
    pairs, most = _pairs(kept, free, {1: values, -1: repeated})
    common = (single == 1 and not pairs) or (not single and 0 < most == pairs)
    return Generators(single, pairs, common)


def published(total: Fraction, records: int, statistic: Statistic, digits: int) -> Fraction | None:
    """The rounded statistic, half to even; None for the mean of no record."""
    if statistic == "count":
        exact = Fraction(records)
    elif statistic == "sum":
        exact = total
    elif records < 1:
        return None
    else:
        exact = total / records
    unit = Fraction(10) ** -digits
    return round(exact / unit) * unit


@dataclass(frozen=True)
class _Kept:
    """Which changes keep the statistic: those whose sum is in the interval for so many records more."""

    intervals: Mapping[int, tuple[int, int]]

    def __call__(self, added: int, more: int) -> bool:
        low, high = self.intervals[more]
        return low <= added <= high

    def among(self, values: Sequence[int], first: int, value: int, second: int) -> tuple[int, int]:
        """Which of `values`, which ascend, keep it, changed together with `value`: start and stop."""
        low, high = self.intervals[first + second]
        low, high = low - first * value, high - first * value
        if second < 0:
            low, high = -high, -low
        start = bisect_left(values, low)
        return start, bisect_right(values, high, lo=start) if low <= high else start


def _interval(
    total: int, records: int, more: int, statistic: Statistic, digits: int, scale: int, largest: int
) -> tuple[int, int]:
    """Least and largest sum of the changes, times `scale`, that keeps the statistic; the least is larger where none."""
    nothing = 1, 0
    shown = published(Fraction(total, scale), records, statistic, digits)
    if statistic == "count":
        every = -3 * largest, 3 * largest  # further than two values, whatever the first is
        return every if published(Fraction(0), records + more, statistic, digits) == shown else nothing
    if shown is None or (statistic == "mean" and records + more < 1):
        return nothing
    unit = Fraction(10) ** -digits
    ends = [shown - unit / 2, shown + unit / 2]
    if statistic == "mean":
        ends = [end * (records + more) for end in ends]
    low, high = (end * scale - total for end in ends)
    if round(shown / unit) % 2 == 0:  # halves go to the even neighbour
        return math.ceil(low), math.floor(high)
    return math.floor(low) + 1, math.ceil(high) - 1


def _pairs(kept: _Kept, free: Mapping[int, Sequence[int]], often: Mapping[int, Sequence[int]]) -> tuple[int, int]:
    """Pairs of changes, neither of which keeps the statistic alone; and in how many the most frequent change is.

    `free` are the values whose change, 1 or -1, does not keep it, `often` those that can be changed twice.
    """
    pairs = 0
    within: Counter[tuple[int, int]] = Counter()
    for first, second in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
        for value in free[first]:
            start, stop = kept.among(free[second], first, value, second)
            partners = stop - start
            if first == second:  # with itself, where there are two such records
                itself = kept(2 * first * value, 2 * first)
                twice = itself and _holds(often[first], value)
                within[first, value] += partners - itself + twice
                pairs += partners - itself + 2 * twice  # each pair of two values is met from both sides
            else:  # adding a record and deleting its equal is no change
                partners -= kept(0, 0) and _holds(free[second], value)
                within[first, value] += partners
                pairs += partners
    return pairs // 2, max(within.values(), default=0)


def _holds(values: Sequence[int], value: int) -> bool:
    at = bisect_left(values, value)
    return at < len(values) and values[at] == value
