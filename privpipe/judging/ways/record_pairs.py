"""Judge records of a release compared with those of its original.

They are compared in pairs, as files, by position, or as whole tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privpipe.blocks import Facts, FactsRequest, FilePair, FilePairMeasure, GatheredPairs, Guarantee, PairBlock, Verdict
from privpipe.blocks.file_pair import PositionMeasure, TableFiles, TableMeasure
from privpipe.blocks.verdict import ALIGN, Comparison, least
from privpipe.blocks.way import FILES, PAIRS, POSITIONS, WHOLE_TABLES
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging.assessment import not_judged, resting_on
from privpipe.judging.judged_table import require_columns
from privpipe.judging.ways import ByOriginal, WayOfJudging, of_kind
from privpipe.measures.label_meaning import labels_compared, values_compared
from privpipe.roles import Roles, column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.judging.counted_classes import JudgingContext
    from privpipe.judging.rules import JudgingRules

__all__ = [
    "LARGEST_GATHERED",
    "NOT_IN_BOTH",
    "ByFiles",
    "ByPairs",
    "ByPositions",
    "ByWholeTables",
    "paired",
]


NOT_IN_BOTH = "no record is in both tables."


class ByPairs(ByOriginal):
    """With no record in both tables an error, never a pass.

    Suppressed records are left out: as records that no attacker can link they would make every share look smaller.
    """

    way = PAIRS

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        return {at: _verdict(entry, context) for at, entry in entries.items()}


def _verdict(entry: Guarantee, context: JudgingContext) -> Verdict:
    columns = entry.own_columns() or tuple(context.roles.quasi_identifiers)
    released = context.with_ids.left
    found = context.engine.reduce_pairs(context.original, released, columns, _CountedPairs(entry), Facts())
    if found is None:
        return not_judged(entry, NOT_IN_BOTH)
    tally, records = found
    return resting_on(entry.judge(tally, Facts()), paired(records, context.engine.count(released)))


def paired(records: int, released: int) -> Comparison:
    """How many released records were compared with their originals."""
    return Comparison(records, released, "released records are paired with their original", ALIGN)


@dataclass(frozen=True)
class _CountedPairs:
    """What an entry measures of the pairs, and how many there are."""

    entry: Any

    def measure(self, block: PairBlock, facts: Facts) -> tuple[Any, int]:
        return self.entry.measure(block, facts), len(block)

    def merge(self, left: tuple[Any, int], right: tuple[Any, int]) -> tuple[Any, int]:
        return self.entry.merge(left[0], right[0]), left[1] + right[1]


LARGEST_GATHERED = 400_000_000
"""Cells of both files that are brought to the driver at most."""


class ByFiles(ByOriginal):
    """Entries share one gathering of the columns that any of them reads; suppressed records are left out.

    With no record in both tables the outcome is an error, never a pass.
    """

    way = FILES

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        over = of_kind(entries, FilePairMeasure)
        found = _gathered(context, list(over.values()))
        if isinstance(found, str):
            return {at: not_judged(entry, found) for at, entry in entries.items()}
        return {at: _judged(context, entry, found) for at, entry in over.items()}


def _gathered(context: JudgingContext, entries: Sequence[FilePairMeasure]) -> FilePair | str:
    """The columns of both files that an entry reads, or why they are not brought together.

    Raises
    ------
    DataError
        A column that one of the tables lacks.
    """
    engine, original, released = context.engine, context.original, context.with_ids.left
    columns = tuple(dict.fromkeys(name for entry in entries for name in entry.columns_read(context.roles)))
    for side, table in (("original", original), ("released table", released)):
        require_columns(table.schema.names, columns, side)
    records, kept = engine.count(original), engine.count(released)
    cells = 2 * kept * len(columns)
    if cells > LARGEST_GATHERED:
        return (
            f"the two files hold {cells:,} cells of the columns compared, {LARGEST_GATHERED:,} are brought together at "
            "the most; name fewer columns, or judge a sample of both files."
        )
    blocks = engine.reduce_pairs(original, released, columns, GatheredPairs(), Facts())
    if not blocks:
        return NOT_IN_BOTH
    before, after, ids = GatheredPairs.joined(blocks)
    rules = context.rules
    return FilePair(
        original=before,
        released=after,
        ids=ids,
        records=records,
        released_records=kept,
        original_facts=_moments(engine, original, entries, context.roles),
        stages=rules.stages,
        hierarchies=rules.hierarchies,
        order=rules.order,
        models=rules.models,
        rerun=rules.rerun,
    )


def _judged(context: JudgingContext, entry: FilePairMeasure, files: FilePair) -> Verdict:
    """The entry over its own columns of the shared files."""
    engine, own = context.engine, list(entry.columns_read(context.roles))
    files = replace(files, original=files.original.select(own), released=files.released.select(own))
    path = entry.table_beside()
    if path is not None:
        types: Any = {field.name: column_type_of(field.type) for field in files.original.schema}
        try:
            beside = engine.scan(Source(data=path, version=context.rules.versions.get(path), types=types))
        except DataError as error:
            error.args = (f"{entry.name()}: the other table: {error}",)
            raise
        files = replace(files, beside=engine.collect(engine.select(beside, own)))
    verdict = resting_on(entry.judge_files(files), paired(len(files), files.released_records))
    if not entry.reads_values:
        return verdict
    labels = labels_compared(files.original, files.released, files.hierarchies, context.rules.mark)
    return resting_on(verdict, values_compared(files.original, files.released), *least(labels))


def _moments(engine: Engine, original: Any, entries: Sequence[FilePairMeasure], roles: Roles) -> Facts:
    wanted = dict.fromkeys(name for entry in entries for name in entry.original_moments(roles))
    numbers = tuple(
        name for name in wanted if column_type_of(original.schema.field(name).type) in ("integer", "number", "decimal")
    )
    return engine.facts(original, FactsRequest(moments=numbers)) if numbers else Facts()


ROWS_NOT_GIVEN = "needs the rows of the release and of the original in their order; they were not given."


class ByPositions(WayOfJudging):
    """The run passes positions, or the reason why there are none."""

    way = POSITIONS
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True
    no_expectation: ClassVar[str] = (
        "it is judged by the order of the rows in the files that were written, which a batch does not keep"
    )

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        positions = ROWS_NOT_GIVEN if context.rules.positions is None else context.rules.positions
        over = of_kind(entries, PositionMeasure)
        verdicts = {at: entry.judge_positions(positions) for at, entry in over.items()}
        if isinstance(positions, str):
            return verdicts
        rests_on = paired(len(positions.released), context.engine.count(context.judged_table.table))
        return {at: resting_on(verdict, rests_on) for at, verdict in verdicts.items()}


class ByWholeTables(ByOriginal):
    """In a keyed order of the rows of each table."""

    way = WHOLE_TABLES

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        return {at: _of_whole_tables(entry, context) for at, entry in of_kind(entries, TableMeasure).items()}


def _of_whole_tables(entry: TableMeasure, context: JudgingContext) -> Verdict:
    engine, original, rules = context.engine, context.original, context.rules
    released = context.with_ids.left
    columns = entry.columns_read(context.roles)
    cells = (engine.count(original) + engine.count(released)) * len(columns)
    if cells > LARGEST_GATHERED:
        reason = f"the tables hold {cells:,} cells of the columns compared, {LARGEST_GATHERED:,} at most."
        return not_judged(entry, reason)
    before = _gathered_tables(engine, original, columns, "original")
    types = {name: column_type_of(before.schema.field(name).type) for name in columns}
    beside = {
        side: None if path is None else _arranged(_beside(engine, path, side, columns, types, rules), rules.order)
        for side, path in (("holdout", entry.holdout), ("reference", entry.table_of_reference()))
    }
    files = TableFiles(
        original=_arranged(before, rules.order),
        released=_arranged(_gathered_tables(engine, released, columns, "released table"), rules.order),
        holdout=beside["holdout"],
        reference=beside["reference"],
        hierarchies=rules.hierarchies,
        order=rules.order,
    )
    verdict = resting_on(entry.judge_tables(files), _rows_with_values(files.released))
    if not entry.reads_values:
        return verdict
    labels = labels_compared(files.original, files.released, rules.hierarchies, rules.mark)
    if files.reference is not None:
        labels += labels_compared(files.original, files.reference, rules.hierarchies, rules.mark)
    return resting_on(verdict, *least(labels))


def _rows_with_values(released: pa.Table) -> Comparison:
    import pyarrow.compute as pc

    held = np.zeros(released.num_rows, dtype=np.bool_)
    for column in released.columns:
        held |= ~pc.is_null(column, nan_is_null=True).to_numpy()
    what = "released records have a value in some column compared"
    return Comparison(int(held.sum()), released.num_rows, what, "name columns that hold values in the release")


def _gathered_tables(engine: Engine, table: Any, columns: Sequence[str], side: str) -> pa.Table:
    require_columns(table.schema.names, columns, side)
    return engine.collect(engine.select(table, list(columns)))


def _beside(
    engine: Engine, path: str, side: str, columns: Sequence[str], types: Mapping[str, Any], rules: JudgingRules
) -> pa.Table:
    """The columns of a table that the entry names, of the original's types."""
    try:
        table = engine.scan(Source(data=path, version=rules.versions.get(path), types=types))
    except DataError as error:
        error.args = (f"{side}: {error}",)
        raise
    return _gathered_tables(engine, table, columns, side)


def _arranged(table: pa.Table, order: Stream | None) -> pa.Table:
    """The rows in a keyed order of their contents, in which they are sampled; identical rows are interchangeable."""
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash

    words = content_hash(table, Seed(bytes(16) if order is None else order.key))
    return table.take(np.lexsort((words[:, 1], words[:, 0])))
