"""Columns as integer codes of their distinct values, several of them as one word, and values as 128-bit hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.engines.base.class_blocks import group_key, value_order
from privpipe.kernels.grouping.word_groups import add_hashes, group_rows, number_words

__all__ = ["MOST_WORDS", "Encoded", "encode", "encode_ranks", "grouped", "packed", "tuple_hashes", "value_hashes"]


MOST_WORDS = 2**62
TABLE_PLACES = 4  # a row: beyond, a table of all words is larger than the processor's cache and slower than hashing


@dataclass(frozen=True, repr=False)
class Encoded:
    """A column as positions in its distinct values.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
    values : pyarrow.Array, shape (m,)
        Distinct and normalised (NaN is null, -0.0 is 0.0), null among them where it occurs.
    """

    codes: Ints
    values: pa.Array

    def take(self, rows: Ints) -> Encoded:
        """The same column at some rows."""
        return Encoded(self.codes[rows], self.values)


def encode(column: pa.Array) -> Encoded:
    """Codes of a column's values in this block; a dictionary's own are taken over as far as they occur.

    Examples
    --------
    >>> found = encode(pa.array([0.0, -0.0, float("nan"), None]))
    >>> found.codes.tolist(), found.values.to_pylist()
    ([0, 0, 1, 1], [0.0, None])
    >>> found = encode(pa.DictionaryArray.from_arrays([2, None, 2], ["a", "b", "c"]))
    >>> found.codes.tolist(), found.values.to_pylist()
    ([0, 1, 0], ['c', None])
    """
    if isinstance(column, pa.DictionaryArray):
        return _encode_dictionary(column)
    coded = pc.dictionary_encode(group_key(column), null_encoding="encode")
    return Encoded(coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary)


def _encode_dictionary(column: pa.DictionaryArray) -> Encoded:
    values = encode(pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)]))
    places = pc.fill_null(column.indices.cast(pa.int64()), len(column.dictionary))
    codes = values.codes[places.to_numpy(zero_copy_only=False)]
    met = np.bincount(codes, minlength=len(values.values)) > 0
    if met.all():
        return Encoded(codes, values.values)
    return Encoded((np.cumsum(met) - 1)[codes], values.values.filter(pa.array(met)))


def encode_ranks(column: pa.Array) -> Encoded:
    """As `encode`, with the values in the order of their type, null last."""
    coded = encode(column)
    order = value_order(coded.values)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    return Encoded(ranks[coded.codes], coded.values.take(order))


def packed(columns: Sequence[Encoded], rows: int) -> Ints:
    """One word per row, equal exactly where all the columns are.

    Words stay below 2^62: before a product of value counts would pass it, the words so far are renumbered.

    Examples
    --------
    >>> a, b = encode(pa.array(["x", "y", "x"])), encode(pa.array([1, 1, 1]))
    >>> packed([a, b], 3).tolist()
    [0, 1, 0]
    """
    return _packed(columns, rows)[0]


def grouped(columns: Sequence[Encoded], rows: int) -> tuple[Ints, Ints]:
    """Group of each row, and the first row of each group; rows equal in all the columns are a group.

    Examples
    --------
    >>> groups, firsts = grouped([encode(pa.array(["x", "y", "x"]))], 3)
    >>> groups.tolist(), firsts.tolist()
    ([0, 1, 0], [0, 1])
    """
    word, room = _packed(columns, rows)
    return number_words(word, room) if room <= TABLE_PLACES * rows else group_rows(word[:, None])


def _packed(columns: Sequence[Encoded], rows: int) -> tuple[Ints, int]:
    """The words, and what they are all below."""
    word = np.zeros(rows, dtype=np.int64)
    room = 1
    for column in columns:
        if room * len(column.values) > MOST_WORDS:
            word, firsts = group_rows(word[:, None])
            room = len(firsts)
        word = word * len(column.values) + column.codes
        room *= len(column.values)
    return word, room


def tuple_hashes(columns: Sequence[Encoded], seed: Seed, rows: int) -> Ints:
    """A 128-bit hash of each row's tuple of values: the sum, modulo 2^128, of keyed hashes of (column, value).

    For a secret seed two different tuples collide with probability 2^-128, no matter who chose them: their sums
    differ by at least one independent hash. Null has a hash like any value.

    Returns
    -------
    ndarray of int64, shape (rows, 2)
        High and low words.
    """
    total = np.zeros((rows, 2), dtype=np.uint64)
    for position, column in enumerate(columns):
        table = value_hashes(column.values, Seed(seed.secret + position.to_bytes(4, "little")))
        add_hashes(total, table, column.codes)
    return total.view(np.int64)


def value_hashes(values: pa.Array, seed: Seed) -> Ints:
    """A keyed 128-bit hash of each value, null included; int64 of shape (m, 2)."""
    from privpipe.kernels.ids.record_ids import content_hash

    return np.ascontiguousarray(content_hash(pa.record_batch([values], names=["value"]), seed))
