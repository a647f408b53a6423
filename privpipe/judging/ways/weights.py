"""Judge by classes with the sum of a sampling weight in each."""

from __future__ import annotations

from typing import ClassVar

from privpipe.blocks import ClassBlock
from privpipe.blocks.way import WEIGHTS
from privpipe.judging.ways.classes import OfCounted

__all__ = ["ByWeights"]


class ByWeights(OfCounted):
    """As by classes; a weight is a record's, so persons are not counted."""

    way = WEIGHTS
    takes_keys: ClassVar[bool] = True
    measures = ClassBlock
