"""Original and released records side by side, joined by their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, PairBlock, RowBlock
from privpipe.engines.base.besides import beside_schema
from privpipe.engines.embedded.mapping import logical
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted
from privpipe.errors import DataError

__all__ = ["beside", "paired"]

BEFORE, AFTER = "__privpipe_before_", "__privpipe_after_"


def paired(
    session: Session, original: EmbeddedTable, released: EmbeddedTable, columns: Sequence[str]
) -> Iterator[PairBlock]:
    """Blocks of the records that are in both tables."""
    original.require(columns)
    released.require(columns)
    if not (original.has_record_ids and released.has_record_ids):
        raise DataError("original and released records cannot be aligned: one of the tables carries no record ids")
    sides = [
        ", ".join(f"{alias}.{quoted(name)} AS {quoted(prefix + name)}" for name in columns)
        for alias, prefix in (("o", BEFORE), ("r", AFTER))
    ]
    ids = column_list(ID_COLUMNS, "o")
    on = " AND ".join(f"o.{name} = r.{name}" for name in ID_COLUMNS)
    select = ", ".join([*(side for side in sides if side), ids])
    sql = f"SELECT {select} FROM {original.source} AS o JOIN {released.source} AS r ON {on}"
    for batch in session.stream(sql, {**original.frames, **released.frames}):
        yield PairBlock(_side(batch, BEFORE, columns, original.schema), _side(batch, AFTER, columns, released.schema))


def beside(
    session: Session, released: EmbeddedTable, original: EmbeddedTable, columns: Mapping[str, str]
) -> EmbeddedTable:
    """See `Engine.beside`."""
    schema = beside_schema(released, original, columns)
    more = [f"o.{quoted(name)} AS {quoted(new)}" for name, new in columns.items()]
    select = ", ".join([column_list(released.schema.names, "r"), *more])
    on = " AND ".join(f"o.{name} = r.{name}" for name in ID_COLUMNS)
    sql = f"SELECT {select} FROM {released.source} AS r JOIN {original.source} AS o ON {on}"
    kept = session.keep(sql, {**original.frames, **released.frames})
    return EmbeddedTable(f"SELECT * FROM {kept.name}", schema, holds=(kept,))


def _side(batch: pa.RecordBatch, prefix: str, columns: Sequence[str], schema: pa.Schema) -> RowBlock:
    arrays = [batch.column(prefix + name) for name in columns]
    arrays += [batch.column(name) for name in ID_COLUMNS]
    return RowBlock(logical(pa.record_batch(arrays, names=[*columns, *ID_COLUMNS]), schema))
