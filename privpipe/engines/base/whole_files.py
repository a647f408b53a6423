"""Files of programs for statistics and of spreadsheets: read whole by the calling process, the same on every engine."""

from __future__ import annotations

import datetime
import importlib
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, orc

from privpipe.engines.base.avro import read_avro
from privpipe.engines.base.cell_forms import trimmed_cells
from privpipe.engines.base.files import list_files
from privpipe.engines.base.names import check_names
from privpipe.engines.base.parquet_files import refuse_other_columns
from privpipe.engines.base.source import Source
from privpipe.engines.base.unpacking import reading
from privpipe.engines.base.widest_type import holds_values, widened, widest_type
from privpipe.errors import DataError, UsageError

__all__ = ["WHOLE", "opened"]

WHOLE: Final = ("arrow", "excel", "orc", "avro", "stata", "spss", "sas")
"""Formats that are read whole."""
FEATHER_1 = b"FEA1"


def opened(source: Source) -> Source:
    """The source itself, or, where its files are read whole, one of the table that they hold.

    Arrow files, ORC, Avro, Stata, SPSS and SAS keep their types, and value labels stand for their codes. A column of a
    spreadsheet has no type: its cells are texts until one is declared, as those of CSV are.

    Raises
    ------
    UsageError
        The library that reads the format is not installed.
    DataError
        A file is damaged or of another format; files of a folder differ in their columns.
    EngineError
        It cannot be reached.
    """
    if not source.is_path or source.resolved_format not in WHOLE:
        return source
    files = list_files(source)
    tables = [_read(name, source) for name in files]
    for name, table in zip(files, tables, strict=True):
        check_names(table.column_names)
        refuse_other_columns(table.schema, name, tables[0].schema, files[0])
    schema = pa.schema([(name, _type_of(name, tables, files)) for name in tables[0].column_names])
    fitting = [_fitted(table, schema, Path(name).name) for name, table in zip(files, tables, strict=True)]
    return replace(source, data=pa.concat_tables(fitting), format=None)


def _type_of(column: str, tables: Sequence[pa.Table], files: Sequence[str]) -> pa.DataType:
    found = {table.schema.field(column).type for table in tables}
    if len(found) == 1:
        return found.pop()
    places: dict[pa.DataType, str] = {}
    for name, table in zip(files, tables, strict=True):
        if holds_values(table.column(column)):
            places.setdefault(table.schema.field(column).type, Path(name).name)
    return widest_type(column, places)


def _fitted(table: pa.Table, schema: pa.Schema, place: str) -> pa.Table:
    columns = [
        column if column.type == wanted.type else widened(column, wanted.type, wanted.name, place)
        for wanted, column in zip(schema, table.columns, strict=True)
    ]
    return pa.table(columns, names=schema.names)


def _read(name: str, source: Source) -> pa.Table:
    kind = source.resolved_format
    if kind == "arrow":
        return _arrow(name)
    if kind == "orc":
        with reading(name, "ORC"):
            return orc.read_table(name).replace_schema_metadata(None)
    if kind == "avro":
        with reading(name, "Avro"):
            return read_avro(name, _library("fastavro", kind), source.max_bytes)
    if kind == "excel":
        return _excel(name, source)
    return _statistics(name, kind)


def _arrow(name: str) -> pa.Table:
    """An Arrow file (Feather 2), or a stream in a file."""
    with reading(name, "Arrow"), pa.memory_map(name) as file:
        if file.read(len(FEATHER_1)) == FEATHER_1:
            raise DataError(f"{Path(name).name}: a Feather file of version 1, which is not read; write it as version 2")
        file.seek(0)
        try:
            return ipc.open_file(file).read_all().replace_schema_metadata(None)
        except pa.ArrowInvalid:
            file.seek(0)
            return ipc.open_stream(file).read_all().replace_schema_metadata(None)


def _statistics(name: str, kind: str) -> pa.Table:
    """What pandas makes of a file; its own errors may quote a cell."""
    pd = _library("pandas", kind)
    stat = _library("pyreadstat", kind) if kind != "stata" else None
    # Not `pandas.read_sas`, which reads the zero of a transport file as 5.4e-79.
    sas = "read_sas7bdat" if name.casefold().endswith(".sas7bdat") else "read_xport"
    readers: Mapping[str, Callable[[str], Any]] = {
        "stata": pd.read_stata,
        "spss": pd.read_spss,
        "sas": lambda path: getattr(stat, sas)(path)[0],
    }
    with reading(name, kind.upper() if kind != "stata" else "Stata"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            frame = readers[kind](name)
            table = pa.Table.from_pandas(frame, preserve_index=False)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 each reader fails in its own ways
            raise DataError(
                f"{Path(name).name}: not a readable {kind} file ({type(error).__name__}); is it damaged, or are two "
                "codes of a column labelled alike?"
            ) from None
    return table.replace_schema_metadata(None)


def _library(package: str, kind: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UsageError(f"format {kind} needs {package}: pip install 'privpipe[formats]'") from None


def _excel(name: str, source: Source) -> pa.Table:
    openpyxl = _library("openpyxl", "excel")
    place = Path(name).name
    with reading(name, "Excel"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(name) as archive:  # which never yields more than it says
            if sum(each.file_size for each in archive.infolist()) > source.max_bytes:
                raise DataError(
                    f"{place}: unpacks to more than {source.max_bytes:,} bytes; if it is meant to, raise `max_bytes` "
                    "of the source"
                )
        try:
            book = openpyxl.load_workbook(name, read_only=True, data_only=True)
        except (KeyError, ValueError, TypeError, openpyxl.utils.exceptions.InvalidFileException):
            raise DataError(f"{place}: not a readable Excel file (xlsx is expected)") from None
        try:
            rows = list(_rows(_sheet(book, source.sheet, place), source.form.skip_rows))
        finally:
            book.close()
    return _text_table(rows, source, place)


def _sheet(book: Any, wanted: str | None, place: str) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if wanted is None and len(names) == 1:
        return book.worksheets[0]
    if wanted not in names:
        said = f"has no sheet {wanted!r}" if wanted is not None else f"has {len(names):,} sheets"
        raise DataError(f"{place}: {said}; `sheet:` of the source names one of them")
    return book[wanted]


def _rows(sheet: Any, skipped: int) -> Iterator[list[str | None]]:
    """Rows in which a cell holds something, as texts."""
    for row in islice(sheet.iter_rows(values_only=True), skipped, None):
        texts = [_text(cell) for cell in row]
        if any(text is not None for text in texts):
            yield texts


def _text(cell: Any) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell or None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    return str(cell) if isinstance(cell, int | Decimal) else cell.isoformat()  # a date or a time


def _text_table(rows: list[list[str | None]], source: Source, place: str) -> pa.Table:
    form = source.form
    header = rows.pop(0) if source.header and rows else None
    if source.header and header is None:
        raise DataError(f"{place}: the sheet is empty; it needs a row of column names")
    names = list(source.columns) if header is None else [name or "" for name in header]
    while header is not None and names and not names[-1]:
        names.pop()
    rows = rows[: len(rows) - form.footer] if form.footer else rows
    wide = sum(any(cell is not None for cell in row[len(names) :]) for row in rows)
    if wide:
        raise DataError(f"{place}: {wide:,} rows have cells beyond the {len(names)} columns that are named")
    filled = [(row + [None] * len(names))[: len(names)] for row in rows]
    cells = [pa.array([row[at] for row in filled], pa.string()) for at in range(len(names))]
    nulls = pa.array(list(source.null_values), pa.string())
    none = pa.scalar(None, pa.string())
    if form.trim:
        names, cells = [name.strip() for name in names], [trimmed_cells(column, source.null_values) for column in cells]
    cells = [pc.if_else(pc.is_in(column, value_set=nulls), none, column) for column in cells]
    return pa.Table.from_arrays(cells, names=names)
