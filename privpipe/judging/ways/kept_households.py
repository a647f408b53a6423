"""Judge by how many records of each household of the original were released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.comparison import ALIGN, Comparison
from privpipe.blocks.kept_households import KeptHouseholds
from privpipe.blocks.way import KEPT_HOUSEHOLDS
from privpipe.judging.required_columns import require_columns
from privpipe.judging.verdicts import not_judged, resting_on
from privpipe.judging.ways.base import WayOfJudging, of_kind
from privpipe.judging.ways.pairs import NOT_ALIGNED

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByKeptHouseholds"]

OF_ORIGINAL = "__privpipe_original_household"


class ByKeptHouseholds(WayOfJudging):
    """Households are told apart in the original, so the release need not hold their key; one count for all entries."""

    way = KEPT_HOUSEHOLDS
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        if not context.aligned:
            return {at: not_judged(entry, NOT_ALIGNED) for at, entry in entries.items()}
        import pyarrow.compute as pc

        from privpipe.kernels.ids.household_parts import parts_of

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
