"""Hash states of many rows at once, each moved on by the words of a column's cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws.siphash import absorb
from privpipe.kernels.columns.cell_words import FixedCells, TextCells

__all__ = ["ROWS_AT_A_TIME", "absorb_column"]

U = np.uint64
ROWS_AT_A_TIME = 4096  # four words of hash state each: they stay in the second-level cache over all columns


def absorb_column(
    cells: FixedCells | TextCells, start: int, rows: int, state: NDArray[np.uint64], words: NDArray[np.uint64]
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
    if not cells.payload:
        _absorb_nulls(rows, state, words)
        return
    _absorb_cells(cells.header, cells.payload[0], cells.present, start, rows, state, words)
    for payload in cells.payload[1:]:
        _absorb_more(payload, cells.present, start, rows, state, words)


@njit(nogil=True, cache=True)
def _absorb_nulls(rows: int, state: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(rows):
        v0[i], v1[i], v2[i], v3[i] = absorb(v0[i], v1[i], v2[i], v3[i], U(0))
        words[i] += U(1)


@njit(nogil=True, cache=True)
def _absorb_cells(
    header: U,
    payload: NDArray[np.uint64],
    present: NDArray[np.bool_],
    start: int,
    rows: int,
    state: NDArray[np.uint64],
    words: NDArray[np.uint64],
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


@njit(nogil=True, cache=True)
def _absorb_more(
    payload: NDArray[np.uint64],
    present: NDArray[np.bool_],
    start: int,
    rows: int,
    state: NDArray[np.uint64],
    words: NDArray[np.uint64],
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
def _absorb_text(
    tag: U,
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    present: NDArray[np.bool_],
    start: int,
    rows: int,
    state: NDArray[np.uint64],
    words: NDArray[np.uint64],
) -> None:
    for i in range(rows):
        v0, v1, v2, v3 = state[0, i], state[1, i], state[2, i], state[3, i]
        if len(present) > 0 and not present[start + i]:
            v0, v1, v2, v3 = absorb(v0, v1, v2, v3, U(0))
            words[i] += U(1)
        else:
            at = np.int64(offsets[start + i])
            length = np.int64(offsets[start + i + 1]) - at
            v0, v1, v2, v3 = absorb(v0, v1, v2, v3, tag | U(length) << U(8))
            place, left = U(at), U(length)
            while left >= U(8):
                v0, v1, v2, v3 = absorb(v0, v1, v2, v3, _whole_word(data, place))
                place, left = place + U(8), left - U(8)
            if left > U(0):
                v0, v1, v2, v3 = absorb(v0, v1, v2, v3, _last_word(data, place, left))
            words[i] += U(1 + (length + 7) // 8)
        state[0, i], state[1, i], state[2, i], state[3, i] = v0, v1, v2, v3
