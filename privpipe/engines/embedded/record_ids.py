"""Record ids of the embedded engine: a keyed hash of each record, an ordinal only where records are equal."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.draws import Seed
from privpipe.engines.base.names import check_record_ids
from privpipe.engines.embedded.coded_texts import with_coded_ids
from privpipe.engines.embedded.mapping import logical, rows_of
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.small_rows import SmallRows
from privpipe.engines.embedded.storing import store
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted

__all__ = ["with_record_ids"]

ORDINAL = "__privpipe_ordinal"


def with_record_ids(session: Session, table: EmbeddedTable, column: str | None, seed: Seed) -> EmbeddedTable:
    """See `Engine.with_record_ids`."""
    visible = EmbeddedTable(
        f"SELECT {column_list(table.schema.names)} FROM {table.source}",
        table.schema,
        False,
        table.frames,
        table.holds,
        table.rows.select(table.schema.names) if table.rows is not None else None,
        histograms=table.histograms,
        estimates=table.estimates,
        files=table.files,
    )
    if column is not None:
        return _declared(session, visible, column, seed)
    small = SmallRows.of(session, visible)
    if small is not None and len(small):
        return _of_small(small, seed)
    coded = with_coded_ids(session, visible, None, seed)
    if coded is not None:
        return coded
    # Ids of first occurrences throughout; then the equal records, if any, get ids of their ordinals.
    first = _hashed(session, visible, seed)
    ids = column_list(ID_COLUMNS)
    twice = session.keep(f"SELECT {ids} FROM {first.source} GROUP BY {ids} HAVING count(*) > 1", first.frames)
    if not session.value(f"SELECT count(*) FROM {twice.name}"):
        return first
    again = _numbered(session, first, twice.name, seed)
    names = column_list(first.all_columns)
    both = EmbeddedTable(
        f"SELECT {names} FROM {first.source} ANTI JOIN {twice.name} USING ({ids}) "
        f"UNION ALL SELECT {names} FROM {again.source}",
        table.schema,
        True,
        {**first.frames, **again.frames},
        (*first.holds, *again.holds, twice),
    )
    if first.rows is None:
        return both
    return store(session, rows_of(session, both), table.schema, lambda batch: batch, ids=True)


def _of_small(small: SmallRows, seed: Seed) -> EmbeddedTable:
    from privpipe.kernels.ids.record_ids import content_hash, record_id

    batch = small.rows.to_batches()[0]
    hashed = content_hash(batch, seed)
    _, equal = np.unique(hashed, axis=0, return_inverse=True)
    ordinals, seen = np.zeros(len(hashed), dtype=np.int64), dict[int, int]()
    for row, number in enumerate(equal.reshape(-1).tolist()):
        ordinals[row] = seen.get(number, 0)
        seen[number] = int(ordinals[row]) + 1
    return store(
        small.session,
        [_appended(batch, record_id(hashed, ordinals, seed))],
        small.table.schema,
        lambda made: made,
        ids=True,
    )


def _declared(session: Session, table: EmbeddedTable, column: str, seed: Seed) -> EmbeddedTable:
    from privpipe.kernels.ids.record_ids import declared_id

    table.require([column])
    name = quoted(column)
    records, present, distinct = session.row(
        f"SELECT count(*), count({name}), count(DISTINCT {name}) FROM {table.source}", table.frames
    )
    check_record_ids(column, records, records - present, present - distinct)
    coded = with_coded_ids(session, table, column, seed)
    if coded is not None:
        return coded
    return _with_ids(session, table, lambda batch: declared_id(batch.column(column), seed))


def _hashed(session: Session, table: EmbeddedTable, seed: Seed) -> EmbeddedTable:
    from privpipe.kernels.ids.record_ids import content_hash, record_id

    def ids(batch: pa.RecordBatch) -> np.ndarray:
        return record_id(content_hash(batch, seed), np.zeros(batch.num_rows, np.int64), seed)

    return _with_ids(session, table, ids)


def _numbered(session: Session, first: EmbeddedTable, twice: str, seed: Seed) -> EmbeddedTable:
    """Equal records with ids by ordinal; which of them is which does not matter, they are equal."""
    from privpipe.kernels.ids.record_ids import content_hash, record_id

    ids = column_list(ID_COLUMNS)
    sql = (
        f"SELECT {column_list(first.schema.names)}, row_number() OVER (PARTITION BY {ids}) - 1 AS {ORDINAL} "
        f"FROM {first.source} SEMI JOIN {twice} USING ({ids})"
    )

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = logical(batch.select(first.schema.names), first.schema)
        return _appended(rows, record_id(content_hash(rows, seed), batch.column(ORDINAL).to_numpy(), seed))

    return store(session, session.stream(sql, first.frames), first.schema, make, ids=True)


def _with_ids(session: Session, table: EmbeddedTable, ids: object) -> EmbeddedTable:
    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        return _appended(batch, ids(batch))  # type: ignore[operator]

    return store(session, rows_of(session, table), table.schema, make, ids=True)


def _appended(batch: pa.RecordBatch, ids: np.ndarray) -> pa.RecordBatch:
    return RowBlock(batch, ids).to_batch()
