"""Judge records of the release with their originals, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from privpipe.blocks import Facts, Guarantee, PairBlock, Verdict
from privpipe.blocks.comparison import ALIGN, Comparison
from privpipe.blocks.way import PAIRS
from privpipe.judging.verdicts import not_judged, resting_on
from privpipe.judging.ways.base import WayOfJudging

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["NOT_ALIGNED", "NOT_IN_BOTH", "ByPairs", "paired"]

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
    found = context.engine.reduce_pairs(context.original, released, columns, _CountedPairs(entry), Facts())
    if found is None:
        return not_judged(entry, NOT_IN_BOTH)
    tally, records = found
    return resting_on(entry.judge(tally, Facts()), paired(records, context.engine.count(released)))


def paired(records: int, released: int) -> Comparison:
    """How many released records were compared with their originals."""
    return Comparison(records, released, "released records are paired with their original", ALIGN)


@dataclass(frozen=True)
class _CountedPairs:
    """What an entry measures of the pairs, and how many there are."""

    entry: Any

    def measure(self, block: PairBlock, facts: Facts) -> tuple[Any, int]:
        return self.entry.measure(block, facts), len(block)

    def merge(self, left: tuple[Any, int], right: tuple[Any, int]) -> tuple[Any, int]:
        return self.entry.merge(left[0], right[0]), left[1] + right[1]
