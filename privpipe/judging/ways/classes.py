"""Judge by names of columns, by their facts, by distinct combinations and by classes over quasi-identifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import ClassBlock, DistinctBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.guarantee import ColumnRule
from privpipe.blocks.way import CLASSES, COLUMNS, DISTINCT, FACTS, PROCESS, WEIGHTS
from privpipe.errors import DataError
from privpipe.judging.assessment import all_suppressed
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.rules import keys_of
from privpipe.judging.ways import WayOfJudging, of_kind

if TYPE_CHECKING:
    from privpipe.judging.counted_classes import JudgingContext

__all__ = ["ByClasses", "ByColumns", "ByDistinct", "ByFacts", "ByProcess", "ByWeights"]


class ByClasses(WayOfJudging):
    """Records, or persons, and values of sensitive columns in each class."""

    way = CLASSES
    counts_persons: ClassVar[bool] = True
    takes_keys: ClassVar[bool] = True
    measures = ClassBlock


class ByColumns(WayOfJudging):
    """No cell is looked at."""

    way = COLUMNS
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        seen = context.rules.gate.seen(context.judged_table.table.schema.names)
        return {at: entry.judge_columns(seen, context.roles) for at, entry in of_kind(entries, ColumnRule).items()}

    def columns_used_by(self, entry: Guarantee, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        return ()


class ByFacts(WayOfJudging):
    """Only the histograms of the judged table."""

    way = FACTS

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        if context.judged_table.nothing:
            allowed = context.rules.allow_empty
            return {at: all_suppressed(entry, allowed=allowed) for at, entry in entries.items()}
        facts = context.facts["released"]
        return {at: entry.judge(Tally(), facts) for at, entry in entries.items()}


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


class ByProcess(WayOfJudging):
    """The process decides; no assumption is made about which columns an attacker knows."""

    way = PROCESS
    no_expectation: ClassVar[str] = (
        "it is judged by the record of the process that is next to a published release, not by a table"
    )

    def columns_used_by(self, entry: Guarantee, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        return ()


class ByWeights(WayOfJudging):
    """As by classes; a weight is a record's, so persons are not counted."""

    way = WEIGHTS
    takes_keys: ClassVar[bool] = True
    measures = ClassBlock
