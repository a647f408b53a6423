"""Judge by the names of the columns alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.column_rule import ColumnRule
from privpipe.blocks.way import COLUMNS
from privpipe.judging.ways.base import WayOfJudging, of_kind

if TYPE_CHECKING:
    from privpipe.judging.context import JudgingContext

__all__ = ["ByColumns"]


class ByColumns(WayOfJudging):
    """No cell is looked at."""

    way = COLUMNS
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        seen = context.rules.gate.seen(context.judged_table.table.schema.names)
        return {at: entry.judge_columns(seen, context.roles) for at, entry in of_kind(entries, ColumnRule).items()}

    def columns_used_by(self, entry: Guarantee, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        return ()
