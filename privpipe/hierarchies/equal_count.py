"""`equal_count`: intervals of numbers that hold an equal number of distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.interval_levels import Tails, cut_open, draft_of_intervals
from privpipe.hierarchies.interval_text import IntervalText, LabelStyle, style_for
from privpipe.hierarchies.intervals import LABELS, NUMBERS
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import check_type_of_column, known_keys, read_fields

__all__ = ["EqualCount"]


@dataclass(frozen=True, kw_only=True)
class EqualCount:
    """Intervals of so many distinct values each, in their order; the last may hold fewer.

    The values seen decide, so the plan says that the hierarchy depends on the data. The first and the last interval
    have no end: no label tells the least or the greatest value. For dates and texts see `groups`.

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
                    f"sizes: not functional: {above} is no whole multiple of {below}, so an interval of the level "
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
            outside_why="they are no numbers",
        )
