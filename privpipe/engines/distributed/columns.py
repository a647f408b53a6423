"""Columns as they travel between processes: named by their position."""

from __future__ import annotations

__all__ = ["column_name"]


def column_name(position: int) -> str:
    """Name of a column by its position: a name of its own may hold anything.

    Examples
    --------
    >>> column_name(3)
    'c3'
    """
    return f"c{position}"
