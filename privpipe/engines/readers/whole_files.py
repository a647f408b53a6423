"""Files that the calling process reads whole: Avro, files of statistics programs, and spreadsheets."""

from __future__ import annotations

import bz2
import datetime
import importlib
import io
import json
import lzma
import uuid
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, orc

from privpipe.engines.base.conversion import holds_values, widened, widest_type
from privpipe.engines.base.logical_types import check_names
from privpipe.engines.readers.files import list_files
from privpipe.engines.readers.parquet_files import refuse_other_columns
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_forms import trimmed_cells
from privpipe.engines.readers.unpacking import reading
from privpipe.errors import DataError, UsageError

__all__ = ["WHOLE", "opened", "read_avro"]


MAGIC = b"Obj\x01"
MARK = 16
"""Bytes of the mark behind each block."""
DIGITS = 38
_EXACT = Context(prec=2 * DIGITS)
_HEAD = {"type": "map", "values": "bytes"}
_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
_OF_NUMBERS: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    **{
        ("long", f"{local}timestamp-{unit}"): pa.timestamp(short, None if local else "UTC")
        for local in ("", "local-")
        for unit, short in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
"""Logical types whose numbers Arrow holds as they are."""
_NOT_CARRIED = ("time-millis", "time-micros", "duration")


class _Damaged(Exception):
    """The bytes are not what the format says."""


@dataclass(frozen=True)
class _Column:
    """A column of the file: its Arrow type, and how a cell that fastavro gives becomes one of Arrow's."""

    name: str
    type: pa.DataType
    raw: pa.DataType
    cell: Callable[[Any], Any] | None = None

    def array(self, cells: list[Any]) -> pa.Array:
        cells = cells if self.cell is None else [None if each is None else self.cell(each) for each in cells]
        found = pa.array(cells, self.raw)
        return found if self.raw == self.type else found.view(self.type)


def read_avro(name: str, fastavro: Any, most: int) -> pa.Table:
    """Read an Avro file.

    Parameters
    ----------
    fastavro : module
    most : int
        Bytes that its blocks may unpack to.

    Returns
    -------
    pyarrow.Table
        Enumerations are texts, a union with null is a column that may miss cells, times are instants.

    Raises
    ------
    DataError
        Damaged or of another format; more than `most`; a column of a type that no release can carry.
    """
    place = Path(name).name
    try:
        file = io.BytesIO(Path(name).read_bytes())
        schema, codec, mark = _head(file, fastavro)
        columns = _columns(fastavro.schema.expand_schema(schema), place)
        parsed = fastavro.parse_schema(_without_logical(schema))
        blocks = _Blocks(file, fastavro, codec, mark, most, place)
        batches = [_batch(rows, columns) for rows in blocks.records(parsed)]
    except (OSError, MemoryError, DataError):
        raise
    except Exception:  # noqa: BLE001 fastavro fails in many ways, and may quote a cell
        raise DataError(f"{place}: not a readable Avro file (truncated, damaged or of another format)") from None
    return pa.Table.from_batches(batches, pa.schema([(each.name, each.type) for each in columns]))


def _head(file: io.BytesIO, fastavro: Any) -> tuple[Any, str, bytes]:
    if file.read(len(MAGIC)) != MAGIC:
        raise _Damaged
    said = fastavro.schemaless_reader(file, _HEAD)
    mark = file.read(MARK)
    if len(mark) != MARK:
        raise _Damaged
    return json.loads(said["avro.schema"]), said.get("avro.codec", b"null").decode("ascii"), mark


def _without_logical(schema: Any) -> Any:
    """Types as they are stored, so that nothing is rounded on the way to Arrow."""
    if isinstance(schema, list):
        return [_without_logical(each) for each in schema]
    if isinstance(schema, dict):
        return {key: _without_logical(each) for key, each in schema.items() if key != "logicalType"}
    return schema


def _columns(schema: Any, place: str) -> list[_Column]:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise DataError(f"{place}: its values are not records; a source has one record a row")
    return [_column(field["name"], field["type"]) for field in schema["fields"]]


def _column(name: str, said: Any) -> _Column:
    if isinstance(said, list):
        held = [each for each in said if each != "null"]
        if len(held) > 1:
            raise _not_carried(name, "union")
        said = held[0] if held else "null"
    stored = said["type"] if isinstance(said, dict) else said
    if isinstance(stored, dict | list):
        return _column(name, stored)
    logical = str(said.get("logicalType", "")) if isinstance(said, dict) else ""
    if stored == "array" and _is_text(said["items"]):
        return _Column(name, pa.list_(pa.string()), pa.list_(pa.string()))
    if stored not in _PLAIN or logical in _NOT_CARRIED:
        raise _not_carried(name, logical or (stored if stored in ("array", "map", "record") else "nested"))
    if (stored, logical) in _OF_NUMBERS:
        return _Column(name, _OF_NUMBERS[stored, logical], pa.int32() if stored == "int" else pa.int64())
    if logical == "decimal" and stored in ("bytes", "fixed"):
        return _decimal(name, int(said["precision"]), int(said.get("scale", 0)))
    if logical == "uuid" and stored == "fixed":
        return _Column(name, pa.string(), pa.string(), lambda cell: str(uuid.UUID(bytes=cell)))
    return _Column(name, _PLAIN[stored], _PLAIN[stored])


def _is_text(items: Any) -> bool:
    held = [each for each in items if each != "null"] if isinstance(items, list) else [items]
    return [each["type"] if isinstance(each, dict) else each for each in held] == ["string"]


def _decimal(name: str, precision: int, scale: int) -> _Column:
    if not 0 <= scale <= precision <= DIGITS:
        raise DataError(
            f"column {name!r}: decimals have at most {DIGITS} digits, this is decimal({precision}, {scale})"
        )
    kind = pa.decimal128(precision, scale)
    return _Column(
        name, kind, kind, lambda cell: Decimal(int.from_bytes(cell, "big", signed=True)).scaleb(-scale, _EXACT)
    )


def _not_carried(column: str, kind: str) -> DataError:
    return DataError(
        f"column {column!r} has the Avro type {kind}, which no release can carry; flatten it or cast it to text"
    )


def _batch(rows: list[Mapping[str, Any]], columns: list[_Column]) -> pa.RecordBatch:
    arrays = [each.array([row[each.name] for row in rows]) for each in columns]
    return pa.record_batch(arrays, names=[each.name for each in columns])


class _Blocks:
    """The blocks of a file.

    Parameters
    ----------
    most : int
        Bytes that all of them may unpack to.
    """

    def __init__(self, file: io.BytesIO, fastavro: Any, codec: str, mark: bytes, most: int, place: str) -> None:
        self._file, self._fastavro, self._mark, self._place = file, fastavro, mark, place
        self._left = self._most = most
        if codec not in _UNPACK:
            raise DataError(
                f"{place}: packed by the codec {codec!r}, which is not read; write it with one of {', '.join(_UNPACK)}"
            )
        self._unpack = _UNPACK[codec]

    def records(self, schema: Any) -> Iterator[list[Mapping[str, Any]]]:
        """The records of one block after another."""
        read = self._fastavro.schemaless_reader
        while self._file.tell() < self._file.getbuffer().nbytes:
            count, size = read(self._file, "long"), read(self._file, "long")
            packed = self._file.read(size) if size >= 0 else b""
            if len(packed) != size or self._file.read(MARK) != self._mark:
                raise _Damaged
            data = self._unpacked(packed)
            # A record without a byte has no cell, and a block might say that it holds any number of them.
            if not 0 <= count <= len(data):
                raise _Damaged
            block = io.BytesIO(data)
            yield [read(block, schema) for _ in range(count)]
            if block.tell() != len(data):
                raise _Damaged

    def _unpacked(self, packed: bytes) -> bytes:
        data = self._unpack(packed, self._left + 1)
        if len(data) > self._left:
            raise DataError(
                f"{self._place}: unpacks to more than {self._most:,} bytes; if it is meant to, raise `max_bytes` of "
                "the source"
            )
        self._left -= len(data)
        return data


def _deflated(data: bytes, most: int) -> bytes:
    return _whole(zlib.decompressobj(-15), data, most)


def _bzip2(data: bytes, most: int) -> bytes:
    return _whole(bz2.BZ2Decompressor(), data, most)


def _xz(data: bytes, most: int) -> bytes:
    return _whole(lzma.LZMADecompressor(), data, most)


def _whole(unpacker: Any, data: bytes, most: int) -> bytes:
    found: bytes = unpacker.decompress(data, most)
    if not unpacker.eof and len(found) < most:
        raise _Damaged
    return found


def _zstandard(data: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(most)
    return found


def _snappy(data: bytes, most: int) -> bytes:
    size = _said_size(data)
    if size >= most:
        return bytes(most)
    found: bytes = pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise _Damaged
    return found


def _said_size(data: bytes) -> int:
    """The size that a block of snappy says first: seven bits a byte, the lowest first."""
    size = 0
    for at, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return size
    raise _Damaged


_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, _: data,
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}


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
