"""Ids of records: a keyed hash of a declared key, else of the content of all columns and an ordinal.

A cell is hashed as a header word (type tag in the low byte, byte length above) and its payload in 8-byte
little-endian words, zero padded; null and NaN are the single word 0. Tags: 1 bool, 2 integer (as int64), 3 float (as
float64, -0.0 as 0.0), 4 text (UTF-8), 5 date (days), 6 timestamp (microseconds), 7 timestamp with zone (UTC
microseconds), 8 decimal (16 bytes, the integer at the column's scale), 9 binary. Bool, numbers and times have 8
bytes. Columns enter in order of name. Source of the hash: Aumasson, Bernstein, SipHash, Indocrypt 2012.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from privpipe.blocks.arrays import Ints, Words, read_only
from privpipe.compiled import SMALL, njit
from privpipe.draws import Seed
from privpipe.draws.siphash import absorb, close_128, close_each, hash_pairs, key_words, start_128
from privpipe.kernels.columns.cell_words import (
    ROWS_AT_A_TIME,
    CodedCells,
    FixedCells,
    TextCells,
    absorb_column,
    encode_column,
)
from privpipe.kernels.grouping.word_groups import group_rows

__all__ = [
    "content_hash",
    "declared_id",
    "hash_cells",
    "normalised",
    "ordinals",
    "partners",
    "record_id",
    "sum_of_hashes",
]


U = np.uint64


def content_hash(table: pa.Table | pa.RecordBatch, seed: Seed) -> Ints:
    """SipHash-2-4-128 of each row over all its columns, keyed by the seed.

    Depends on column names only through their order, and on values by logical type: int8 5 equals int64 5,
    large_string equals string, a dictionary equals its values; integer 1, 1.0 and "1" differ.

    Parameters
    ----------
    table : pyarrow.Table or pyarrow.RecordBatch
        The source's columns in its logical types.
    seed : Seed

    Returns
    -------
    ndarray of int64, shape (n, 2)
        The two words of each row's hash, signed. Identical rows have identical words.

    Raises
    ------
    DataError
        A column whose type has no encoding, or a value that its encoding cannot hold (an unsigned integer above
        2^63 - 1, a timestamp between two microseconds).

    Examples
    --------
    >>> table = pa.table({"b": [1, 1, None], "a": ["x", "x", "y"]})
    >>> words = content_hash(table, Seed.insecure(42))
    >>> words.shape, bool((words[0] == words[1]).all()), bool((words[0] == words[2]).any())
    ((3, 2), True, False)
    >>> renamed = table.rename_columns(["d", "c"]).select(["c", "d"])
    >>> bool((content_hash(renamed, Seed.insecure(42)) == words).all())
    True
    """
    batches = table.to_batches() if isinstance(table, pa.Table) else [table]
    parts = [np.empty((0, 2), np.int64)]
    for batch in batches:
        ordered = sorted((name, i) for i, name in enumerate(batch.schema.names))
        parts.append(hash_cells([encode_column(batch.column(i), name) for name, i in ordered], batch.num_rows, seed))
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def hash_cells(columns: Sequence[FixedCells | TextCells | CodedCells], rows: int, seed: Seed, first: int = 0) -> Ints:
    """As `content_hash`, for `rows` rows from `first` on of encoded columns, in order of their names.

    Returns
    -------
    ndarray of int64, shape (rows, 2)
    """
    out = np.empty((rows, 2), np.int64)
    _hash_rows(columns, key_words(seed.key("record")), out, first)
    return out


def record_id(hash_words: Ints, ordinal: Ints, seed: Seed) -> Ints:
    """Ids of records from the hash of their content and their number among identical ones.

    Parameters
    ----------
    hash_words : ndarray of int64, shape (n, 2)
        From `content_hash`.
    ordinal : ndarray of int64, shape (n,)
        0, 1, ... among all records of the table with the same hash, in any order: they are exchangeable.
    seed : Seed

    Returns
    -------
    ndarray of int64, shape (n, 2)
        Signed words, distinct except with probability n^2 / 2^129.

    Examples
    --------
    >>> words = content_hash(pa.table({"a": [1, 1]}), Seed.insecure(42))
    >>> len(np.unique(record_id(words, ordinals(words), Seed.insecure(42)), axis=0))
    2
    """
    return np.asarray(
        _hash_of_three(*key_words(seed.key("record")), read_only(hash_words, np.int64), read_only(ordinal, np.int64))
    )


def sum_of_hashes(hashes: Ints) -> int:
    """The sum of hashes of two words each, high words first, modulo 2^128.

    Parameters
    ----------
    hashes : ndarray of int64, shape (n, 2)

    Examples
    --------
    >>> sum_of_hashes(np.array([[0, -1], [0, 1], [2, 0]])) == (3 << 64)
    True
    """
    halves: list[int] = _halves_summed(read_only(hashes, np.int64)).tolist()
    return sum(half << shift for half, shift in zip(halves, (64, 96, 0, 32), strict=True)) % (1 << 128)


def declared_id(column: pa.Array | pa.ChunkedArray, seed: Seed) -> Ints:
    """Ids of records from the column declared as `record_id`: the hash of its one cell, without an ordinal.

    Parameters
    ----------
    column : pyarrow.Array or ChunkedArray
        Unique and without nulls; the caller must ensure this.

    Returns
    -------
    ndarray of int64, shape (n, 2)

    Examples
    --------
    >>> ids = declared_id(pa.array(["p1", "p2"]), Seed.insecure(42))
    >>> bool((ids == declared_id(pa.array(["p1", "p2"], pa.large_string()), Seed.insecure(42))).all())
    True
    """
    return content_hash(pa.table({"record_id": column}), seed)


def ordinals(hash_words: Ints) -> Ints:
    """Number of each row among those with the same hash, in their given order.

    For rows that are all in one place; a distributed engine numbers rows within each hash after a shuffle by hash.

    Examples
    --------
    >>> ordinals(np.array([[1, 1], [2, 1], [1, 1], [1, 1]])).tolist()
    [0, 0, 1, 2]
    """
    words = np.asarray(hash_words, dtype=np.int64)
    single = np.sort(words[:, 1])
    if not (single[1:] == single[:-1]).any():  # one word is equal by chance in one of 2^64 pairs
        return np.zeros(len(words), np.int64)
    order = np.lexsort((words[:, 1], words[:, 0]))
    ordered = words[order]
    first = np.ones(len(words), dtype=np.bool_)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    position = np.arange(len(words))
    out = np.empty(len(words), np.int64)
    out[order] = position - starts[np.cumsum(first) - 1]
    return out


def _hash_rows(
    columns: Sequence[FixedCells | TextCells | CodedCells], keys: tuple[U, U], out: Ints, first: int
) -> None:
    state = np.empty((4, ROWS_AT_A_TIME), np.uint64)
    words = np.empty(ROWS_AT_A_TIME, np.uint64)
    for start in range(0, len(out), ROWS_AT_A_TIME):
        rows = min(ROWS_AT_A_TIME, len(out) - start)
        _open(*keys, state, words)
        for cells in columns:
            absorb_column(cells, first + start, rows, state, words)
        _close(state, words, out[start : start + rows])


def _open_plain(k0: U, k1: U, state: Words, words: Words) -> None:
    for at, word in enumerate(start_128(k0, k1)):
        state[at] = word
    words[:] = 0


@njit(small=4 * SMALL, plain=_open_plain, nogil=True, cache=True)
def _open(k0: U, k1: U, state: Words, words: Words) -> None:
    state[0], state[1], state[2], state[3] = start_128(k0, k1)
    words[:] = 0


def _close_plain(state: Words, words: Words, out: Ints) -> None:
    first, second = close_128(*state[:, : len(out)], words[: len(out)])
    out[:, 0], out[:, 1] = first.astype(np.int64), second.astype(np.int64)


@njit(small=4 * SMALL, plain=_close_plain, nogil=True, cache=True)
def _close(state: Words, words: Words, out: Ints) -> None:
    close_each(state, words[: len(out)], True, out.view(U))


def _hash_of_three_plain(k0: U, k1: U, hashes: Ints, ordinal: Ints) -> Ints:
    v0, v1, v2, v3 = (np.full(len(hashes), word) for word in start_128(k0, k1))
    for words in (hashes[:, 0], hashes[:, 1], ordinal):
        v0, v1, v2, v3 = absorb(v0, v1, v2, v3, words.astype(U))
    first, second = close_128(v0, v1, v2, v3, np.full(len(hashes), U(3)))
    return np.column_stack([first.astype(np.int64), second.astype(np.int64)])


@njit(small=SMALL, plain=_hash_of_three_plain, nogil=True, cache=True)
def _hash_of_three(k0: U, k1: U, hashes: Ints, ordinal: Ints) -> Ints:
    out = np.empty((len(hashes), 2), np.int64)
    hash_pairs(start_128(k0, k1), hashes, ordinal.view(U), True, out.view(U))
    return out


def _halves_summed_plain(hashes: Ints) -> Words:
    unsigned = hashes.view(U)
    low, high = (unsigned & U(0xFFFFFFFF)).sum(axis=0), (unsigned >> U(32)).sum(axis=0)
    return np.array([low[0], high[0], low[1], high[1]], U)


@njit(small=SMALL, plain=_halves_summed_plain, nogil=True, cache=True)
def _halves_summed(hashes: Ints) -> Words:
    """Low and high halves of each word, summed: 2^32 of them add up without overflow."""
    out = np.zeros(4, np.uint64)
    for i in range(len(hashes)):
        for j in range(2):
            word = U(hashes[i, j])
            out[2 * j] += word & U(0xFFFFFFFF)
            out[2 * j + 1] += word >> U(32)
    return out


def normalised(texts: Any, steps: Sequence[str]) -> Any:
    """Texts after the declared steps, independent of the order in which these are named.

    Unicode is composed first and last (case folding decomposes characters), spaces are trimmed before case folding.

    Parameters
    ----------
    texts : pyarrow.Array or pyarrow.ChunkedArray of string
        A missing value stays missing.
    steps : sequence of {"trim", "casefold", "nfc"}

    Examples
    --------
    >>> import pyarrow as pa
    >>> normalised(pa.array([" Ann", "STRASSE", "stra\\u00dfe", None]), ["casefold", "trim"]).to_pylist()
    ['ann', 'strasse', 'strasse', None]
    >>> normalised(pa.array([" Ann"]), []).to_pylist()
    [' Ann']
    """
    import pyarrow as pa

    if not steps:
        return texts
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array([normalised(chunk, steps) for chunk in texts.chunks], type=pa.string())
    coded = texts.dictionary_encode()
    words = pa.array([_one(text, steps) for text in coded.dictionary.to_pylist()], type=pa.string())
    return words.take(coded.indices)


def _one(text: str, steps: Sequence[str]) -> str:
    if "nfc" in steps:
        text = unicodedata.normalize("NFC", text)
    if "trim" in steps:
        text = text.strip()
    if "casefold" in steps:
        text = text.casefold()
    return unicodedata.normalize("NFC", text) if "nfc" in steps else text


def partners(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Positions in both tables of the records that are in both, in the order of the second.

    Parameters
    ----------
    first, second : ndarray of int64, shape (n, 2) and (m, 2)
        Record ids, unique within each table.

    Examples
    --------
    >>> left, right = partners(np.array([[1, 0], [2, 0], [3, 0]]), np.array([[3, 0], [9, 0], [1, 0]]))
    >>> left.tolist(), right.tolist()
    ([2, 0], [0, 2])
    """
    groups, firsts = group_rows(np.concatenate([first, second]))
    place = np.full(len(firsts), -1, dtype=np.int64)
    place[groups[: len(first)]] = np.arange(len(first))
    found = place[groups[len(first) :]]
    paired = np.flatnonzero(found >= 0)
    return found[paired], paired
