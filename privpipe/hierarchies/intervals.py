"""Intervals of numbers: by widths or cuts, by distinct values (`equal_count`), or by records (`quantiles`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.canonical import plain_decimal
from privpipe.hierarchies.interval_levels import (
    Cutter,
    IntervalText,
    LabelStyle,
    NumberLine,
    RoundedCuts,
    Span,
    Tails,
    Tier,
    cut_open,
    draft_of_intervals,
    style_for,
)
from privpipe.hierarchies.levels import Draft
from privpipe.hierarchies.options import ROOT, Builder, check_type_of_column, known_keys, read_fields

__all__ = ["HIGHEST", "LABELS", "LOWEST", "NUMBERS", "EqualCount", "Intervals", "Quantiles", "check_multiples"]


NUMBERS = ("integer", "number", "decimal")
LOWEST = Doc("values below it have one label at every level but the raw one")
HIGHEST = Doc("values at or above it have one label at every level but the raw one")
LABELS = Doc(
    "how intervals read: brackets [40, 60), dash 40-59, words `40 to under 60`, open [40, 60[; left out: dash for "
    "integers, brackets for other numbers"
)


@dataclass(frozen=True, kw_only=True)
class Intervals(Builder):
    """Intervals [a, b) of numbers: one width, or one list of cuts, a level; a ``*`` level above.

    A value that is a boundary belongs to the interval on its right.

    Examples
    --------
    >>> ages = Intervals.from_parameters({"widths": [5, 10]})
    >>> ages.draft(["19", "20", "24"], None, "integer", "age").levels.labels[1]
    ('15-19', '20-24')
    """

    example: ClassVar[str] = "{start: 0, widths: [5, 10, 20], lowest: 15, highest: 90}"
    example_values: ClassVar[tuple[str, ...]] = ("12", "19", "20", "47", "93")
    example_type: ClassVar[str] = "integer"

    start: Annotated[
        Decimal | None,
        Doc("where the first interval begins; left out: at 0, without end on either side. Not with cuts"),
    ] = None
    widths: Annotated[tuple[Decimal, ...], Doc("one a level, each a whole multiple of the one below")] = ()
    cuts: Annotated[
        tuple[tuple[Decimal, ...], ...],
        Doc("instead of widths: one rising list a level, each a part of the one below with the same ends"),
    ] = ()
    lowest: Annotated[Decimal | None, LOWEST] = None
    highest: Annotated[Decimal | None, HIGHEST] = None
    domain: Annotated[
        tuple[Decimal, Decimal] | None,
        Doc("the values that there can be, [lo, hi): losses are then parts of its length, not of the values seen"),
    ] = None
    labels: Annotated[LabelStyle | None, LABELS] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.widths) == bool(self.cuts):
            raise UsageError(f"widths or cuts: give one of the two, as in {self.example}")
        tails = self._tails()
        check_multiples(self.widths, "widths")
        self._check_cuts()
        low, high = self._range()
        if low is not None and tails.lowest is not None and tails.lowest < low:
            raise UsageError(f"lowest: {tails.lowest} is below the range, which begins at {low}")
        if high is not None and tails.highest is not None and tails.highest > high:
            raise UsageError(f"highest: {tails.highest} is above the range, which ends at {high}")

    def _check_cuts(self) -> None:
        if self.cuts and self.start is not None:
            raise UsageError("start: belongs to widths; cuts begin where they say")
        for row in self.cuts:
            if len(row) < 2 or any(a >= b for a, b in pairwise(row)):
                raise UsageError("cuts: each level needs at least two cuts, in rising order")
        for below, above in pairwise(self.cuts):
            if (below[0], below[-1]) != (above[0], above[-1]) or not set(above) <= set(below):
                raise UsageError(
                    "cuts: not functional: each level's cuts must be among those of the level below, with the same ends"
                )

    def _tails(self) -> Tails:
        return Tails(lowest=self.lowest, highest=self.highest, domain=self.domain)

    def _range(self) -> tuple[Decimal | None, Decimal | None]:
        return (self.cuts[0][0], self.cuts[0][-1]) if self.cuts else (self.start, None)

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in rising order."""
        check_type_of_column(kind, NUMBERS, "intervals", column)
        tails = self._tails()
        starts = () if self.start is None else (self.start,)
        line = NumberLine(values, [*self.widths, *(cut for row in self.cuts for cut in row), *tails.given, *starts])
        text = IntervalText(line, style_for(self.labels, kind, line, column))
        cutters = self._cutters(line)
        draft, tiers = draft_of_intervals(values, line, cutters, text, tails, self._held(line, tails))
        return replace(
            draft,
            source="intervals",
            shares=self._shares(line, tiers, self.domain, draft.levels.size) if self.domain is not None else None,
            domain_size=_size(_length(line, self.domain)) if self.domain is not None else None,
            level_names=("raw", *self._names(), ROOT),
        )

    def _cutters(self, line: NumberLine) -> list[Cutter]:
        if self.cuts:
            return [_between([line.units(cut) for cut in row]) for row in self.cuts]
        start = line.units(self.start or Decimal(0))
        return [_every(line.units(width), start) for width in self.widths]

    def _held(self, line: NumberLine, tails: Tails) -> NDArray[np.bool_]:
        """Which values have a label: coded ones, and finite ones of the range; all within the domain."""
        low, high = self._range()
        held: NDArray[np.bool_] = line.numeric & (line.infinite == 0)
        if low is not None:
            held &= ~line.below(low)
        if high is not None:
            held &= line.below(high)
        held |= tails.below(line) | tails.above(line)
        if self.domain is not None:
            held &= line.below(self.domain[1]) & ~line.below(self.domain[0])
        return held

    def _shares(
        self, line: NumberLine, tiers: Sequence[Tier], domain: tuple[Decimal, Decimal], count: int
    ) -> NDArray[np.float64]:
        """Part of the domain that each value's label covers, shape (levels, n_values)."""
        floor, ceiling, length = line.units(domain[0]), line.units(domain[1]), _length(line, domain)
        bottom = floor if self.lowest is None else max(floor, line.units(self.lowest))
        top = ceiling if self.highest is None else min(ceiling, line.units(self.highest))
        rows = [np.full(count, 1 / length)]
        for tier in tiers:
            covered = [(min(stop or 0, top) - max(start or 0, bottom)) / length for start, stop in tier.ends]
            if tier.bottom:
                covered.insert(0, (bottom - floor) / length)
            if tier.top:
                covered.append((ceiling - top) / length)
            rows.append(np.array(covered, dtype=np.float64)[tier.codes])
        return np.stack([*rows, np.ones(count)])

    def _names(self) -> list[str]:
        if self.widths:
            return [f"width {plain_decimal(width)}" for width in self.widths]
        return [f"cuts {index}" for index in range(1, len(self.cuts) + 1)]


def check_multiples(widths: Sequence[Decimal], key: str) -> None:
    """Raise unless each width is a whole multiple of the one below.

    Raises
    ------
    UsageError
    """
    if any(width <= 0 for width in widths):
        raise UsageError(f"{key}: must be above 0")
    for below, above in pairwise(widths):
        if (Fraction(above) / Fraction(below)).denominator != 1:
            raise UsageError(
                f"{key}: not functional: {above} is not a whole multiple of {below}, so an interval of the level "
                "below would belong to two of the level above"
            )


def _every(width: int, start: int) -> Cutter:
    """Intervals of one width."""

    def cut(units: NDArray[Any], _: NDArray[np.int8]) -> tuple[NDArray[np.int64], list[Span]]:
        bins, found = np.unique((units - start) // width, return_inverse=True)
        return found, [(start + each * width, start + (each + 1) * width) for each in bins.tolist()]

    return cut


def _between(cuts: Sequence[int]) -> Cutter:
    """Intervals between cuts."""

    def cut(units: NDArray[Any], _: NDArray[np.int8]) -> tuple[NDArray[np.int64], list[Span]]:
        right = np.searchsorted(np.array(cuts, dtype=units.dtype), units, side="right")
        bins, found = np.unique(right - 1, return_inverse=True)
        return found, [(cuts[each], cuts[each + 1]) for each in bins.tolist()]

    return cut


def _length(line: NumberLine, domain: tuple[Decimal, Decimal]) -> int:
    return line.units(domain[1]) - line.units(domain[0])


def _size(units: int) -> float:
    try:
        return float(units)
    except OverflowError:
        return float("inf")


@dataclass(frozen=True, kw_only=True)
class EqualCount:
    """Intervals of so many distinct values each, in their order; the last may hold fewer.

    The values seen decide, so the plan shows that the hierarchy depends on the data. The first and the last interval
    have no end: no label shows the least or the greatest value. For dates and texts see `groups`.

    Examples
    --------
    >>> pairs = EqualCount.from_parameters({"sizes": [2, 4]})
    >>> pairs.draft(["1", "2", "5", "9", "30"], None, "integer", "visits").levels.labels[1:3]
    (('<5', '5-29', '>=30'), ('<30', '>=30'))
    """

    shows_values: ClassVar[str] = "the cuts of its intervals are values of the data"
    example: ClassVar[str] = "{sizes: [2, 4]}"
    example_values: ClassVar[tuple[str, ...]] = ("1", "2", "5", "9", "30")
    example_type: ClassVar[str] = "integer"

    sizes: Annotated[
        tuple[Annotated[int, Ge(1)], ...],
        Doc("distinct values of an interval, one number a level, each a whole multiple of the one below"),
    ]
    labels: Annotated[LabelStyle | None, LABELS] = None

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `equal_count:`."""
        mapping = known_keys(given, cls, cls.example)
        return cls(**{"sizes": None, **mapping})

    def __post_init__(self) -> None:
        read_fields(self)
        for below, above in pairwise(self.sizes):
            if above % below or above == below:
                raise UsageError(
                    f"sizes: not functional: {above} is not a whole multiple of {below}, so an interval of the level "
                    "below would belong to two of the level above"
                )

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in rising order."""
        check_type_of_column(kind, NUMBERS, "equal_count", column)
        line = NumberLine(values, [])
        plain = np.unique(line.values[line.numeric & (line.infinite == 0)]).tolist()
        cutters = [cut_open(plain[size::size]) for size in self.sizes]
        text = IntervalText(line, style_for(self.labels, kind, line, column))
        draft, _ = draft_of_intervals(values, line, cutters, text, Tails(), line.numeric)
        return replace(
            draft,
            source="equal_count",
            level_names=("raw", *(f"{size} values" for size in self.sizes), ROOT),
            data_dependent=True,
            outside_why="they are not numbers",
        )


FEW_CUTS = (
    "few_cuts: some quantiles are not cut off, since every round number near them is the value of a few records; ask "
    "for fewer quantiles, or use `bands`, whose cuts are declared"
)


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Intervals cut at quantiles of the records, fewer a level; the plan shows that they depend on the data.

    Of n records, cut i of c is the smallest value v such that more than n i / c records are at most v. Equal cuts are
    one, so a value of many records takes several quantiles in. The first and the last interval have no end: no label
    shows the least or the greatest value. Cuts are rounded to numbers that are not values of fewer than 5 records: a
    label shows the value of no single record. Where there is no such number between two cuts, nothing is cut there,
    which the hierarchy warns of.

    Examples
    --------
    >>> fourths = Quantiles.from_parameters({"counts": [4, 2]})
    >>> ages = [str(age) for age in range(18, 90)]
    >>> fourths.draft(ages, [9] * 72, "integer", "age").levels.labels[1:3]
    (('<35', '35-54', '55-69', '>=70'), ('<55', '>=55'))
    >>> Quantiles(counts=(4,), round=Decimal(10)).draft(ages, [9] * 72, "integer", "age").levels.labels[1]
    ('<40', '40-49', '50-69', '>=70')
    """

    example: ClassVar[str] = "{counts: [4, 2], round: 5}"
    example_values: ClassVar[tuple[str, ...]] = ("19", "23", "31", "38", "44", "52", "61", "87")
    example_type: ClassVar[str] = "integer"

    counts: Annotated[
        tuple[Annotated[int, Ge(2)], ...], Doc("intervals a level, each number a whole part of the one below it")
    ]
    round: Annotated[
        Literal["auto"] | Decimal,
        Doc(
            "cuts are the nearest multiples of this number that are not values of few records; auto: of the greatest "
            "of 1, 2, 5, 10, ... that is at most half of the least distance between two cuts"
        ),
    ] = "auto"
    labels: Annotated[LabelStyle | None, LABELS] = None

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `quantiles:`."""
        mapping = known_keys(given, cls, cls.example)
        return cls(**{"counts": None, **mapping})

    def __post_init__(self) -> None:
        read_fields(self)
        for below, above in pairwise(self.counts):
            if below % above or below == above:
                raise UsageError(
                    f"counts: not functional: {above} is not a whole part of {below}, so an interval of the level "
                    "below would belong to two of the level above"
                )
        if isinstance(self.round, Decimal) and self.round <= 0:
            raise UsageError("round: must be above 0")

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in rising order."""
        check_type_of_column(kind, NUMBERS, "quantiles", column)
        if counts is None:
            raise UsageError("quantiles: needs the number of records of each value")
        line = NumberLine(values, [self.round] if isinstance(self.round, Decimal) else [])
        # A cut of the finest level is one of every level whose count divides it, so that levels nest after rounding.
        cuts = [_cuts(line, counts, wanted) for wanted in self.counts]
        step = line.units(self.round) if isinstance(self.round, Decimal) else None
        rounded = RoundedCuts(line, counts, cuts[0], step)
        text = IntervalText(line, style_for(self.labels, kind, line, column))
        cutters = [cut_open(rounded.of(level)) for level in cuts]
        draft, _ = draft_of_intervals(values, line, cutters, text, Tails(), line.numeric)
        return replace(
            draft,
            source="quantiles",
            level_names=("raw", *(f"{wanted} quantiles" for wanted in self.counts), ROOT),
            data_dependent=True,
            warnings=(FEW_CUTS,) if rounded.dropped else (),
            outside_why="they are not numbers",
        )


def _cuts(line: NumberLine, counts: Sequence[int], wanted: int) -> list[int]:
    """Cuts in units, in integers: equal on every machine. Infinite values and the least one are not cuts."""
    order = np.lexsort((line.values, line.infinite))
    order = order[line.numeric[order]]
    if not order.size:
        return []
    records: NDArray[np.int64] = np.array([int(count) for count in counts], dtype=np.int64)[order]
    upto, total = np.cumsum(records), int(records.sum())
    if not total:
        return []
    places = np.searchsorted(upto * wanted, total * np.arange(1, wanted), side="right")
    found = {int(place) for place in places.tolist() if place and line.infinite[order[place]] == 0}
    return sorted({int(line.values[order[place]]) for place in found})
