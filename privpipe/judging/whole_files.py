"""Judge measures over whole tables without paired records: the original, the release and a holdout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Verdict
from privpipe.blocks.table_files import TableFiles, TableMeasure
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, did_you_mean
from privpipe.roles import Roles, column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.judging.rules import JudgingRules
    from privpipe.judging.suppressed import Sheet

__all__ = ["whole_verdicts"]

LARGEST_GATHERED = 400_000_000
"""Cells of all tables that are brought to the driver at the most."""


def whole_verdicts(
    sheet: Sheet,
    original: Any,
    entries: Mapping[int, TableMeasure],
    roles: Roles,
    rules: JudgingRules,
) -> dict[int, Verdict]:
    """The verdict of each entry that reads whole tables, by its place; without an original errors, never passes.

    Raises
    ------
    DataError
        A column that one of the tables lacks.
    """
    verdicts = {}
    engine = sheet.engine
    for at, entry in entries.items():
        released = sheet.left
        if original is None:
            verdicts[at] = _error(entry, "needs the original table beside the released one; it was not given.")
            continue
        columns = entry.columns_read(roles)
        cells = (engine.count(original) + engine.count(released)) * len(columns)
        if cells > LARGEST_GATHERED:
            reason = f"the tables hold {cells:,} cells of the columns compared, {LARGEST_GATHERED:,} at the most."
            verdicts[at] = _error(entry, reason)
            continue
        before = _gathered(engine, original, columns, "original")
        types = {name: column_type_of(before.schema.field(name).type) for name in columns}
        holdout = None
        if entry.holdout is not None:
            holdout = _gathered(engine, _scanned(engine, entry.holdout, types), columns, "holdout")
        files = TableFiles(
            original=_arranged(before, rules.order),
            released=_arranged(_gathered(engine, released, columns, "released table"), rules.order),
            holdout=None if holdout is None else _arranged(holdout, rules.order),
            hierarchies=rules.hierarchies,
        )
        verdicts[at] = entry.judge_tables(files)
    return verdicts


def _gathered(engine: Engine, table: Any, columns: Sequence[str], side: str) -> pa.Table:
    names = list(table.schema.names)
    for column in columns:
        if column not in names:
            raise DataError(f"column {column!r} is not in the {side}{did_you_mean(column, names)}")
    return engine.collect(engine.select(table, list(columns)))


def _scanned(engine: Engine, path: str, types: Mapping[str, Any]) -> Any:
    try:
        return engine.scan(Source(data=path, types=types))
    except DataError as error:
        error.args = (f"holdout: {error}",)
        raise


def _arranged(table: pa.Table, order: Stream | None) -> pa.Table:
    """The rows in a keyed order of what they hold, by which they are sampled; identical rows are interchangeable."""
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash

    words = content_hash(table, Seed(bytes(16) if order is None else order.key))
    return table.take(np.lexsort((words[:, 1], words[:, 0])))


def _error(entry: TableMeasure, reason: str) -> Verdict:
    return Verdict(entry, None, "error", entry.demanded(), reason=reason)
