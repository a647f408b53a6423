"""Bins of a column that hold about as many records each: cut at a sample of its keys, with exact counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.requests import Selection
from privpipe.draws import Stream
from privpipe.kernels.grouping.sorting import sortable_words

__all__ = [
    "KeyBins",
    "bin_counts",
    "bins_of",
    "decimal_limbs",
    "is_countable",
    "tie_words",
    "value_words",
]

Words = NDArray[np.uint64]
SAMPLED = 1 << 16
MOST_BINS = 1 << 14
SIGN = np.uint64(1 << 63)
TIE_BITS = np.uint64(15)
"""Of a tie word, given up to the number of the value among the cuts."""
ENDS = (np.uint64(0), np.uint64(2**64 - 1))
"""Words of the least and the largest value; a decimal beyond 64 bits has one of these too."""


def is_countable(kind: pa.DataType) -> bool:
    """Whether values of this type have words in their order."""
    return bool(
        pt.is_floating(kind) or pt.is_integer(kind) or pt.is_decimal(kind) or pt.is_date(kind) or pt.is_timestamp(kind)
    )


def value_words(cells: pa.Array) -> tuple[Words, Bools]:
    """Words that are ordered like the values, and where there is a value (NaN is none).

    Examples
    --------
    >>> words, known = value_words(pa.array([2.5, None, -1.0]))
    >>> bool(words[2] < words[0]), known.tolist()
    (True, [True, False, True])
    """
    if pt.is_floating(cells.type):
        values = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
        known = ~np.isnan(values)
        return sortable_words(np.where(known, values, 0.0)), known
    known = cells.is_valid().to_numpy(zero_copy_only=False)
    if pt.is_decimal(cells.type):
        low, high = decimal_limbs(cells)
        held = np.where(high >= 0, np.int64(2**63 - 1), np.int64(-(2**63)))
        return sortable_words(np.where(high == low >> 63, low, held)), known
    if pt.is_date(cells.type):
        cells = cells.cast(pa.date32()).cast(pa.int32())
    return sortable_words(cells.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)), known


def decimal_limbs(cells: pa.Array) -> tuple[Ints, Ints]:
    """The lower 64 bits of decimals, to be read without sign, and the upper ones."""
    filled = pc.fill_null(cells.cast(pa.decimal128(38, cells.type.scale)), 0)
    limbs = np.frombuffer(filled.buffers()[1], dtype="<i8").reshape(-1, 2)[filled.offset :][: len(filled)]
    return np.ascontiguousarray(limbs[:, 0]), np.ascontiguousarray(limbs[:, 1])


def tie_words(stream: Stream, ids: Ints) -> Words:
    """The keyed order of records, to be compared without sign."""
    return stream.order(ids).view(np.uint64) ^ SIGN


@dataclass(frozen=True, repr=False)
class KeyBins:
    """Consecutive bins of values, or of (value, keyed order) where single values are too frequent for a bin.

    Parameters
    ----------
    words, ties : ndarray of uint64, shape (n_cuts,)
        The cuts, ascending and different; a bin begins at each of them, the first below all. All of a tie but its
        last bits counts, and none of it at the words of the least and the largest value.
    by_value : bool
        Whether equal values are in one bin, so that ties need not be known.
    """

    words: Words
    ties: Words
    by_value: bool = False
    _runs: Words = field(init=False)

    def __post_init__(self) -> None:
        runs = np.zeros(len(self.words), np.uint64)
        np.cumsum(self.words[1:] != self.words[:-1], out=runs[1:])
        object.__setattr__(self, "_runs", runs)

    @classmethod
    def cutting(cls, words: Words, ties: Words, number: int) -> KeyBins:
        """So many bins, `MOST_BINS` at most, with about as many of these keys each."""
        number = min(number, MOST_BINS)
        by_value = bool(np.unique(words, return_counts=True)[1].max(initial=0) * number <= max(len(words), number))
        ties = np.zeros_like(ties) if by_value else _distinct_ties(words, ties)
        order = np.lexsort((ties, words))
        chosen = order[np.unique(len(order) * np.arange(1, number) // number)] if len(order) else order
        words, ties = words[chosen], ties[chosen]
        fresh = np.ones(len(words), np.bool_)
        fresh[1:] = (words[1:] != words[:-1]) | (ties[1:] != ties[:-1])
        return cls(words[fresh], ties[fresh], by_value)

    def __len__(self) -> int:
        return len(self.words) + 1

    def of(self, words: Words, ties: Callable[[Ints], Words]) -> Ints:
        """The bin of each key, shape (n,); `ties` gives the tie words of the records at some positions.

        Examples
        --------
        >>> bins = KeyBins(np.array([5, 5, 8], np.uint64), np.array([0, 1 << 15, 0], np.uint64))
        >>> given = np.array([0, 2 << 15, 1, 9], np.uint64)
        >>> bins.of(np.array([4, 5, 5, 8], np.uint64), lambda at: given[at]).tolist()
        [0, 2, 1, 3]
        """
        found = np.searchsorted(self.words, words, side="right")
        if self.by_value or not len(self.words):
            return found
        last = np.maximum(found - 1, 0)
        at = np.flatnonzero(self.words[last] == words)
        if len(at):
            runs = self._runs[last[at]]
            keys = _composed(runs, _distinct_ties(words[at], ties(at)))
            found[at] = np.searchsorted(_composed(self._runs, self.ties), keys, side="right")
        return found


def _distinct_ties(words: Words, ties: Words) -> Words:
    ties = ties >> TIE_BITS << TIE_BITS
    return np.where((words == ENDS[0]) | (words == ENDS[1]), np.uint64(0), ties)


def _composed(runs: Words, ties: Words) -> Words:
    return (runs << (np.uint64(64) - TIE_BITS)) | (ties >> TIE_BITS)


def bins_of(engine: Primitives, table: Any, column: str, stream: Stream, records: int, number: int) -> KeyBins:
    """So many bins with about as many of the column's `records` values each, cut at some of the least ids."""
    # Ids are keyed hashes: the least of them are as good as random, whatever the values.
    share = min(SAMPLED / max(records, 1), 1.0)
    sampled = engine.derive(Selection(table, (column,), share))
    found = engine.reduce_rows(sampled, [column], _Keys(column, stream), Facts())
    words, ties = found if found is not None else (np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    return KeyBins.cutting(words, ties, number)


@dataclass(frozen=True, repr=False)
class _Keys:
    """Words and tie words of the records that have a value."""

    column: str
    stream: Stream

    def measure(self, block: RowBlock, facts: Facts) -> tuple[Words, Words]:
        words, known = value_words(block.column(self.column))
        return words[known], tie_words(self.stream, block.record_ids[known])

    def merge(self, left: tuple[Words, Words], right: tuple[Words, Words]) -> tuple[Words, Words]:
        return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])


def bin_counts(engine: Primitives, table: Any, column: str, stream: Stream, bins: KeyBins) -> Ints:
    """How many records with a value each bin holds."""
    counted = engine.reduce_rows(table, [column], _Counts(column, stream, bins), Facts())
    return np.zeros(len(bins), np.int64) if counted is None else counted


@dataclass(frozen=True, repr=False)
class _Counts:
    """Records of each bin."""

    column: str
    stream: Stream
    bins: KeyBins

    def measure(self, block: RowBlock, facts: Facts) -> Ints:
        words, known = value_words(block.column(self.column))
        placed = self.bins.of(words, lambda at: tie_words(self.stream, block.record_ids[at]))
        return np.bincount(placed[known], minlength=len(self.bins))

    def merge(self, left: Ints, right: Ints) -> Ints:
        return left + right
