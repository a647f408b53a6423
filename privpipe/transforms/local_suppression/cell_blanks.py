"""Blanks of combinations: named in a plan by place and columns, without a value, applied on any engine, and found
whole or in part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.draws.stream import Stream
from privpipe.errors import DataError
from privpipe.transforms.base import StageContext, keyed_digest

__all__ = ["Answer", "BlankGroup", "Blanked", "BlanksFound", "Part", "apply_blanks", "combinations_digest"]


BlankGroup = tuple[int, int, int]
"""Some records of a combination: its place, the columns they have blanked as bits (-1: suppressed), how many."""


@dataclass(frozen=True)
class Blanked:
    """Which combinations have which cells blanked.

    Parameters
    ----------
    keys : tuple of str
        Columns that make up a combination; the first `columns` of them may be blanked.
    columns : int
    blank_groups : tuple of BlankGroup
        By place in the sorted distinct table of `keys`; a combination may have several.
    digest : str
        Keyed hash over that table, whose places these are.
    """

    keys: tuple[str, ...]
    columns: int
    blank_groups: tuple[BlankGroup, ...] = field(repr=False)
    digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: places, columns as bits and records; no value."""
        return {
            "keys": list(self.keys),
            "columns": list(self.keys[: self.columns]),
            "blanks": [list(blank_group) for blank_group in self.blank_groups],
            "combinations": self.digest,
        }

    @classmethod
    def from_dict(cls, detail: Mapping[str, Any]) -> Self:
        """From a plan's detail."""
        blank_groups = tuple((int(place), int(blanks), int(records)) for place, blanks, records in detail["blanks"])
        return cls(tuple(detail["keys"]), len(detail["columns"]), blank_groups, str(detail["combinations"]))


def combinations_digest(distinct: Any, keys: Sequence[str], key: bytes = b"") -> str:
    """Keyed hash of the distinct combinations and their counts, in their order: equal tables, equal digest."""
    words = _words(distinct.select(list(keys)), keys)
    whole = hashlib.sha256(np.ascontiguousarray(words).astype("<i8").tobytes())
    whole.update(distinct["__count"].to_numpy().astype("<i8").tobytes())
    return keyed_digest(key, whole.hexdigest())


def apply_blanks(
    engine: Primitives,
    table: Any,
    blanked: Blanked,
    stream: Stream,
    context: StageContext,
    *,
    along: Mapping[str, Sequence[str]] | None = None,
) -> Any:
    """The table with the cells of these combinations blanked, and those of other columns along with them.

    Where only some records of a combination are, the first in keyed order are taken.

    Raises
    ------
    DataError
        The plan was made with another table.
    """
    if not blanked.blank_groups:
        return table
    distinct = engine.distinct(table, list(blanked.keys))
    if combinations_digest(distinct, blanked.keys, context.seed_key) != blanked.digest:
        raise DataError(f"{context.place}: the combinations are not those the plan was made with; make a new plan")
    counts = distinct["__count"].to_numpy()
    places = sorted({blank_group[0] for blank_group in blanked.blank_groups})
    words = _words(distinct.select(list(blanked.keys)).take(np.array(places)), blanked.keys)
    shares: dict[int, list[tuple[int, int]]] = {}
    for at, blanks, records in blanked.blank_groups:
        shares.setdefault(at, []).append((blanks, records))
    whole = {at: blank_groups[0][0] for at, blank_groups in shares.items() if blank_groups[0][1] == counts[at]}
    taken = {number: sum(records for _, records in shares[at]) for number, at in enumerate(places) if at not in whole}
    limits: dict[int, Any] = {}
    if taken:
        finder = _FirstRecords(blanked.keys, words, taken, stream)
        found = engine.reduce_rows(table, list(blanked.keys), finder, Facts()) or {}
        limits = {number: found[number] for number in taken}
    steps = [(limits.get(number), whole.get(at), tuple(shares[at])) for number, at in enumerate(places)]
    function = _CellsBlanked(blanked.keys, blanked.columns, words, tuple(steps), stream, dict(along or {}))
    return engine.map_rows(table, function, table.schema)


@dataclass(frozen=True)
class _FirstRecords:
    """Of some combinations, the ids of their first records in keyed order."""

    keys: tuple[str, ...]
    words: Ints = field(repr=False)
    wanted: Mapping[int, int]
    stream: Stream = field(repr=False)

    def measure(self, rows: RowBlock, facts: Facts) -> dict[int, Ints]:
        numbers = _numbers(_words(rows.batch, self.keys), self.words)
        here = np.flatnonzero(np.isin(numbers, list(self.wanted)))
        ids = rows.record_ids[here]
        found = {}
        for number in np.unique(numbers[here]).tolist():
            own = ids[numbers[here] == number]
            found[number] = own[self.stream.arrange(own)][: self.wanted[number]]
        return found

    def merge(self, left: dict[int, Any], right: dict[int, Any]) -> dict[int, Any]:
        merged = dict(left)
        for number, ids in right.items():
            both = np.concatenate([merged[number], ids]) if number in merged else ids
            merged[number] = both[self.stream.arrange(both)][: self.wanted[number]]
        return merged


@dataclass(frozen=True)
class _CellsBlanked:
    """One block with its cells blanked: a function of each record's combination and id."""

    keys: tuple[str, ...]
    columns: int
    words: Ints = field(repr=False)
    steps: tuple[Any, ...] = field(repr=False)
    stream: Stream = field(repr=False)
    along: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa
        import pyarrow.compute as pc

        blanks = self._blanks(rows)
        for at, column in enumerate(self.keys[: self.columns]):
            gone = (blanks >= 0) & (blanks >> at & 1 == 1)
            for name in (column, *self.along.get(column, ())) if gone.any() else ():
                values = rows.column(name)
                rows = rows.replace(name, pc.if_else(pa.array(gone), pa.scalar(None, values.type), values))
        return rows.take(np.flatnonzero(blanks >= 0)) if (blanks < 0).any() else rows

    def _blanks(self, rows: RowBlock) -> Ints:
        numbers = _numbers(_words(rows.batch, self.keys), self.words)
        blanks = np.zeros(len(rows), dtype=np.int64)
        alike = np.array([-2 if whole is None else whole for _, whole, _ in self.steps], dtype=np.int64)
        found = numbers >= 0
        blanks[found] = alike[numbers[found]]
        for number in np.unique(numbers[blanks == -2]).tolist():
            here = np.flatnonzero(numbers == number)
            first, _, shares = self.steps[number]
            blanks[here] = 0
            rank = _ranks(rows.record_ids[here], first)
            start = 0
            for columns, records in shares:
                blanks[here[(rank >= start) & (rank < start + records)]] = columns
                start += records
        return blanks


def _ranks(ids: Ints, first: Ints) -> Ints:
    """Place of each id among the first ones; beyond them: their number."""
    found = _numbers(ids, first)
    return np.where(found >= 0, found, len(first))


def _words(rows: Any, keys: Sequence[str]) -> Ints:
    """128 null-safe bits a combination, shape (n, 2)."""
    from privpipe.kernels.ids.record_ids import content_hash

    return content_hash(rows.select(list(keys)), Seed.public("privpipe/class keys"))


def _numbers(words: Ints, known: Ints) -> Ints:
    """Place of each pair of words among known ones; -1 where it is none of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(_binary(pa, words), value_set=_binary(pa, known)).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _binary(pa: Any, words: Ints) -> Any:
    data = pa.py_buffer(np.ascontiguousarray(words, dtype=np.int64))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, data])


@dataclass(frozen=True)
class BlanksFound:
    """Blanks, what they cost, and what is known of the least cost.

    Parameters
    ----------
    blank_groups : tuple of BlankGroup
        By place in the cell table.
    bound : float
        No blanks cost less.
    optimal : bool
        Whether the bound closed.
    status : str
        How the search ended.
    solved : int
        Integer programs that were solved.
    """

    blank_groups: tuple[BlankGroup, ...]
    bound: float = 0.0
    optimal: bool = False
    status: str = "heuristic"
    solved: int = 0


@dataclass(frozen=True)
class Answer:
    """What a program over a part of the table said: parcels of the whole table, or None where nothing better is."""

    blank_groups: list[BlankGroup] | None
    proved: bool
    by_clock: bool


class Part(Protocol):
    """Solves a part of a table with the rest as it is."""

    def __call__(self, free: Ints, blank_groups: Sequence[BlankGroup], seconds: float) -> Answer:
        """Better parcels, where only those of the free combinations may change."""
        ...
