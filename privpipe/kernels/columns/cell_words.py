"""Arrow columns straight from their buffers: as the words that are hashed, and as exact numbers.

Tags and encodings are those of `privpipe.kernels.ids.record_ids`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints, Words
from privpipe.errors import DataError
from privpipe.kernels.columns.arrays import read_only

__all__ = ["CodedCells", "FixedCells", "TextCells", "coded_words", "encode_column", "integer_cells", "scaled_numbers"]


U = np.uint64
BOOL, INTEGER, FLOAT, TEXT, DATE, TIMESTAMP, ZONED, DECIMAL, BINARY = range(1, 10)


@dataclass(frozen=True, repr=False)
class FixedCells:
    """Cells of equal length.

    Parameters
    ----------
    header : np.uint64
        The first word of every cell that has a value.
    payload : tuple of ndarrays of uint64, shape (n,)
        The words that follow it; none for a column of nulls.
    present : ndarray of bool, shape (n,)
        Cells with a value; empty when all have one.
    """

    header: U
    payload: tuple[Words, ...]
    present: Bools


@dataclass(frozen=True, repr=False)
class TextCells:
    """Cells of any length: text and binary.

    Parameters
    ----------
    tag : np.uint64
    offsets : ndarray of int32 or int64, shape (n + 1,)
    data : ndarray of uint8
    present : as in `FixedCells`
    """

    tag: U
    offsets: NDArray[np.int32] | Ints
    data: NDArray[np.uint8]
    present: Bools


@dataclass(frozen=True, repr=False)
class CodedCells:
    """Cells that are numbers of a dictionary of texts.

    Parameters
    ----------
    codes : ndarray of int32, shape (n,)
        Place of each cell's value; of a missing cell, the number of values.
    starts : ndarray of int64, shape (values + 2,)
        Where the words of each value, and last those of a missing cell, begin and end.
    words : ndarray of uint64
        All words of all values, headers among them.
    """

    codes: NDArray[np.int32]
    starts: Ints
    words: Words


def coded_words(values: pa.Array, name: str) -> tuple[Ints, Words]:
    """`starts` and `words` of `CodedCells` for a dictionary of texts without null.

    Examples
    --------
    >>> starts, words = coded_words(pa.array(["ab", "", "abcdefghi"]), "name")
    >>> starts.tolist(), [hex(word) for word in words.tolist()[:3]], int(words[-1])
    ([0, 2, 3, 6, 7], ['0x204', '0x6261', '0x4'], 0)
    """
    cells = _texts(values, name)
    begins = cells.offsets[:-1].astype(np.int64)
    lengths = np.diff(cells.offsets).astype(np.int64)
    sizes = (lengths + 7) // 8
    starts = np.concatenate([[0], np.cumsum([*(sizes + 1), 1])]).astype(np.int64)
    words = np.zeros(starts[-1], U)
    words[starts[:-2]] = cells.tag | lengths.astype(U) << U(8)
    data = words.view(np.uint8)
    of_value = np.repeat(np.arange(len(values)), lengths)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    data[8 * (starts[:-2][of_value] + 1) + within] = cells.data[begins[of_value] + within]
    return read_only(starts, np.int64), read_only(words, U)


def encode_column(column: pa.Array, name: str) -> FixedCells | TextCells:
    """The words of each cell of a column.

    Raises
    ------
    DataError
        The type has no encoding, or a value does not fit it; names the column.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return encode_column(column.dictionary_decode(), name)
    if isinstance(column, pa.ExtensionArray):
        return encode_column(column.storage, name)
    if pa.types.is_null(kind):
        return FixedCells(U(0), (), np.zeros(len(column), np.bool_))
    if pa.types.is_boolean(kind):
        return _fixed(BOOL, _bits(column.buffers()[1], column).astype(U), column)
    if pa.types.is_integer(kind):
        return _fixed(INTEGER, _buffer(_whole(column, pa.int64(), name), U), column)
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_date(kind):
        return _fixed(DATE, _buffer(_whole(column, pa.date32(), name), np.int32).astype(np.int64).view(U), column)
    if pa.types.is_timestamp(kind):
        tag = TIMESTAMP if kind.tz is None else ZONED
        return _fixed(tag, _buffer(_whole(column, pa.timestamp("us", kind.tz), name), U), column)
    if pa.types.is_decimal(kind):
        return _decimals(column, name)
    return _texts(column, name)


def integer_cells(values: Ints) -> FixedCells:
    """The words of integers of which none is missing."""
    return FixedCells(U(INTEGER | 8 << 8), (read_only(values.view(U), U),), read_only(np.zeros(0, np.bool_), np.bool_))


def _fixed(tag: int, words: Words, column: pa.Array) -> FixedCells:
    return FixedCells(U(tag | 8 << 8), (read_only(words, U),), _present(column))


def _floats(column: pa.Array) -> FixedCells:
    column = column.cast(pa.float64())
    values = _buffer(column, np.float64)
    present = _present(column)
    numbers = ~np.isnan(values)
    if not numbers.all():
        present = read_only(numbers & present if len(present) else numbers, np.bool_)
    with np.errstate(invalid="ignore"):  # cells without a value hold any bits, a signalling NaN too
        words = (values + 0.0).view(U)  # -0.0 becomes 0.0
    return FixedCells(U(FLOAT | 8 << 8), (read_only(words, U),), present)


def _decimals(column: pa.Array, name: str) -> FixedCells:
    column = _whole(column, pa.decimal128(38, column.type.scale), name)
    words = _buffer(column, np.dtype((U, (2,))))
    return FixedCells(U(DECIMAL | 16 << 8), (read_only(words[:, 0], U), read_only(words[:, 1], U)), _present(column))


def _texts(column: pa.Array, name: str) -> TextCells:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        tag = TEXT
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        tag = BINARY
    elif pa.types.is_string_view(kind):
        return _texts(column.cast(pa.large_string()), name)
    elif pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return _texts(column.cast(pa.large_binary()), name)
    else:
        raise DataError(
            f"column {name!r} has type {kind}, which no record id can be computed from; "
            "cast it to text in the source, or declare a unique column as record_id in the policy"
        )
    width = np.int64 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else np.int32
    _, offsets, data = column.buffers()
    ends = np.zeros(1, width)
    if offsets is not None and offsets.size:
        ends = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return TextCells(U(tag), read_only(ends, width), read_only(content, np.uint8), _present(column))


def _whole(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """The column as another type, every value kept."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        pass  # its message holds the value
    around = column.cast(kind, safe=False)
    if pa.types.is_integer(kind):
        lost = pc.less(around, 0)
    else:
        lost = pc.not_equal(around.cast(column.type, safe=False), column)
    count = pc.sum(lost).as_py() or "some"
    raise DataError(
        f"column {name!r} of type {column.type} holds values ({count}) that {kind} cannot hold, so no record id "
        "can be computed; cast it in the source, or declare a unique column as record_id in the policy"
    )


def _buffer(column: pa.Array, dtype: np.typing.DTypeLike) -> Words:
    """The values' buffer of a column of fixed width; cells without a value hold anything."""
    data = column.buffers()[1]
    if data is None or not data.size:
        return np.zeros(len(column), dtype)
    return np.frombuffer(data, dtype)[column.offset : column.offset + len(column)]


def _present(column: pa.Array) -> Bools:
    bitmap = column.buffers()[0]
    if bitmap is None or column.null_count == 0:
        return read_only(np.zeros(0, np.bool_), np.bool_)
    return read_only(_bits(bitmap, column), np.bool_)


def _bits(bitmap: pa.Buffer, column: pa.Array) -> Bools:
    first, stop = column.offset, column.offset + len(column)
    if not len(column):
        return np.zeros(0, np.bool_)
    packed = np.frombuffer(bitmap, np.uint8)[first // 8 : -(-stop // 8)]
    return np.unpackbits(packed, bitorder="little")[first % 8 : first % 8 + len(column)].view(np.bool_)


def scaled_numbers(array: pa.Array, column: str) -> tuple[NDArray[Any], Bools | None, int]:
    """A column as float64 or int64 with its gaps and its scale: the value is the integer over 10^scale.

    Raises
    ------
    DataError
        Text, booleans and bytes; a decimal whose digits exceed 64 bits.

    Examples
    --------
    >>> values, gaps, scale = scaled_numbers(pa.array(["1.5", None]).cast(pa.decimal128(38, 2)), "pay")
    >>> values.tolist(), gaps.tolist(), scale
    ([150, 0], [False, True], 2)
    """
    kind = array.type
    gaps = None
    if array.null_count:
        gaps = np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))
    if pt.is_floating(kind):
        return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False)), gaps, 0
    if pt.is_decimal(kind):
        return _decimal_words(array, column), gaps, int(kind.scale)
    if pt.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif not (pt.is_integer(kind) or pt.is_timestamp(kind)):
        raise DataError(f"column {column!r} holds {kind}, which has no mean; numbers and dates have")
    integers = array.cast(pa.int64())
    return np.asarray(integers.fill_null(0).to_numpy(zero_copy_only=False)), gaps, 0


def _decimal_words(array: pa.Array, column: str) -> Ints:
    filled = array.cast(pa.decimal128(38, array.type.scale)).fill_null(0)
    words = np.frombuffer(filled.buffers()[1], dtype="<i8").reshape(-1, 2)
    words = words[filled.offset : filled.offset + len(filled)]
    if (words[:, 1] != words[:, 0] >> 63).any():
        raise DataError(f"column {column!r} holds decimals of more than 18 digits, beyond 64-bit arithmetic")
    return np.ascontiguousarray(words[:, 0])
