"""The schema of released records with columns of their original beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from privpipe.errors import DataError, did_you_mean

__all__ = ["beside_schema"]


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
