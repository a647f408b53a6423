"""Columns as they travel between processes: named by their position, and in the types of a library."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["as_type", "column_name"]


def column_name(position: int) -> str:
    """Name of a column by its position: a name of its own may hold anything.

    Examples
    --------
    >>> column_name(3)
    'c3'
    """
    return f"c{position}"


def as_type(array: Any, kind: pa.DataType) -> Any:
    """A column as a logical type: Spark names the session's zone in timestamps and may send large texts."""
    return array if array.type == kind else array.cast(kind)
