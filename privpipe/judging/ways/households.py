"""Judge by the compositions of households."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Guarantee, Verdict
from privpipe.blocks.household_rule import HouseholdRule
from privpipe.blocks.way import HOUSEHOLDS
from privpipe.errors import DataError
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.grouping import keys_of
from privpipe.judging.verdicts import all_suppressed
from privpipe.judging.ways.base import WayOfJudging, of_kind

if TYPE_CHECKING:
    from privpipe.blocks import Table
    from privpipe.judging.context import JudgingContext

__all__ = ["ByHouseholds"]


class ByHouseholds(WayOfJudging):
    """A table of one row a household for each set of quasi-identifiers, counted by composition."""

    way = HOUSEHOLDS
    counts_persons: ClassVar[bool] = True
    takes_keys: ClassVar[bool] = True
    measures = ClassBlock

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        from privpipe.kernels.ids.compositions import COMPOSITION

        tables: dict[tuple[str, ...], Table] = {}
        verdicts = {}
        for at, entry in of_kind(entries, HouseholdRule).items():
            keys = keys_of(entry, context.roles)
            if keys not in tables:
                tables[keys] = _composed(context, keys)
            query = ClassQuery(keys=COMPOSITION, columns=())
            tally = context.engine.reduce_classes(tables[keys], query, entry, Facts())
            if tally is None or not tally.records:
                if not context.judged_table.suppressed:
                    raise DataError(NO_RECORDS)
                verdicts[at] = all_suppressed(entry, allowed=context.rules.allow_empty)
                continue
            verdicts[at] = entry.judge(tally, Facts())
        return verdicts


def _composed(context: JudgingContext, keys: tuple[str, ...]) -> Table:
    from privpipe.kernels.ids.compositions import Bucketed, Composed, composition_schema

    engine, left, household = context.engine, context.judged_table.left, str(context.rules.household)
    needed = tuple(name for name in (household, context.rules.person) if name is not None)
    for name, missing in engine.facts(left, FactsRequest(nulls=needed)).nulls.items():
        if missing:
            raise DataError(
                f"column {name!r} has {missing:,} missing values, and it tells who lives together: fill it in, or "
                "leave those records out"
            )
    chosen = engine.select(left, list(dict.fromkeys((*needed, *keys))))
    schema = composition_schema(left.schema.field(household))
    made: Table = engine.map_groups(
        chosen, Bucketed(household), Composed(keys, household, context.rules.person), schema
    )
    return made
