"""Judge by the class tables of release and original, joined by their keys where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.comparison import Comparison
from privpipe.blocks.joined_classes import JoinedClassMeasure
from privpipe.blocks.way import JOINED_CLASSES
from privpipe.judging.joined_counts import joined_tables
from privpipe.judging.verdicts import not_judged, resting_on
from privpipe.judging.ways.base import WayOfJudging, of_kind

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByJoinedClasses"]

NOT_GIVEN = "needs the original table beside the released one; it was not given."


class ByJoinedClasses(WayOfJudging):
    """One count of both tables for each entry, two where a holdout is compared; without an original an error."""

    way = JOINED_CLASSES
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        return {at: _verdict(entry, context) for at, entry in of_kind(entries, JoinedClassMeasure).items()}


def _verdict(entry: JoinedClassMeasure, context: JudgingContext) -> Verdict:
    if context.original is None:
        return not_judged(entry, NOT_GIVEN)
    found = joined_tables(entry, context)
    if isinstance(found, str):
        return not_judged(entry, found)
    rows = Comparison(found.released, found.released, "released records are counted by their key")
    return resting_on(entry.judge_joined(found), rows, *found.compared)
