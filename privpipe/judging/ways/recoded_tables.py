"""Judge how a release was recoded from its original, by the distinct combinations of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.comparison import Comparison
from privpipe.blocks.distinct_pair import DistinctPair, DistinctPairMeasure
from privpipe.blocks.suppressed import NothingLeft
from privpipe.blocks.way import RECODED_TABLES
from privpipe.errors import DataError
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.grouping import keys_of
from privpipe.judging.required_columns import require_columns
from privpipe.judging.verdicts import all_suppressed, resting_on
from privpipe.judging.ways.base import WayOfJudging, of_kind

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.judging.context import JudgingContext

__all__ = ["ByRecodedTables"]


class ByRecodedTables(WayOfJudging):
    """Entries over the same columns share one count; without an original the release alone is judged."""

    way = RECODED_TABLES
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        verdicts: dict[int, Verdict] = {}
        counted: dict[tuple[str, ...], tuple[pa.Table, int, pa.Table | None]] = {}
        for at, entry in of_kind(entries, DistinctPairMeasure).items():
            keys = keys_of(entry, context.roles)
            columns = entry.columns_read(keys)
            if columns not in counted:
                counted[columns] = _counted(context, columns)
            released, marked, original = counted[columns]
            if not released.num_rows:
                verdicts[at] = all_suppressed(entry)
                continue
            pair = DistinctPair(
                keys=keys,
                released=released,
                original=original,
                marked=marked,
                records=context.rules.records,
                hierarchies=context.rules.hierarchies,
                stages=context.rules.stages,
            )
            shown = int(np.asarray(released["__count"].to_numpy()).sum())
            verdicts[at] = resting_on(entry.judge_tables(pair), Comparison(shown, shown, "released records"))
        return verdicts


def _counted(context: JudgingContext, columns: tuple[str, ...]) -> tuple[pa.Table, int, pa.Table | None]:
    """The release's combinations, how many records are suppressed, and the original's where it has the columns."""
    judged_table, original, engine = context.judged_table, context.original, context.engine
    require_columns(judged_table.table.schema.names, columns)
    released = engine.distinct(judged_table.table, columns)
    if (
        NothingLeft(columns, judged_table.by.mark, judged_table.by.untyped).like(released).any()
        and judged_table.suppressed
    ):
        released = engine.distinct(judged_table.left, columns)
    marked = judged_table.known or 0
    if not released.num_rows and not marked:
        raise DataError(NO_RECORDS)
    known = original is not None and all(column in original.schema.names for column in columns)
    return released, marked, engine.distinct(original, columns) if known else None
