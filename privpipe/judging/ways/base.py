"""The interface of every way of judging."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from privpipe.blocks import Guarantee, Verdict
    from privpipe.blocks.way import Way
    from privpipe.judging.counted_classes import JudgingContext

__all__ = ["WayOfJudging", "of_kind"]

E = TypeVar("E")


class WayOfJudging(ABC):
    """How entries that read one thing are judged, and what they cannot be asked.

    Subclasses name the `way` of which entries say that it is theirs, and give `verdicts`. One that `counts_persons`
    serves `person_id`; one that `serves_wildcard` means the same whether blanks match anything or nothing. One that
    `takes_keys` reads the quasi-identifiers of an expectation; `no_expectation` says why a batch cannot be judged
    in this way, or nothing. `measures` is the block whose figure must not depend on how rows are dealt out, if any.
    """

    way: ClassVar[Way]
    counts_persons: ClassVar[bool] = False
    serves_wildcard: ClassVar[bool] = False
    takes_keys: ClassVar[bool] = False
    no_expectation: ClassVar[str] = ""
    measures: ClassVar[type[Any] | None] = None

    @abstractmethod
    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        """The verdict of each entry, by its place among all of the run; there is at least one."""

    def refused_in_persons(self, entry: Guarantee) -> str:
        """Why an entry cannot count persons, or nothing."""
        if entry.needs_population:
            return f"{entry.name()} counts records of a population; with `person_id` it is not served: leave one out"
        if self.counts_persons:
            return ""
        return f"{entry.name()} counts records; with `person_id` it is not served: leave one of the two out"

    def refused_under_wildcard(self, entry: Guarantee) -> str:
        """Why an entry has no meaning under `nulls: wildcard`, or nothing."""
        if self.serves_wildcard or entry.judges_matching:
            return ""
        return (
            f"{entry.name()} needs classes, and under `nulls: wildcard` there are none: what matches is not "
            "transitive; judge it with `nulls: own_value` or `refuse`, or keep to models on sizes (k_anonymity, "
            "average_risk, strict_average_risk, sample_uniqueness)"
        )

    def columns_used_by(self, entry: Guarantee, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        """The quasi-identifiers that an entry looks at, of those that are declared."""
        own = entry.quasi_identifiers if self.way.over_keys else entry.own_columns()
        return tuple(quasi_identifiers if own is None else own)


def of_kind(entries: Mapping[int, Guarantee], kind: type[E]) -> dict[int, E]:
    """The entries as what a way of judging takes them for.

    Raises
    ------
    TypeError
        One says that it is judged in this way and lacks what that takes.
    """
    found: dict[int, E] = {}
    for at, entry in entries.items():
        if not isinstance(entry, kind):
            raise TypeError(f"{entry.name()} is judged by {entry.way.name} and is no {kind.__name__}")
        found[at] = entry
    return found
