"""Finished tables as files and frames: found by name, read if no larger than tables are, and put into long form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from privpipe.engines import Source
from privpipe.engines.base.frames import at_hand
from privpipe.engines.databases import Database
from privpipe.engines.readers.files import elsewhere
from privpipe.engines.readers.text_records import csv_table
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.running.run_context import OpenedEngine
from privpipe.running.table_frames import NOTHING
from privpipe.running.tables_read import named, read_as_source, scanned
from privpipe.tables.aggregation import TableSpec
from privpipe.tables.cells import MOST_CELLS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["finished_rows", "in_long_form", "labels_in_order", "tables_by_name"]

SUFFIXES = (".parquet", ".csv")
LAKE = {"path", "iceberg"}
"""Keys of a mapping that names a state of one table."""


def tables_by_name(specs: Mapping[str, TableSpec], data: Any) -> Mapping[str, Any]:
    """What was given, by the names of the policy's tables.

    Raises
    ------
    DataError, UsageError
        One is missing or none of the policy's.
    """
    if isinstance(data, Mapping) and not (LAKE & set(data) and not LAKE & set(specs)):
        given: Mapping[str, Any] = data
    elif isinstance(data, str | PurePath) and Path(data).is_dir() and not (Path(data) / "_delta_log").is_dir():
        files = [path for path in sorted(Path(data).iterdir()) if path.is_file() and path.suffix in SUFFIXES]
        stems = [path.stem for path in files]
        for name in specs:
            if stems.count(name) > 1:
                raise DataError(f"table {name!r} is there as Parquet and as CSV; leave one of them")
        given = {path.stem: path for path in files}
    elif len(specs) == 1:
        given = {next(iter(specs)): data}
    else:
        raise UsageError(f"validate: give a folder or a mapping with the tables {', '.join(specs)}")
    for name in given:
        if name not in specs:
            raise DataError(f"table {name!r} is not in the policy's `aggregate`{did_you_mean(str(name), specs)}")
    missing = [name for name in specs if name not in given]
    if missing:
        raise DataError(f"{len(missing)} tables of the policy are missing: {', '.join(missing)}")
    return given


def finished_rows(data: Any, owner: str, **form: Any) -> pa.Table:
    """The rows of a finished table, which has cells and no persons, on this machine.

    Parameters
    ----------
    form : str
        How a file is written: `format`, `delimiter`.

    Raises
    ------
    DataError
        It has more rows than a table of cells may have; none of them is read.
    """
    given = data if isinstance(data, Database) else at_hand(data, owner)
    if form and not isinstance(given, str | PurePath):
        raise UsageError(f"{owner}: {' and '.join(form)} say how a file is written, and no file was given")
    source = Source(data=given) if isinstance(given, Database) else read_as_source(given, NOTHING, **form)
    if source.is_path and source.resolved_format == "csv" and not elsewhere(str(source.data)):
        text = named(source, lambda: csv_table(source, MOST_CELLS))
        if text.num_rows > MOST_CELLS:
            raise _too_long(owner, f"more than {MOST_CELLS:,}")
        return text
    with OpenedEngine(None, None if isinstance(given, Database) else given, NOTHING) as engine:
        table = scanned(engine, source)
        rows = engine.count(table)
        if rows > MOST_CELLS:
            raise _too_long(owner, f"{rows:,}")
        found: pa.Table = engine.collect(table, order="any")
    return found


def _too_long(owner: str, rows: str) -> DataError:
    return DataError(
        f"{owner}: the table has {rows} rows, and tables of up to {MOST_CELLS:,} cells are judged; leave out a "
        "dimension or its lowest level"
    )


def labels_in_order(path: str, delimiter: str = ",") -> dict[str, list[str]]:
    """Distinct texts of each column of a local file, as they follow one another in it; nothing of any other place."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    place = Path(path)
    if not place.is_file() or place.suffix not in SUFFIXES:
        return {}
    try:
        if place.suffix == ".parquet":
            rows = pyarrow.parquet.read_table(place)
        else:
            rows = pyarrow.csv.read_csv(place, parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter))
    except pa.ArrowException:  # the engine reports what is wrong with it
        return {}
    return {
        column: list(dict.fromkeys(str(each) for each in rows.column(column).to_pylist()))
        for column in rows.schema.names
    }


def in_long_form(rows: pa.Table, name: str, spec: TableSpec) -> pa.Table:
    """A wide table with one row per cell: the labels of the last dimension are columns, the others stand in front.

    Raises
    ------
    DataError
        A dimension has no column.
    UsageError
        The table has one dimension, or several responses.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from privpipe.tables.responses import responses_of
    >>> spec = TableSpec(by=("region", "sex"), responses=responses_of("count"))
    >>> wide = pa.table({"region": ["N", "Total"], "f": [1, 4], "m": [2, 3], "Total": [3, 7]})
    >>> in_long_form(wide, "table", spec).num_rows
    6
    """
    import pyarrow as pa

    *front, across = spec.by
    if not front or len(spec.responses) != 1:
        raise UsageError(
            f"table {name!r}: `layout: wide` is for one response and at least two dimensions, and the last has its "
            "labels as columns"
        )
    for column in front:
        if column not in rows.schema.names:
            raise DataError(f"table {name!r} has no column {column!r}{did_you_mean(column, rows.schema.names)}")
    labels = [column for column in rows.schema.names if column not in front]
    if len(set(labels)) < len(labels) or not labels:
        raise DataError(f"table {name!r}: two columns have one label of {across!r}, or none has any")
    figures = [rows.column(label).cast(pa.string()).combine_chunks() for label in labels]
    columns = {column: pa.concat_arrays([rows.column(column).combine_chunks()] * len(labels)) for column in front}
    columns[across] = pa.array([label for label in labels for _ in range(rows.num_rows)], pa.string())
    columns[spec.responses[0].name] = pa.concat_arrays(figures)
    return pa.table(columns)
