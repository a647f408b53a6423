"""Integral privacy of a published statistic."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
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
        values, counts = _numbers(self.query.column, facts.histograms[self.query.column])
        if not values:
            return self.not_judged("the column has no value to compute a statistic of")
        found = minimal_generators(values, counts, self.query.statistic, self.query.digits, self.changes)
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


def _numbers(column: str, histogram: Histogram) -> tuple[list[Fraction], list[int]]:
    """Values as exact numbers with their counts, ascending; missing ones left out."""
    import pyarrow as pa

    kind = histogram.values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"integral_privacy: column {column!r} is not a number column")
    pairs = zip(histogram.values.to_pylist(), histogram.counts.tolist(), strict=True)
    try:
        known = sorted((Fraction(value), count) for value, count in pairs if value is not None and value == value)
    except OverflowError:
        raise DataError(f"integral_privacy: column {column!r} has infinite values") from None
    return [value for value, _ in known], [count for _, count in known]


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
    values: Sequence[Fraction], counts: Sequence[int], statistic: Statistic, digits: int, changes: int
) -> Generators:
    """Count the minimal sets of changes after which a statistic, rounded to `digits`, is the same.

    A change adds a record with one of the values, or deletes one that is there; records of one value are alike, so
    changes are distinguished by value and direction. Source: Torra and Navarro-Arribas, Integral privacy, CANS 2016.

    Parameters
    ----------
    values : sequence of Fraction
        The domain: distinct values of the column, ascending.
    counts : sequence of int
        Records of each, at least 1.
    statistic : {"mean", "sum", "count"}
    digits : int
        Digits after the point that are published; below 0: tens, hundreds and so on.
    changes : int
        Largest number of changes at once, 1 or 2.

    Returns
    -------
    Generators
        Exhaustive: O(m) for one change, O(m log m) for two.

    Examples
    --------
    >>> minimal_generators([Fraction(1), Fraction(2), Fraction(3)], [5, 5, 5], "mean", 1, 1).single
    2
    """
    if changes not in (1, 2):
        raise UsageError(f"changes must be 1 or 2, got {changes!r}")
    records = sum(counts)
    total = sum((value * count for value, count in zip(values, counts, strict=True)), start=Fraction(0))
    kept = _Kept(total, records, statistic, digits)
    free: dict[int, list[Fraction]] = {1: [], -1: []}
    often: dict[int, list[Fraction]] = {1: [], -1: []}
    single = 0
    for way in (1, -1):
        start, stop = _keeping(kept, 0, Fraction(0), way, values)
        single += stop - start
        free[way] = [*values[:start], *values[stop:]]
        often[way] = [v for v, count in zip(values, counts, strict=True) if way == 1 or count > 1]
    if changes == 1:
        return Generators(single, 0, common=single == 1)
    pairs, most = _pairs(kept, free, often)
    whole = single + pairs
    common = whole > 0 and ((single == 1 and not pairs) or (not single and most == pairs))
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


class _Kept:
    """Whether a change keeps the statistic: the sum of what is added may lie in an interval."""

    def __init__(self, total: Fraction, records: int, statistic: Statistic, digits: int) -> None:
        self.total, self.records, self.statistic, self.digits = total, records, statistic, digits
        self.shown = published(total, records, statistic, digits)

    def __call__(self, added: Fraction, more: int) -> bool:
        return published(self.total + added, self.records + more, self.statistic, self.digits) == self.shown

    def interval(self, more: int) -> tuple[Fraction, Fraction, bool] | None:
        """Least and largest sum that keeps the statistic with so many records more, and whether the ends do."""
        records = self.records + more
        if self.shown is None or (self.statistic == "mean" and records < 1):
            return None
        unit = Fraction(10) ** -self.digits
        low, high = self.shown - unit / 2, self.shown + unit / 2
        closed = round(self.shown / unit) % 2 == 0  # halves go to the even neighbour
        if self.statistic == "mean":
            low, high = low * records, high * records
        return low - self.total, high - self.total, closed


def _pairs(kept: _Kept, free: dict[int, list[Fraction]], often: dict[int, list[Fraction]]) -> tuple[int, int]:
    """Pairs of changes, neither of which keeps the statistic alone; and in how many the most frequent change is."""
    pairs = 0
    within: dict[tuple[int, int], int] = {}
    for first, second in ((1, 1), (-1, -1), (1, -1)):
        for at, value in enumerate(free[first]):
            partners = _partners(kept, first, value, second, free[second])
            if first == second:  # with itself, where there are two such records
                itself = kept(2 * first * value, 2 * first)
                twice = itself and _holds(often[first], value)
                within[first, at] = within.get((first, at), 0) + partners - itself + twice
                pairs += partners - itself + 2 * twice  # each pair of two values is met from both sides
            else:  # adding a record and deleting its equal is no change
                nothing = kept(Fraction(0), 0) and _holds(free[second], value)
                within[first, at] = within.get((first, at), 0) + partners - nothing
                pairs += 2 * (partners - nothing)
    for at, value in enumerate(free[-1]):
        partners = _partners(kept, -1, value, 1, free[1])
        within[-1, at] = within.get((-1, at), 0) + partners - _holds(free[1], value)
    return pairs // 2, max(within.values(), default=0)


def _partners(kept: _Kept, first: int, value: Fraction, second: int, others: Sequence[Fraction]) -> int:
    """How many of `others`, changed together with `value`, keep the statistic."""
    start, stop = _keeping(kept, first, value, second, others)
    return stop - start


def _keeping(kept: _Kept, first: int, value: Fraction, second: int, others: Sequence[Fraction]) -> tuple[int, int]:
    """Which of `others`, which ascend, these are: start and stop."""
    if kept.statistic == "count":
        return (0, len(others)) if kept(Fraction(0), first + second) else (0, 0)
    bounds = kept.interval(first + second)
    if bounds is None:
        return 0, 0
    low, high, closed = bounds
    low, high = (bound - first * value for bound in (low, high))
    if second < 0:
        low, high = -high, -low
    start, stop = (
        (bisect_left(others, low), bisect_right(others, high))
        if closed
        else (bisect_right(others, low), bisect_left(others, high))
    )
    return start, max(start, stop)


def _holds(values: list[Fraction], value: Fraction) -> bool:
    at = bisect_left(values, value)
    return at < len(values) and values[at] == value
