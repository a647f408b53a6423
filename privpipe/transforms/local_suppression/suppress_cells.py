"""Local suppression: the stage with the search that plans it, for one aim after the other: subsets, records at risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery, Primitives
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.row_reductions import weight_faults
from privpipe.errors import DataError, NoSolutionError, UnsupportedError, UsageError, did_you_mean
from privpipe.tolerance import at_most
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.local_suppression.blank_matching import informative_blanks, strict_blank_groups
from privpipe.transforms.local_suppression.cell_table import CellTable, matching, read_cells
from privpipe.transforms.local_suppression.integer_programs import improved
from privpipe.transforms.local_suppression.suppress_cells_stage import (
    Blanked,
    BlankGroup,
    BlanksFound,
    ByRisk,
    Combination,
    SuppressCellsStage,
)
from privpipe.transforms.suppression.record_suppression import require_within

__all__ = [
    "Parcels",
    "SuppressCells",
    "blanked_of",
    "blanks_for_all",
    "cell_figures",
    "greedy_cells",
    "plan",
    "risky_places",
    "subsets_of",
]


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
    from privpipe.transforms.suppression.class_failures import KeysDropped

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
    """Records of combinations with their blanks so far; they are split where only some are blanked.

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
        that empties a subset of columns is excluded: a record blank in all of it must match others that are.
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
        """The table of only these columns, with blanks, and the row of each live parcel in it."""
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
        """Blank cells of the first records of these parcels, up to a number; bits -1: the records are removed."""
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
    """The subsets of columns, as places, each with its k; a size represents all subsets of that size.

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


def plan(engine: Any, table: Any, stage: SuppressCellsStage, context: StageContext) -> StagePlan:
    """Choose which cells to blank.

    Raises
    ------
    NoSolutionError
        Fewer than k records agree in the columns that must match, or more records than the budget must go.
    """
    cells = read_cells(engine, table, stage, context)
    if not cells.records:
        raise NoSolutionError(f"{context.place}: no record is left to suppress anything of")
    extra: dict[str, Any] = {}
    if stage.combinations or stage.by_risk is not None:
        groups, extra = _for_all(engine, table, stage, cells, context)
        found = BlanksFound(tuple(groups))
    else:
        found = BlanksFound(tuple(greedy_cells(cells, context)))
    if stage.method == "optimal":
        found = improved(cells, found, stage.budget)
    suppressed = sum(records for _, blanks, records in found.blank_groups if blanks < 0)
    require_within(suppressed, stage.suppress_at_most, cells.records, context)
    return StagePlan(
        name=stage.name(),
        parameters=stage.stated_parameters(),
        detail={**blanked_of(cells, found.blank_groups).to_dict(), **cell_figures(cells, found), **extra},
    )


def _for_all(
    engine: Any, table: Any, stage: SuppressCellsStage, cells: CellTable, context: StageContext
) -> tuple[list[BlankGroup], dict[str, Any]]:
    """Blanks for records at risk and for subsets of the columns, and what the plan reports about them."""
    columns = cells.keys[: cells.columns]
    subsets = subsets_of(stage.combinations, columns, context.place)
    risky, bits = np.zeros(0, np.int64), 0
    extra: dict[str, Any] = {"combinations_of_columns": len(subsets)} if subsets else {}
    if stage.by_risk is not None:
        asked = stage.by_risk
        if strange := next((name for name in asked.columns if name not in columns), None):
            raise UsageError(f"{context.place}: by_risk names {strange!r}{did_you_mean(strange, columns)}")
        if asked.weight is not None and asked.weight not in context.schema.names:
            raise UsageError(
                f"{context.place}: by_risk names {asked.weight!r}{did_you_mean(asked.weight, context.schema.names)}"
            )
        risky = risky_places(engine, table, cells, engine.distinct(table, list(cells.keys)), asked)
        bits = sum(1 << columns.index(name) for name in asked.columns)
        extra["records_at_risk"] = int(cells.counts[risky].sum())
    return blanks_for_all(cells, risky, bits, subsets, context), extra


def greedy_cells(table: CellTable, context: StageContext) -> list[BlankGroup]:
    """Blanks by the greedy method of either reading.

    Raises
    ------
    NoSolutionError
        Under wildcards: records that no blanks help.
    """
    if not len(table):
        return []
    if not table.wildcard:
        return strict_blank_groups(table)
    blanks, lost = informative_blanks(table)
    if lost:
        raise NoSolutionError(
            f"{context.place}: {lost:,} of {table.records:,} records match fewer than k = {table.k} whatever is "
            "blanked; let more columns be blanked, make strata coarser, or suppress records"
        )
    return [(at, int(blanks[at]), int(table.counts[at])) for at in np.flatnonzero(blanks).tolist()]


def blanked_of(table: CellTable, blank_groups: Sequence[BlankGroup]) -> Blanked:
    """The blanks by place in the engine's distinct table, as a plan names them."""
    places = tuple((int(at), blanks, records) for at, blanks, records in blank_groups)
    return Blanked(table.keys, table.columns, places, table.digest)


def cell_figures(table: CellTable, found: BlanksFound) -> dict[str, Any]:
    """What a plan contains of its blanks, in counts."""
    blanks = table.blanked_cells(found.blank_groups)
    return {
        "reading": "wildcard" if table.wildcard else "own_value",
        "k": table.k,
        "records": table.records,
        "tuples": len(table),
        "failing_before": table.failing(()),
        "failing_after": table.failing(found.blank_groups),
        "blanked_cells": int(blanks.sum()),
        "blanked_by_column": dict(zip(table.keys[: table.columns], blanks.tolist(), strict=True)),
        "loss": table.cost(found.blank_groups),
        "lower_bound": found.bound,
        "optimal": found.optimal,
        "status": found.status,
        "programs_solved": found.solved,
    }


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressCells(SuppressCellsStage):
    """Blank single cells until every record matches at least k records, itself included.

    A blank is a missing value. Under the policy's `nulls: wildcard` it matches anything, on either side; otherwise
    it is a separate value, and the records of each class agree in their blanks too, which is stricter: what holds
    so holds under wildcards as well. The plan shows how many records fail under each reading.

    Parameters
    ----------
    columns : tuple of str, optional
        Columns whose cells may be blanked, at most 20; default: all quasi-identifiers. Others stay and must match.
    k : int, optional
        Default: the largest least class size among the guarantees; a `k` given here may only be stricter.
    method : {"greedy", "optimal"}
        optimal starts from greedy and solves small problems exactly; the plan says `optimal: true` only where the
        bound closed. It minimises what is asked: under wildcards a few records that show one column match many, as
        far as `alone_at_most` allows; greedy blanks no combination beyond what it needs by itself.
    weights : mapping of column to float
        Cost of a blank, above 0; 1 where a column is not named.
    order : tuple of str, optional
        Instead of weights: all columns, first the one to be kept longest.
    by : tuple of str
        Strata: columns whose values part the table; each stratum meets k by itself.
    combinations : tuple of Combination
        Subsets of the columns with a separate `k`: all of a size, or one that is named. Then `k` over all columns
        is required only where it is given, or a guarantee requires it.
    by_risk : ByRisk, optional
        Records whose individual risk (of `individual_risk`; one over the records alike without a weight) exceeds a
        threshold have some columns blanked, before anything else. A missing value is a separate value there.
    alone_at_most : float
        Under `nulls: wildcard`, largest share of the records that may stay complete and equal no other complete
        record, hidden by the blanks of others alone; in [0, 1]. A guarantee that requires less decides. 1 sets no
        limit.
    along : mapping of column to tuple of str
        Columns outside the keys that are blanked wherever the stage blanks a cell; in a policy also `with`.
    suppress_at_most : float
        Share of the records that may be suppressed where no blanks help; own_value only.
    budget : CellBudget

    Notes
    -----
    A text that the policy's `wildcard:` names is a value to this stage, so that it may blank more than it must.
    The stage does not aim at guarantees on sensitive values: the release is judged by them afterwards. Blanks show
    that a record was rare (minimality).

    Examples
    --------
    >>> SuppressCells(k=3, weights={"age": 2.0}, method="optimal")
    SuppressCells(k=3, method='optimal', weights={'age': 2.0})
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)
