"""The ways of judging, their interface, and the order in which they are tried; one file each."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from privpipe.blocks import Guarantee, way
from privpipe.blocks.way import Way
from privpipe.errors import UsageError

if TYPE_CHECKING:
    from privpipe.blocks import Verdict
    from privpipe.judging.counted_classes import JudgingContext

__all__ = ["NOT_ALIGNED", "NOT_GIVEN", "WAYS", "ByOriginal", "WayOfJudging", "of_kind", "way_of"]


NOT_ALIGNED = "needs the original table together with the released one, aligned by record id; it was not given."
NOT_GIVEN = "needs the original table together with the released one; it was not given."

E = TypeVar("E")


class WayOfJudging:
    """How entries that read one thing are judged, and which requests are refused.

    Subclasses name the `way` that entries declare, and define `verdicts`, unless its entries are judged
    by the counts of classes that all of them share. One that `counts_persons`
    serves `person_id`; one that `serves_wildcard` means the same whether blanks match anything or nothing. One that
    `takes_keys` reads the quasi-identifiers of an expectation; `no_expectation` states why a batch cannot be judged
    in this way, or nothing. `measures` is the block whose figure must not depend on how rows are dealt out, if any.
    """

    way: ClassVar[Way]
    counts_persons: ClassVar[bool] = False
    serves_wildcard: ClassVar[bool] = False
    takes_keys: ClassVar[bool] = False
    no_expectation: ClassVar[str] = ""
    measures: ClassVar[type[Any] | None] = None

    def lacking(self, context: JudgingContext) -> str:
        """Why no entry can be judged, for which each is an error and never a pass, or nothing."""
        return ""

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        """The verdict of each entry, by its place among all of the run; there is at least one."""
        raise TypeError(f"{self.way.name}: its entries are judged by counts of classes")

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


class ByOriginal(WayOfJudging):
    """Compares with the original; persons and blanks are those of the original."""

    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def lacking(self, context: JudgingContext) -> str:
        if self.way.aligned:
            return "" if context.aligned else NOT_ALIGNED
        return "" if context.original is not None else NOT_GIVEN


def of_kind(entries: Mapping[int, Guarantee], kind: type[E]) -> dict[int, E]:
    """The entries as the type that a way of judging requires.

    Raises
    ------
    TypeError
        An entry declares that it is judged in this way and lacks what the way requires.
    """
    found: dict[int, E] = {}
    for at, entry in entries.items():
        if not isinstance(entry, kind):
            raise TypeError(f"{entry.name()} is judged by {entry.way.name} and is not a {kind.__name__}")
        found[at] = entry
    return found


# Counts of classes show first, and at no cost, whether a record is suppressed; what needs the original comes last.
WAYS: Mapping[Way, str] = {
    way.CLASSES: "classes.ByClasses",
    way.PROCESS: "classes.ByProcess",
    way.WEIGHTS: "classes.ByWeights",
    way.FACTS: "classes.ByFacts",
    way.COLUMNS: "classes.ByColumns",
    way.DISTINCT: "classes.ByDistinct",
    way.HOUSEHOLDS: "households.ByHouseholds",
    way.POSITIONS: "record_pairs.ByPositions",
    way.ITEMS: "items.ByItems",
    way.KEPT_HOUSEHOLDS: "households.ByKeptHouseholds",
    way.PAIRS: "record_pairs.ByPairs",
    way.FILES: "record_pairs.ByFiles",
    way.BESIDE: "original_classes.ByColumnsBeside",
    way.HISTORY: "history.ByHistory",
    way.WHOLE_TABLES: "record_pairs.ByWholeTables",
    way.RECODED_TABLES: "original_classes.ByRecodedTables",
    way.JOINED_CLASSES: "original_classes.ByJoinedClasses",
}
"""The file and class of the judge for each way that an entry may name as its own; read where an entry names it."""


def way_of(entry: Guarantee) -> WayOfJudging:
    """How an entry is judged.

    Raises
    ------
    UsageError
        In an unknown way of judging.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> way_of(KAnonymity(k=5)).way.over_keys
    True
    """
    if entry.way not in WAYS:
        raise UsageError(f"{entry.name()} is judged by {entry.way.name}, and no way of judging has this name")
    return _judge(WAYS[entry.way])


@functools.cache
def _judge(place: str) -> WayOfJudging:
    module, name = place.split(".")
    judge: WayOfJudging = getattr(importlib.import_module(f"privpipe.judging.ways.{module}"), name)()
    return judge
