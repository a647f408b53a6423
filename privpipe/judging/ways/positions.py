"""Judge by where rows stand in the written files and stood in the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.row_positions import PositionMeasure
from privpipe.blocks.way import POSITIONS
from privpipe.judging.verdicts import resting_on
from privpipe.judging.ways.base import WayOfJudging, of_kind
from privpipe.judging.ways.pairs import paired

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByPositions"]

NOT_GIVEN = "needs the rows of the release and of the original in their order; they were not given."


class ByPositions(WayOfJudging):
    """The run hands positions over, or why there are none."""

    way = POSITIONS
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True
    no_expectation: ClassVar[str] = (
        "it is judged by the order of the rows in the files that were written, which a batch does not keep"
    )

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        positions = NOT_GIVEN if context.rules.positions is None else context.rules.positions
        over = of_kind(entries, PositionMeasure)
        verdicts = {at: entry.judge_positions(positions) for at, entry in over.items()}
        if isinstance(positions, str):
            return verdicts
        rests_on = paired(len(positions.released), context.engine.count(context.judged_table.table))
        return {at: resting_on(verdict, rests_on) for at, verdict in verdicts.items()}
