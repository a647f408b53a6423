"""The page of a release of tables: verdicts, each table as it is published, and in private what is known of cells."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.errors import UsageError
from privpipe.reporting.officer.page import template
from privpipe.reporting.run_documents import RunDocuments

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["drawn_tables", "holds_cells", "page_of_release", "page_of_run", "table_page"]

MOST_ROWS = 2_000
"""Rows of a table that a page draws; the file has all."""
STATUS, TOTAL = "_status", "Total"


def table_page(verdict: Mapping[str, Any], drawn: Mapping[str, Any], cells: Mapping[str, Any]) -> str:
    """The page, one file without scripts.

    Parameters
    ----------
    verdict : mapping
        The verdict document, public or private.
    drawn : mapping of str to mapping
        The tables as they leave, by `drawn_tables`.
    cells : mapping
        The private document of suppressed cells; empty in the public edition.
    """
    private = [
        {
            "name": name,
            "head": list(rows[0]),
            "rows": [list(row.values()) for row in rows[:MOST_ROWS]],
            "all": len(rows),
        }
        for name, rows in cells.get("tables", {}).items()
        if rows
    ]
    return template("officer/tables.html.j2").render(
        verdict=verdict,
        tables=[{"name": name, **table} for name, table in drawn.items()],
        private=private,
        losses=cells.get("losses", {}),
        most=MOST_ROWS,
    )


def drawn_tables(shown: Mapping[str, pa.Table], total: str, file_format: str = "parquet") -> dict[str, Any]:
    """Tables as a page draws them: rows of (text, whether it is hidden), and how many figures are hidden by level.

    Parameters
    ----------
    total : str
        Label of all: a level is the number of dimensions with another label.
    file_format : {"parquet", "csv"}
        Of the files: the page draws what is in them.
    """
    return {name: _drawn(_as_in_file(table, file_format), total) for name, table in shown.items()}


def _published(folder: Path, names: Mapping[str, Any], file_format: str) -> dict[str, pa.Table]:
    """The tables of a released folder, as they are in its files.

    Raises
    ------
    OSError
        A file is missing or no table.
    """
    import pyarrow as pa
    import pyarrow.parquet

    found = {}
    for name in names:
        path = folder / f"{name}.{file_format}"
        try:
            found[name] = pyarrow.parquet.read_table(path) if file_format == "parquet" else _texts(path.read_bytes())
        except pa.ArrowException as error:
            raise OSError(f"{path.name} is not a table ({type(error).__name__})") from None
    return found


def holds_cells(manifest: Mapping[str, Any]) -> bool:
    """Whether a release is of tables of cells; one of related tables holds records."""
    stages = manifest.get("policy", {}).get("transform") or ()
    return "tables" in manifest.get("output", {}) and any("aggregate" in each for each in stages)


def page_of_run(path: str, documents: RunDocuments) -> str | None:
    """The page of a run that releases tables, by its released folder or private record; None of any other run.

    Raises
    ------
    UsageError
        Its files or documents are damaged.
    """
    place = Path(path)
    record = place / "private" / "cells.json" if (place / "private").is_dir() else place / "cells.json"
    try:
        if record.is_file():
            cells = json.loads(record.read_text(encoding="utf-8"))
            return table_page(documents.verdict, cells["drawn"], cells)
        if holds_cells(documents.manifest) and place.is_dir():
            return page_of_release(place, documents.verdict, documents.manifest)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"the tables of {path!r} cannot be drawn ({type(error).__name__})") from None
    return None


def page_of_release(folder: Path, verdict: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """The public page of a released folder, made again of its documents and files.

    Raises
    ------
    OSError
        A file is missing or no table.
    """
    output, policy = manifest["output"], manifest["policy"]
    aggregate: Mapping[str, Any] = next((each["aggregate"] for each in policy["transform"] if "aggregate" in each), {})
    suffixes = {Path(file["name"]).suffix.removeprefix(".") for file in output["files"]}
    file_format = "csv" if "csv" in suffixes else "parquet"
    shown = _published(folder, dict(sorted(output["tables"].items())), file_format)
    return table_page(verdict, drawn_tables(shown, aggregate.get("total", TOTAL), file_format), {})


def _as_in_file(table: pa.Table, file_format: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv

    if file_format != "csv" or all(pa.types.is_string(kind) for kind in table.schema.types):
        return table
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer)
    return _texts(buffer.getvalue())


def _texts(content: bytes) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv

    head = pyarrow.csv.open_csv(io.BytesIO(content)).schema.names
    options = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(head, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return pyarrow.csv.read_csv(io.BytesIO(content), convert_options=options)


def _is_hidden(status: str) -> bool:
    """Whether a status is that of a blank: ``c``, or the mark of a count below a number."""
    return status == "c" or status.startswith("<")


def _drawn(table: pa.Table, total: str) -> dict[str, Any]:
    statuses = [column for column in table.schema.names if column.endswith(STATUS)]
    kept = [column for column in table.schema.names if column not in statuses]
    dims = [column for column in kept if f"{column}{STATUS}" not in statuses]
    columns = {column: table.column(column).slice(0, MOST_ROWS).to_pylist() for column in kept}
    marks = {column: table.column(column).to_pylist() for column in statuses}
    rows = []
    for at in range(min(table.num_rows, MOST_ROWS)):
        row = []
        for column in kept:
            status = "" if column in dims else str(marks[f"{column}{STATUS}"][at])
            hidden, value = _is_hidden(status), columns[column][at]
            text = (status if hidden and status != "c" else "") if value is None else str(value)
            row.append({"text": text, "hidden": hidden, "figure": column not in dims})
        rows.append(row)
    levels: Counter[int] = Counter()
    every: Counter[int] = Counter()
    labels = [table.column(column).to_pylist() for column in dims]
    for at in range(table.num_rows):
        level = sum(column[at] != total for column in labels)
        every[level] += len(statuses)
        levels[level] += sum(_is_hidden(str(marks[status][at])) for status in statuses)
    return {
        "head": kept,
        "rows": rows,
        "all": table.num_rows,
        "hidden": sum(levels.values()),
        "levels": [[level, levels[level], every[level]] for level in sorted(every)],
    }
