"""Levels of intervals over a column of numbers: exact numbers, labels, and what the builders of numbers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count, pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.hierarchies.canonical import exact_number, plain_decimal
from privpipe.hierarchies.levels import Draft, Levels
from privpipe.hierarchies.options import ROOT

__all__ = [
    "LEAST_REPORTED",
    "Cutter",
    "IntervalText",
    "LabelStyle",
    "NumberLine",
    "RoundedCuts",
    "Span",
    "Tails",
    "Tier",
    "cut_open",
    "draft_of_intervals",
    "interval_ends",
    "nearest_multiple",
    "round_step",
    "steps_of_range",
    "style_for",
]


LARGEST: Final = 2**62
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)


class NumberLine:
    """Values and bounds in one unit, so that comparing and dividing them is exact.

    Parameters
    ----------
    texts : sequence of str
        Canonical numbers; ``inf`` and ``-inf`` are allowed, and what is not a number is marked.
    bounds : iterable of Decimal
        Finite; they share the unit.

    Attributes
    ----------
    values : ndarray of int64, or of object when they do not fit, shape (n,)
        In units; 0 for what is infinite or no number.
    infinite : ndarray of int8, shape (n,)
        -1, 0 or 1.
    numeric : ndarray of bool, shape (n,)
        Whether the text is a number, infinite ones included.

    Examples
    --------
    >>> line = NumberLine(["0.3", "-1", "inf"], [Decimal("0.25")])
    >>> line.values.tolist(), line.infinite.tolist(), line.units(Decimal("0.25")), line.text(-125)
    ([30, -100, 0], [0, 0, 1], 25, '-1.25')
    """

    def __init__(self, texts: Sequence[str], bounds: Iterable[Decimal]) -> None:
        limits = [plain_decimal(bound) for bound in bounds]
        plain = [text if _PLAIN.fullmatch(text) else _finite(text) for text in texts]
        self.infinite = np.array(
            [0 if known else _sign(text) for text, known in zip(texts, plain, strict=True)], np.int8
        )
        self.numeric = np.array([bool(known) for known in plain], dtype=bool) | (self.infinite != 0)
        self.scale = max((_decimals(text) for text in (*plain, *limits) if text), default=0)
        whole = [self._whole(text) if text else 0 for text in plain]
        reach = max((abs(each) for each in (*whole, *map(self._whole, limits))), default=0)
        self.values: NDArray[Any] = np.array(whole, dtype=np.int64 if reach < LARGEST else object)

    def units(self, bound: Decimal) -> int:
        """A bound in units."""
        return self._whole(plain_decimal(bound))

    def text(self, units: int) -> str:
        """The canonical text of a number of units."""
        digits = str(abs(units)).zfill(self.scale + 1)
        cut = len(digits) - self.scale
        part = digits[cut:].rstrip("0")
        return ("-" if units < 0 else "") + digits[:cut] + (f".{part}" if part else "")

    def below(self, bound: Decimal) -> NDArray[np.bool_]:
        """Which values are smaller than a bound, minus infinity included."""
        smaller = np.asarray(self.values < self.units(bound), dtype=bool)
        found: NDArray[np.bool_] = self.numeric & np.where(self.infinite == 0, smaller, self.infinite < 0)
        return found

    def _whole(self, text: str) -> int:
        whole, _, part = text.partition(".")
        return int(whole + part.ljust(self.scale, "0"))


def _finite(text: str) -> str:
    """Canonical text of a finite number written in another way; empty for anything else."""
    try:
        exact = exact_number(text)
    except ValueError:
        return ""
    return plain_decimal(exact) if exact.is_finite() else ""


def _sign(text: str) -> int:
    return {"inf": 1, "-inf": -1}.get(text, 0)


def _decimals(text: str) -> int:
    point = text.find(".")
    return 0 if point < 0 else len(text) - point - 1


LabelStyle = Literal["brackets", "dash", "words", "open"]
"""``[40, 60)``, ``40-59``, ``40 to under 60`` or ``[40, 60[``."""

_BRACKETS: Final = re.compile(r"\[(?P<low>[^,\[\]()]+), (?P<high>[^,\[\]()]+)(?P<end>[\]\[)])")
_WORDS: Final = re.compile(r"(?P<low>\S+) to under (?P<high>\S+)")
_DASH: Final = re.compile(r"(?P<low>\d+)-(?P<high>\d+)|(?P<below>-?\d+) to (?P<above>-?\d+)", re.ASCII)

Ends = tuple[str | None, str | None, bool]


def style_for(asked: LabelStyle | None, kind: str | None, line: NumberLine, column: str) -> LabelStyle:
    """The style that a column's labels have: as asked, else ``dash`` for whole numbers and ``brackets`` for others.

    Raises
    ------
    UsageError
        ``dash`` is asked for, and the column or the bounds are not whole: its labels would not meet.
    """
    if asked is None:
        return "dash" if kind == "integer" and line.scale == 0 else "brackets"
    if asked == "dash" and (kind not in (None, "integer") or line.scale):
        what = f"column {column!r} has type {kind}" if kind != "integer" else f"bounds of column {column!r} are not"
        raise UsageError(f"labels: dash is for whole numbers, and {what}; set `labels: brackets` or `labels: words`")
    return asked


@dataclass(frozen=True)
class IntervalText:
    """Labels of intervals [start, stop) in units of a line.

    Parameters
    ----------
    line : NumberLine
    style : {"brackets", "dash", "words", "open"}

    Examples
    --------
    >>> line = NumberLine([], [])
    >>> for style in ("brackets", "dash", "words", "open"):
    ...     text = IntervalText(line, style)
    ...     print(text(40, 60), "|", text(None, 40), "|", text(60, None))
    [40, 60) | <40 | >=60
    40-59 | <40 | >=60
    40 to under 60 | under 40 | 60 or more
    [40, 60[ | <40 | >=60
    >>> IntervalText(line, "dash")(-10, 0), IntervalText(line, "dash")(7, 8)
    ('-10 to -1', '7')
    """

    line: NumberLine
    style: LabelStyle

    def __call__(self, start: int | None, stop: int | None) -> str:
        """The label of one interval; None: it has no end on that side. Of one number (start = stop): that number."""
        write, words = self.line.text, self.style == "words"
        if start is None or stop is None:
            if stop is not None:
                return f"under {write(stop)}" if words else f"<{write(stop)}"
            if start is not None:
                return f"{write(start)} or more" if words else f">={write(start)}"
            return ROOT
        if start == stop:
            return write(start)
        if self.style == "dash":
            return self._dash(start, stop - 1)
        if words:
            return f"{write(start)} to under {write(stop)}"
        return f"[{write(start)}, {write(stop)}" + (")" if self.style == "brackets" else "[")

    def _dash(self, first: int, last: int) -> str:
        if first == last:
            return self.line.text(first)
        between = "-" if first >= 0 else " to "
        return f"{self.line.text(first)}{between}{self.line.text(last)}"


def interval_ends(label: str, *, dashes: bool = True) -> Ends | None:
    """Low end, high end (None: unbounded) and whether the high end belongs to it; None if it is not an interval.

    Parameters
    ----------
    label : str
        In any style. The text of the ends is not checked.
    dashes : bool
        Whether ``40-59`` is the interval [40, 60), as in columns of numbers, or a text such as a month.

    Examples
    --------
    >>> interval_ends("[40, 60)"), interval_ends("40-59"), interval_ends("40 to under 60")
    (('40', '60', False), ('40', '60', False), ('40', '60', False))
    >>> interval_ends("[a, b]"), interval_ends("under 5"), interval_ends(">=5"), interval_ends("5")
    (('a', 'b', True), (None, '5', False), ('5', None, True), None)
    """
    if label.startswith((">=", "<")):
        return (label[2:], None, True) if label.startswith(">=") else (None, label[1:], False)
    if (found := _BRACKETS.fullmatch(label)) is not None:
        return found["low"], found["high"], found["end"] == "]"
    if (found := _WORDS.fullmatch(label)) is not None:
        return found["low"], found["high"], False
    if label.startswith("under ") or label.endswith(" or more"):
        low = label.removesuffix(" or more")
        return (low, None, True) if low != label else (None, label.removeprefix("under "), False)
    if dashes and (found := _DASH.fullmatch(label)) is not None:
        low, high = found["low"] or found["below"], found["high"] or found["above"]
        if Decimal(low) < Decimal(high):
            return low, str(int(high) + 1), False
    return None


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
        """An interval without the part that no value can be in; below 0 where no value is negative."""
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
    """Intervals between rising cuts, the first and the last without end: no label shows the least or greatest value.

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
        One per level, finest first, each a merge of the one below.
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


SERIES = (1, 2, 5)
MOST_BANDS = 20
FEWEST_BANDS = 2


def round_step(least: int, *, at_most: bool = False) -> int:
    """The smallest number of the series that is at least `least`, or the greatest that is at most that.

    Examples
    --------
    >>> round_step(3), round_step(20), round_step(101), round_step(49, at_most=True)
    (5, 20, 200, 20)
    """
    power = int(10 ** (len(str(max(least, 1))) - 1))
    steps = [power * factor for factor in (*SERIES, 10)]
    if at_most:
        return max(step for step in steps if step <= max(least, 1))
    return min(step for step in steps if step >= least)


def steps_of_range(low: int, high: int) -> list[int]:
    """Steps in units, each a multiple of the one below, from some twenty bands of the range down to three.

    Examples
    --------
    >>> steps_of_range(17, 90), steps_of_range(0, 99_999), steps_of_range(40, 40)
    ([5, 10, 20], [5000, 10000, 20000], [2])
    """
    step = max(round_step(-(-(high - low) // MOST_BANDS)), 2)
    steps = [step]
    while True:
        step = next(found for found in _above(step) if found % steps[-1] == 0)
        if high // step - low // step + 1 <= FEWEST_BANDS:
            return steps
        steps.append(step)


def nearest_multiple(value: int, step: int) -> int:
    """The multiple of a step that is nearest, the greater one of two.

    Examples
    --------
    >>> nearest_multiple(12, 5), nearest_multiple(-5, 10), nearest_multiple(15, 10)
    (10, 0, 20)
    """
    return (2 * value + step) // (2 * step) * step


def _above(step: int) -> Sequence[int]:
    """The numbers of the series above one of its members, as far as a multiple of it is among them."""
    power = int(10 ** (len(str(step)) - 1))
    return [found for found in (power * factor for factor in (1, 2, 5, 10, 20)) if found > step]


LEAST_REPORTED = 5
"""Figures that rest on fewer records are withheld where a policy asks for no k."""


class RoundedCuts:
    """Round numbers near cuts that are values of the data.

    A cut becomes the nearest multiple of a step, between the cuts next to it, that is not a value of fewer than
    `LEAST_REPORTED` records; where every multiple there is such a value, nothing is cut. One cut becomes one number at
    every level, so that levels nest after rounding as before.

    Parameters
    ----------
    line : NumberLine
        Of the distinct values.
    counts : sequence of int
        Records of each.
    cuts : sequence of int
        Of the finest level in rising order, in units of the line.
    step : int or None
        In units; None: the greatest of 1, 2, 5, 10, ... that is at most half of the least distance between two cuts,
        or between the only cut and the ends of the values.

    Examples
    --------
    >>> line = NumberLine(["103", "218", "297", "400", "471"], [])
    >>> RoundedCuts(line, [1, 1, 1, 7, 1], [218, 400], None).of([218, 400])
    [200, 400]
    >>> RoundedCuts(line, [1, 1, 1, 1, 1], [218, 400], None).of([218, 400])
    [200, 450]
    """

    def __init__(self, line: NumberLine, counts: Sequence[int], cuts: Sequence[int], step: int | None) -> None:
        finite = line.numeric & (line.infinite == 0)
        held = np.array([0 < int(count) < LEAST_REPORTED for count in counts], dtype=np.bool_)
        self._rare = {int(value) for value in line.values[finite & held].tolist()}
        low, high = (int(end(line.values[finite])) for end in (np.min, np.max)) if finite.any() else (0, 0)
        self._step = step or _step([low, *cuts, high])
        ends = [low, *cuts, high + 1]
        self._found = {cut: self._near(cut, ends[at], ends[at + 2]) for at, cut in enumerate(cuts)}

    @property
    def dropped(self) -> bool:
        """Whether nothing is cut where a cut was requested."""
        return None in self._found.values()

    def of(self, cuts: Sequence[int]) -> list[int]:
        """What some of the cuts become, in rising order."""
        return sorted({found for cut in cuts if (found := self._found[cut]) is not None})

    def _near(self, cut: int, below: int, above: int) -> int | None:
        """The nearest round number that is not a record's value; the greater one of two."""
        start, step = nearest_multiple(cut, self._step), self._step
        up = (start + each * step for each in count())
        down = (start - each * step for each in count(1))
        sides = (
            next(number for number in side if beyond(number) or (below < number < above and number not in self._rare))
            for side, beyond in ((up, above.__le__), (down, below.__ge__))
        )
        inside = [number for number in sides if below < number < above]
        return min(inside, key=lambda number: (abs(number - cut), -number), default=None)


def _step(ends: Sequence[int]) -> int:
    """Half of the least distance, as a round number."""
    inner = ends[1:-1] if len(ends) > 3 else ends
    return round_step(min((b - a for a, b in pairwise(inner) if b > a), default=2) // 2, at_most=True)
