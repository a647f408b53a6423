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
from privpipe.hierarchies.literals import exact_number, plain_decimal
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import check_type_of_column, known_keys, listed, number

__all__ = ["Intervals"]

EXAMPLE = "{start: 0, widths: [5, 10, 20], lowest: 15, highest: 90}"
LARGEST = 2**62


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

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in rising order."""
        check_type_of_column(kind, ("integer", "number", "decimal"), "intervals", column)
        numbers = [_exact(value) for value in values]
        inside = sorted(
            (place for place, exact in enumerate(numbers) if exact is not None and self._holds(exact)),
            key=lambda place: numbers[place] or Decimal(0),
        )
        axis = _Axis([numbers[place] or Decimal(0) for place in inside], self)
        columns = [axis.level(index) for index in range(len(self.widths) or len(self.cuts))]
        raw = tuple(values[place] for place in inside)
        codes = [np.arange(len(raw)), *(codes for codes, _, _ in columns), np.zeros(len(raw))]
        labels = [raw, *(names for _, names, _ in columns), (ROOT,) if raw else ()]
        return Draft(
            levels=Levels(tuple(labels), np.stack(codes).astype(np.int32)),
            source="intervals",
            shares=axis.shares(columns) if self.domain is not None else None,
            domain_size=float(axis.length) if self.domain is not None else None,
            level_names=("raw", *self._names(), ROOT),
            outside=tuple(sorted(set(range(len(values))) - set(inside))),
            outside_why="set `lowest` and `highest`, or widen the range",
        )

    def _holds(self, exact: Decimal) -> bool:
        if self.domain is not None and not self.domain[0] <= exact < self.domain[1]:
            return False
        if (self.lowest is not None and exact < self.lowest) or (self.highest is not None and exact >= self.highest):
            return True
        low, high = self._range()
        return exact.is_finite() and (low is None or exact >= low) and (high is None or exact < high)

    def _names(self) -> list[str]:
        if self.widths:
            return [f"width {plain_decimal(width)}" for width in self.widths]
        return [f"cuts {index}" for index in range(1, len(self.cuts) + 1)]


class _Axis:
    """The number line in units of the last decimal place that any value or bound uses."""

    def __init__(self, values: Sequence[Decimal], intervals: Intervals) -> None:
        self.intervals = intervals
        bounds = [*intervals.widths, *(cut for row in intervals.cuts for cut in row), *(intervals.domain or ())]
        bounds += [bound for bound in (intervals.start, intervals.lowest, intervals.highest) if bound is not None]
        self.scale = max((_decimals(each) for each in [*values, *bounds] if each.is_finite()), default=0)
        self.low = np.array([_below(each, intervals.lowest) for each in values], dtype=bool)
        self.high = np.array(
            [intervals.highest is not None and each >= intervals.highest for each in values], dtype=bool
        )
        # Coded values may be infinite; what stands for them is never looked at.
        whole = [self.units(each) if each.is_finite() else 0 for each in values]
        small = all(abs(unit) < LARGEST for unit in (*whole, *(self.units(bound) for bound in bounds)))
        self.units_of_values = np.array(whole, dtype=np.int64 if small else object)
        self.length = self.units(intervals.domain[1]) - self.units(intervals.domain[0]) if intervals.domain else 0

    def units(self, exact: Decimal) -> int:
        """An exact number in units."""
        sign, digits, exponent = exact.as_tuple()
        size: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + self.scale)
        return -size if sign else size

    def text(self, units: int) -> str:
        """The canonical text of a number of units."""
        digits = str(abs(units)).zfill(self.scale + 1)
        whole, part = digits[: len(digits) - self.scale], digits[len(digits) - self.scale :].rstrip("0")
        return ("-" if units < 0 else "") + whole + (f".{part}" if part else "")

    def level(self, index: int) -> tuple[NDArray[np.int64], tuple[str, ...], list[tuple[int, int]]]:
        """Code of each value at a level, labels, and the ends of each label's interval in units."""
        plain = ~(self.low | self.high)
        ends_of = self._ends_by_width if self.intervals.widths else self._ends_by_cuts
        found, ends = ends_of(index, self.units_of_values[plain])
        codes = np.zeros(len(plain), dtype=np.int64)
        names = [f"[{self.text(start)}, {self.text(stop)}[" for start, stop in ends]
        codes[plain] = found + int(self.low.any())
        if self.low.any():
            names.insert(0, f"<{plain_decimal(self.intervals.lowest or Decimal(0))}")
        if self.high.any():
            codes[self.high] = len(names)
            names.append(f">={plain_decimal(self.intervals.highest or Decimal(0))}")
        return codes, tuple(names), ends

    def _ends_by_width(self, index: int, units: NDArray[Any]) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        width, start = self.units(self.intervals.widths[index]), self.units(self.intervals.start or Decimal(0))
        bins, codes = np.unique((units - start) // width, return_inverse=True)
        return codes, [(start + each * width, start + (each + 1) * width) for each in bins.tolist()]

    def _ends_by_cuts(self, index: int, units: NDArray[Any]) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        cuts = [self.units(cut) for cut in self.intervals.cuts[index]]
        bins, codes = np.unique(np.searchsorted(np.array(cuts, units.dtype), units, "right") - 1, return_inverse=True)
        return codes, [(cuts[each], cuts[each + 1]) for each in bins.tolist()]

    def shares(self, columns: Sequence[tuple[Any, Any, list[tuple[int, int]]]]) -> NDArray[np.float64]:
        """Part of the domain that each value's label covers, shape (levels, n_values)."""
        domain, count = self.intervals.domain or (Decimal(0), Decimal(1)), len(self.low)
        floor, ceiling = self.units(domain[0]), self.units(domain[1])
        bottom = floor if self.intervals.lowest is None else max(floor, self.units(self.intervals.lowest))
        top = ceiling if self.intervals.highest is None else min(ceiling, self.units(self.intervals.highest))
        rows = [np.full(count, 1 / self.length)]
        for codes, _, ends in columns:
            covered = [(min(stop, top) - max(start, bottom)) / self.length for start, stop in ends]
            covered = [(bottom - floor) / self.length] * bool(self.low.any()) + covered
            covered += [(ceiling - top) / self.length] * bool(self.high.any())
            rows.append(np.array(covered, dtype=np.float64)[codes])
        return np.stack([*rows, np.ones(count)])


def _numbers(given: object, key: str) -> tuple[Decimal, ...]:
    return tuple(number(each, key) for each in listed(given, key))


def _optional(mapping: Mapping[str, Any], key: str) -> Decimal | None:
    return number(mapping[key], key) if mapping.get(key) is not None else None


def _exact(text: str) -> Decimal | None:
    try:
        return exact_number(text)
    except ValueError:
        return None


def _below(exact: Decimal, bound: Decimal | None) -> bool:
    return bound is not None and exact < bound


def _decimals(exact: Decimal) -> int:
    return max(0, -int(exact.as_tuple().exponent))
