"""Which frames are computed again by every look at them."""

from __future__ import annotations

import weakref
from typing import Any, TypeVar

__all__ = ["is_evaluated", "is_lazy_frame", "known_as_held"]

F = TypeVar("F")

LAZY = {
    "_duckdb": "DuckDBPyRelation",
    "dask": "DataFrame",
    "dask_expr": "DataFrame",
    "duckdb": "DuckDBPyRelation",
    "ibis": "Table",
    "polars": "LazyFrame",
    "pyspark": "DataFrame",
}
_held: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def is_lazy_frame(data: Any) -> bool:
    """Whether a frame is a plan or a query, whose rows are computed each time they are asked for; imports nothing.

    Another time its sources may have changed, or its functions draw other numbers.

    Examples
    --------
    >>> import duckdb
    >>> is_lazy_frame(duckdb.sql("SELECT random()")), is_lazy_frame("a.csv")
    (True, False)
    """
    kind = type(data)
    root = kind.__module__.partition(".")[0]
    if root == "pyarrow":
        return kind.__name__.endswith("Dataset") and kind.__name__ != "InMemoryDataset"
    return kind.__name__ == LAZY.get(root)


def known_as_held(frame: F) -> F:
    """The frame, which was made of rows that are held: to be judged, it is not evaluated a second time."""
    if is_lazy_frame(frame):
        _held[id(frame)] = frame
    return frame


def is_evaluated(frame: Any) -> bool:
    """Whether every look at a frame finds the same rows.

    Examples
    --------
    >>> is_evaluated([]), is_evaluated(known_as_held([]))
    (True, True)
    """
    return not is_lazy_frame(frame) or _held.get(id(frame)) is frame
