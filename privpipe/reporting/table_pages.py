"""The page of a release of tables: verdicts, each table as it is published, and in private what is known of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privpipe.reporting.officer.page import template

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["table_page"]

MOST_ROWS = 2_000
"""Rows of a table that a page draws; the file has all."""
STATUS = "_status"


def table_page(
    verdict: Mapping[str, Any], shown: Mapping[str, pa.Table], cells: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """The page, one file without scripts.

    Parameters
    ----------
    verdict : mapping
        The verdict document, public or private.
    shown : mapping of str to pyarrow.Table
        The tables as they leave.
    cells : mapping of str to sequence of mapping
        What is known of each suppressed cell; empty in the public edition.
    """
    tables = [_drawn(name, table) for name, table in shown.items()]
    private = [
        {
            "name": name,
            "head": list(rows[0]),
            "rows": [list(row.values()) for row in rows[:MOST_ROWS]],
            "all": len(rows),
        }
        for name, rows in cells.items()
        if rows
    ]
    return template("officer/tables.html.j2").render(verdict=verdict, tables=tables, private=private, most=MOST_ROWS)


def _drawn(name: str, table: pa.Table) -> dict[str, Any]:
    """A table as rows of (text, whether it is hidden); the columns of statuses become hatching."""
    statuses = [column for column in table.schema.names if column.endswith(STATUS)]
    kept = [column for column in table.schema.names if column not in statuses]
    columns = {column: table.column(column).slice(0, MOST_ROWS).to_pylist() for column in table.schema.names}
    rows = []
    for at in range(min(table.num_rows, MOST_ROWS)):
        row = []
        for column in kept:
            status = columns[f"{column}{STATUS}"][at] if f"{column}{STATUS}" in columns else ""
            hidden, value = _is_hidden(status), columns[column][at]
            text = (status if hidden and status != "c" else "") if value is None else str(value)
            row.append({"text": text, "hidden": hidden, "figure": not isinstance(value, str)})
        rows.append(row)
    gone = sum(_is_hidden(each) for status in statuses for each in columns[status])
    return {"name": name, "head": kept, "rows": rows, "all": table.num_rows, "hidden": gone}


def _is_hidden(status: str) -> bool:
    """Whether a status is that of a blank: ``c``, or the mark of a count below a number."""
    return status == "c" or status.startswith("<")
