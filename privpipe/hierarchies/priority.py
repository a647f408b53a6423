"""`priority`: the most common or least important values give way first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.levels import Levels
from privpipe.hierarchies.options import ROOT
from privpipe.hierarchies.parameters import choice, declared_values, known_keys, texts, whole_number

__all__ = ["Priority"]


@dataclass(frozen=True, kw_only=True)
class Priority:
    """At level l the lowest ceil(l / levels x values) values become ``*``; rare or important ones stay longest.

    Examples
    --------
    >>> Priority(levels=2).draft(["a", "b", "c"], [9, 1, 5], "text", "x").levels.texts(1)
    ['*', '*', 'b']
    """

    example: ClassVar[str] = "{levels: 3, order: [gout, measles, flu]}"
    example_values: ClassVar[tuple[str, ...]] = ("flu", "measles", "gout")
    example_type: ClassVar[str] = "text"

    levels: Annotated[int, Ge(1), Doc("levels above the raw one; at the last every value is *")]
    order: Annotated[
        Literal["frequency"] | tuple[str, ...],
        Doc(
            "frequency: the most frequent value gives way first (ties: by text), which depends on the data; a list: "
            "the most important value first, and it is the domain"
        ),
    ] = "frequency"

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `priority:`."""
        mapping = known_keys(given, cls, cls.example)
        order: Any = mapping.get("order", "frequency")
        if not isinstance(order, str):
            order = texts(order, "order")
        return cls(levels=whole_number(mapping.get("levels"), "levels", least=1), order=order)

    def __post_init__(self) -> None:
        whole_number(self.levels, "levels", least=1)
        if isinstance(self.order, str):
            choice(self.order, "order", ("frequency",))

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the values, the first to give way first."""
        by_frequency = isinstance(self.order, str)
        if isinstance(self.order, str):
            if counts is None:
                raise UsageError("priority: `order: frequency` needs the number of records of each value")
            order = [value for _, value in sorted(zip((-int(count) for count in counts), values, strict=True))]
        else:
            order = declared_values(self.order, "priority.order", kind)[::-1]
        columns = [order]
        for level in range(1, self.levels + 1):
            gone = -(-level * len(order) // self.levels)
            columns.append([ROOT] * gone + order[gone:])
        names = (*(f"priority {level}" for level in range(1, self.levels)), ROOT)
        return Draft(
            levels=Levels.from_columns(columns),
            source="priority",
            level_names=("raw", *names),
            data_dependent=by_frequency,
        )
