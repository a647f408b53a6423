"""Judge by the distinct combinations of the quasi-identifiers, as one block on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import DistinctBlock, Facts, Guarantee, Verdict
from privpipe.blocks.way import DISTINCT
from privpipe.errors import DataError
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.grouping import keys_of
from privpipe.judging.verdicts import all_suppressed, not_judged
from privpipe.judging.ways.base import WayOfJudging

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByDistinct"]


class ByDistinct(WayOfJudging):
    """One count of combinations for all entries with the same columns and weight; suppressed records are left out."""

    way = DISTINCT
    takes_keys: ClassVar[bool] = True
    measures = DistinctBlock

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        counted: dict[tuple[tuple[str, ...], str | None], DistinctBlock] = {}
        verdicts = {}
        for at, entry in entries.items():
            keys, weight = keys_of(entry, context.roles), entry.weight_column()
            if weight is not None and weight in context.weight_faults:
                verdicts[at] = not_judged(entry, context.weight_faults[weight])
                continue
            whole = tuple(dict.fromkeys((*keys, *context.roles.quasi_identifiers)))
            if (whole, weight) not in counted:
                counted[whole, weight] = _counted(context, whole, weight)
            block = counted[whole, weight]
            if not len(block):
                verdicts[at] = all_suppressed(entry)
                continue
            tally = entry.measure(block.of(keys), Facts())  # type: ignore[arg-type]  # as its way says
            verdicts[at] = entry.judge(tally, Facts())
        return verdicts


def _counted(context: JudgingContext, columns: tuple[str, ...], weight: str | None) -> DistinctBlock:
    judged_table, rules = context.judged_table, context.rules
    found = judged_table.engine.distinct(judged_table.left, columns if weight is None else (*columns, weight))
    wildcard = rules.wildcard if rules.nulls == "wildcard" else None
    block = DistinctBlock.from_table(found, columns, wildcard=wildcard, weight=weight)
    if not len(block) and not judged_table.suppressed:
        raise DataError(NO_RECORDS)
    return block
