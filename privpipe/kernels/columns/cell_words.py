"""Arrow columns straight from their buffers: as the words that are hashed, and as exact numbers; hash states of rows.

The states of many rows are advanced at once, by the words of a column's cells. Tags and encodings are those of
`privpipe.kernels.ids.record_ids`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints, Words, read_only
from privpipe.compiled import SMALL, njit
from privpipe.draws.siphash import absorb, absorb_each
from privpipe.errors import DataError

__all__ = [
    "ROWS_AT_A_TIME",
    "CodedCells",
    "FixedCells",
    "TextCells",
    "absorb_column",
    "coded_words",
    "encode_column",
    "integer_cells",
    "scaled_numbers",
]


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
        Where the words of each value, and finally those of a missing cell, begin and end.
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
        The type has no encoding, or a value does not fit it; the message names the column.
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
    with np.errstate(invalid="ignore"):  # cells without a value hold arbitrary bits, even a signalling NaN
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
    """The values' buffer of a column of fixed width; cells without a value hold arbitrary bits."""
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


ROWS_AT_A_TIME = 4096  # with four words of hash state each, they stay in the second-level cache over all columns
FEW = 4
"""Where fewer than one row in this many has a further word, these rows are processed separately."""


def absorb_column(
    cells: FixedCells | TextCells | CodedCells,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    """Advance the states of some rows by one column's cells.

    Parameters
    ----------
    start, rows : int
        Which of the column's cells.
    state : ndarray of uint64, shape (4, at least rows)
    words : ndarray of uint64, shape (at least rows,)
        Length of each row's message so far, in words.
    """
    if isinstance(cells, TextCells):
        _absorb_text(cells.tag, cells.offsets, cells.data, cells.present, start, rows, state, words)
        return
    if isinstance(cells, CodedCells):
        _absorb_coded(cells.codes, cells.starts, cells.words, start, rows, state, words)
        return
    if not cells.payload:
        _absorb_nulls(rows, state, words)
        return
    _absorb_cells(cells.header, cells.payload[0], cells.present, start, rows, state, words)
    for payload in cells.payload[1:]:
        _absorb_more(payload, cells.present, start, rows, state, words)


def _moved(state: Words, words: Words, here: NDArray[np.intp], word: Any) -> None:
    """Some rows' states after one more word each."""
    for at, moved in enumerate(absorb(*state[:, here], np.broadcast_to(word, here.shape))):
        state[at, here] = moved
    words[here] += U(1)


def _absorb_nulls_plain(rows: int, state: Words, words: Words) -> None:
    _moved(state, words, np.arange(rows), U(0))


def _absorb_cells_plain(
    header: U,
    payload: Words,
    present: Bools,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    known = present[start : start + rows] if len(present) else np.ones(rows, np.bool_)
    _moved(state, words, np.arange(rows), np.where(known, header, U(0)))
    _absorb_more_plain(payload, present, start, rows, state, words)


def _absorb_more_plain(
    payload: Words,
    present: Bools,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    here = np.flatnonzero(present[start : start + rows]) if len(present) else np.arange(rows)
    _moved(state, words, here, payload[start + here])


def _absorb_text_plain(
    tag: U,
    offsets: Ints,
    data: NDArray[np.uint8],
    present: Bools,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    known = present[start : start + rows] if len(present) else np.ones(rows, np.bool_)
    places = offsets[start : start + rows].astype(np.int64)
    lengths = np.where(known, offsets[start + 1 : start + rows + 1] - places, 0)
    _moved(state, words, np.arange(rows), np.where(known, tag | lengths.astype(U) << U(8), U(0)))
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    for done in range(0, int(lengths.max(initial=0)), 8):
        here = np.flatnonzero(lengths > done)
        taken = padded[(places[here] + done)[:, None] + np.arange(8)]
        taken[np.arange(8) >= (lengths[here] - done)[:, None]] = 0
        _moved(state, words, here, np.ascontiguousarray(taken).view("<u8")[:, 0])


def _absorb_coded_plain(
    codes: NDArray[np.int32],
    starts: Ints,
    of_values: Words,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    places = starts[codes[start : start + rows]]
    sizes = starts[codes[start : start + rows] + 1] - places
    for done in range(int(sizes.max(initial=0))):
        here = np.flatnonzero(sizes > done)
        _moved(state, words, here, of_values[places[here] + done])


@njit(small=8 * SMALL, plain=_absorb_nulls_plain, nogil=True, cache=True)
def _absorb_nulls(rows: int, state: Words, words: Words) -> None:
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(rows):
        v0[i], v1[i], v2[i], v3[i] = absorb(v0[i], v1[i], v2[i], v3[i], U(0))
        words[i] += U(1)


@njit(small=8 * SMALL, plain=_absorb_cells_plain, nogil=True, cache=True)
def _absorb_cells(
    header: U,
    payload: Words,
    present: Bools,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    """A header and a word of payload per row; for a missing cell, the word 0."""
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    if len(present) == 0:
        for i in range(rows):  # without a branch, this runs in vector registers
            a, b, c, d = absorb(v0[i], v1[i], v2[i], v3[i], header)
            v0[i], v1[i], v2[i], v3[i] = absorb(a, b, c, d, payload[start + i])
            words[i] += U(2)
        return
    for i in range(rows):
        here = present[start + i]
        a, b, c, d = absorb(v0[i], v1[i], v2[i], v3[i], header if here else U(0))
        e, f, g, h = absorb(a, b, c, d, payload[start + i])
        v0[i], v1[i] = (e if here else a), (f if here else b)
        v2[i], v3[i] = (g if here else c), (h if here else d)
        words[i] += U(2) if here else U(1)


@njit(small=8 * SMALL, plain=_absorb_more_plain, nogil=True, cache=True)
def _absorb_more(
    payload: Words,
    present: Bools,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    """One more word of payload where the cell is present."""
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(rows):
        if len(present) == 0 or present[start + i]:
            v0[i], v1[i], v2[i], v3[i] = absorb(v0[i], v1[i], v2[i], v3[i], payload[start + i])
            words[i] += U(1)


@njit(nogil=True, cache=True)
def _whole_word(data: NDArray[np.uint8], at: U) -> U:
    """The little-endian word at a place; unsigned, so that negative indices need no check: it is a single load."""
    low = U(data[at]) | U(data[at + U(1)]) << U(8) | U(data[at + U(2)]) << U(16) | U(data[at + U(3)]) << U(24)
    high = U(data[at + U(4)]) | U(data[at + U(5)]) << U(8) | U(data[at + U(6)]) << U(16)
    return low | (high | U(data[at + U(7)]) << U(24)) << U(32)


@njit(nogil=True, cache=True)
def _last_word(data: NDArray[np.uint8], at: U, size: U) -> U:
    """The word of the last 1 to 7 bytes, zero padded."""
    word = U(0)
    for j in range(size):
        word |= U(data[at + U(j)]) << U(8) * U(j)
    return word


@njit(nogil=True, cache=True)
def _some_word(data: NDArray[np.uint8], at: U, left: U) -> U:
    """The next word of a text with `left` remaining bytes, at least one."""
    if at + U(8) > U(len(data)):
        word: U = _last_word(data, at, min(left, U(8)))
    else:
        word = _whole_word(data, at)
        word = word if left >= U(8) else word & ((U(1) << (left << U(3))) - U(1))
    return word


@njit(nogil=True, cache=True)
def _absorb_some(state: Words, of_rows: Words, left: Words, done: np.uint64) -> None:
    """One more word for the rows with more words than are done."""
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(len(of_rows)):
        a, b, c, d = absorb(v0[i], v1[i], v2[i], v3[i], of_rows[i])
        here = left[i] > done
        v0[i], v1[i] = (a if here else v0[i]), (b if here else v1[i])
        v2[i], v3[i] = (c if here else v2[i]), (d if here else v3[i])


@njit(small=8 * SMALL, plain=_absorb_text_plain, nogil=True, cache=True)
def _absorb_text(
    tag: U,
    offsets: Ints,
    data: NDArray[np.uint8],
    present: Bools,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    """Word by word for all rows; the few texts that are longer than the others, one after the other."""
    of_rows, at, left = np.empty(rows, U), np.empty(rows, U), np.empty(rows, U)
    for i in range(rows):
        here = len(present) == 0 or present[start + i]
        at[i] = U(offsets[start + i])
        left[i] = U(offsets[start + i + 1]) - at[i] if here else U(0)
        of_rows[i] = tag | left[i] << U(8) if here else U(0)
        words[i] += U(1) + ((left[i] + U(7)) >> U(3))
    absorb_each(state, of_rows)
    done, longer = U(0), rows
    while longer > 0:
        longer = 0
        for i in range(rows):
            if left[i] > done:
                of_rows[i] = _some_word(data, at[i] + done, left[i] - done)
                longer += 1
        if longer * FEW < rows:
            break
        _absorb_some(state, of_rows, left, done)
        done += U(8)
    for i in range(rows if longer > 0 else 0):
        v0, v1, v2, v3 = state[0, i], state[1, i], state[2, i], state[3, i]
        for further in range(done, left[i], U(8)):
            v0, v1, v2, v3 = absorb(v0, v1, v2, v3, _some_word(data, at[i] + further, left[i] - further))
        state[0, i], state[1, i], state[2, i], state[3, i] = v0, v1, v2, v3


@njit(small=8 * SMALL, plain=_absorb_coded_plain, nogil=True, cache=True)
def _absorb_coded(
    codes: NDArray[np.int32],
    starts: Ints,
    of_values: Words,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    """As `_absorb_text`."""
    of_rows, at, left = np.empty(rows, U), np.empty(rows, U), np.empty(rows, U)
    for i in range(rows):
        code = U(codes[start + i])
        at[i] = U(starts[code])
        left[i] = U(starts[code + U(1)]) - at[i]
        words[i] += left[i]
    done, longer = U(0), rows
    while longer > 0:
        longer = 0
        for i in range(rows):
            if left[i] > done:
                of_rows[i] = of_values[at[i] + done]
                longer += 1
        if longer * FEW < rows:
            break
        if longer == rows:
            absorb_each(state, of_rows)
        else:
            _absorb_some(state, of_rows, left, done)
        done += U(1)
    for i in range(rows if longer > 0 else 0):
        v0, v1, v2, v3 = state[0, i], state[1, i], state[2, i], state[3, i]
        for further in range(done, left[i]):
            v0, v1, v2, v3 = absorb(v0, v1, v2, v3, of_values[at[i] + further])
        state[0, i], state[1, i], state[2, i], state[3, i] = v0, v1, v2, v3
