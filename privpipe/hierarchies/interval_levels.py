"""Levels of intervals over a column of numbers: what the builders of numbers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.interval_text import IntervalText
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT

__all__ = ["Cutter", "Span", "Tails", "Tier", "cut_open", "draft_of_intervals"]

Span = tuple[int | None, int | None]
"""Ends of an interval in units; None: none on that side."""
Cutter = Callable[[NDArray[Any], NDArray[np.int8]], tuple[NDArray[np.int64], list[Span]]]
"""Units and signs of infinite values, in rising order, to the interval of each and its ends."""


@dataclass(frozen=True)
class Tier:
    """One level: code of each value, labels from below `lowest` to `highest` and above, ends of the intervals."""

    codes: NDArray[np.int64]
    labels: tuple[str, ...]
    ends: list[Span]
    bottom: bool
    top: bool


@dataclass(frozen=True, kw_only=True)
class Tails:
    """What is coded at the ends of a column, and where its intervals are cut off.

    Parameters
    ----------
    lowest, highest : Decimal or None
        Values below `lowest`, at or above `highest`, have one label each.
    domain : tuple of (Decimal, Decimal) or None
        The values that there can be, [lo, hi).

    Examples
    --------
    >>> Tails(lowest=Decimal(15)).given
    [Decimal('15')]
    """

    lowest: Decimal | None = None
    highest: Decimal | None = None
    domain: tuple[Decimal, Decimal] | None = None

    def __post_init__(self) -> None:
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise UsageError("lowest: must be below highest")
        if self.domain is not None and self.domain[0] >= self.domain[1]:
            raise UsageError("domain: its lower end must be below its upper end")

    @property
    def given(self) -> list[Decimal]:
        """Every bound that is declared."""
        return [bound for bound in (self.lowest, self.highest, *(self.domain or ())) if bound is not None]

    def below(self, line: NumberLine) -> NDArray[np.bool_]:
        """Which values are bottom-coded."""
        return line.below(self.lowest) if self.lowest is not None else np.zeros(len(line.values), dtype=bool)

    def above(self, line: NumberLine) -> NDArray[np.bool_]:
        """Which values are top-coded."""
        if self.highest is None:
            return np.zeros(len(line.values), dtype=bool)
        return np.asarray(line.numeric & ~line.below(self.highest), dtype=bool)

    def cut_off(self, span: Span, line: NumberLine, *, from_zero: bool) -> Span:
        """An interval without the part that no value can lie in; below 0 where no value is negative."""
        start, stop = span
        floors = [self.lowest, *(self.domain or ())[:1], Decimal(0) if from_zero else None]
        ceilings = [self.highest, *(self.domain or ())[1:]]
        for floor in (line.units(bound) for bound in floors if bound is not None):
            if start is not None and start < floor and (stop is None or floor < stop):
                start = floor
        for ceiling in (line.units(bound) for bound in ceilings if bound is not None):
            if stop is not None and ceiling < stop and (start is None or start < ceiling):
                stop = ceiling
        return start, stop


def cut_open(cuts: Sequence[int]) -> Cutter:
    """Intervals between rising cuts, the first and the last without end: no label tells the least or greatest value.

    Examples
    --------
    >>> codes, ends = cut_open([20, 40])(np.array([7, 20, 41]), np.zeros(3, dtype=np.int8))
    >>> codes.tolist(), ends
    ([0, 1, 2], [(None, 20), (20, 40), (40, None)])
    """

    def cut(units: NDArray[Any], infinite: NDArray[np.int8]) -> tuple[NDArray[np.int64], list[Span]]:
        places = np.searchsorted(np.array(list(cuts), dtype=units.dtype), units, side="right")
        places = np.where(infinite == 0, places, np.where(infinite > 0, len(cuts), 0))
        bins, found = np.unique(places, return_inverse=True)
        edges = [None, *cuts, None]
        return found, [(edges[each], edges[each + 1]) for each in bins.tolist()]

    return cut


def draft_of_intervals(
    values: Sequence[str],
    line: NumberLine,
    cutters: Sequence[Cutter],
    text: IntervalText,
    tails: Tails,
    held: NDArray[np.bool_],
) -> tuple[Draft, list[Tier]]:
    """A draft of distinct values and their intervals, in rising order; its source and names are left to the builder.

    Parameters
    ----------
    values : sequence of str
    line : NumberLine
        Of the values, with every bound.
    cutters : sequence of Cutter
        One a level, finest first, each a merge of the one below.
    text : IntervalText
    tails : Tails
    held : ndarray of bool, shape (n_values,)
        Which values have a label.
    """
    order = np.lexsort((line.values, line.infinite))
    order = order[held[order]]
    low, high = tails.below(line)[order], tails.above(line)[order]
    units, infinite = line.values[order], line.infinite[order]
    from_zero = bool((infinite >= 0).all() and (units >= 0).all())
    tiers, clipped = [], False
    for cutter in cutters:
        tier, changed = _tier(cutter, units, infinite, (low, high), _Writer(text, line, tails, from_zero))
        tiers.append(tier)
        clipped |= changed
    raw = tuple(values[place] for place in order.tolist())
    codes = [np.arange(len(raw)), *(tier.codes for tier in tiers), np.zeros(len(raw), dtype=np.int64)]
    labels = [raw, *(tier.labels for tier in tiers), (ROOT,) if raw else ()]
    draft = Draft(
        levels=Levels(tuple(labels), np.stack(codes).astype(np.int32)),
        source="",
        data_dependent=clipped,
        outside=tuple(np.flatnonzero(~held).tolist()),
        outside_why="set `lowest` and `highest`, or widen the range",
    )
    return draft, tiers


@dataclass(frozen=True)
class _Writer:
    """Labels of intervals, cut off; `clipped` by the sign of the values seen."""

    text: IntervalText
    line: NumberLine
    tails: Tails
    from_zero: bool

    def labels(self, ends: Sequence[Span]) -> tuple[list[str], bool]:
        if self.text.style == "open":
            return [self.text(*span) for span in ends], False
        declared = [self.tails.cut_off(span, self.line, from_zero=False) for span in ends]
        seen = [self.tails.cut_off(span, self.line, from_zero=self.from_zero) for span in ends]
        return [self.text(*span) for span in seen], seen != declared

    def coded(self) -> tuple[str, str]:
        ends = (None if bound is None else self.line.units(bound) for bound in (self.tails.lowest, self.tails.highest))
        lowest, highest = ends
        return self.text(None, lowest), self.text(highest, None)


def _tier(
    cutter: Cutter,
    units: NDArray[Any],
    infinite: NDArray[np.int8],
    coded: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    writer: _Writer,
) -> tuple[Tier, bool]:
    low, high = coded
    plain = ~(low | high)
    found, ends = cutter(units[plain], infinite[plain])
    names, clipped = writer.labels(ends)
    below, above = writer.coded()
    bottom, top = bool(low.any()), bool(high.any())
    codes = np.zeros(len(units), dtype=np.int64)
    codes[plain] = found + bottom
    codes[high] = bottom + len(ends)
    labels = (*((below,) if bottom else ()), *names, *((above,) if top else ()))
    return Tier(codes, labels, ends, bottom, top), clipped
