"""Columns of a release in an Iceberg table: their types, whether they fit it, and the ids they have there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from privpipe.errors import DataError, UnsupportedError
from privpipe.private_files import create_private

__all__ = ["add_columns", "arrow_type", "ids_of", "pa_schema", "require_fitting", "written_under"]

FIELD_ID = b"PARQUET:field_id"
LARGE = {"large_string": "string", "large_binary": "binary"}


def arrow_type(field: pa.Field, sink: str) -> pa.DataType:
    """The type under which a column is published, one for all engines: whole numbers are long, others double.

    Raises
    ------
    UnsupportedError
        Iceberg has none for it.

    Examples
    --------
    >>> arrow_type(pa.field("age", pa.int16()), "lake.db.visits")
    DataType(int64)
    """
    kind = field.type.value_type if pt.is_dictionary(field.type) else field.type
    if pt.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if pt.is_floating(kind):
        return pa.float64()
    if pt.is_boolean(kind) or pt.is_decimal128(kind):
        return kind
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_date(kind):
        return pa.date32()
    if pt.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pt.is_time(kind):
        return pa.time64("us")
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return pa.binary()
    raise UnsupportedError(
        f"the Iceberg table {sink!r} has no type for column {field.name!r} ({field.type}); declare its `type:`"
    )


def written_under(folder: Path, ids: Mapping[str, int], sink: str) -> None:
    """Write the Parquet files of a folder anew, rows in their order, with the table's types and field ids.

    Raises
    ------
    DataError
        A value that its column's type cannot hold exactly.
    """
    for path in sorted(folder.glob("*.parquet")):
        new = path.with_suffix(".new")
        with pq.ParquetFile(path) as file:
            schema = pa.schema(
                pa.field(each.name, arrow_type(each, sink), metadata={FIELD_ID: str(ids[each.name]).encode()})
                for each in file.schema_arrow
            )
            create_private(new)
            with pq.ParquetWriter(new, schema, compression="zstd", store_schema=False) as to:
                for group in range(file.num_row_groups):
                    to.write_table(_cast(file.read_row_group(group), schema, sink))
        os.replace(new, path)


def _cast(rows: pa.Table, schema: pa.Schema, sink: str) -> pa.Table:
    columns = []
    for name, column, kind in zip(schema.names, rows.columns, schema.types, strict=True):
        try:
            columns.append(column.cast(kind))
        except pa.ArrowInvalid:  # its text quotes the value
            raise DataError(
                f"column {name!r} holds values that the Iceberg table {sink!r} cannot hold exactly as {kind}; "
                "declare another `type:`, or coarsen it"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def require_fitting(new: Mapping[str, pa.DataType], old: Mapping[str, pa.DataType], sink: str, *, evolve: bool) -> None:
    """Refuse columns that are not those of the table.

    Raises
    ------
    DataError
        A column is missing or of another type; there is one more and the table is not to `evolve`.
    """
    said = f"the release does not fit the Iceberg table {sink!r}"
    if missing := [name for name in old if name not in new]:
        raise DataError(f"{said}: it lacks {_listed(missing)}; release them, or publish into a table of its own")
    for name, kind in old.items():
        if str(new[name]) != LARGE.get(str(kind), str(kind)):
            raise DataError(
                f"{said}: column {name!r} is {new[name]} and the table has {kind}; no type is ever changed: "
                "declare its `type:`, or publish into a table of its own"
            )
    added = [name for name in new if name not in old]
    if added and not evolve:
        raise DataError(f"{said}: the table lacks {_listed(added)}; write `schema: evolve` in the sink to add them")


def ids_of(table: Any, columns: Iterable[str]) -> dict[str, int]:
    """The field id of each column, with those that new ones are to have."""
    known = {} if table is None else {field.name: int(field.field_id) for field in table.schema().fields}
    last = 0 if table is None else int(table.metadata.last_column_id)
    added = [name for name in columns if name not in known]
    return {**known, **{name: last + at for at, name in enumerate(added, 1)}}


def pa_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of a new table."""
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


def add_columns(transaction: Any, table: Any, columns: Mapping[str, pa.DataType]) -> None:
    """Add the columns that the table lacks, in the order of the release."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    ids = ids_of(table, columns)
    known = {field.name for field in table.schema().fields}
    added = [
        pa.field(name, kind, metadata={FIELD_ID: str(ids[name]).encode()})
        for name, kind in columns.items()
        if name not in known
    ]
    if not added:
        return
    with transaction.update_schema() as update:
        for field in pyarrow_to_schema(pa.schema(added)).fields:
            update.add_column((field.name,), field.field_type)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
