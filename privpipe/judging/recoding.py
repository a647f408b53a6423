"""Judge how a release was recoded from its original, by the distinct combinations of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.distinct_pair import DistinctPair, DistinctPairMeasure
from privpipe.blocks.suppressed import NothingLeft
from privpipe.errors import DataError, did_you_mean
from privpipe.judging.grouping import keys_of
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.judging.rules import JudgingRules
    from privpipe.judging.suppressed import Sheet

__all__ = ["recoding_verdicts"]


def recoding_verdicts(
    sheet: Sheet, original: Any, entries: Mapping[int, Guarantee], roles: Roles, rules: JudgingRules
) -> dict[int, Verdict]:
    """The verdict of each entry that reads tables, by its place; entries over the same columns share one count.

    Raises
    ------
    DataError
        A column that the table lacks, or no record at all.
    """
    verdicts: dict[int, Verdict] = {}
    counted: dict[tuple[str, ...], tuple[pa.Table, int, pa.Table | None]] = {}
    for at, entry in entries.items():
        if not isinstance(entry, DistinctPairMeasure):
            continue
        keys = keys_of(entry, roles)
        columns = entry.columns_read(keys)
        if columns not in counted:
            counted[columns] = _counted(sheet, original, columns)
        released, marked, before = counted[columns]
        if not released.num_rows:
            verdicts[at] = Verdict(entry, None, "fail", entry.demanded(), reason="every record is suppressed.")
            continue
        verdicts[at] = entry.judge_tables(
            DistinctPair(
                keys=keys,
                released=released,
                original=before,
                marked=marked,
                records=rules.records,
                hierarchies=rules.hierarchies,
                stages=rules.stages,
            )
        )
    return verdicts


def _counted(sheet: Sheet, original: Any, columns: tuple[str, ...]) -> tuple[pa.Table, int, pa.Table | None]:
    """The release's combinations, how many records are suppressed, and the original's where it has the columns."""
    engine, names = sheet.engine, list(sheet.table.schema.names)
    for column in columns:
        if column not in names:
            raise DataError(f"column {column!r} is not in the table{did_you_mean(column, names)}")
    released = engine.distinct(sheet.table, columns)
    if NothingLeft(columns, sheet.by.mark, sheet.by.untyped).like(released).any() and sheet.suppressed:
        released = engine.distinct(sheet.left, columns)
    marked = sheet.known or 0
    if not released.num_rows and not marked:
        raise DataError("the table has no records: there is nothing to judge")
    known = original is not None and all(column in original.schema.names for column in columns)
    return released, marked, engine.distinct(original, columns) if known else None
