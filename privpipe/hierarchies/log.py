"""`log`: intervals of skewed numbers that widen with the number, so many a power of the base."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.interval_levels import Cutter, Span, Tails, draft_of_intervals
from privpipe.hierarchies.interval_text import IntervalText, LabelStyle, style_for
from privpipe.hierarchies.intervals import HIGHEST, LABELS, NUMBERS
from privpipe.hierarchies.literals import exact_number, plain_decimal
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import check_type_of_column, known_keys, read_fields

__all__ = ["Log"]

ROUND: Final = {(10, 2): ("1", "3"), (10, 3): ("1", "2", "5"), (10, 9): tuple("123456789")}
"""Cuts of the power from 1 that people would draw; others have two digits."""
EXACT: Final = Context(prec=60_000, Emax=999_999, Emin=-999_999)
"""Enough for every power of 2 and 5 that a number of a column reaches."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """Intervals of numbers from 0 that widen with the number: 1, 2, 5, 10, 20, 50, ... for `per_decade: 3`.

    Cuts are fixed, whatever the data holds: round numbers near ``base ** (i / per_decade)``, then whole powers. 0 is
    a group of its own; below 0 only `lowest` has a label, for all of it.

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

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `log:`."""
        return cls(**known_keys(given, cls, cls.example))

    def __post_init__(self) -> None:
        read_fields(self)
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
                    f"decades: not functional: {above} is no whole multiple of {below}, so an interval of the level "
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
