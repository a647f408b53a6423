"""Judge records of the release with their originals, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import Facts, Guarantee, Verdict
from privpipe.blocks.way import PAIRS
from privpipe.judging.verdicts import not_judged
from privpipe.judging.ways.base import WayOfJudging

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["NOT_ALIGNED", "NOT_IN_BOTH", "ByPairs"]

NOT_ALIGNED = "needs the original table beside the released one, aligned by record id; it was not given."
NOT_IN_BOTH = "no record is in both tables."


class ByPairs(WayOfJudging):
    """Without an original, without ids, or with no record in both tables an error, never a pass.

    Suppressed records are left out: as records that nobody can link they would make every share look smaller.
    """

    way = PAIRS
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        if not context.aligned:
            return {at: not_judged(entry, NOT_ALIGNED) for at, entry in entries.items()}
        return {at: _verdict(entry, context) for at, entry in entries.items()}


def _verdict(entry: Guarantee, context: JudgingContext) -> Verdict:
    columns = entry.own_columns() or tuple(context.roles.quasi_identifiers)
    released = context.with_ids.left
    tally = context.engine.reduce_pairs(context.original, released, columns, entry, Facts())  # type: ignore[arg-type]
    return not_judged(entry, NOT_IN_BOTH) if tally is None else entry.judge(tally, Facts())
