"""Rows grouped by key in the embedded engine: gathered in memory, or read back from sorted files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.engines.base.batches import joined
from privpipe.engines.base.parallel import in_order
from privpipe.engines.embedded.mapping import brought, logical, rows_of, with_column
from privpipe.engines.embedded.session import BATCH_ROWS, Session, guarded
from privpipe.engines.embedded.storing import fitted, store
from privpipe.engines.embedded.table import EmbeddedTable, column_list
from privpipe.kernels.grouping.parallel_order import positions_by_code
from privpipe.progress import advanced

__all__ = ["map_groups"]

KEY = "__privpipe_key"
MOST_BYTES = 1 << 30
"""Of a column that is gathered at once: offsets of texts have 32 bits."""

Keys = NDArray[np.int64]


def map_groups(
    session: Session,
    table: EmbeddedTable,
    key: Callable[[RowBlock], Keys],
    function: Callable[[RowBlock, int], RowBlock],
    schema: pa.Schema,
) -> EmbeddedTable:
    """See `Engine.map_groups`."""

    def make(groups: list[tuple[int, pa.RecordBatch]]) -> pa.RecordBatch:
        made = [function(RowBlock(group), number).to_batch() for number, group in groups]
        # A column that one group left without any value may have come back without a type.
        if any(not batch.schema.equals(made[0].schema) for batch in made):
            made = [fitted(batch, schema) for batch in made]
        return fitted(joined(made), schema)

    table = brought(session, table)
    groups = _gathered(session, table, key) or _sorted(session, table, key)
    return store(session, _many(groups), schema, make, ids=table.has_record_ids)


def _gathered(
    session: Session, table: EmbeddedTable, key: Callable[[RowBlock], Keys]
) -> Iterator[tuple[int, pa.RecordBatch]] | None:
    """Keys with their rows, one copy of which is made column by column; None where rows or copy are not in memory."""
    rows = table.rows
    if rows is None or not rows.num_rows or session.room() < rows.nbytes:
        return None
    if max(column.nbytes for column in rows.columns) > MOST_BYTES:
        return None

    def coded(batch: pa.RecordBatch) -> tuple[Keys, Keys]:
        known, codes = np.unique(np.asarray(key(RowBlock(batch)), dtype=np.int64), return_inverse=True)
        return known, codes

    parts = list(in_order(coded, rows_of(session, table), session.threads))
    keys = np.unique(np.concatenate([known for known, _ in parts]))
    codes = np.concatenate([np.searchsorted(keys, known).astype(np.int32)[inside] for known, inside in parts])
    with guarded("gathering of rows"):
        order = pa.array(positions_by_code(codes, len(keys)))
        columns = list(in_order(lambda column: _whole(column).take(order), rows.columns, session.threads))
    ends = np.cumsum(np.bincount(codes)).tolist()
    whole = pa.record_batch(columns, schema=rows.schema)
    return (
        (number, whole.slice(start, end - start))
        for number, start, end in zip(keys.tolist(), [0, *ends], ends, strict=False)
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _sorted(
    session: Session, table: EmbeddedTable, key: Callable[[RowBlock], Keys]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Keys with their rows, which are stored with their keys and read back in their order."""
    keyed = with_column(session, table, KEY, lambda rows: np.asarray(key(rows), dtype=np.int64))
    names = [*table.all_columns]
    sql = f"SELECT {column_list([*names, KEY])} FROM {keyed.source} ORDER BY {KEY}"
    batches = (logical(batch, table.schema) for batch in session.stream(sql, keyed.frames))
    for group in _groups(batches):  # a generator, so that the files live as long as it does
        yield group.column(KEY)[0].as_py(), group.select(names)


def _many(groups: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[list[tuple[int, pa.RecordBatch]]]:
    """Groups by the handful, so that small ones do not each make a task and a file."""
    found: list[tuple[int, pa.RecordBatch]] = []
    rows = 0
    for number, group in groups:
        found.append((number, group))
        rows += group.num_rows
        if rows >= BATCH_ROWS // 2:
            yield found
            advanced("blocks", len(found))
            found, rows = [], 0
    if found:
        yield found
        advanced("blocks", len(found))


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whole groups of rows that come sorted by key."""
    open_parts: list[pa.RecordBatch] = []
    open_key: int | None = None
    for batch in batches:
        keys = batch.column(KEY).to_numpy()
        starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if open_key is not None and int(keys[start]) != open_key:
                yield joined(open_parts)
                open_parts = []
            open_key = int(keys[start])
            open_parts.append(batch.slice(start, stop - start))
    if open_parts:
        yield joined(open_parts)
