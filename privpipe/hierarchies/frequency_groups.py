"""`frequency_groups`: rare values grouped together, more of them a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, ClassVar, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import known_keys, read_fields

__all__ = ["FrequencyGroups"]


@dataclass(frozen=True, kw_only=True)
class FrequencyGroups:
    """The most frequent values keep their names, the others become one group, which takes in more a level.

    Ties go by text; a value that reads as the group does belongs to it from the first level on. Without `keep` and
    `shares`, half of the values keep their names, then half of these, down to one. The plan says that the hierarchy
    depends on the data.

    Examples
    --------
    >>> jobs = FrequencyGroups()
    >>> draft = jobs.draft(["cook", "clerk", "judge", "nurse", "smith"], [9, 40, 1, 30, 2], "text", "job")
    >>> draft.levels.labels[1:]
    (('clerk', 'nurse', 'other'), ('clerk', 'other'), ('*',))
    """

    example: ClassVar[str] = "{shares: [0.05, 0.2]}"
    example_values: ClassVar[tuple[str, ...]] = (
        *("clerk",) * 12, *("nurse",) * 8, *("cook",) * 3, "judge", "smith"
    )  # fmt: skip
    example_type: ClassVar[str] = "text"

    keep: Annotated[
        tuple[Annotated[int, Ge(1)], ...],
        Doc("how many of the most frequent values keep their names, falling by level"),
    ] = ()
    shares: Annotated[
        tuple[Decimal, ...],
        Doc("instead of keep: values of a smaller share of the records are grouped, above 0, rising by level up to 1"),
    ] = ()
    label: Annotated[str, Doc("what the group is called")] = "other"

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `frequency_groups:`."""
        return cls(**known_keys(given, cls, cls.example))

    def __post_init__(self) -> None:
        read_fields(self)
        if self.keep and self.shares:
            raise UsageError("keep or shares: give one of the two, or none")
        if any(below <= above for below, above in pairwise(self.keep)):
            raise UsageError("keep: must fall from level to level, or a value would have two groups above it")
        if any(below >= above for below, above in pairwise(self.shares)):
            raise UsageError("shares: must rise from level to level, or a value would have two groups above it")
        if not all(0 < share <= 1 for share in self.shares):
            raise UsageError("shares: must be above 0 and at most 1")
        if not self.label or self.label == ROOT:
            raise UsageError(f"label: must be a text, and not {ROOT!r}")

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, the most frequent first."""
        if counts is None:
            raise UsageError("frequency_groups: needs the number of records of each value")
        pairs = sorted((-int(count), value) for value, count in zip(values, counts, strict=True))
        named = [(-count, value) for count, value in pairs if value != self.label]
        order = [*(value for _, value in named), *(value for _, value in pairs if value == self.label)]
        kept = self._kept([count for count, _ in named], sum(-count for count, _ in pairs))
        columns = [order[:names] + [self.label] * (len(order) - names) for names in kept]
        return Draft(
            levels=Levels.from_columns([order, *columns, [ROOT] * len(order)]),
            source="frequency_groups",
            level_names=("raw", *self._names(len(columns)), ROOT),
            data_dependent=True,
        )

    def _kept(self, counts: Sequence[int], total: int) -> list[int]:
        """How many values keep their names, by level."""
        if self.keep:
            return [min(names, len(counts)) for names in self.keep]
        if self.shares:
            return [sum(Fraction(count) >= Fraction(share) * total for count in counts) for share in self.shares]
        halves = [len(counts) // 2]
        while halves[-1] > 1:
            halves.append(halves[-1] // 2)
        return [names for names in halves if len(counts) > 2 and names]

    def _names(self, levels: int) -> list[str]:
        if self.keep:
            return [f"{names} kept" for names in self.keep]
        if self.shares:
            return [f"shares from {share:f}" for share in self.shares]
        return [f"halved {level}" for level in range(1, levels + 1)]
