"""Records of text files: CSV in blocks cut where records end, JSON as batches of text; the same on every engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import csv

from privpipe.engines.base.batches import whole_array
from privpipe.engines.base.logical_types import check_names
from privpipe.engines.readers.files import (
    Stamp,
    csv_columns,
    list_files,
    not_of_encoding,
    open_text,
    plain_text,
    require_stamp,
    stamp_of,
    start_of_rows,
    text_of,
)
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_forms import NO_QUOTE, TextForm, plain_cells, restored_cells, trimmed_cells
from privpipe.engines.readers.unpacking import MOST_BYTES, reading
from privpipe.errors import DataError, EngineError
from privpipe.hierarchies import canonical_literal

if TYPE_CHECKING:
    from privpipe.kernels.columns.csv_text import CsvSigns, CsvStructure

__all__ = [
    "CsvBlock",
    "CsvDialect",
    "csv_blocks",
    "csv_rows",
    "csv_table",
    "json_batches",
    "json_columns",
    "ragged_error",
    "read_csv_block",
]


BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class CsvDialect:
    """How the files of a source are written; see `Source`."""

    names: tuple[str, ...]
    delimiter: str
    header: bool
    null_values: tuple[str, ...]
    quoted_nulls: bool = True
    max_bytes: int = MOST_BYTES
    escaped_formulas: bool = False
    form: TextForm = field(default_factory=TextForm)
    types: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Sequence[str], source: Source) -> Self:
        """That of a source whose columns have these names."""
        nulls = tuple(source.null_values)
        return cls(
            tuple(names),
            source.delimiter,
            source.header,
            nulls,
            source.quoted_nulls,
            source.max_bytes,
            source.escaped_formulas,
            source.form,
            source.types,
        )

    @property
    def signs(self) -> CsvSigns:
        """What structures the text."""
        from privpipe.kernels.columns.csv_text import CsvSigns

        quote = None if self.form.quote == NO_QUOTE else self.form.quote
        return CsvSigns(self.delimiter, quote, self.form.escape, self.form.comment, self.form.trim)


@dataclass(frozen=True)
class CsvBlock:
    """Bytes `start` to `end` of a (packed: unpacked) file: whole records, the header left out.

    They are records only in the file that was cut: `stamp` distinguishes it from a later file at the same path.
    """

    path: str
    start: int
    end: int
    stamp: Stamp | None = None


def csv_blocks(path: str, dialect: CsvDialect, size: int) -> list[CsvBlock]:
    """Blocks of about `size` bytes; a packed or UTF-16 file is one, a file without records none.

    Raises
    ------
    DataError
        The file ends inside quotes, or has signs behind a closing quote; it unpacks to more than `max_bytes`, or not;
        it is not of the declared encoding, as far as that shows.
    EngineError
        It cannot be reached.
    """
    from privpipe.kernels.columns.csv_text import csv_structure

    form = dialect.form
    text = text_of(path, form, dialect.max_bytes)
    begin = start_of_rows(text, form)
    whole = form.packing(path) is not None or not form.keeps_ascii
    found = csv_structure(text[begin:], dialect.signs, range(size, len(text) - begin, size), footer=form.footer)
    _refuse_malformed(found, Path(path).name)
    first = found.second if dialect.header else 0
    if found.end <= first:
        return []
    starts = [first, *(cut for cut in found.cuts if first < cut < found.end and not whole)]
    stamp = stamp_of(path)
    ends = [*starts[1:], found.end]
    return [CsvBlock(path, begin + at, begin + end, stamp) for at, end in zip(starts, ends, strict=True)]


def _refuse_malformed(found: CsvStructure, name: str) -> None:
    if found.unclosed:
        raise DataError(f"{name}: the file ends inside a quoted field; is it truncated?")
    if found.astray:
        raise DataError(
            f"{name}: {found.astray:,} quoted field{'s have' if found.astray != 1 else ' has'} text behind "
            "the closing quote; a quote inside a quoted field is written twice, unless `escape:` of the source states "
            "otherwise"
        )
    if found.marks:
        raise DataError(
            f"{name}: {found.marks:,} byte order mark{'s stand' if found.marks != 1 else ' stands'} inside the file; "
            "were several files joined? Give them one by one, in a folder"
        )


def read_csv_block(block: CsvBlock, dialect: CsvDialect) -> tuple[pa.RecordBatch, int]:
    """The records of a block as text, and how many lines have too few or too many fields."""
    require_stamp(block.path, block.stamp)
    if dialect.form.packing(block.path) or not dialect.form.keeps_ascii:
        data = text_of(block.path, dialect.form, dialect.max_bytes)[block.start : block.end].tobytes()
    else:
        with reading(block.path, "CSV"), open(block.path, "rb") as file:
            file.seek(block.start)
            data = file.read(block.end - block.start)
    return csv_rows(data, dialect, Path(block.path).name)


def csv_rows(data: bytes, dialect: CsvDialect, place: str) -> tuple[pa.RecordBatch, int]:
    """Text columns of CSV records without a header, and the number of ragged lines.

    Numbers and dates of columns that are declared as such come as plain texts, see `plain_cells`.

    Parameters
    ----------
    data : bytes
        In the encoding of the dialect, or UTF-8 where that does not keep ASCII.
    place : str
        File name, for errors.

    Raises
    ------
    DataError
        Not of the encoding.

    Examples
    --------
    >>> batch, ragged = csv_rows(b'7,"a,b"' + bytes([10]) + b"8", CsvDialect(("n", "t"), ",", False, ("",)), "x.csv")
    >>> batch.to_pylist(), ragged
    ([{'n': '7', 't': 'a,b'}], 1)
    """
    schema = pa.schema([(name, pa.string()) for name in dialect.names])
    data = plain_text(data, dialect.form, place)
    if dialect.form.rewrites_fields:
        from privpipe.kernels.columns.csv_text import rewritten_csv

        data = rewritten_csv(data, dialect.signs)
    if not data.strip(b"\r\n") and (len(schema) > 1 or not data):
        return pa.RecordBatch.from_pylist([], schema), 0
    _require_utf8(data, place)
    ragged = _Ragged()
    try:
        table = csv.read_csv(
            pa.py_buffer(data),
            read_options=csv.ReadOptions(column_names=list(dialect.names), use_threads=False, block_size=2**30),
            parse_options=csv.ParseOptions(
                delimiter=dialect.delimiter,
                newlines_in_values=True,
                # With one column an empty line is a record whose field is empty.
                ignore_empty_lines=len(schema) > 1,
                invalid_row_handler=ragged,
            ),
            convert_options=csv.ConvertOptions(
                column_types=schema,
                null_values=list(dialect.null_values),
                strings_can_be_null=True,
                # In a single column what is missing is written as a quoted empty text; see `csv_bytes`.
                quoted_strings_can_be_null=dialect.quoted_nulls or len(schema) == 1,
            ),
        )
    except pa.ArrowInvalid:
        raise DataError(f"{place}: not readable as CSV") from None
    cells = [whole_array(column) for column in table.columns]
    if dialect.form.trim:
        cells = [trimmed_cells(column, dialect.null_values) for column in cells]
    if not dialect.form.is_plain:
        cells = [
            plain_cells(column, name, dialect.form, dialect.types)
            for column, name in zip(cells, dialect.names, strict=True)
        ]
    if dialect.escaped_formulas:
        cells = [restored_cells(column) for column in cells]
    return pa.RecordBatch.from_arrays(cells, schema=schema), ragged.lines


def csv_table(source: Source, most: int | None = None) -> pa.Table:
    """The rows of local CSV files as text, in the order of the files.

    Parameters
    ----------
    most : int, optional
        Of more rows no further block is read, and there are more than `most` in what is returned.

    Raises
    ------
    DataError, EngineError
        As `csv_blocks`; headers that differ, lines with too few or too many fields.
    """
    files = list_files(source)
    names = csv_columns(source, files)
    check_names(names)
    dialect = CsvDialect.of(names, source)
    batches, ragged, rows = [], 0, 0
    for block in (block for name in files for block in csv_blocks(name, dialect, BLOCK_BYTES)):
        batch, wrong = read_csv_block(block, dialect)
        batches.append(batch)
        ragged, rows = ragged + wrong, rows + batch.num_rows
        if most is not None and rows > most:
            break
    if ragged:
        raise ragged_error(ragged, names)
    return pa.Table.from_batches(batches, pa.schema([(name, pa.string()) for name in names]))


def ragged_error(lines: int, columns: Sequence[str]) -> DataError:
    """What is said of lines with another number of fields than there are columns."""
    return DataError(
        f"{lines:,} line{'s' if lines != 1 else ''} of the source ha{'ve' if lines != 1 else 's'} another "
        f"number of fields than the {len(columns)} columns; is a file truncated, or the delimiter another?"
    )


def _require_utf8(data: bytes, place: str) -> None:
    """Before the parser meets a ragged line: it hands that over as text, and what fails there is lost on stderr."""
    whole = [None, pa.py_buffer(np.array([0, len(data)], dtype=np.int64)), pa.py_buffer(data)]
    try:
        pa.Array.from_buffers(pa.large_string(), 1, whole).validate(full=True)
    except pa.ArrowInvalid:
        raise not_of_encoding(place, "utf-8") from None


class _Ragged:
    """Counts lines instead of quoting them."""

    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, row: object) -> str:
        self.lines += 1
        return "skip"


BATCH = 65536
HALVES = re.compile("[\ud800-\udfff]")


def json_columns(files: list[str], most: int = MOST_BYTES) -> list[str]:
    """Names of all columns, in order of first appearance over all files.

    Parameters
    ----------
    most : int
        Bytes that a packed file may unpack to.

    Raises
    ------
    DataError
        A file is not JSON, or its records are not flat objects.
    EngineError
        A file cannot be reached.
    """
    names: dict[str, None] = {}
    for record in _all_records(files, most):
        names.update(dict.fromkeys(record))
    return list(names)


def json_batches(files: list[str], names: list[str], most: int = MOST_BYTES) -> Iterator[pa.RecordBatch]:
    """Batches of text columns; a field that a record lacks is null, numbers are canonical texts.

    Raises
    ------
    DataError
        As `json_columns`.
    """
    schema = pa.schema([(name, pa.string()) for name in names])
    waiting: list[dict[str, str | None]] = []
    known = set(names)
    for record in _all_records(files, most):
        if not known.issuperset(record):
            raise EngineError("a JSON file changed while it was read; run again once its writer is done")
        waiting.append(record)
        if len(waiting) == BATCH:
            yield pa.RecordBatch.from_pylist(waiting, schema)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema)


def _all_records(files: list[str], most: int) -> Iterator[dict[str, str | None]]:
    for name in files:
        place = Path(name).name
        try:
            with reading(name, "JSON"), open_text(name, most) as lines:
                yield from (_texts(record, place) for record in _records(lines))
        except (ValueError, RecursionError):
            raise DataError(f"{place}: not readable as JSON (one object a line, or one array of objects)") from None


def _records(lines: Any) -> Iterator[Any]:
    decode = json.JSONDecoder(
        parse_int=_number, parse_float=_number, parse_constant=_number, object_pairs_hook=_object
    ).decode
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("["):
        yield from decode(first + lines.read())
        return
    if first:
        yield decode(first)
    for line in lines:
        if line.strip():
            yield decode(line)


class _Number(str):
    """A number of the file as canonical text; None where it is NaN."""


def _number(text: str) -> _Number | None:
    canonical = canonical_literal(text, "decimal" if text[-1:].isdigit() else "number")
    return None if canonical is None else _Number(canonical)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise DataError("a JSON object names a key twice")
    return dict(pairs)


def _texts(record: Any, place: str) -> dict[str, str | None]:
    if not isinstance(record, dict):
        raise DataError(f"{place}: a record is not a JSON object")
    return {name: _text(value, name, place) for name, value in record.items()}


def _text(value: Any, column: str, place: str) -> str | None:
    if isinstance(value, str) and HALVES.search(value):
        raise DataError(f"{place}: column {column!r} holds half of a surrogate pair, which is not a character")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    raise DataError(f"{place}: column {column!r} holds nested values; a record must be flat")
