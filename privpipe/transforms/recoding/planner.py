"""Planner of the stage `generalize`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privpipe.errors import NoSolutionError, UsageError
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.recoding.approaches import approach_of
from privpipe.transforms.recoding.encoded import EncodedTable, encode
from privpipe.transforms.recoding.given import given_levels, levels_detail, needs_combinations, plan_given
from privpipe.transforms.recoding.loss import LossSpec
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck
from privpipe.transforms.recoding.quality import searched_quality
from privpipe.transforms.recoding.stage import GeneralizeStage
from privpipe.transforms.recoding.strategies import Outcome, searched
from privpipe.transforms.suppression.budget import budget_of, least_share, require_within
from privpipe.transforms.suppression.class_failures import require_sample
from privpipe.transforms.suppression.judged_sets import require_attainable

__all__ = ["plan"]


def plan(engine: Any, table: Any, stage: GeneralizeStage, context: StageContext) -> StagePlan:
    """Choose (or take) the vector of levels and say what it costs.

    Raises
    ------
    NoSolutionError
        No vector of levels meets the guarantees within the budget, or the given one does not; says what would do.
    """
    if stage.approach == "AG_CS":
        return _with_cells(engine, table, stage, context)
    if stage.approach == "_TS":
        raw = replace(stage, approach=None, search=None, levels={}, suppress_at_most=stage.limit)
        made = plan(engine, table, raw, context)
        return replace(made, parameters=stage.stated_parameters(), detail={**made.detail, "approach": stage.approach})
    stage = _by_approach(stage, context)
    if stage.limit is None:
        # Nothing is suppressed, so nothing is judged here: the release is.
        context = replace(context, guarantees=())
    if not stage.is_search and not needs_combinations(stage, context):
        return plan_given(engine, table, stage, context)
    encoded = encode(engine, table, stage, context)
    check = NodeCheck(encoded, context, searched_quality(encoded, stage, context))
    _require_sample(encoded, check, stage, context)
    if not stage.is_search:
        return _given(stage, encoded, check, context)
    if not check.sets.keys:
        raise UsageError(f"{context.place}: a search needs a guarantee over classes to work for")
    require_attainable(context, encoded.records)
    budget = budget_of(stage.limit or 0.0, encoded.records, context)
    outcome = searched(stage, check, budget, context.place)
    if outcome.found is None:
        raise NoSolutionError(_unattainable(check, encoded, context, budget, outcome, stage))
    found = outcome.found
    figures = {"loss": _figure(found.loss), "column_losses": _by_column(encoded, found.column_losses)}
    search = {**outcome.describe(stage, encoded.columns), "budget": budget}
    return _plan(stage, encoded, check, found.node, {**figures, **search})


def _with_cells(engine: Any, table: Any, stage: GeneralizeStage, context: StageContext) -> StagePlan:
    """Levels, and blanks in place of suppressed records."""
    from privpipe.transforms.recoding import attribute_cells

    detail = attribute_cells.plan(engine, table, stage, context)
    return StagePlan(name=stage.name(), parameters=stage.stated_parameters(), detail=detail)


def _by_approach(stage: GeneralizeStage, context: StageContext) -> GeneralizeStage:
    """The stage once the short form of its approach is written out."""
    if stage.approach is None:
        return stage
    options = approach_of(stage.approach, stage.name(), context.place).options
    if stage.approach == "_AS" and replace(stage.loss, weights={}) == LossSpec():
        # The fewest columns go, or the lightest.
        cheapest = LossSpec(name="precision_monotonic", aggregate="sum", weights=stage.loss.weights)
        return replace(stage, **options, loss=cheapest)
    return replace(stage, **options)


def _require_sample(encoded: EncodedTable, check: NodeCheck, stage: GeneralizeStage, context: StageContext) -> None:
    """A population must hold every record, seen at the given levels, or the finest a search may choose."""
    finest = tuple(hierarchy.min_level for hierarchy in encoded.hierarchies)
    levels = finest if stage.is_search else _given_levels(stage, encoded, context)
    classes = {keys: encoded.classes(keys, levels, compared=True) for keys in check.sets.compared}
    require_sample(check.sets, encoded.rows, classes)


def _given(stage: GeneralizeStage, encoded: EncodedTable, check: NodeCheck, context: StageContext) -> StagePlan:
    """The plan of levels that the policy gives; classes are suppressed only if it says so."""
    node = check(_given_levels(stage, encoded, context))
    if node.suppressed < 0:
        raise NoSolutionError(f"{context.place}: at these levels every record would have to be suppressed")
    if stage.limit is not None:
        require_within(node.suppressed, stage.limit, encoded.records, context)
    loss, columns = check.loss.exact(node.levels, node.rows)
    return _plan(stage, encoded, check, node, {"loss": _figure(loss), "column_losses": _by_column(encoded, columns)})


def _given_levels(stage: GeneralizeStage, encoded: EncodedTable, context: StageContext) -> tuple[int, ...]:
    return tuple(given_levels(stage, dict(zip(encoded.columns, encoded.hierarchies, strict=True)), context).values())


def _figure(loss: tuple[float, ...]) -> float | list[float]:
    return loss[0] if len(loss) == 1 else list(loss)


def _by_column(encoded: EncodedTable, losses: list[float]) -> dict[str, float]:
    # Models of whole classes have no figure a column.
    return dict(zip(encoded.columns, losses, strict=True)) if losses else {}


def _plan(
    stage: GeneralizeStage, encoded: EncodedTable, check: NodeCheck, node: CheckedNode, extra: dict[str, Any]
) -> StagePlan:
    hierarchies = dict(zip(encoded.columns, encoded.hierarchies, strict=True))
    return StagePlan(
        name=stage.name(),
        parameters=stage.stated_parameters(),
        detail={
            **levels_detail(stage, hierarchies, dict(zip(encoded.columns, node.levels, strict=True)), check.context),
            "records": encoded.records,
            "tuples": len(encoded),
            "classes": check.kept_classes(node),
            "records_without_information": check.uninformative(node),
            **extra,
        },
    )


def _unattainable(
    check: NodeCheck,
    encoded: EncodedTable,
    context: StageContext,
    budget: int,
    outcome: Outcome,
    stage: GeneralizeStage,
) -> str:
    asked = ", ".join(repr(guarantee) for guarantee in context.guarantees)
    if not outcome.exhausted:
        remedy = "raise budget.nodes" if stage.search in (None, "optimal", "minimal") else "use search: optimal"
        return (
            f"{context.place}: not found within {outcome.checked:,} of {outcome.lattice.size:,} vectors of levels: "
            f"{asked} may still be attainable with at most {budget:,} records suppressed; {remedy}"
        )
    top = check(outcome.lattice.top)
    if top.suppressed < 0:
        return f"{context.place}: {asked} cannot be met by this table at any level, whatever is suppressed"
    share = least_share(top.suppressed, encoded.records)
    return (
        f"{context.place}: no levels meet {asked} with at most {budget:,} of {encoded.records:,} records suppressed; "
        f"at the coarsest levels {top.suppressed:,} must go: suppress_at_most >= {share:g} would do"
    )
