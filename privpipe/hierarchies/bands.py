"""`bands`: numbers by round numbers, in steps that grow from level to level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, ClassVar, Self

from typing_extensions import Doc

from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.interval_levels import Tails
from privpipe.hierarchies.interval_text import LabelStyle
from privpipe.hierarchies.intervals import HIGHEST, LABELS, LOWEST, NUMBERS, Intervals, check_multiples
from privpipe.hierarchies.literals import plain_decimal
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import check_type_of_column, known_keys, read_fields
from privpipe.hierarchies.round_numbers import steps_of_range

__all__ = ["Bands"]


@dataclass(frozen=True, kw_only=True)
class Bands:
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

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `bands:`."""
        return cls(**known_keys(given, cls, cls.example))

    def __post_init__(self) -> None:
        read_fields(self)
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
