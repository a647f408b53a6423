"""Kinds of frames: lazy ones, which are computed again at every look, and Ibis tables by their backend."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

from privpipe.errors import DataError, UnsupportedError, UsageError

__all__ = ["ibis_table_of", "is_evaluated", "is_ibis_table", "is_lazy_frame", "known_as_held", "native_frame_of"]


def is_ibis_table(data: Any) -> bool:
    """Whether this is a table expression of Ibis; imports nothing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> is_ibis_table(pa.table({"a": [1]}))
    False
    """
    kind = type(data)
    return kind.__module__.partition(".")[0] == "ibis" and any(each.__name__ == "Table" for each in kind.__mro__)


def native_frame_of(table: Any) -> Any:
    """What an Ibis table is to its backend: a DuckDB relation, a Spark DataFrame or a polars DataFrame.

    Raises
    ------
    UsageError
        It belongs to no backend, or to several.
    UnsupportedError
        The backend is another one.
    DataError
        The backend cannot compute it.
    """
    backend = _backend_of(table)
    if backend.name not in NATIVE:
        raise UnsupportedError(
            f"Ibis tables of the backend {backend.name!r} have no engine here; those of {', '.join(sorted(NATIVE))} "
            "have. Hand over table.to_pyarrow(): its rows come into memory, and a pyarrow Table comes back"
        )
    try:
        # Ibis registers in-memory tables and functions before it computes, and only then.
        table.limit(0).to_pyarrow()
        return NATIVE[backend.name](backend, table)
    except Exception as error:  # noqa: BLE001 - any message of a backend may quote a cell
        kind = type(error).__name__
        raise DataError(f"the backend {backend.name!r} cannot compute the Ibis table ({kind})") from None


def ibis_table_of(out: Any, like: Any) -> Any:
    """A frame as a table of the backend of another: Arrow for DuckDB, else of the kind that `native_frame_of` gives.

    It lies there under its own name for as long as the table, or one made from it, is in use.
    """
    backend, name = _backend_of(like), f"privpipe_{uuid4().hex}"
    drop = ADDED[backend.name](backend, name, out)
    table = backend.table(name)
    # A Spark session may be gone by then, or outlive the process; a connection of this process must be let go.
    weakref.finalize(table.op(), _dropped, drop, name).atexit = backend.name != "pyspark"
    return table


def _backend_of(table: Any) -> Any:
    try:
        return table.get_backend()
    except Exception as error:  # noqa: BLE001 - Ibis is not imported, and with it its errors
        raise UsageError(f"the Ibis table is not of one backend ({type(error).__name__}: {error})") from None


def _relation(backend: Any, table: Any) -> Any:
    return backend.con.sql(backend.compile(table))


def _spark_frame(backend: Any, table: Any) -> Any:
    return backend.raw_sql(backend.compile(table))


def _polars_frame(backend: Any, table: Any) -> Any:
    return table.to_polars()


def _add_to_duckdb(backend: Any, name: str, out: Any) -> Callable[[str], object]:
    backend.con.register(name, out)
    unregister: Callable[[str], object] = backend.con.unregister
    return unregister


def _add_to_spark(backend: Any, name: str, out: Any) -> Callable[[str], object]:
    out.createTempView(name)
    drop: Callable[[str], object] = out.sparkSession.catalog.dropTempView
    return drop


def _add_to_polars(backend: Any, name: str, out: Any) -> Callable[[str], object]:
    backend.create_table(name, out)
    drop: Callable[[str], object] = backend.drop_table
    return drop


def _dropped(drop: Callable[[str], object], name: str) -> None:
    with suppress(Exception):  # the connection may be gone, and what lay there with it
        drop(name)


NATIVE = {"duckdb": _relation, "polars": _polars_frame, "pyspark": _spark_frame}
ADDED = {"duckdb": _add_to_duckdb, "polars": _add_to_polars, "pyspark": _add_to_spark}


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
