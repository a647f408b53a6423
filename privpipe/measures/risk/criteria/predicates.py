"""Predicates of an intruder who sees only the release: columns of three tables as codes, parts of predicates over
them, and keyed draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.hierarchies import canonical_text
from privpipe.kernels.linkage.criteria import CodedColumn, Parts, matches
from privpipe.measures.risk.linkage.linkable_files import coded_texts
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.blocks import FilePair
    from privpipe.draws import Stream

__all__ = [
    "MOST_PREDICATES",
    "Coded",
    "Predicates",
    "ReleasedColumn",
    "all_predicates",
    "coded",
    "drawn_predicates",
    "joined_parts",
    "random_predicates",
    "single_values",
]


@dataclass(frozen=True)
class ReleasedColumn:
    """The distinct released values of a column, in an order that depends only on the values.

    Parameters
    ----------
    values : ndarray of int64, shape (v,)
        The code of each, as parts name it; -1 for a missing number.
    place : ndarray of int64, shape (n',)
        Which of them each row has.
    counts : ndarray of int64, shape (v,)
    upper : ndarray of bool, shape (v,)
        Numbers above the median.
    largest : int
        The largest code of a number; -1 where the column is none.
    missing : int
        Place of the missing value among the distinct ones; -1 where none is missing.
    """

    values: Ints = field(repr=False)
    place: Ints = field(repr=False)
    counts: Ints = field(repr=False)
    upper: Bools = field(repr=False)
    largest: int = -1
    missing: int = -1

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers or dates."""
        return self.largest >= 0

    def ends(self) -> tuple[Ints, Ints]:
        """For each value the part that a row with it gives: from it on, up to it, or only it."""
        if not self.numeric:
            return self.values, self.values
        known = self.values >= 0
        low = np.where(known & ~self.upper, 0, self.values)
        high = np.where(known & self.upper, self.largest, self.values)
        return low, high


@dataclass(frozen=True)
class Coded:
    """Three tables by the same columns."""

    released: tuple[ReleasedColumn, ...]
    tables: tuple[list[CodedColumn], list[CodedColumn], list[CodedColumn]] = field(repr=False)

    @property
    def offsets(self) -> Ints:
        """Where the parts of each column begin."""
        return np.cumsum([0, *(len(column.values) for column in self.released)])[:-1].astype(np.int64)


def coded(pair: FilePair, originals: int, columns: Sequence[str], owner: str) -> Coded:
    """The columns of original, release and holdout; `pair` holds the holdout behind the original.

    Raises
    ------
    DataError
        An infinite number.
    """
    released: list[ReleasedColumn] = []
    tables: tuple[list[CodedColumn], list[CodedColumn], list[CodedColumn]] = ([], [], [])
    for name in columns:
        found = pair.finite_numbers(name, owner)
        column, own, shown, covered = _texts(pair, name) if found is None else _numbers(*found)
        released.append(column)
        tables[0].append(CodedColumn(own[:originals], covered))
        tables[1].append(CodedColumn(shown))
        tables[2].append(CodedColumn(own[originals:], covered))
    return Coded(tuple(released), tables)


def joined_parts(released: Sequence[ReleasedColumn]) -> Parts:
    """The parts that rows give, column after column, a part for each distinct value."""
    ends = [column.ends() for column in released]
    return Parts(
        np.repeat(np.arange(len(released)), [len(column.values) for column in released]),
        np.concatenate([low for low, _ in ends]),
        np.concatenate([high for _, high in ends]),
    )


Found = tuple[ReleasedColumn, Ints, Ints, Bools | None]


def _numbers(own: Floats, shown: Floats) -> Found:
    values = np.unique(np.concatenate([own, shown]))
    values = values[~np.isnan(values)]
    codes = [np.where(np.isnan(side), -1, np.searchsorted(values, side)).astype(np.int64) for side in (own, shown)]
    distinct, place, counts = np.unique(codes[1], return_inverse=True, return_counts=True)
    known = shown[~np.isnan(shown)]
    upper = np.zeros(len(distinct), dtype=np.bool_)
    if len(known):
        upper = (distinct >= 0) & (values[np.maximum(distinct, 0)] > np.median(known))
    missing = 0 if len(distinct) and distinct[0] < 0 else -1
    column = ReleasedColumn(distinct, place.reshape(-1).astype(np.int64), counts, upper, len(values) - 1, missing)
    return column, codes[0], codes[1], None


def _texts(pair: FilePair, name: str) -> Found:
    own, shown, mismatch = coded_texts(pair, name)
    codes, first, place, counts = np.unique(shown, return_index=True, return_inverse=True, return_counts=True)
    column = pair.released.column(name)
    texts = canonical_text(column.take(first.tolist()), column_type_of(column.type), column=name).to_pylist()
    order = np.array(sorted(range(len(codes)), key=lambda at: (texts[at] is None, texts[at] or "")), dtype=np.int64)
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes))
    found = ReleasedColumn(
        codes[order].astype(np.int64),
        ranks[place.reshape(-1)],
        counts[order],
        np.zeros(len(codes), dtype=np.bool_),
        missing=int(ranks[texts.index(None)]) if None in texts else -1,
    )
    return found, own, shown, None if mismatch is None else ~mismatch


MOST_PREDICATES = 5_000_000
TRIES = 50
"""Predicates tried for each that is wanted."""
BATCH = 2_000
OPERATORS = 6
"""Equal, unequal; of numbers also below, at most, above, at least."""


@dataclass(frozen=True)
class Predicates:
    """Predicates that match one row of the release each, and how many were tried.

    Parameters
    ----------
    parts : Parts
    kept : ndarray of int64, shape (m, size)
        Parts of each.
    tried : int
    """

    parts: Parts = field(repr=False)
    kept: Ints = field(repr=False)
    tried: int


def drawn_predicates(coded: Coded, size: int, attacks: int, ids: Ints, stream: Stream) -> Predicates:
    """Conjunctions of the values of rows in some columns, row after row in keyed order, until enough isolate.

    Parameters
    ----------
    ids : ndarray of int64, shape (n', 2)
        Of the released rows.
    """
    parts, seen, tried = joined_parts(coded.released), set[bytes](), 0
    kept: list[Ints] = []
    for batch in _batches(coded, size, ids, stream, TRIES * attacks):
        fresh = []
        for at, row in enumerate(batch):
            key = row.tobytes()
            if key not in seen:
                seen.add(key)
                fresh.append(at)
        alone = np.array(fresh, dtype=np.int64)[_isolating(batch[fresh], parts, coded)] if fresh else np.zeros(0, int)
        wanted = attacks - len(kept)
        if len(alone) >= wanted:
            kept += list(batch[alone[:wanted]])
            tried += int(alone[wanted - 1]) + 1
            break
        kept += list(batch[alone])
        tried += len(batch)
    found = np.stack(kept) if kept else np.zeros((0, size), dtype=np.int64)
    return Predicates(parts, found, tried)


def all_predicates(coded: Coded, size: int) -> Predicates | None:
    """Every distinct conjunction over every set of columns; None where they are too many."""
    parts, offsets = joined_parts(coded.released), coded.offsets
    if math.comb(len(coded.released), size) > MOST_PREDICATES:
        return None
    found, tried = [], 0
    for columns in itertools.combinations(range(len(coded.released)), size):
        rows = np.column_stack([coded.released[at].place + offsets[at] for at in columns])
        distinct = rows[_first_of_each(rows)]
        tried += len(distinct)
        if tried > MOST_PREDICATES:
            return None
        found.append(distinct[_isolating(distinct, parts, coded)])
    return Predicates(parts, np.concatenate(found), tried)


def single_values(coded: Coded, attacks: int | None, stream: Stream) -> Predicates:
    """Of each column the only missing value, the least and the greatest number, and each value that occurs once."""
    column, low, high, key = [], [], [], []
    for at, shown in enumerate(coded.released):
        found: list[tuple[int, int, int]] = []
        missing = shown.missing
        if missing >= 0 and shown.counts[missing] == 1:
            code = int(shown.values[missing])
            found.append((code, code, 0))
        known = shown.values[shown.values >= 0]
        if shown.numeric and len(known):
            found += [(0, int(known[0]), 1), (int(known[-1]), shown.largest, 2)]
        once = np.flatnonzero(shown.counts == 1)
        found += [(int(shown.values[v]), int(shown.values[v]), 3 + int(v)) for v in once if v != missing]
        for first, last, word in found:
            column.append(at)
            low.append(first)
            high.append(last)
            key.append((at, word))
    parts = Parts(np.array(column, np.int64), np.array(low, np.int64), np.array(high, np.int64))
    every = np.arange(len(column), dtype=np.int64)[:, None]
    alone = np.flatnonzero(_isolating(every, parts, coded)) if len(every) else np.zeros(0, dtype=np.int64)
    if attacks is not None and len(alone) > attacks:
        alone = alone[stream.arrange(np.array(key, dtype=np.int64)[alone])[:attacks]]
    return Predicates(parts, every[alone], len(column))


def random_predicates(coded: Coded, size: int, count: int, stream: Stream) -> Predicates:
    """As many conjunctions of random columns, operators and released values."""
    drawn = stream.child("naive")
    numbers = np.arange(count, dtype=np.int64)
    width = len(coded.released)
    words = np.stack([drawn.words(np.column_stack([numbers, np.full(count, at)])) for at in range(width)], axis=1)
    chosen = np.argsort(words, axis=1, kind="stable")[:, :size]
    parts: list[tuple[int, int, int, bool]] = []
    for at in range(size):
        ids = np.column_stack([numbers, np.full(count, width + at)])
        shares = drawn.uniform(ids), drawn.uniform(ids, 1)
        for row in range(count):
            parts.append(_random_part(coded, int(chosen[row, at]), float(shares[0][row]), float(shares[1][row])))
    column, low, high, negated = (np.array(each) for each in zip(*parts, strict=True))
    places = np.arange(size * count, dtype=np.int64).reshape(size, count).T
    return Predicates(Parts(column, low, high, negated), np.ascontiguousarray(places), count)


def _random_part(coded: Coded, at: int, first: float, second: float) -> tuple[int, int, int, bool]:
    shown = coded.released[at]
    code = int(shown.values[int(first * len(shown.values))])
    way = int(second * (OPERATORS if shown.numeric else 2))
    if way < 2:
        return at, code, code, way == 1
    if code < 0:
        return at, 1, 0, False  # no comparison holds for a missing value
    low, high = ((0, code - 1), (0, code), (code + 1, shown.largest), (code, shown.largest))[way - 2]
    return at, low, high, False


def _batches(coded: Coded, size: int, ids: Ints, stream: Stream, most: int) -> Iterator[Ints]:
    """Predicates of rows in keyed order, again from the start when all are used, `most` altogether."""
    width, offsets = len(coded.released), coded.offsets
    order = stream.arrange(ids)
    places = [column.place for column in coded.released]
    done = 0
    for around in itertools.count():
        for start in range(0, len(order), BATCH):
            rows = order[start : start + min(BATCH, most - done)]
            words = np.stack([stream.words(ids[rows], around * width + at) for at in range(width)], axis=1)
            columns = np.sort(np.argsort(words, axis=1, kind="stable")[:, :size], axis=1)
            stacked = np.stack([places[at][rows] + offsets[at] for at in range(width)], axis=1)
            yield np.ascontiguousarray(np.take_along_axis(stacked, columns, axis=1))
            done += len(rows)
            if done >= most:
                return


def _isolating(predicates: Ints, parts: Parts, coded: Coded) -> Bools:
    counts, _ = matches(predicates, parts, coded.tables[1])
    return np.asarray(counts == 1)


def _first_of_each(rows: Ints) -> Ints:
    """Places of the first row of each distinct one."""
    key = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        values, places = np.unique(column, return_inverse=True)
        key = np.unique(key * len(values) + places.reshape(-1), return_inverse=True)[1].reshape(-1).astype(np.int64)
    return np.unique(key, return_index=True)[1].astype(np.int64)
