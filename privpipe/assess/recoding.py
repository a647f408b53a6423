"""Judge how a release was recoded from its original, by the distinct combinations of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privpipe.assess.grouping import keys_of, whole_of
from privpipe.assess.suppressed import without_suppressed
from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.distinct_pair import DistinctPair, DistinctPairMeasure
from privpipe.engines import Engine
from privpipe.errors import DataError, did_you_mean
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.assess.rules import JudgingRules

__all__ = ["recoding_verdicts"]


def recoding_verdicts(
    engine: Engine, table: Any, original: Any, entries: Mapping[int, Guarantee], roles: Roles, rules: JudgingRules
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
            counted[columns] = _counted(engine, table, original, keys, columns, roles, rules)
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


def _counted(
    engine: Engine,
    table: Any,
    original: Any,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    roles: Roles,
    rules: JudgingRules,
) -> tuple[pa.Table, int, pa.Table | None]:
    """The release's combinations, how many records bear the mark, and the original's where it has the columns."""
    for column in columns:
        if column not in table.schema.names:
            raise DataError(f"column {column!r} is not in the table{did_you_mean(column, list(table.schema.names))}")
    found = engine.distinct(table, columns)
    released, marked = _unmarked(found, keys, rules.mark)
    whole = whole_of([keys], roles)
    if marked and set(whole) != set(keys):
        # Some columns alone do not tell a suppressed record from one with a mark in these.
        released = engine.distinct(without_suppressed(engine, table, whole, roles, rules.mark), columns)
        marked = sum(found["__count"].to_pylist()) - sum(released["__count"].to_pylist())
    if not released.num_rows and not marked:
        raise DataError("the table has no records: there is nothing to judge")
    known = original is not None and all(column in original.schema.names for column in columns)
    return released, marked, engine.distinct(original, columns) if known else None


def _unmarked(table: pa.Table, keys: tuple[str, ...], mark: str) -> tuple[pa.Table, int]:
    """The combinations that are not the mark in every key, and the records of the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = [table.schema.field(key).type for key in keys]
    if not keys or not all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds):
        return table, 0
    marked = None
    for key in keys:
        bears = pc.fill_null(pc.equal(table[key], mark), False)
        marked = bears if marked is None else pc.and_(marked, bears)
    lost = pc.sum(table.filter(marked)["__count"]).as_py() or 0
    return table.filter(pc.invert(marked)), int(lost)
