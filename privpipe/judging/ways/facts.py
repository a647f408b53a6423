"""Judge by what was learnt of the table's columns, before any class is counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from privpipe.blocks import Guarantee, Tally, Verdict
from privpipe.blocks.way import FACTS
from privpipe.judging.verdicts import all_suppressed
from privpipe.judging.ways.base import WayOfJudging

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByFacts"]


class ByFacts(WayOfJudging):
    """The histograms of the judged table alone."""

    way = FACTS

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        if context.judged_table.nothing:
            allowed = context.rules.allow_empty
            return {at: all_suppressed(entry, allowed=allowed) for at, entry in entries.items()}
        facts = context.facts["released"]
        return {at: entry.judge(Tally(), facts) for at, entry in entries.items()}
