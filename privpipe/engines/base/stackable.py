"""What two tables must have in common to be counted as one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from privpipe.blocks import Table
from privpipe.errors import DataError, did_you_mean

__all__ = ["require_same", "stacked_schema"]


def stacked_schema(schema: pa.Schema, other: pa.Schema, columns: Sequence[str], tag: str) -> pa.Schema:
    """Schema of some columns of two tables in one, the tag behind them.

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
