"""The ways of judging, one file each, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Mapping

from privpipe.blocks import Guarantee
from privpipe.blocks.way import Way
from privpipe.errors import UsageError
from privpipe.judging.ways.base import WayOfJudging
from privpipe.judging.ways.classes import ByClasses, ByColumns, ByDistinct, ByFacts, ByProcess, ByWeights
from privpipe.judging.ways.history import ByHistory
from privpipe.judging.ways.households import ByHouseholds, ByKeptHouseholds
from privpipe.judging.ways.items import ByItems
from privpipe.judging.ways.original_classes import ByColumnsBeside, ByJoinedClasses, ByRecodedTables
from privpipe.judging.ways.record_pairs import ByFiles, ByPairs, ByPositions, ByWholeTables

__all__ = ["WAYS", "WayOfJudging", "way_of"]

# Counts of classes show first, and at no cost, whether a record is suppressed; what needs the original comes last.
WAYS: Mapping[Way, WayOfJudging] = {
    judge.way: judge
    for judge in (
        ByClasses(),
        ByProcess(),
        ByWeights(),
        ByFacts(),
        ByColumns(),
        ByDistinct(),
        ByHouseholds(),
        ByPositions(),
        ByItems(),
        ByKeptHouseholds(),
        ByPairs(),
        ByFiles(),
        ByColumnsBeside(),
        ByHistory(),
        ByWholeTables(),
        ByRecodedTables(),
        ByJoinedClasses(),
    )
}
"""The judge for each way that an entry may name as its own."""


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
    return WAYS[entry.way]
