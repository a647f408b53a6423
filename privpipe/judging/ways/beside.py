"""Judge by classes over released columns with those of the original beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.way import BESIDE
from privpipe.judging.recovering import BothTables, CountedOnEngine, before
from privpipe.judging.verdicts import not_judged, resting_on
from privpipe.judging.ways.base import WayOfJudging, of_kind
from privpipe.judging.ways.pairs import NOT_ALIGNED, paired
from privpipe.measures.risk.attribute.recovery import Recovery

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByColumnsBeside"]


class ByColumnsBeside(WayOfJudging):
    """The two tables are joined once, however many entries ask; suppressed records are left out.

    Without an original or without ids an error, never a pass.
    """

    way = BESIDE
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        if not context.aligned:
            return {at: not_judged(entry, NOT_ALIGNED) for at, entry in entries.items()}
        engine, original, left = context.engine, context.original, context.with_ids.left
        tables = BothTables(context.with_ids.table.schema, original.schema, context.roles)
        asked = of_kind(entries, Recovery)
        for entry in asked.values():
            tables.require(entry.named)
        columns = list(dict.fromkeys(name for entry in asked.values() for name in tables.columns(entry)))
        counts = CountedOnEngine(engine, engine.beside(left, original, {name: before(name) for name in columns}))
        released, verdicts = engine.count(left), {}
        for at, entry in asked.items():
            found = tables.recovered(entry, counts, context.rules.stages)
            verdict = entry.judge_recovered(list(found), counts.records)
            evidence = entry.compared_with(counts, tables.columns(entry), left.schema.names)
            verdicts[at] = resting_on(verdict, paired(counts.records, released), evidence)
        return verdicts
