"""Tables and views of a caller's own DuckDB connection, by name."""

from __future__ import annotations

from typing import Any

import duckdb

from privpipe.blocks.table_name import TableName, refuse_table
from privpipe.errors import DataError, EngineError, PrivpipeError

__all__ = ["table_of"]


def table_of(connection: Any, name: TableName) -> Any:
    """A relation of the caller's connection.

    Raises
    ------
    UnsupportedError
        There is no such connection: the engine's own database holds no table of anybody.
    DataError
        The connection knows no such table or view. A name never stands for a file or a variable of Python.
    """
    if connection is None:
        raise refuse_table(name, "embedded")
    try:
        # DuckDB takes an unknown name for a file or a Python variable; this asks its catalogue alone.
        connection.sql("SELECT count(*) FROM pragma_table_info(?)", params=[name.duckdb]).fetchall()
        return connection.table(name.duckdb)
    except (duckdb.CatalogException, duckdb.BinderException):
        problem: PrivpipeError = DataError(
            name.located(
                f"the DuckDB connection knows no table or view {name}; create or attach it in that connection, or give "
                "the `path:` of its files"
            )
        )
    except duckdb.Error as error:
        problem = EngineError(name.located(f"the DuckDB connection cannot read {name} ({type(error).__name__})"))
    raise problem
