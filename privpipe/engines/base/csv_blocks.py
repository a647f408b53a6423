"""CSV files in blocks: cut where records end, each block read as text by whichever worker it falls to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
from pyarrow import csv

from privpipe.engines.base.cell_forms import plain_cells, trimmed_cells
from privpipe.engines.base.csv_text import not_of_encoding, plain_text, start_of_rows, text_of
from privpipe.engines.base.formulas import restored_cells
from privpipe.engines.base.source import Source
from privpipe.engines.base.stamps import Stamp, require_stamp, stamp_of
from privpipe.engines.base.text_form import NO_QUOTE, TextForm
from privpipe.engines.base.unpacking import MOST_BYTES, reading
from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.kernels.columns.csv_signs import CsvSigns
    from privpipe.kernels.columns.csv_structure import CsvStructure

__all__ = ["CsvBlock", "CsvDialect", "csv_blocks", "csv_rows", "ragged_error", "read_csv_block"]


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
        from privpipe.kernels.columns.csv_signs import CsvSigns

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
    from privpipe.kernels.columns.csv_structure import csv_structure

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
            "the closing quote; a quote inside a quoted field is written twice, unless `escape:` of the source says "
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
        from privpipe.kernels.columns.csv_rewrite import rewritten_csv

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
    cells = [_whole(column) for column in table.columns]
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


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
