"""The ways of judging, one file each, in the order in which they are tried."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from privpipe.blocks import Guarantee, way
from privpipe.blocks.way import Way
from privpipe.errors import UsageError
from privpipe.judging.ways.base import WayOfJudging

__all__ = ["WAYS", "WayOfJudging", "way_of"]

# Counts of classes show first, and at no cost, whether a record is suppressed; what needs the original comes last.
WAYS: Mapping[Way, str] = {
    way.CLASSES: "classes.ByClasses",
    way.PROCESS: "classes.ByProcess",
    way.WEIGHTS: "classes.ByWeights",
    way.FACTS: "classes.ByFacts",
    way.COLUMNS: "classes.ByColumns",
    way.DISTINCT: "classes.ByDistinct",
    way.HOUSEHOLDS: "households.ByHouseholds",
    way.POSITIONS: "record_pairs.ByPositions",
    way.ITEMS: "items.ByItems",
    way.KEPT_HOUSEHOLDS: "households.ByKeptHouseholds",
    way.PAIRS: "record_pairs.ByPairs",
    way.FILES: "record_pairs.ByFiles",
    way.BESIDE: "original_classes.ByColumnsBeside",
    way.HISTORY: "history.ByHistory",
    way.WHOLE_TABLES: "record_pairs.ByWholeTables",
    way.RECODED_TABLES: "original_classes.ByRecodedTables",
    way.JOINED_CLASSES: "original_classes.ByJoinedClasses",
}
"""The file and class of the judge for each way that an entry may name as its own; read where an entry names it."""


def way_of(entry: Guarantee) -> WayOfJudging:
    """How an entry is judged.

    Raises
    ------
    UsageError
        In an unknown way of judging.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> way_of(KAnonymity(k=5)).way.over_keys
    True
    """
    if entry.way not in WAYS:
        raise UsageError(f"{entry.name()} is judged by {entry.way.name}, and no way of judging has this name")
    return _judge(WAYS[entry.way])


@functools.cache
def _judge(place: str) -> WayOfJudging:
    module, name = place.split(".")
    judge: WayOfJudging = getattr(importlib.import_module(f"privpipe.judging.ways.{module}"), name)()
    return judge
