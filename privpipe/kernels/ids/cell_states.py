"""Hash states of many rows at once, each moved on by the words of a column's cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints, Words
from privpipe.compiled import SMALL, njit
from privpipe.draws.siphash import absorb, absorb_each
from privpipe.kernels.columns.cell_words import CodedCells, FixedCells, TextCells

__all__ = ["ROWS_AT_A_TIME", "absorb_column"]

U = np.uint64
ROWS_AT_A_TIME = 4096  # four words of hash state each: they stay in the second-level cache over all columns
FEW = 4
"""One row in so many that has a further word: below, these rows are worked off by themselves."""


def absorb_column(
    cells: FixedCells | TextCells | CodedCells,
    start: int,
    rows: int,
    state: Words,
    words: Words,
) -> None:
    """Move on the states of some rows by one column's cells.

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
    """A header and a word of payload a row; where nothing is present, the word 0."""
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
    """The little-endian word at a place; unsigned, so that no negative index is looked for: it is one load."""
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
    """The next word of a text of which so many bytes are left, at least one."""
    if at + U(8) > U(len(data)):
        word: U = _last_word(data, at, min(left, U(8)))
    else:
        word = _whole_word(data, at)
        word = word if left >= U(8) else word & ((U(1) << (left << U(3))) - U(1))
    return word


@njit(nogil=True, cache=True)
def _absorb_some(state: Words, of_rows: Words, left: Words, done: np.uint64) -> None:
    """One more word for the rows that have more left than is done."""
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
    """Word by word of all rows; the few texts that are longer than the others, one after the other."""
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
