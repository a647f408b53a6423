"""Refuse a table that lacks a column which is judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privpipe.errors import DataError, did_you_mean

__all__ = ["require_columns"]


def require_columns(names: Sequence[str], columns: Iterable[str], side: str = "table") -> None:
    """Nothing where all columns are among the names.

    Parameters
    ----------
    names : sequence of str
        Columns of the table.
    columns : iterable of str
    side : str
        What the table is called in the message.

    Raises
    ------
    DataError
        Naming the first that is missing.

    Examples
    --------
    >>> require_columns(["zip", "age"], ["zip"])
    """
    for column in columns:
        if column not in names:
            raise DataError(f"column {column!r} is not in the {side}{did_you_mean(column, list(names))}")
