"""Cells blanked for subsets of the keys, and for records at risk: one aim after the other, until all hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.row_reductions import weight_faults
from privpipe.errors import DataError, NoSolutionError, UnsupportedError, UsageError, did_you_mean
from privpipe.tolerance import at_most
from privpipe.transforms.base import StageContext
from privpipe.transforms.local_suppression.blank_matching import informative_blanks, strict_blank_groups
from privpipe.transforms.local_suppression.cell_blanks import BlankGroup
from privpipe.transforms.local_suppression.cell_table import CellTable, matching
from privpipe.transforms.local_suppression.suppress_cells_stage import ByRisk, Combination

__all__ = ["Parcels", "blanks_for_all", "risky_places", "subsets_of"]

MOST_SUBSETS = 5_000
"""Subsets of keys that are looked at, each in turn."""
MOST_ROUNDS = 50
MOST_TOGETHER = 10
"""Columns up to which every set of them is counted, so that one blank serves several subsets."""


@dataclass(frozen=True)
class _Risky:
    """Which classes' risk does not exceed a threshold."""

    asked: ByRisk

    def __call__(self, block: ClassBlock) -> Bools:
        from privpipe.kernels.uniqueness.frequency_models import individual_risk

        sample = block.sizes.astype(np.float64)
        if self.asked.weight is None:
            return ~np.asarray(at_most(1 / sample, self.asked.threshold), dtype=np.bool_)
        population = np.asarray(block.weights, dtype=np.float64)
        return ~np.asarray(at_most(individual_risk(sample, population), self.asked.threshold), dtype=np.bool_)


def risky_places(engine: Any, table: Any, cells: CellTable, distinct: Any, asked: ByRisk) -> Ints:
    """Places in the cell table of the combinations whose individual risk exceeds the threshold.

    A missing value is a separate value here: its class is then smaller, and its risk no less, than under wildcards.

    Parameters
    ----------
    distinct : pyarrow.Table
        The combinations of the cell table, in its order.
    """
    from privpipe.transforms.suppression.class_keys import KeysDropped

    if not len(cells):
        return np.zeros(0, np.int64)
    if asked.weight is not None and (why := weight_faults(engine, table, asked.weight)):
        raise DataError(why)
    query = ClassQuery(keys=cells.keys, weight=asked.weight)
    kept = engine.keep_classes(table, query, _Risky(asked))
    found = engine.distinct(kept, list(cells.keys))
    if not found.num_rows:
        return np.zeros(0, np.int64)
    return np.flatnonzero(KeysDropped.of(cells.keys, found).holds(distinct.select(list(cells.keys))))


class Parcels:
    """Records of combinations with what of them is blanked so far; they part where only some are blanked.

    Parameters
    ----------
    cells : CellTable
    """

    def __init__(self, cells: CellTable) -> None:
        self.cells = cells
        self.place = np.arange(len(cells))
        self.blanks = np.zeros(len(cells), np.int64)
        self.counts = cells.counts.copy()

    def blank(self, parcels: Ints, bits: int) -> None:
        """Blank cells of these parcels."""
        self.blanks[parcels] |= bits

    def cover(self, aims: Sequence[tuple[tuple[int, ...], int]]) -> None:
        """Under wildcards: give each failing combination its cheapest blanks under which all subsets hold.

        The blanks of others only add matches, so that what holds for each by itself holds for all. A set of blanks
        that empties a subset of columns is none: who is blank in all of it must be like others that are.
        """
        cells = self.cells
        masks = [(sum(1 << key for key in keys), k) for keys, k in aims]
        codes = cells.codes[self.place].copy()
        hidden = self.blanks[:, None] >> np.arange(cells.columns) & 1 == 1
        codes[:, : cells.columns][hidden] = -1
        strata = [at for at in range(cells.columns, codes.shape[1]) if at not in cells.judged]
        known: dict[int, Ints] = {}

        def alike(columns: int) -> Ints:
            if columns not in known:
                names = [at for at in range(cells.columns) if columns >> at & 1] + strata
                rows, owner = np.unique(codes[:, names], axis=0, return_inverse=True)
                counts = np.bincount(owner.ravel(), weights=self.counts, minlength=len(rows)).astype(np.int64)
                known[columns] = matching(rows, counts)[owner.ravel()]
            return known[columns]

        if not len(codes):
            return
        failing = np.flatnonzero(np.any([alike(mask) < k for mask, k in masks], axis=0)) if masks else np.zeros(0, int)
        for bits in cells.sets[0].tolist():
            if not len(failing):
                return
            if bits and all(mask & ~bits for mask, _ in masks):
                holds = np.all([alike(mask & ~bits)[failing] >= k for mask, k in masks], axis=0)
                self.blank(failing[holds], bits)
                failing = failing[~holds]

    def aim(self, keys: Sequence[int], k: int, place: str) -> bool:
        """Blank cells until each record matches k over some of the columns, within strata; whether any were.

        Raises
        ------
        NoSolutionError
            Under wildcards: records that no blanks help.
        """
        live = np.flatnonzero(self.blanks >= 0)
        sub, owner = self._over(live, keys, k)
        groups = _greedy(sub, place) if len(sub) else []
        for at, bits, records in groups:
            wide = -1 if bits < 0 else _widened(bits, keys)
            self._spend(live[owner == at], wide, records)
        return bool(groups)

    def _over(self, live: Ints, keys: Sequence[int], k: int) -> tuple[CellTable, NDArray[np.intp]]:
        """The table of these columns alone, with what is blanked, and the row of each live parcel in it."""
        cells = self.cells
        codes = cells.codes[self.place[live]].copy()
        hidden = self.blanks[live][:, None] >> np.arange(cells.columns) & 1 == 1
        codes[:, : cells.columns][hidden] = -1
        whole = len(keys) == cells.columns
        rest = range(cells.columns, codes.shape[1])
        fixed = [at for at in rest if whole or at not in cells.judged]  # the strata; what must match, for all keys
        names = [*keys, *fixed]
        distinct, owner = np.unique(codes[:, names], axis=0, return_inverse=True)
        owner = owner.ravel()
        counts = np.bincount(owner, weights=self.counts[live], minlength=len(distinct)).astype(np.int64)
        judged = tuple(at for at, name in enumerate(names) if name in cells.judged or name < cells.columns)
        sub = replace(
            cells,
            keys=tuple(cells.keys[at] for at in names),
            columns=len(keys),
            codes=distinct.reshape(-1, len(names)),
            counts=counts,
            weights=cells.weights[list(keys)],
            k=k,
            judged=judged,
            alone_at_most=cells.alone_at_most if whole else None,
        )
        return sub, owner

    def _spend(self, parcels: Ints, bits: int, records: int) -> None:
        """Blank cells of so many records of these parcels, the first ones; bits -1: the records go."""
        for at in parcels.tolist():
            if not records:
                return
            own = min(int(self.counts[at]), records)
            records -= own
            if own < self.counts[at]:
                self.counts[at] -= own
                self.place = np.append(self.place, self.place[at])
                self.blanks = np.append(self.blanks, self.blanks[at])
                self.counts = np.append(self.counts, own)
                at = len(self.place) - 1
            self.blanks[at] = -1 if bits < 0 else self.blanks[at] | bits

    def blank_groups(self) -> list[BlankGroup]:
        """What is blanked, by place in the cell table."""
        found: dict[tuple[int, int], int] = {}
        for place, blanks, count in zip(self.place.tolist(), self.blanks.tolist(), self.counts.tolist(), strict=True):
            if blanks:
                found[place, blanks] = found.get((place, blanks), 0) + count
        return [(place, blanks, count) for (place, blanks), count in sorted(found.items())]


def _greedy(sub: CellTable, place: str) -> list[BlankGroup]:
    if not sub.wildcard:
        return strict_blank_groups(sub)
    blanks, lost = informative_blanks(sub)
    if lost:
        raise NoSolutionError(
            f"{place}: {lost:,} of {sub.records:,} records match fewer than k = {sub.k} over "
            f"{', '.join(map(repr, sub.keys))} whatever is blanked; let more columns be blanked, or suppress records"
        )
    return [(at, int(blanks[at]), int(sub.counts[at])) for at in np.flatnonzero(blanks).tolist()]


def _widened(bits: int, keys: Sequence[int]) -> int:
    """Bits of a subset of the columns as bits of all."""
    return sum(1 << key for at, key in enumerate(keys) if bits >> at & 1)


def subsets_of(asked: Sequence[Combination], columns: Sequence[str], place: str) -> list[tuple[tuple[int, ...], int]]:
    """The subsets of columns, as places, each with its k; sizes stand for all subsets of so many.

    Raises
    ------
    UsageError, UnsupportedError
        More columns than there are, a column that may not be blanked, too many subsets.
    """
    found: list[tuple[tuple[int, ...], int]] = []
    for each in asked:
        if isinstance(each.columns, int):
            if each.columns > len(columns):
                raise UsageError(f"{place}: combinations of {each.columns} columns, of {len(columns)} to be blanked")
            found += [(keys, each.k) for keys in combinations(range(len(columns)), each.columns)]
        else:
            for name in each.columns:
                if name not in columns:
                    raise UsageError(f"{place}: combinations name {name!r}{did_you_mean(name, columns)}")
            found.append((tuple(sorted(columns.index(name) for name in each.columns)), each.k))
        if len(found) > MOST_SUBSETS:
            raise UnsupportedError(f"{place}: more than {MOST_SUBSETS:,} combinations of columns; name fewer")
    return found


def blanks_for_all(
    cells: CellTable,
    risky: Ints,
    bits: int,
    subsets: Sequence[tuple[tuple[int, ...], int]],
    context: StageContext,
) -> list[BlankGroup]:
    """Blanks of the records at risk, then those that all subsets ask for, and last the table's own k.

    Blanks of one subset may spoil another (a record blank in all its columns adds to no other class), so that they take
    turns until nothing more is blanked; blanks are never taken back, so this ends.
    """
    parcels = Parcels(cells)
    parcels.blank(risky, bits)
    aims = list(subsets)
    if cells.k > 1:
        aims.append((tuple(range(cells.columns)), cells.k))
    if cells.wildcard and cells.columns <= MOST_TOGETHER:
        parcels.cover(aims)
    for _ in range(MOST_ROUNDS):
        if not sum([parcels.aim(keys, k, context.place) for keys, k in aims]):
            return parcels.blank_groups()
    raise NoSolutionError(f"{context.place}: the combinations ask for more and more blanks; ask for a smaller k")
