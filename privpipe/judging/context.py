"""What all entries of one run are judged with: its inputs, and the classes that are counted once for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from privpipe.judging.counted_classes import CountedClasses, count_classes
from privpipe.judging.inputs import JudgingInputs

__all__ = ["JudgingContext"]


@dataclass(frozen=True, kw_only=True)
class JudgingContext(JudgingInputs):
    """The inputs of a run, with what its ways of judging share."""

    @cached_property
    def counted(self) -> CountedClasses:
        """Every class that an entry asks for, counted once whatever the way it is judged in."""
        return count_classes(self)
