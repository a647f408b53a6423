"""Schemas of two tables together: stacked and counted as one, or records paired with their original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from privpipe.blocks import Table
from privpipe.errors import DataError, did_you_mean

__all__ = ["beside_schema", "require_same", "stacked_schema"]


def beside_schema(released: Any, original: Any, columns: Mapping[str, str]) -> pa.Schema:
    """The released columns, then those of the original under their new names.

    Parameters
    ----------
    released, original : Table
    columns : mapping of str to str
        Names in the original, and what they are called here.

    Raises
    ------
    DataError
        A column that the original lacks, a new name that the release has, or a table without record ids.
    """
    if not (original.has_record_ids and released.has_record_ids):
        raise DataError("original and released records cannot be aligned: one of the tables carries no record ids")
    fields = list(released.schema)
    for name, new in columns.items():
        if name not in original.schema.names:
            raise DataError(f"column {name!r} is not in the original{did_you_mean(name, original.schema.names)}")
        if new in released.schema.names:
            raise DataError(f"the released table has a column {new!r} already")
        fields.append(original.schema.field(name).with_name(new))
    return pa.schema(fields)


def stacked_schema(schema: pa.Schema, other: pa.Schema, columns: Sequence[str], tag: str) -> pa.Schema:
    """Schema of some columns of two tables in one, the tag after them.

    Raises
    ------
    DataError
        A column that one of them lacks, or that has another type there: values of two types are never equal.

    Examples
    --------
    >>> schema = pa.schema([("zip", pa.string()), ("age", pa.int64())])
    >>> stacked_schema(schema, schema, ["zip"], "side").names
    ['zip', 'side']
    """
    for name in columns:
        for fields, whose in ((schema, "first"), (other, "second")):
            if name not in fields.names:
                raise DataError(
                    f"column {name!r} is not in the {whose} of two tables to be counted together"
                    f"{did_you_mean(name, fields.names)}"
                )
        kinds = schema.field(name).type, other.field(name).type
        if kinds[0] != kinds[1]:
            raise DataError(
                f"column {name!r} holds {kinds[0]} in one table and {kinds[1]} in the other, which never match; "
                "declare its type, or generalize both tables alike"
            )
    return pa.schema([*(schema.field(name) for name in columns), pa.field(tag, pa.int64())])


def require_same(table: Table, other: Table) -> None:
    """Refuse to append records of other columns, or with ids to some without.

    Raises
    ------
    DataError
    """
    stacked_schema(table.schema, other.schema, table.schema.names, "")
    if table.has_record_ids != other.has_record_ids:
        raise DataError("one of two tables to be joined end to end has record ids and the other has none")
