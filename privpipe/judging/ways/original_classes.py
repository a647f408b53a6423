"""Judge classes of a release compared with those of its original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.file_pair import DistinctPair, DistinctPairMeasure, JoinedClassMeasure
from privpipe.blocks.row_reductions import NothingLeft
from privpipe.blocks.verdict import Comparison
from privpipe.blocks.way import BESIDE, JOINED_CLASSES, RECODED_TABLES
from privpipe.errors import DataError
from privpipe.judging.assessment import all_suppressed, not_judged, resting_on
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.joined_counts import joined_tables
from privpipe.judging.judged_table import require_columns
from privpipe.judging.recovery import BothTables, counted_whole
from privpipe.judging.rules import JudgingRules, keys_of
from privpipe.judging.ways.base import ByOriginal, WayOfJudging, of_kind
from privpipe.judging.ways.record_pairs import paired
from privpipe.measures.risk.attribute.recovery import Recovery

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.judging.counted_classes import JudgingContext

__all__ = ["ByColumnsBeside", "ByJoinedClasses", "ByRecodedTables"]


class ByColumnsBeside(ByOriginal):
    """The two tables are joined once, however many entries ask; suppressed records are left out."""

    way = BESIDE

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        engine, original, left = context.engine, context.original, context.with_ids.left
        tables = BothTables(context.with_ids.table.schema, original.schema, context.roles)
        asked = of_kind(entries, Recovery)
        for entry in asked.values():
            tables.require(entry.named)
        columns = list(dict.fromkeys(name for entry in asked.values() for name in tables.columns(entry)))
        counts = counted_whole(engine, left, original, columns)
        released, verdicts = engine.count(left), {}
        for at, entry in asked.items():
            found = tables.recovered(entry, counts, context.rules.stages)
            verdict = entry.judge_recovered(list(found), counts.records)
            evidence = entry.compared_with(counts, tables.columns(entry), left.schema.names)
            verdicts[at] = resting_on(verdict, paired(counts.records, released), evidence)
        return verdicts


class ByJoinedClasses(ByOriginal):
    """One count of both tables for each entry, two where a holdout is compared."""

    way = JOINED_CLASSES

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        return {at: _verdict(entry, context) for at, entry in of_kind(entries, JoinedClassMeasure).items()}


def _verdict(entry: JoinedClassMeasure, context: JudgingContext) -> Verdict:
    found = joined_tables(entry, context)
    if isinstance(found, str):
        return not_judged(entry, found)
    rows = Comparison(found.released, found.released, "released records are counted by their key")
    return resting_on(entry.judge_joined(found), rows, *found.compared)


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
                blanks=_blanks(context.rules),
            )
            shown = int(np.asarray(released["__count"].to_numpy()).sum())
            verdicts[at] = resting_on(entry.judge_tables(pair), Comparison(shown, shown, "released records"))
        return verdicts


def _blanks(rules: JudgingRules) -> tuple[str | None, ...]:
    """What a released cell holds where it may stand for any value."""
    if rules.nulls != "wildcard":
        return (rules.mark,)
    return (rules.mark, None) if rules.wildcard is None else (rules.mark, None, rules.wildcard)


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
