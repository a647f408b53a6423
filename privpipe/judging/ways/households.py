"""Judge by the compositions of households, and by how many records of each were released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Guarantee, Verdict
from privpipe.blocks.size_model import HouseholdRule, KeptHouseholds
from privpipe.blocks.verdict import ALIGN, Comparison
from privpipe.blocks.way import HOUSEHOLDS, KEPT_HOUSEHOLDS
from privpipe.errors import DataError
from privpipe.judging.assessment import all_suppressed, resting_on
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.judged_table import require_columns
from privpipe.judging.rules import keys_of
from privpipe.judging.ways import ByOriginal, WayOfJudging, of_kind

if TYPE_CHECKING:
    from privpipe.blocks import Table
    from privpipe.judging.counted_classes import JudgingContext

__all__ = ["ByHouseholds", "ByKeptHouseholds"]


class ByHouseholds(WayOfJudging):
    """A table of one row a household for each set of quasi-identifiers, counted by composition."""

    way = HOUSEHOLDS
    counts_persons: ClassVar[bool] = True
    takes_keys: ClassVar[bool] = True
    measures = ClassBlock

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        from privpipe.kernels.households import COMPOSITION

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
    from privpipe.kernels.households import Bucketed, Composed, composition_schema

    engine, left, household = context.engine, context.judged_table.left, str(context.rules.household)
    needed = tuple(name for name in (household, context.rules.person) if name is not None)
    for name, missing in engine.facts(left, FactsRequest(nulls=needed)).nulls.items():
        if missing:
            raise DataError(
                f"column {name!r} has {missing:,} missing values, and it shows who lives together: fill it in, or "
                "leave those records out"
            )
    chosen = engine.select(left, list(dict.fromkeys((*needed, *keys))))
    schema = composition_schema(left.schema.field(household))
    made: Table = engine.map_groups(
        chosen, Bucketed(household), Composed(keys, household, context.rules.person), schema
    )
    return made


OF_ORIGINAL = "__privpipe_original_household"


class ByKeptHouseholds(ByOriginal):
    """The original distinguishes households, so the release need not hold their key; one count for all entries."""

    way = KEPT_HOUSEHOLDS

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        import pyarrow.compute as pc

        from privpipe.kernels.households import parts_of

        engine, household = context.engine, str(context.rules.household)
        require_columns(context.original.schema.names, [household], "original")
        pairs = engine.beside(context.with_ids.left, context.original, {household: OF_ORIGINAL})
        before = engine.distinct(context.original, [household])
        after = engine.distinct(pairs, [OF_ORIGINAL]).rename_columns([household, "__count"])
        found = parts_of(before, after, household)
        whole = len(after[household].drop_null()) - found.num_rows
        told = pc.sum(pc.if_else(pc.is_null(after[household], nan_is_null=True), 0, after["__count"])).as_py() or 0
        rests_on = Comparison(
            int(told), engine.count(context.with_ids.left), "released records have a household in the original", ALIGN
        )
        return {
            at: resting_on(entry.judge_kept(whole, found.num_rows, _missing(found)), rests_on)
            for at, entry in of_kind(entries, KeptHouseholds).items()
        }


def _missing(found: object) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(found["missing"]).as_py() or 0)  # type: ignore[index]
