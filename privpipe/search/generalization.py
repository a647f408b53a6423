"""Planner of the stage `generalize`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from privpipe.errors import NoSolutionError, UsageError
from privpipe.search.encoded import EncodedTable, encode
from privpipe.search.loss import LossModel
from privpipe.search.node import CheckedNode, NodeCheck
from privpipe.search.optimal import Found, search_optimal
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.generalize import Generalize

__all__ = ["plan"]


def plan(engine: Any, table: Any, stage: Generalize, context: StageContext) -> StagePlan:
    """Choose (or take) the vector of levels and say what it costs.

    Raises
    ------
    NoSolutionError
        No vector of levels meets the guarantees within the budget; says what the coarsest would need.
    """
    encoded = encode(engine, table, stage, context)
    loss = LossModel(encoded, stage.loss)
    check = NodeCheck(encoded, context, loss)
    if not stage.is_search:
        node = check(_given_levels(stage, encoded, context))
        value, columns = loss.exact(node.levels, node.rows)
        return _plan(stage, encoded, node, {"loss": value, "column_losses": _by_column(encoded, columns)})
    if not context.guarantees:
        raise UsageError(f"{context.place}: a search needs a guarantee to work for")
    budget = floor_share(stage.suppress_at_most or 0.0, encoded.records)
    found, checked = search_optimal(check, budget, stage.budget.nodes)
    if found is None:
        raise NoSolutionError(_unattainable(check, encoded, context, budget, checked, stage.budget.nodes))
    return _plan(stage, encoded, found.node, _searched(found, encoded, budget))


def _given_levels(stage: Generalize, encoded: EncodedTable, context: StageContext) -> tuple[int, ...]:
    levels = stage.levels or {}
    for column, hierarchy in zip(encoded.columns, encoded.hierarchies, strict=True):
        if levels.get(column, 0) > hierarchy.height:
            raise UsageError(
                f"{context.place}: level {levels[column]} of {column!r} is above its hierarchy, whose last level is "
                f"{hierarchy.height}"
            )
    return tuple(levels.get(column, 0) for column in encoded.columns)


def _searched(found: Found, encoded: EncodedTable, budget: int) -> dict[str, Any]:
    return {
        "loss": found.loss,
        "column_losses": _by_column(encoded, found.column_losses),
        "optimal": found.optimal,
        "gap": found.gap,
        "nodes": len(encoded.nodes()),
        "nodes_checked": found.checked,
        "pruned_by_bound": found.pruned_by_bound,
        "pruned_as_infeasible": found.pruned_as_infeasible,
        "budget": budget,
    }


def _by_column(encoded: EncodedTable, losses: list[float]) -> dict[str, float]:
    return dict(zip(encoded.columns, losses, strict=True))


def _plan(stage: Generalize, encoded: EncodedTable, node: CheckedNode, extra: dict[str, Any]) -> StagePlan:
    hierarchies = dict(zip(encoded.columns, encoded.hierarchies, strict=True))
    return StagePlan(
        name=stage.name(),
        parameters={**stage.parameters(), "loss": asdict(stage.loss), "budget": asdict(stage.budget)},
        detail={
            "levels": dict(zip(encoded.columns, node.levels, strict=True)),
            "level_names": {
                column: hierarchy.level_names[level]
                for (column, hierarchy), level in zip(hierarchies.items(), node.levels, strict=True)
            },
            "hierarchies": {column: hierarchy.digest() for column, hierarchy in hierarchies.items()},
            "data_dependent": [column for column, hierarchy in hierarchies.items() if hierarchy.data_dependent],
            "records": encoded.records,
            "tuples": len(encoded.counts),
            "classes": node.classes,
            "records_without_information": node.uninformative,
            **extra,
        },
    )


def _unattainable(
    check: NodeCheck, encoded: EncodedTable, context: StageContext, budget: int, checked: int, node_limit: int
) -> str:
    if checked >= node_limit and checked < len(encoded.nodes()):
        return f"{context.place}: not found within {node_limit:,} nodes; raise budget.nodes (it may still exist)"
    top = check(tuple(hierarchy.max_level for hierarchy in encoded.hierarchies))
    asked = ", ".join(repr(guarantee) for guarantee in context.guarantees)
    if top.suppressed < 0:
        return f"{context.place}: {asked} cannot be met by this table at any level, whatever is suppressed"
    share = top.suppressed / encoded.records
    return (
        f"{context.place}: no levels meet {asked} with at most {budget:,} of {encoded.records:,} records suppressed; "
        f"at the coarsest levels {top.suppressed:,} must go: suppress_at_most >= {share:.6g} would do"
    )
