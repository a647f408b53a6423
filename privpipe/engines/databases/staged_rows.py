"""Rows of a database in one private Parquet file, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from privpipe.engines.base.logical_types import CARRIED, check_names, logical_schema
from privpipe.errors import DataError
from privpipe.private_files import create_private

__all__ = ["EXACT", "staged"]


EXACT: Final = 2**53
"""Whole numbers up to here are numbers of 64 bits too."""
LAST_MICROSECOND: Final = 253_402_300_799_999_999
FIRST_MICROSECOND: Final = -62_135_596_800_000_000
LAST_DAY: Final = 2_932_896
FIRST_DAY: Final = -719_162
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def staged(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path) -> str:
    """The path of a new file with these rows.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Whose columns may differ in type, where the database has no types.
    schema : pyarrow.Schema
        Of a table without rows.

    Raises
    ------
    DataError
        A column of a type that no release can carry, or of several types; an instant beyond the years 1 to 9999.
    """
    check_names(schema.names)
    _require_carriable(schema)
    pieces = list(_pieces(batches, schema, folder))
    if len(pieces) == 1:
        return str(pieces[0])
    whole = _common([pq.read_schema(piece) for piece in pieces], pieces)
    target = folder / "rows.parquet"
    create_private(target)
    with pq.ParquetWriter(target, whole) as writer:
        for piece in pieces:
            with pq.ParquetFile(piece) as file:
                for batch in file.iter_batches():
                    writer.write_batch(_cast(batch, whole))
            piece.unlink()
    return str(target)


def _require_carriable(schema: pa.Schema) -> None:
    """Refuse what not even the role `carried` takes; whether a column has that role is seen where it is read."""
    logical_schema(schema, dict.fromkeys(schema.names, CARRIED))


def _pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path) -> Iterator[Path]:
    """Files of one schema each, in the order of the rows."""
    writer: pq.ParquetWriter | None = None
    number = 0
    try:
        for batch in batches:
            _check_instants(batch)
            if writer is None or batch.schema != writer.schema:
                if writer is not None:
                    writer.close()
                _require_carriable(batch.schema)
                piece = folder / f"piece-{number}.parquet"
                number += 1
                create_private(piece)
                writer = pq.ParquetWriter(piece, batch.schema)
                yield piece
            writer.write_batch(batch)
        if writer is None:
            piece = folder / "piece-0.parquet"
            create_private(piece)
            writer = pq.ParquetWriter(piece, schema)
            yield piece
    finally:
        if writer is not None:
            writer.close()


def _check_instants(batch: pa.RecordBatch) -> None:
    """Refuse infinities of databases, which are numbers like any other in Arrow."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pt.is_timestamp(field.type):
            unit = PER_SECOND[field.type.unit]
            first, last = FIRST_MICROSECOND * unit // 10**6, LAST_MICROSECOND * unit // 10**6
            found = column.cast(pa.int64())
        elif pt.is_date32(field.type):
            first, last, found = FIRST_DAY, LAST_DAY, column.cast(pa.int32())
        else:
            continue
        beyond = pc.sum(pc.or_(pc.less(found, max(first, -(2**63))), pc.greater(found, min(last, 2**63 - 1)))).as_py()
        if beyond:
            raise DataError(
                f"column {field.name!r}: {beyond:,} cells are infinite or beyond the years 1 to 9999; give them a "
                "value or none in a `query:`"
            )


def _common(schemas: list[pa.Schema], pieces: list[Path]) -> pa.Schema:
    fields = []
    for at, first in enumerate(schemas[0]):
        kinds = {schema.field(at).type for schema in schemas}
        fields.append(pa.field(first.name, _one_type(first.name, kinds, at, pieces)))
    return pa.schema(fields)


def _one_type(name: str, kinds: set[pa.DataType], at: int, pieces: list[Path]) -> pa.DataType:
    kinds = {kind for kind in kinds if not pt.is_null(kind)}
    if len(kinds) <= 1:
        return kinds.pop() if kinds else pa.string()
    if all(pt.is_integer(kind) or pt.is_decimal(kind) for kind in kinds):
        scale = max(kind.scale if pt.is_decimal(kind) else 0 for kind in kinds)
        return pa.decimal128(38, scale)
    if all(pt.is_integer(kind) or pt.is_floating(kind) for kind in kinds) and _are_exact(at, pieces):
        return pa.float64()
    said = ", ".join(sorted(map(str, kinds)))
    raise DataError(f"column {name!r} mixes types ({said}); make it one type with CAST in a `query:`")


def _are_exact(at: int, pieces: list[Path]) -> bool:
    """Whether every whole number of a column that mixes them with others is one of 64 bits."""
    for piece in pieces:
        with pq.ParquetFile(piece) as file:
            name = file.schema_arrow.field(at).name
            if not pt.is_integer(file.schema_arrow.field(at).type):
                continue
            for batch in file.iter_batches(columns=[name]):
                ends = pc.min_max(batch.column(0)).as_py()
                if ends["max"] is not None and max(-ends["min"], ends["max"]) > EXACT:
                    return False
    return True


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    try:
        return pa.record_batch(
            [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
        )
    except pa.ArrowInvalid:
        raise DataError("a decimal column has more than 38 digits in all; round it with CAST in a `query:`") from None
