"""CSV files in blocks: cut where records end, each block read as text by whichever worker it falls to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from privpipe.engines.base.formulas import restored_cells
from privpipe.engines.base.source import Source
from privpipe.engines.base.stamps import Stamp, require_stamp, stamp_of
from privpipe.engines.base.unpacking import MOST_BYTES, is_packed, reading, unpacked
from privpipe.errors import DataError

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
        )


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
    """Blocks of about `size` bytes; a packed file is one, a file without records none.

    Raises
    ------
    DataError
        The file ends inside quotes, or has signs behind a closing quote; it unpacks to more than `max_bytes`, or not.
    EngineError
        It cannot be reached.
    """
    from privpipe.kernels.columns.csv_structure import csv_structure

    text = np.frombuffer(unpacked(path, dialect.max_bytes), dtype=np.uint8) if is_packed(path) else _mapped(path)
    places = ([1] if dialect.header else []) + list(range(size, len(text), size))
    found = csv_structure(text, dialect.delimiter, places)
    if found.unclosed:
        raise DataError(f"{Path(path).name}: the file ends inside a quoted field; is it truncated?")
    if found.astray:
        raise DataError(
            f"{Path(path).name}: {found.astray:,} quoted field{'s have' if found.astray != 1 else ' has'} text behind "
            "the closing quote; a quote inside a quoted field is written twice"
        )
    starts = list(found.cuts) if dialect.header else sorted({0, *found.cuts})
    if is_packed(path):
        starts = starts[:1]
    ends = [*starts[1:], len(text)][: len(starts)]
    stamp = stamp_of(path)
    return [CsvBlock(path, start, end, stamp) for start, end in zip(starts, ends, strict=True) if end > start]


def read_csv_block(block: CsvBlock, dialect: CsvDialect) -> tuple[pa.RecordBatch, int]:
    """The records of a block as text, and how many lines have too few or too many fields."""
    require_stamp(block.path, block.stamp)
    if is_packed(block.path):
        data = unpacked(block.path, dialect.max_bytes)[block.start : block.end]
    else:
        with reading(block.path, "CSV"), open(block.path, "rb") as file:
            file.seek(block.start)
            data = file.read(block.end - block.start)
    return csv_rows(data, dialect, Path(block.path).name)


def csv_rows(data: bytes, dialect: CsvDialect, place: str) -> tuple[pa.RecordBatch, int]:
    """Text columns of CSV records without a header, and the number of ragged lines.

    Parameters
    ----------
    place : str
        File name, for errors.

    Raises
    ------
    DataError
        Not UTF-8.

    Examples
    --------
    >>> batch, ragged = csv_rows(b'7,"a,b"' + bytes([10]) + b"8", CsvDialect(("n", "t"), ",", False, ("",)), "x.csv")
    >>> batch.to_pylist(), ragged
    ([{'n': '7', 't': 'a,b'}], 1)
    """
    schema = pa.schema([(name, pa.string()) for name in dialect.names])
    if not data.strip(b"\r\n") and (len(schema) > 1 or not data):
        return pa.RecordBatch.from_pylist([], schema), 0
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
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            raise DataError(f"{place}: not UTF-8 text") from None
        raise DataError(f"{place}: not readable as CSV") from None
    cells = [_whole(column) for column in table.columns]
    if dialect.escaped_formulas:
        cells = [restored_cells(column) for column in cells]
    return pa.RecordBatch.from_arrays(cells, schema=schema), ragged.lines


def ragged_error(lines: int, columns: Sequence[str]) -> DataError:
    """What is said of lines with another number of fields than there are columns."""
    return DataError(
        f"{lines:,} line{'s' if lines != 1 else ''} of the source ha{'ve' if lines != 1 else 's'} another "
        f"number of fields than the {len(columns)} columns; is a file truncated, or the delimiter another?"
    )


class _Ragged:
    """Counts lines instead of quoting them."""

    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, row: object) -> str:
        self.lines += 1
        return "skip"


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _mapped(path: str) -> NDArray[np.uint8]:
    with reading(path, "CSV"):
        if os.path.getsize(path) == 0:
            return np.empty(0, dtype=np.uint8)
        return np.memmap(path, dtype=np.uint8, mode="r")
