"""`quantiles`: intervals of numbers that hold as equal a number of records as can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.interval_levels import Tails, cut_open, draft_of_intervals
from privpipe.hierarchies.interval_text import IntervalText, LabelStyle, style_for
from privpipe.hierarchies.intervals import LABELS, NUMBERS
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import check_type_of_column, known_keys, read_fields
from privpipe.hierarchies.rounded_cuts import RoundedCuts

__all__ = ["Quantiles"]

FEW_CUTS = (
    "few_cuts: some quantiles are not cut off, since every round number near them is the value of a few records; ask "
    "for fewer quantiles, or use `bands`, whose cuts are declared"
)


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Intervals cut at quantiles of the records, fewer a level; the plan says that they depend on the data.

    Of n records, cut i of c is the smallest value v such that more than n i / c records are at most v. Equal cuts are
    one, so a value of many records takes several quantiles in. The first and the last interval have no end: no label
    shows the least or the greatest value. Cuts are rounded to numbers that are no value of fewer than 5 records: a
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
            "cuts are the nearest multiples of this number that are no value of few records; auto: of the greatest of "
            "1, 2, 5, 10, ... that is at most half of the least distance between two cuts"
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
                    f"counts: not functional: {above} is no whole part of {below}, so an interval of the level below "
                    "would belong to two of the level above"
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
            outside_why="they are no numbers",
        )


def _cuts(line: NumberLine, counts: Sequence[int], wanted: int) -> list[int]:
    """Cuts in units, in integers: equal on every machine. Infinite values and the least one are no cuts."""
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
