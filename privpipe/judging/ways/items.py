"""Judge sets of items: what a person bought, read or was treated for, of which an attacker knows some."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from privpipe.blocks import Facts, Guarantee, RowBlock, Tally, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.way import ITEMS
from privpipe.errors import DataError, UnsupportedError
from privpipe.judging.assessment import all_suppressed
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.judged_table import JudgedTable, require_columns
from privpipe.judging.rules import JudgingRules
from privpipe.judging.ways import WayOfJudging
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.judging.counted_classes import JudgingContext

__all__ = ["MOST_COMBINATIONS", "ByItems", "OverItems"]

MOST_COMBINATIONS = 1 << 25
"""Combinations of items, each record's counted, that are hashed at most."""


@runtime_checkable
class OverItems(Protocol):
    """A guarantee that reads a set-valued column."""

    items: str | None
    separator: str | None
    m: int
    k: int | None

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        """The verdict over the combinations of up to `m` items: the least support, and how many fail."""


class ByItems(WayOfJudging):
    """Combinations of items that an attacker knows; suppressed records are left out."""

    way = ITEMS

    def verdicts(self, entries: Mapping[int, Guarantee], context: JudgingContext) -> dict[int, Verdict]:
        counted = _CountedItems(context.judged_table)
        return {at: _verdict(counted, entry, context.rules) for at, entry in entries.items()}

    def refused_under_wildcard(self, entry: Guarantee) -> str:
        if not super().refused_under_wildcard(entry):
            return ""
        return f"{entry.name()} of items has no meaning under `nulls: wildcard`: a set of items has no unknown cells"

    def columns_used_by(self, entry: Guarantee, quasi_identifiers: Sequence[str]) -> tuple[str, ...]:
        return (str(entry.items),) if isinstance(entry, OverItems) else ()


@dataclass(frozen=True)
class _Column:
    """A set-valued column."""

    name: str
    separator: str | None


@dataclass(frozen=True)
class _Lengths:
    """How many records have how many items."""

    column: _Column

    def measure(self, rows: RowBlock, facts: Facts) -> Counter[int]:
        from privpipe.kernels.classes.item_sets import baskets_of

        baskets = baskets_of(rows.column(self.column.name), self.column.separator)
        lengths, records = np.unique(baskets.lengths, return_counts=True)
        return Counter(dict(zip(lengths.tolist(), records.tolist(), strict=True)))

    def merge(self, left: Counter[int], right: Counter[int]) -> Counter[int]:
        return left + right


@dataclass(frozen=True)
class _Supports:
    """Combinations with the records that hold them."""

    column: _Column
    most: int
    shorter: tuple[int, ...]

    def measure(self, rows: RowBlock, facts: Facts) -> Any:
        from privpipe.kernels.classes.item_sets import baskets_of, supports_of

        baskets = baskets_of(rows.column(self.column.name), self.column.separator)
        return supports_of(baskets, self.most, self.shorter)

    def merge(self, left: Any, right: Any) -> Any:
        from privpipe.kernels.classes.item_sets import merged_supports

        return merged_supports(left, right)


class _CountedItems:
    """What was counted of a table's set-valued columns: once, however many entries ask for it."""

    def __init__(self, judged_table: JudgedTable) -> None:
        self._judged_table, self.table = judged_table, judged_table.table
        self._lengths: dict[_Column, Counter[int]] = {}
        self._counts: dict[_Supports, Ints] = {}

    def lengths(self, column: _Column) -> Counter[int]:
        """How many records have how many items, suppressed ones left out.

        Raises
        ------
        DataError
            The table has no records.
        """
        if column not in self._lengths:
            found = self._judged_table.engine.reduce_rows(
                self._judged_table.left, [column.name], _Lengths(column), Facts()
            )
            if not found and not self._judged_table.suppressed:
                raise DataError(NO_RECORDS)
            self._lengths[column] = found or Counter()
        return self._lengths[column]

    def supports(self, counting: _Supports) -> Ints:
        """Records that hold each requested combination."""
        if counting not in self._counts:
            found = self._judged_table.engine.reduce_rows(
                self._judged_table.left, [counting.column.name], counting, Facts()
            )
            self._counts[counting] = np.zeros(0, np.int64) if found is None else found.counts[found.asked]
        return self._counts[counting]


def _verdict(counted: _CountedItems, entry: Guarantee, rules: JudgingRules) -> Verdict:
    """The verdict over a set-valued column.

    Lengths are counted first, so that the cost is known before any combination is hashed.

    Raises
    ------
    DataError
        The column is missing or no text; the table has no records.
    UnsupportedError
        More combinations than are hashed.
    """
    if not isinstance(entry, OverItems):
        raise TypeError(f"{entry.name()} reads no items")
    column = _column(counted.table, entry)
    lengths = counted.lengths(column)
    records = sum(lengths.values())
    if not records:
        return all_suppressed(entry, allowed=rules.allow_empty)
    shorter = tuple(sorted(length for length in lengths if 0 < length < entry.m))
    _require_few(lengths, entry, shorter)
    counts = counted.supports(_Supports(column, entry.m, shorter))
    failing = 0 if entry.k is None else int((counts < entry.k).sum())
    tally = Tally(
        observed=int(counts.min()) if len(counts) else None,
        failing_classes=failing,
        classes=len(counts),
        records=records,
    )
    return entry.judge(tally, Facts(records=records))


def _column(table: Any, entry: OverItems) -> _Column:
    name = str(entry.items)
    require_columns(table.schema.names, [name])
    kind = column_type_of(table.schema.field(name).type)
    if kind != "text" or str(table.schema.field(name).type) == "binary":
        raise DataError(
            f"km_anonymity: column {name!r} holds no sets of items but the type {kind}; give a list of texts, or a "
            "text with a separator between the items"
        )
    return _Column(name, entry.separator)


def _require_few(lengths: Counter[int], entry: OverItems, shorter: tuple[int, ...]) -> None:
    sizes = {entry.m, *shorter}
    total = sum(records * math.comb(length, size) for length, records in lengths.items() for size in sizes)
    if total > MOST_COMBINATIONS:
        raise UnsupportedError(
            f"km_anonymity: the records have {total:,} combinations of up to {entry.m:,} items of {entry.items!r}, "
            f"{MOST_COMBINATIONS:,} are counted at most; lower m, or keep fewer items a record"
        )
