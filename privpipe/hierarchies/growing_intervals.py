"""`log` and `bands`: intervals of numbers that widen with the number, by powers of a base or by round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.canonical import exact_number, plain_decimal
from privpipe.hierarchies.interval_levels import (
    Cutter,
    IntervalText,
    LabelStyle,
    NumberLine,
    Span,
    Tails,
    draft_of_intervals,
    steps_of_range,
    style_for,
)
from privpipe.hierarchies.intervals import HIGHEST, LABELS, LOWEST, NUMBERS, Intervals, check_multiples
from privpipe.hierarchies.levels import Draft
from privpipe.hierarchies.options import ROOT, Builder, check_type_of_column

__all__ = ["Bands", "Log"]


ROUND: Final = {(10, 2): ("1", "3"), (10, 3): ("1", "2", "5"), (10, 9): tuple("123456789")}
"""Cuts of the power from 1 that people would draw; others have two digits."""
EXACT: Final = Context(prec=60_000, Emax=999_999, Emin=-999_999)
"""Enough for every power of 2 and 5 that a number of a column reaches."""


@dataclass(frozen=True, kw_only=True)
class Log(Builder):
    """Intervals of numbers from 0 that widen with the number: 1, 2, 5, 10, 20, 50, ... for `per_decade: 3`.

    Cuts are fixed, whatever the data holds: round numbers near ``base ** (i / per_decade)``, then whole powers. 0 is
    a separate group; below 0 only `lowest` has a label, for all of it.

    Examples
    --------
    >>> incomes = Log.from_parameters({"per_decade": 3, "lowest": 100})
    >>> incomes.draft(["0", "150", "1000", "49999"], None, "integer", "income").levels.labels[1:3]
    (('<100', '100-199', '1000-1999', '20000-49999'), ('<100', '100-999', '1000-9999', '10000-99999'))
    """

    example: ClassVar[str] = "{per_decade: 3, lowest: 100, highest: 100000}"
    example_values: ClassVar[tuple[str, ...]] = ("0", "150", "1000", "49999", "2000000")
    example_type: ClassVar[str] = "integer"

    base: Annotated[Literal[2, 5, 10], Doc("of the powers")] = 10
    per_decade: Annotated[int, Ge(1), Le(9), Doc("intervals between a power of the base and the next")] = 3
    decades: Annotated[
        tuple[Annotated[int, Ge(1)], ...] | None,
        Doc(
            "powers that an interval of the levels above takes in, each number a whole multiple of the one below; left "
            "out: one, where per_decade is above 1"
        ),
    ] = None
    lowest: Annotated[Decimal | None, Doc("values below it, zero and negative ones too, have one label")] = None
    highest: Annotated[Decimal | None, HIGHEST] = None
    labels: Annotated[LabelStyle | None, LABELS] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        Tails(lowest=self.lowest, highest=self.highest)
        if self.lowest is not None and self.lowest < 0:
            raise UsageError("lowest: must be at least 0, for there is no logarithm below")
        if self.highest is not None and self.highest <= 0:
            raise UsageError("highest: must be above 0, for there is no logarithm below")
        widths = self._widths()
        if self.per_decade == 1 and widths[1:2] == [1]:
            raise UsageError("decades: the first level has one interval a power already; begin with 2 or more")
        for below, above in pairwise(widths[1:]):
            if above % below or above == below:
                raise UsageError(
                    f"decades: not functional: {above} is not a whole multiple of {below}, so an interval of the level "
                    "below would belong to two of the level above"
                )

    def _widths(self) -> list[int]:
        """Of each level, the powers that an interval takes in; 0 on the first: parts of one."""
        if self.decades is not None:
            return [0, *self.decades]
        return [0, 1] if self.per_decade > 1 else [0]

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in rising order."""
        check_type_of_column(kind, NUMBERS, "log", column)
        tails = Tails(lowest=self.lowest, highest=self.highest)
        cuts = [self._cuts(values, width) for width in self._widths()]
        whole = kind == "integer"
        # Integers have no use for cuts between 0 and 1.
        cuts = [[cut for cut in level if cut == cut.to_integral_value()] if whole else level for level in cuts]
        line = NumberLine(values, [*(cut for level in cuts for cut in level), *tails.given])
        text = IntervalText(line, style_for(self.labels, kind, line, column))
        cutters = [_from_zero([line.units(cut) for cut in level]) for level in cuts]
        held = line.numeric & (line.infinite == 0) & ~line.below(Decimal(0))
        held |= tails.below(line) | tails.above(line)
        draft, _ = draft_of_intervals(values, line, cutters, text, tails, held)
        return replace(
            draft,
            source="log",
            level_names=("raw", *self._names(), ROOT),
            outside_why="the logarithm needs finite numbers from 0; `lowest` and `highest` take in the others",
        )

    def _names(self) -> list[str]:
        first = f"{self.per_decade} a power of {self.base}"
        return [first, *(f"powers of {self.base**width}" for width in self._widths()[1:])]

    def _cuts(self, values: Sequence[str], width: int) -> list[Decimal]:
        """Cuts of the powers in which there are values: between others nothing lies."""
        step = max(width, 1)
        powers = {self._floor(exact) // step * step for value in values if (exact := _positive(value)) is not None}
        cuts = {_power(self.base, power + step) for power in powers}
        for power in powers:
            low = _power(self.base, power)
            cuts |= {low} if width else {EXACT.multiply(low, part) for part in self._parts()}
        return sorted(cuts) or [Decimal(1)]

    def _floor(self, value: Decimal) -> int:
        """The whole part of the logarithm, exactly: a guess in doubles, held against the powers."""
        if self.base == 10:
            return value.adjusted()
        mantissa = float(value.scaleb(-value.adjusted(), EXACT))
        guess = math.floor((value.adjusted() * math.log(10) + math.log(mantissa)) / math.log(self.base))
        return max(power for power in (guess - 1, guess, guess + 1) if _power(self.base, power) <= value)

    def _parts(self) -> list[Decimal]:
        if (texts := ROUND.get((self.base, self.per_decade))) is not None:
            return [Decimal(text) for text in texts]
        context = Context(prec=40)
        raised = [
            context.power(Decimal(self.base), Decimal(part) / Decimal(self.per_decade))
            for part in range(self.per_decade)
        ]
        return [Decimal(plain_decimal(Context(prec=3 if self.base == 2 else 2).plus(part))) for part in raised]


@lru_cache(maxsize=1024)
def _power(base: int, exponent: int) -> Decimal:
    return EXACT.power(Decimal(base), exponent) if exponent >= 0 else EXACT.divide(Decimal(1), _power(base, -exponent))


def _positive(value: str) -> Decimal | None:
    try:
        exact = exact_number(value)
    except ValueError:
        return None
    return exact if exact.is_finite() and exact > 0 else None


def _from_zero(cuts: Sequence[int]) -> Cutter:
    """Intervals between rising cuts above 0, where 0 stands by itself; below the first cut they begin above 0."""

    def cut(units: NDArray[Any], _: NDArray[np.int8]) -> tuple[NDArray[np.int64], list[Span]]:
        right = np.searchsorted(np.array(cuts, dtype=units.dtype), units, side="right")
        bins, found = np.unique(np.where(units == 0, 0, right), return_inverse=True)
        return found, [(cuts[each - 1], cuts[each]) if each else (0, 0) for each in bins.tolist()]

    return cut


@dataclass(frozen=True, kw_only=True)
class Bands(Builder):
    """Bands of numbers in round steps that grow from level to level: ages by 5, 10 and 20 years.

    Every band begins at a multiple of its step. Without `steps`, round ones of the series 1, 2, 5, 10, ... are chosen,
    from some twenty bands of the range to three: by `lowest` and `highest` where both are given, else by the values
    seen, and then the hierarchy depends on the data.

    Examples
    --------
    >>> ages = Bands.from_parameters({"steps": [5, 10, 20], "highest": 85})
    >>> ages.draft(["19", "20", "47", "93"], None, "integer", "age").levels.labels[1:3]
    (('15-19', '20-24', '45-49', '>=85'), ('10-19', '20-29', '40-49', '>=85'))
    >>> Bands().draft(["17", "90"], None, "integer", "age").level_names
    ('raw', 'steps of 5', 'steps of 10', 'steps of 20', '*')
    """

    example: ClassVar[str] = "{steps: [5, 10, 20], lowest: 15, highest: 85}"
    example_values: ClassVar[tuple[str, ...]] = ("12", "19", "20", "47", "93")
    example_type: ClassVar[str] = "integer"

    steps: Annotated[
        tuple[Decimal, ...], Doc("one a level, each a whole multiple of the one below; left out: round ones")
    ] = ()
    lowest: Annotated[Decimal | None, LOWEST] = None
    highest: Annotated[Decimal | None, HIGHEST] = None
    labels: Annotated[LabelStyle | None, LABELS] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiples(self.steps, "steps")
        Tails(lowest=self.lowest, highest=self.highest)

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in rising order."""
        check_type_of_column(kind, NUMBERS, "bands", column)
        steps = self.steps or self._chosen(values)
        made = Intervals(widths=steps, lowest=self.lowest, highest=self.highest, labels=self.labels)
        draft = made.draft(values, counts, kind, column)
        seen = not self.steps and (self.lowest is None or self.highest is None)
        return replace(
            draft,
            source="bands",
            level_names=("raw", *(f"steps of {plain_decimal(step)}" for step in steps), ROOT),
            data_dependent=draft.data_dependent or seen,
        )

    def _chosen(self, values: Sequence[str]) -> tuple[Decimal, ...]:
        """Round steps of the range between the tails; that of the values only where a tail is not declared."""
        declared = [bound for bound in (self.lowest, self.highest) if bound is not None]
        line = NumberLine(values if len(declared) < 2 else [], declared)
        tails = Tails(lowest=self.lowest, highest=self.highest)
        plain = line.numeric & (line.infinite == 0) & ~tails.below(line) & ~tails.above(line)
        ends = [*(line.units(bound) for bound in declared), *line.values[plain].tolist()]
        steps = steps_of_range(min(ends, default=0), max(ends, default=0))
        return tuple(Decimal(line.text(step)) for step in steps)
