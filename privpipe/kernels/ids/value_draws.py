"""Draws that are bound to the values they mask.

Word j of a record is SipHash-2-4 under the stream's key of the record id's two words, the words of each value as
`privpipe.kernels.ids.record_ids` encodes cells, and j. So an unchanged value gets the same draw again, and a changed
value gets a new one: the difference of two releases shows that it changed, and nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Floats, Ints, Words, read_only
from privpipe.compiled import SMALL, njit
from privpipe.draws import Stream
from privpipe.draws.elementary import normal_quantile, plain_normals, plain_uniforms, unit_interval
from privpipe.draws.siphash import absorb, close_64, start
from privpipe.kernels.columns.cell_words import ROWS_AT_A_TIME, absorb_column, encode_column

__all__ = ["value_normals", "value_uniforms", "value_words"]

U = np.uint64


def value_words(stream: Stream, rows: RowBlock, columns: Sequence[str], word: int = 0) -> Words:
    """Word number `word` of each record for the values it has in these columns.

    Parameters
    ----------
    stream : Stream
    rows : RowBlock
        With record ids and the values before the stage. A missing value is a separate value, NaN is missing,
        -0.0 equals 0.0 and integers are exact.
    columns : sequence of str
        One column, or those that share a draw, in the order of the stage.

    Returns
    -------
    ndarray of uint64, shape (n,)

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"x": [1.0, -0.0, 0.0, None]}), np.zeros((4, 2), np.int64))
    >>> words = value_words(Stream(bytes(16)), rows, ["x"])
    >>> len(set(words.tolist())), bool(words[1] == words[2])
    (3, True)
    """
    ids = read_only(rows.record_ids, np.int64)
    cells = [encode_column(rows.column(name), name) for name in columns]
    out = np.empty(len(ids), np.uint64)
    keys, last = stream.key_words, U(word)
    state, lengths = np.empty((4, ROWS_AT_A_TIME), np.uint64), np.empty(ROWS_AT_A_TIME, np.uint64)
    for first in range(0, len(ids), ROWS_AT_A_TIME):
        here = ids[first : first + ROWS_AT_A_TIME]
        _open(*keys, here, state, lengths)
        for each in cells:
            absorb_column(each, first, len(here), state, lengths)
        _close(state, lengths, last, out[first : first + len(here)])
    return out


def value_uniforms(stream: Stream, rows: RowBlock, columns: Sequence[str], word: int = 0) -> Floats:
    """Uniform in (0, 1) for each record and its values; see `value_words`."""
    return np.asarray(_uniforms(value_words(stream, rows, columns, word)))


def value_normals(stream: Stream, rows: RowBlock, columns: Sequence[str], word: int = 0) -> Floats:
    """Standard normal for each record and its values; see `value_words`."""
    return np.asarray(_normals(value_words(stream, rows, columns, word)))


@njit(nogil=True, cache=True)
def _of_record(k0: U, k1: U, first: np.int64, second: np.int64) -> tuple[U, U, U, U]:
    v0, v1, v2, v3 = start(k0, k1)
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, U(first))
    found: tuple[U, U, U, U] = absorb(v0, v1, v2, v3, U(second))
    return found


def _open_plain(k0: U, k1: U, ids: Ints, state: Words, lengths: Words) -> None:
    v0, v1, v2, v3 = (np.full(len(ids), word) for word in start(k0, k1))
    for words in ids.T:
        v0, v1, v2, v3 = absorb(v0, v1, v2, v3, words.astype(U))
    for at, moved in enumerate((v0, v1, v2, v3)):
        state[at, : len(ids)] = moved
    lengths[: len(ids)] = U(2)


@njit(small=4 * SMALL, plain=_open_plain, nogil=True, cache=True)
def _open(k0: U, k1: U, ids: Ints, state: Words, lengths: Words) -> None:
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(len(ids)):
        v0[i], v1[i], v2[i], v3[i] = _of_record(k0, k1, ids[i, 0], ids[i, 1])
        lengths[i] = U(2)


def _close_plain(state: Words, lengths: Words, word: U, out: Words) -> None:
    moved = absorb(*state[:, : len(out)], np.full(len(out), word))
    out[:] = close_64(*moved, lengths[: len(out)] + U(1))


@njit(small=4 * SMALL, plain=_close_plain, nogil=True, cache=True)
def _close(state: Words, lengths: Words, word: U, out: Words) -> None:
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(len(out)):
        a, b, c, d = absorb(v0[i], v1[i], v2[i], v3[i], word)
        out[i] = close_64(a, b, c, d, lengths[i] + U(1))


@njit(small=SMALL, plain=plain_uniforms, nogil=True, cache=True)
def _uniforms(words: Words) -> Floats:
    out = np.empty(len(words), np.float64)
    for i in range(len(words)):
        out[i] = unit_interval(words[i])
    return out


@njit(small=SMALL, plain=plain_normals, nogil=True, cache=True)
def _normals(words: Words) -> Floats:
    out = np.empty(len(words), np.float64)
    for i in range(len(words)):
        out[i] = normal_quantile(unit_interval(words[i]))
    return out
