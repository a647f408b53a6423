"""A rule on the compositions of households: what an attacker who knows a whole family can tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privpipe.blocks.class_block import ClassBlock
from privpipe.blocks.counted_over import Over
from privpipe.blocks.facts import Facts
from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.size_model import histogram_sums
from privpipe.blocks.tally import Tally, added
from privpipe.blocks.way import HOUSEHOLDS, Way

__all__ = ["HouseholdRule"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HouseholdRule(Guarantee):
    """Judges how many households have each composition; subclasses give `judge`.

    The composition of a household is the multiset of its members' quasi-identifiers as they are released. A member is
    a record, or with `person_id` the multiset of a person's records. A class of the block holds the households of one
    composition.
    """

    way: ClassVar[Way] = HOUSEHOLDS

    def counts_over(self) -> Over | None:
        return "households"

    def least_alike(self) -> int:
        """Households that must share each composition at the least; 0: no least number decides."""
        return 0

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return Tally(classes=len(block), records=block.records, sums=histogram_sums(block.sizes))

    def merge(self, left: Tally, right: Tally) -> Tally:
        return Tally(
            classes=left.classes + right.classes,
            records=left.records + right.records,
            sums=added(left.sums, right.sums),
        )
