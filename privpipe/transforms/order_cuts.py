"""Ranks by keyed order without a sort: the exact place of a cut from two passes over the order words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Ints

if TYPE_CHECKING:
    from privpipe.draws import Stream

__all__ = ["OrderCuts", "order_cuts"]


BITS = 16
TOP = np.uint64(1 << 63)


@dataclass(frozen=True)
class OrderCuts:
    """Cuts in (keyed order, id) within each stratum.

    Parameters
    ----------
    words : sequence of ndarrays of int64, shape (cuts of the stratum, 3)
        Order word and the id's two words of the last record before each cut, ascending.
    """

    words: tuple[Ints, ...] = field(repr=False)

    def of(self, order: Ints, ids: Ints, strata: Ints) -> Ints:
        """How many cuts of its stratum each record lies beyond, shape (n,)."""
        found = np.zeros(len(order), np.int64)
        for number in np.unique(strata).tolist():
            here = np.flatnonzero(strata == number)
            cuts = self.words[number]
            if len(cuts) and len(here):
                found[here] = _beyond(cuts, np.column_stack([order[here], ids[here]]))
        return found


def order_cuts(
    engine: Primitives,
    table: Any,
    columns: Sequence[str],
    stream: Stream,
    strata: Any,
    ranks: Sequence[Sequence[int]],
) -> OrderCuts:
    """The records at these 0-based ranks of each stratum's keyed order.

    Parameters
    ----------
    columns : sequence of str
        What `strata` reads; any column will do when it reads none.
    stream : Stream
        Whose `order` ranks the records; equal words go by id.
    strata : callable
        From a `RowBlock` the stratum of each record, -1 for none.
    ranks : sequence of ascending sequences of int
        One a stratum, each rank below its number of records.
    """
    wanted = [np.asarray(each, np.int64) for each in ranks]
    if not sum(map(len, wanted)):
        return OrderCuts(tuple(np.empty((0, 3), np.int64) for _ in wanted))
    bits = max(BITS - max(len(wanted) // 16, 1).bit_length() + 1, 6)
    counting = _LeadingBits(stream, strata, len(wanted), bits)
    counts = engine.reduce_rows(table, columns, counting, Facts())
    if counts is None:
        return OrderCuts(tuple(np.empty((0, 3), np.int64) for _ in wanted))
    ends = np.cumsum(counts, axis=1)
    buckets = [np.searchsorted(ends[at], each, side="right") for at, each in enumerate(wanted)]
    chosen = np.unique(np.concatenate([(at << bits) + each for at, each in enumerate(buckets)]))
    words = engine.reduce_rows(table, columns, _Words(stream, strata, bits, chosen), Facts())
    assert words is not None
    words = words[np.lexsort((words[:, 3], words[:, 2], words[:, 1], words[:, 0]))]
    found = []
    for at, each in enumerate(wanted):
        starts = np.searchsorted(words[:, 0], (at << bits) + buckets[at])
        before = np.concatenate([[0], ends[at]])[buckets[at]]
        found.append(words[starts + each - before, 1:])
    return OrderCuts(tuple(found))


def _beyond(cuts: Ints, words: Ints) -> Ints:
    """Cuts strictly below each row of words, compared word by word."""
    low = np.searchsorted(cuts[:, 0], words[:, 0], side="left")
    high = np.searchsorted(cuts[:, 0], words[:, 0], side="right")
    # Equal order words, one pair in 2^64, are settled by the ids.
    for row in np.flatnonzero(low != high):
        same = cuts[low[row] : high[row], 1:].tolist()
        low[row] += sum(cut < words[row, 1:].tolist() for cut in same)
    return low


def _prefix(order: Ints, bits: int) -> Ints:
    """Leading bits of signed words, in ascending order of the words."""
    return ((order.view(np.uint64) ^ TOP) >> np.uint64(64 - bits)).astype(np.int64)


@dataclass(frozen=True)
class _LeadingBits:
    """Records of each stratum by the leading bits of their order word, shape (strata, 2^bits)."""

    stream: Stream
    strata: Any
    number: int
    bits: int

    def measure(self, block: RowBlock, facts: Facts) -> Ints:
        numbers = self.strata(block)
        prefix = _prefix(self.stream.order(block.record_ids), self.bits)
        inside = numbers >= 0
        cells = (numbers[inside] << self.bits) + prefix[inside]
        return np.bincount(cells, minlength=self.number << self.bits).reshape(self.number, -1)

    def merge(self, left: Ints, right: Ints) -> Ints:
        return left + right


@dataclass(frozen=True)
class _Words:
    """Bucket, order word and id of the records in the chosen buckets."""

    stream: Stream
    strata: Any
    bits: int
    chosen: Ints

    def measure(self, block: RowBlock, facts: Facts) -> Ints:
        numbers = self.strata(block)
        order = self.stream.order(block.record_ids)
        cells = np.where(numbers >= 0, (numbers << self.bits) + _prefix(order, self.bits), -1)
        here = np.isin(cells, self.chosen)
        return np.column_stack([cells[here], order[here], block.record_ids[here]])

    def merge(self, left: Ints, right: Ints) -> Ints:
        return np.concatenate([left, right])
