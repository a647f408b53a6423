"""`intervals`: half-open intervals of numbers, by widths or explicit cuts, with bottom and top coding.

All arithmetic is on integers: values and bounds are scaled by the power of ten that makes each of them whole. A
double stands for its shortest decimal, so a boundary value belongs to the interval on its right, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.literals import plain_decimal
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import check_type_of_column, known_keys, listed, number

__all__ = ["Intervals"]

EXAMPLE = "{start: 0, widths: [5, 10, 20], lowest: 15, highest: 90}"


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Intervals ``[a, b[`` of numbers: one width, or one list of cuts, a level; a ``*`` level above.

    Parameters
    ----------
    start : Decimal or None
        Where the first interval begins; smaller values are outside the range. None: intervals are counted from
        zero, without end on either side.
    widths : tuple of Decimal
        One a level, each a whole multiple of the one below.
    cuts : tuple of tuple of Decimal
        One list a level, rising, each a part of the one below with the same ends.
    lowest, highest : Decimal or None
        Values below `lowest` are ``<lowest``, at or above `highest` ``>=highest``, at every level but the raw one.
    domain : tuple of (Decimal, Decimal) or None
        The range [lo, hi) of possible values: shares are then parts of its length instead of parts of the values
        seen, and its size is counted in units of the last decimal place in use.

    Examples
    --------
    >>> ages = Intervals.from_parameters({"widths": [5, 10]})
    >>> ages.draft(["19", "20", "24"], None, "integer", "age").levels.labels[1]
    ('[15, 20[', '[20, 25[')
    """

    start: Decimal | None = None
    widths: tuple[Decimal, ...] = ()
    cuts: tuple[tuple[Decimal, ...], ...] = ()
    lowest: Decimal | None = None
    highest: Decimal | None = None
    domain: tuple[Decimal, Decimal] | None = None

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `intervals:`."""
        mapping = known_keys(given, cls, EXAMPLE)
        ends = [number(end, "domain") for end in listed(mapping["domain"], "domain")] if "domain" in mapping else None
        if ends is not None and len(ends) != 2:
            raise UsageError("domain: must be [lo, hi]")
        return cls(
            start=_optional(mapping, "start"),
            widths=_numbers(mapping["widths"], "widths") if "widths" in mapping else (),
            cuts=tuple(_numbers(row, "cuts") for row in listed(mapping["cuts"], "cuts")) if "cuts" in mapping else (),
            lowest=_optional(mapping, "lowest"),
            highest=_optional(mapping, "highest"),
            domain=None if ends is None else (ends[0], ends[1]),
        )

    def __post_init__(self) -> None:
        if bool(self.widths) == bool(self.cuts):
            raise UsageError(f"widths or cuts: give one of the two, as in {EXAMPLE}")
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise UsageError("lowest: must be below highest")
        if self.domain is not None and self.domain[0] >= self.domain[1]:
            raise UsageError("domain: its lower end must be below its upper end")
        self._check_widths()
        self._check_cuts()
        low, high = self._range()
        if low is not None and self.lowest is not None and self.lowest < low:
            raise UsageError(f"lowest: {self.lowest} is below the range, which begins at {low}")
        if high is not None and self.highest is not None and self.highest > high:
            raise UsageError(f"highest: {self.highest} is above the range, which ends at {high}")

    def _check_widths(self) -> None:
        if any(width <= 0 for width in self.widths):
            raise UsageError("widths: must be above 0")
        for below, above in pairwise(self.widths):
            if (Fraction(above) / Fraction(below)).denominator != 1:
                raise UsageError(
                    f"widths: not functional: {above} is no whole multiple of {below}, so an interval of the level "
                    "below would belong to two of the level above"
                )

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

    def _range(self) -> tuple[Decimal | None, Decimal | None]:
        return (self.cuts[0][0], self.cuts[0][-1]) if self.cuts else (self.start, None)

    def _bounds(self) -> list[Decimal]:
        bounds = [*self.widths, *(cut for row in self.cuts for cut in row), *(self.domain or ())]
        return bounds + [bound for bound in (self.start, self.lowest, self.highest) if bound is not None]

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in rising order."""
        check_type_of_column(kind, ("integer", "number", "decimal"), "intervals", column)
        line = NumberLine(values, self._bounds())
        low = line.below(self.lowest) if self.lowest is not None else np.zeros(len(values), dtype=bool)
        high = line.numeric & ~line.below(self.highest) if self.highest is not None else np.zeros_like(low)
        held = self._held(line, low | high)
        order = np.lexsort((line.values, line.infinite))
        order = order[held[order]]
        low, high, units = low[order], high[order], line.values[order]
        tiers = [self._tier(index, line, units, low, high) for index in range(len(self.widths) or len(self.cuts))]
        raw = tuple(values[place] for place in order.tolist())
        codes = [np.arange(len(raw)), *(tier.codes for tier in tiers), np.zeros(len(raw), dtype=np.int64)]
        labels = [raw, *(tier.labels for tier in tiers), (ROOT,) if raw else ()]
        return Draft(
            levels=Levels(tuple(labels), np.stack(codes).astype(np.int32)),
            source="intervals",
            shares=self._shares(line, tiers, len(raw)) if self.domain is not None else None,
            domain_size=_size(_length(line, self.domain)) if self.domain is not None else None,
            level_names=("raw", *self._names(), ROOT),
            outside=tuple(np.flatnonzero(~held).tolist()),
            outside_why="set `lowest` and `highest`, or widen the range",
        )

    def _held(self, line: NumberLine, coded: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which values have a label: coded ones, and finite ones of the range; all within the domain."""
        low, high = self._range()
        held: NDArray[np.bool_] = line.numeric & (line.infinite == 0)
        if low is not None:
            held &= ~line.below(low)
        if high is not None:
            held &= line.below(high)
        held |= coded
        if self.domain is not None:
            held &= line.below(self.domain[1]) & ~line.below(self.domain[0])
        return held

    def _tier(
        self, index: int, line: NumberLine, units: NDArray[Any], low: NDArray[np.bool_], high: NDArray[np.bool_]
    ) -> _Tier:
        plain = ~(low | high)
        if self.widths:
            width, start = line.units(self.widths[index]), line.units(self.start or Decimal(0))
            bins, found = np.unique((units[plain] - start) // width, return_inverse=True)
            ends = [(start + each * width, start + (each + 1) * width) for each in bins.tolist()]
        else:
            cuts = [line.units(cut) for cut in self.cuts[index]]
            right = np.searchsorted(np.array(cuts, dtype=units.dtype), units[plain], side="right")
            bins, found = np.unique(right - 1, return_inverse=True)
            ends = [(cuts[each], cuts[each + 1]) for each in bins.tolist()]
        bottom = (f"<{plain_decimal(self.lowest)}",) if self.lowest is not None and low.any() else ()
        top = (f">={plain_decimal(self.highest)}",) if self.highest is not None and high.any() else ()
        codes = np.zeros(len(units), dtype=np.int64)
        codes[plain] = found + len(bottom)
        codes[high] = len(bottom) + len(ends)
        names = (f"[{line.text(start)}, {line.text(stop)}[" for start, stop in ends)
        return _Tier(codes, (*bottom, *names, *top), ends)

    def _shares(self, line: NumberLine, tiers: Sequence[_Tier], count: int) -> NDArray[np.float64]:
        """Part of the domain that each value's label covers, shape (levels, n_values)."""
        domain = self.domain or (Decimal(0), Decimal(1))
        floor, ceiling, length = line.units(domain[0]), line.units(domain[1]), _length(line, domain)
        bottom = floor if self.lowest is None else max(floor, line.units(self.lowest))
        top = ceiling if self.highest is None else min(ceiling, line.units(self.highest))
        rows = [np.full(count, 1 / length)]
        for tier in tiers:
            covered = [(min(stop, top) - max(start, bottom)) / length for start, stop in tier.ends]
            if tier.labels[:1] and tier.labels[0].startswith("<"):
                covered.insert(0, (bottom - floor) / length)
            if len(tier.labels) > len(covered):
                covered.append((ceiling - top) / length)
            rows.append(np.array(covered, dtype=np.float64)[tier.codes])
        return np.stack([*rows, np.ones(count)])

    def _names(self) -> list[str]:
        if self.widths:
            return [f"width {plain_decimal(width)}" for width in self.widths]
        return [f"cuts {index}" for index in range(1, len(self.cuts) + 1)]


@dataclass(frozen=True)
class _Tier:
    """One level: code of each value, labels from below `lowest` to `highest` and above, ends of the intervals."""

    codes: NDArray[np.int64]
    labels: tuple[str, ...]
    ends: list[tuple[int, int]]


def _length(line: NumberLine, domain: tuple[Decimal, Decimal]) -> int:
    return line.units(domain[1]) - line.units(domain[0])


def _size(units: int) -> float:
    try:
        return float(units)
    except OverflowError:
        return float("inf")


def _numbers(given: object, key: str) -> tuple[Decimal, ...]:
    return tuple(number(each, key) for each in listed(given, key))


def _optional(mapping: Mapping[str, Any], key: str) -> Decimal | None:
    return number(mapping[key], key) if mapping.get(key) is not None else None
