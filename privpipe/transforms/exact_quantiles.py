"""Values at given ranks of a column without its histogram, and exact cuts by keyed order without a sort.

A pass takes a sample of the values in the brackets, the next counts how many are at and between the sampled ones, which
leaves shorter brackets; once these hold few values, a last pass counts each of them. A sample decides only how many
passes there are. Source: Floyd, Rivest, Expected time bounds for selection, Communications of the ACM 18(3), 1975.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.transforms.strata import Strata

__all__ = [
    "AtRank",
    "OrderCuts",
    "known_values",
    "order_cuts",
    "values_at",
]


SAMPLED = 1 << 12
"""Values of a sample of the brackets."""
COLLECTED = 1 << 16
"""Values in brackets, equal ones counted singly, that are few enough to be counted value by value."""
A_BRACKET = 16
"""Sampled and collected values that each bracket gets where strata are many."""


class AtRank(NamedTuple):
    """The value at a rank.

    Parameters
    ----------
    value : int or float
        In units of the column: a decimal's are 10^-scale, a date's days, a timestamp's microseconds.
    less, equal : int
        Values of its stratum below it, and those that equal it.
    """

    value: Any
    less: int
    equal: int


def known_values(array: pa.Array, column: str) -> tuple[NDArray[Any], Bools, int]:
    """The numbers of a column in its units (0.0 for -0.0), where there is one, and its scale."""
    from privpipe.kernels.columns.cell_words import scaled_numbers

    values, gaps, scale = scaled_numbers(array, column)
    known = ~np.isnan(values)
    return values + 0, known if gaps is None else known & ~gaps, scale


def values_at(
    engine: Primitives,
    table: Any,
    column: str,
    strata: Strata,
    known: Sequence[int],
    ranks: Sequence[Sequence[int]],
) -> list[list[AtRank]]:
    """The values at some 0-based ranks of each stratum.

    Parameters
    ----------
    column : str
        Numbers, decimals, dates or timestamps; missing values have no rank.
    strata : Strata
    known : sequence of int
        Values of each stratum.
    ranks : sequence of sequence of int
        Of each stratum, in any order.

    Raises
    ------
    DataError
        A stratum has fewer values than `known` states.
    """
    found: dict[tuple[int, int], AtRank] = {}
    waiting = [_Bracket(number, rank, known[number]) for number, each in enumerate(ranks) for rank in sorted({*each})]
    while waiting:
        spans = list({each.span: each for each in waiting}.values())
        total, enough = sum(each.inside for each in spans), A_BRACKET * len(spans)
        samples: Mapping[_Span, NDArray[Any]] = {}
        if total > max(COLLECTED, enough):
            share = max(SAMPLED, enough) / total
            samples = _read(engine, table, _Samples(column, strata, _by_stratum(spans), share)) or {}
        cuts = {each: np.unique(values) for each, values in samples.items() if len(values)}
        counting: _Reading[Any]
        if cuts:
            counting = _Places(column, strata, _by_stratum(spans), cuts)
        else:
            counting = _Values(column, strata, _by_stratum(spans))
        counts = _read(engine, table, counting) or {}
        narrowed = [each.narrowed(counts.get(each.span), column) for each in waiting]
        waiting = [each for each in narrowed if each.found is None]
        found |= {(each.stratum, each.rank): each.found for each in narrowed if each.found is not None}
    return [[found[number, rank] for rank in each] for number, each in enumerate(ranks)]


_Span = tuple[int, Any, Any]
"""A stratum, and the values that a bracket is between, without them; None for no limit."""
_Counted = tuple[NDArray[Any], Ints, Ints]
"""Ascending values, how many equal each, and how many lie before each and after the last."""
R = TypeVar("R")


@dataclass(frozen=True)
class _Bracket:
    """What is known of a rank: `inside` values lie strictly between `low` and `high`, and `less` at or below `low`."""

    stratum: int
    rank: int
    inside: int
    less: int = 0
    low: Any = field(default=None, repr=False)
    high: Any = field(default=None, repr=False)
    found: AtRank | None = field(default=None, repr=False)

    @property
    def span(self) -> _Span:
        return self.stratum, self.low, self.high

    def narrowed(self, counted: _Counted | None, column: str) -> _Bracket:
        """The bracket once the values in it are counted."""
        values, equal, between = counted or (np.zeros(0), np.zeros(0, np.int64), np.zeros(1, np.int64))
        parts = np.empty(2 * len(values) + 1, np.int64)
        parts[::2], parts[1::2] = between, equal
        ends = self.less + np.cumsum(parts)
        at = int(np.searchsorted(ends, self.rank, side="right"))
        if self.rank < self.less or at == len(ends):
            raise DataError(f"the plan was made for another table: column {column!r} has a different number of values")
        less, here = int(ends[at] - parts[at]), at // 2
        if at % 2:
            return replace(self, found=AtRank(values[here].item(), less, int(equal[here])))
        low = values[here - 1].item() if here else self.low
        high = values[here].item() if here < len(values) else self.high
        return replace(self, inside=int(parts[at]), less=less, low=low, high=high)


def _by_stratum(spans: Sequence[_Bracket]) -> dict[int, tuple[_Span, ...]]:
    found: dict[int, tuple[_Span, ...]] = {}
    for each in spans:
        found[each.stratum] = (*found.get(each.stratum, ()), each.span)
    return found


def _read(engine: Primitives, table: Any, reading: _Reading[R]) -> dict[_Span, R] | None:
    columns = tuple(dict.fromkeys((*reading.strata.by, reading.column)))
    return engine.reduce_rows(table, columns, reading, Facts())


@dataclass(frozen=True)
class _Reading(ABC, Generic[R]):
    """Something learnt of the values in each bracket."""

    column: str
    strata: Strata
    spans: Mapping[int, tuple[_Span, ...]] = field(repr=False)

    def measure(self, block: RowBlock, facts: Facts) -> dict[_Span, Any]:
        return dict(self._measured(block))

    def _measured(self, block: RowBlock) -> Iterator[tuple[_Span, Any]]:
        values, known, _ = known_values(block.column(self.column), self.column)
        numbers = self.strata.of(block)[known]
        order = np.argsort(numbers, kind="stable") if self.strata.by else slice(None)
        values, numbers = values[known][order], numbers[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True):
            here = values[start:stop]
            for span in self.spans.get(int(numbers[start]), ()):
                _, low, high = span
                inside = here if low is None else here[here > low]
                inside = inside if high is None else inside[inside < high]
                if len(inside):
                    yield span, self.of(span, inside)

    def merge(self, left: dict[_Span, Any], right: dict[_Span, Any]) -> dict[_Span, Any]:
        both = left.keys() & right.keys()
        return left | right | {span: self.both(left[span], right[span]) for span in both}

    @abstractmethod
    def of(self, span: _Span, inside: NDArray[Any]) -> Any:
        """Of some values in a bracket."""

    @abstractmethod
    def both(self, left: Any, right: Any) -> Any:
        """Of the values of both."""


@dataclass(frozen=True)
class _Samples(_Reading[NDArray[Any]]):
    """About `share` of the values."""

    share: float = 1.0

    def of(self, span: _Span, inside: NDArray[Any]) -> NDArray[Any]:
        # Any rows will do; which, follows from the values, so that a run can be repeated.
        seed = int(inside.view(np.uint64).sum(dtype=np.uint64))
        return inside[np.random.default_rng(seed).random(len(inside)) < self.share]

    def both(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([left, right])


@dataclass(frozen=True)
class _Places(_Reading[_Counted]):
    """How many values equal each of some, and are between them."""

    cuts: Mapping[_Span, NDArray[Any]] = field(default_factory=dict, repr=False)

    def of(self, span: _Span, inside: NDArray[Any]) -> _Counted:
        cuts = self.cuts.get(span, inside[:0])
        below = np.searchsorted(cuts, inside)
        equal = np.bincount(2 * below + _is_at(cuts, below, inside), minlength=2 * len(cuts) + 1)
        return cuts, equal[1::2], equal[::2]

    def both(self, left: _Counted, right: _Counted) -> _Counted:
        return left[0], left[1] + right[1], left[2] + right[2]


def _is_at(cuts: NDArray[Any], below: Ints, values: NDArray[Any]) -> Bools:
    if not len(cuts):
        return np.zeros(len(values), np.bool_)
    return np.asarray((below < len(cuts)) & (cuts[np.minimum(below, len(cuts) - 1)] == values))


@dataclass(frozen=True)
class _Values(_Reading[_Counted]):
    """The values with their numbers."""

    def of(self, span: _Span, inside: NDArray[Any]) -> _Counted:
        values, counts = np.unique(inside, return_counts=True)
        return values, counts.astype(np.int64), np.zeros(len(values) + 1, np.int64)

    def both(self, left: _Counted, right: _Counted) -> _Counted:
        values, places = np.unique(np.concatenate([left[0], right[0]]), return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, places, np.concatenate([left[1], right[1]]))
        return values, counts, np.zeros(len(values) + 1, np.int64)


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
        """How many cuts of its stratum each record is beyond, shape (n,)."""
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
