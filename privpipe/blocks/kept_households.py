"""A rule on what of each household of the original is in the release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import KEPT_HOUSEHOLDS, Way

__all__ = ["KeptHouseholds"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KeptHouseholds(Guarantee):
    """Judges numbers of households; subclasses give `judge_kept`."""

    way: ClassVar[Way] = KEPT_HOUSEHOLDS

    def reads_households(self) -> bool:
        return True

    def judge_kept(self, whole: int, part: int, missing: int) -> Verdict:
        """The verdict where so many households are released whole, so many in part, which lack so many records."""
        raise TypeError(f"{type(self).__name__} judges no households")
