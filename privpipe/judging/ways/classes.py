"""Judge by classes over quasi-identifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import ClassBlock, Guarantee, Verdict
from privpipe.blocks.way import CLASSES
from privpipe.judging.ways.base import WayOfJudging

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByClasses", "OfCounted"]


class OfCounted(WayOfJudging):
    """Reads off the counts of classes that all such ways share."""

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        counted = context.counted.verdicts
        return {at: counted[at] for at in entries}


class ByClasses(OfCounted):
    """Records, or persons, and values of sensitive columns in each class."""

    way = CLASSES
    counts_persons: ClassVar[bool] = True
    takes_keys: ClassVar[bool] = True
    measures = ClassBlock
