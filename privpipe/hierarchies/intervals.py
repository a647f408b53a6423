"""`intervals`: half-open intervals of numbers, by widths or explicit cuts, with bottom and top coding.

All arithmetic is on integers: values and bounds are scaled by the power of ten that makes each of them whole. A
double stands for its shortest decimal, so a boundary value belongs to the interval on its right, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.interval_levels import Cutter, Span, Tails, Tier, draft_of_intervals
from privpipe.hierarchies.interval_text import IntervalText, LabelStyle, style_for
from privpipe.hierarchies.literals import plain_decimal
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import check_type_of_column, known_keys, read_fields

__all__ = ["HIGHEST", "LABELS", "LOWEST", "NUMBERS", "Intervals", "check_multiples"]

NUMBERS = ("integer", "number", "decimal")
LOWEST = Doc("values below it have one label at every level but the raw one")
HIGHEST = Doc("values at or above it have one label at every level but the raw one")
LABELS = Doc(
    "how intervals read: brackets [40, 60), dash 40-59, words `40 to under 60`, open [40, 60[; left out: dash for "
    "integers, brackets for other numbers"
)


@dataclass(frozen=True, kw_only=True)
class Intervals:
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

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `intervals:`."""
        return cls(**known_keys(given, cls, cls.example))

    def __post_init__(self) -> None:
        read_fields(self)
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
                f"{key}: not functional: {above} is no whole multiple of {below}, so an interval of the level "
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
