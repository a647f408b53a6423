"""Judge whole tables: the original, the release and records in neither, none paired with another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.comparison import Comparison, least
from privpipe.blocks.table_files import TableFiles, TableMeasure
from privpipe.blocks.way import WHOLE_TABLES
from privpipe.engines import Engine, Source
from privpipe.errors import DataError
from privpipe.judging.required_columns import require_columns
from privpipe.judging.verdicts import not_judged, resting_on
from privpipe.judging.ways.base import WayOfJudging, of_kind
from privpipe.measures.label_meaning import labels_compared
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.judging.context import JudgingContext
    from privpipe.judging.rules import JudgingRules

__all__ = ["ByWholeTables"]

LARGEST_GATHERED = 400_000_000
"""Cells of all tables that are brought to the driver at the most."""
NOT_GIVEN = "needs the original table beside the released one; it was not given."


class ByWholeTables(WayOfJudging):
    """Without an original an error, never a pass."""

    way = WHOLE_TABLES
    counts_persons: ClassVar[bool] = True
    serves_wildcard: ClassVar[bool] = True

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        return {at: _verdict(entry, context) for at, entry in of_kind(entries, TableMeasure).items()}


def _verdict(entry: TableMeasure, context: JudgingContext) -> Verdict:
    engine, original, rules = context.engine, context.original, context.rules
    released = context.with_ids.left
    if original is None:
        return not_judged(entry, NOT_GIVEN)
    columns = entry.columns_read(context.roles)
    cells = (engine.count(original) + engine.count(released)) * len(columns)
    if cells > LARGEST_GATHERED:
        reason = f"the tables hold {cells:,} cells of the columns compared, {LARGEST_GATHERED:,} at the most."
        return not_judged(entry, reason)
    before = _gathered(engine, original, columns, "original")
    types = {name: column_type_of(before.schema.field(name).type) for name in columns}
    beside = {
        side: None if path is None else _arranged(_beside(engine, path, side, columns, types, rules), rules.order)
        for side, path in (("holdout", entry.holdout), ("reference", entry.table_of_reference()))
    }
    files = TableFiles(
        original=_arranged(before, rules.order),
        released=_arranged(_gathered(engine, released, columns, "released table"), rules.order),
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


def _gathered(engine: Engine, table: Any, columns: Sequence[str], side: str) -> pa.Table:
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
    return _gathered(engine, table, columns, side)


def _arranged(table: pa.Table, order: Stream | None) -> pa.Table:
    """The rows in a keyed order of what they hold, by which they are sampled; identical rows are interchangeable."""
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash

    words = content_hash(table, Seed(bytes(16) if order is None else order.key))
    return table.take(np.lexsort((words[:, 1], words[:, 0])))
