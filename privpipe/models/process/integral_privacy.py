"""Integral privacy of a published statistic."""

from __future__ import annotations

from collections.abc import Mapping
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

__all__ = ["IntegralPrivacy", "StatisticQuery"]

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
        from privpipe.kernels.process_proofs import minimal_generators

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
