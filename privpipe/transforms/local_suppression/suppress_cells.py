"""Local suppression: the stage with the search that plans it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks import Primitives
from privpipe.errors import NoSolutionError, UsageError, did_you_mean
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.local_suppression.blank_matching import informative_blanks, strict_blank_groups
from privpipe.transforms.local_suppression.cell_blanks import Blanked, BlankGroup, BlanksFound
from privpipe.transforms.local_suppression.cell_table import CellTable, read_cells
from privpipe.transforms.local_suppression.integer_programs import improved
from privpipe.transforms.local_suppression.subsets import blanks_for_all, risky_places, subsets_of
from privpipe.transforms.local_suppression.suppress_cells_stage import SuppressCellsStage
from privpipe.transforms.suppression.record_suppression import require_within

__all__ = ["SuppressCells", "blanked_of", "cell_figures", "greedy_cells", "plan"]


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
        is asked for only where it is given, or a guarantee asks for it.
    by_risk : ByRisk, optional
        Records whose individual risk (of `individual_risk`; one over the records alike without a weight) exceeds a
        threshold have some columns blanked, before anything else. A missing value is a separate value there.
    alone_at_most : float
        Under `nulls: wildcard`, largest share of the records that may stay complete and equal no other complete
        record, hidden by the blanks of others alone; in [0, 1]. A guarantee that asks for less decides. 1 sets no
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
