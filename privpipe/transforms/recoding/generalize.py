"""Full-domain generalization: the stage with the search that plans it, or with the levels that the policy gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.blocks.arrays import Ints
from privpipe.blocks.quality_spec import DEFAULT_AGGREGATES
from privpipe.errors import NoSolutionError, PrivpipeError, UnsupportedError, UsageError
from privpipe.kernels.quality import quality_model
from privpipe.kernels.quality.table import TableOfColumns
from privpipe.transforms.base import NO_GOAL, StageContext, StagePlan
from privpipe.transforms.recoding.encoded_table import EncodedTable, encode, searched_quality
from privpipe.transforms.recoding.generalize_stage import GeneralizeStage, generalized_columns, levels_detail
from privpipe.transforms.recoding.labelling import Labelled, Labelling, LossSpec, built_over, texts_of
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck
from privpipe.transforms.recoding.population import generalize_population
from privpipe.transforms.recoding.strategies import Outcome, searched
from privpipe.transforms.suppression.class_failures import require_sample
from privpipe.transforms.suppression.judged_sets import JudgedSets, judged_sets, require_attainable
from privpipe.transforms.suppression.record_suppression import budget_of, least_share, require_within

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy

__all__ = [
    "APPROACHES",
    "Approach",
    "Generalize",
    "approach_of",
    "given_levels",
    "needs_combinations",
    "plan",
    "plan_given",
]


@dataclass(frozen=True)
class Approach:
    """One cell of the matrix.

    Parameters
    ----------
    stage : str
        The stage of the policy that serves it.
    algorithm : str
        How, in words.
    options : mapping
        What the short form means, in that stage.
    also : tuple of str
        Other stages that serve it.
    """

    stage: str
    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()


APPROACHES: Mapping[str, Approach | str] = {
    "AG_TS": Approach("generalize", "optimal lattice search; whole failing classes are removed"),
    "AG_AS": Approach("generalize", "lattice search without suppression: a column at its root is removed"),
    "AG_CS": Approach("generalize", "best-first over the levels; cells of failing classes are blanked"),
    "AG_": Approach("generalize", "optimal lattice search without suppression"),
    "CG_TS": Approach("mondrian", "multidimensional recoding with labels", also=("local_recoding",)),
    "CG_AS": Approach("mondrian", "as CG_: a column of root labels is removed", also=("local_recoding",)),
    "CG_CS": Approach("mondrian", "as CG_: a suppressed cell is a root label", also=("local_recoding",)),
    "CG_": Approach("mondrian", "multidimensional recoding to common ancestors", also=("local_recoding",)),
    "_TS": Approach("suppress_records", "every record of a failing class is removed", also=("generalize",)),
    "_AS": Approach("generalize", "lattice of raw or removed columns", {"roots_only": True}),
    "_CS": Approach("suppress_cells", "local suppression", {"method": "greedy"}),
    "_": "nothing is transformed, so there is no stage: assess the table itself",
}
"""The cell, or why no stage serves it."""


def approach_of(name: str, stage: str, place: str) -> Approach:
    """The approach of a name in a stage.

    Raises
    ------
    UnsupportedError
        No stage serves it, or another one does: the message shows which.

    Examples
    --------
    >>> approach_of("_AS", "generalize", "transform[0].generalize").algorithm
    'lattice of raw or removed columns'
    """
    found = APPROACHES[name]
    if isinstance(found, str):
        raise UnsupportedError(f"{place}: approach {name}: {found}")
    if stage not in (found.stage, *found.also):
        stages = " or ".join(f"`{each}`" for each in (found.stage, *found.also))
        raise UnsupportedError(f"{place}: approach {name} ({found.algorithm}) is served by the stage {stages}")
    return found


def needs_combinations(stage: GeneralizeStage, context: StageContext) -> bool:
    """Whether given levels ask for the distinct combinations.

    They do where a population is compared, and under a quality model of whole classes.
    """
    sets = judged_sets(context, serves=stage.serves)
    return bool(sets.compared) or stage.loss.name not in DEFAULT_AGGREGATES


def plan_given(engine: Primitives, table: Any, stage: GeneralizeStage, context: StageContext) -> StagePlan:
    """The plan of given levels, learnt by running them: failing classes go where they lie.

    Raises
    ------
    UsageError
        A level above its hierarchy.
    NoSolutionError
        No record is left, or more would have to be suppressed than may.
    """
    columns = generalized_columns(stage, context)
    sets = judged_sets(context, serves=stage.serves)
    histograms = engine.facts(table, FactsRequest(histograms=columns)).histograms
    hierarchies = built_over({column: histograms[column] for column in columns}, context)
    levels = given_levels(stage, hierarchies, context)
    records = int(histograms[columns[0]].counts.sum())
    detail = levels_detail(stage, hierarchies, levels, context)
    values = {column: histograms[column].values for column in columns}
    labelled = stage.labelled(engine, table, Labelling(hierarchies, values, levels, tuple(detail["recoded"])), context)
    unknown = 0
    if labelled.unknown:
        histograms = engine.facts(labelled.known, FactsRequest(histograms=columns)).histograms
        unknown = records - int(histograms[columns[0]].counts.sum())
    if unknown == records:
        raise NoSolutionError(f"{context.place}: no record is left to generalize")
    passing = stage.passing(engine, labelled, records, context)
    kept = records - unknown if passing is labelled.table else engine.count(passing)
    known = np.concatenate([_of_leaves(hierarchies[name], histograms[name], name, context) for name in columns])
    lost = np.zeros_like(known)
    if kept < records - unknown:
        left = engine.facts(passing, FactsRequest(histograms=columns)).histograms
        lost = np.concatenate([_lost(labelled, name, histograms[name], left[name], context) for name in columns])
    counted = TableOfColumns(columns, tuple(hierarchies.values()), known, lost, records, unknown)
    context.keep_made(table, stage.finished(engine, labelled, passing, context))
    return StagePlan(
        name=stage.name(),
        parameters=stage.stated_parameters(),
        detail={
            **detail,
            "records": records,
            "records_without_information": kept if _at_roots(hierarchies, levels, sets) else 0,
            **_losses(counted, stage, list(levels.values()), context),
        },
    )


def given_levels(stage: GeneralizeStage, hierarchies: Mapping[str, Hierarchy], context: StageContext) -> dict[str, int]:
    """The level of each column, 0 where none is given.

    Raises
    ------
    UsageError
        A level above its hierarchy.
    """
    levels = stage.levels or {}
    for column, hierarchy in hierarchies.items():
        if levels.get(column, 0) > hierarchy.height:
            raise UsageError(
                f"{context.place}: level {levels[column]} of {column!r} is above its hierarchy, whose last level is "
                f"{hierarchy.height}"
            )
    return {column: levels.get(column, 0) for column in hierarchies}


def _of_leaves(hierarchy: Hierarchy, found: Histogram, column: str, context: StageContext) -> Ints:
    """Records of each leaf."""
    codes = hierarchy.encode(texts_of(found.values, context, column))
    known = codes >= 0
    out = np.zeros(len(hierarchy.values), dtype=np.int64)
    np.add.at(out, codes[known], np.asarray(found.counts, dtype=np.int64)[known])
    return out


def _lost(labelled: Labelled, column: str, known: Histogram, left: Histogram, context: StageContext) -> Ints:
    """Records of each leaf that are suppressed, those of a label under its first leaf."""
    labels = labelled.labels
    hierarchy = labels.hierarchies[column]
    before = _of_leaves(hierarchy, known, column, context)
    if column not in labels.recoded:
        return before - _of_leaves(hierarchy, left, column, context)
    texts = hierarchy.released(labels.levels[column])
    first: dict[str | None, int] = {}
    for leaf, text in enumerate(texts):
        first.setdefault(text, leaf)
    lost = np.zeros_like(before)
    np.add.at(lost, np.array([first[text] for text in texts], dtype=np.int64), before)
    kept = zip(left.values.to_pylist(), left.counts.tolist(), strict=True)
    for text, count in kept:
        lost[first[text]] -= count
    return lost


def _losses(
    counted: TableOfColumns, stage: GeneralizeStage, levels: Sequence[int], context: StageContext
) -> dict[str, Any]:
    try:
        model = quality_model(counted, stage.loss)
    except PrivpipeError as error:
        raise type(error)(f"{context.place}: {error}") from None
    loss, columns = model.exact(levels, np.zeros(0, dtype=np.bool_))
    return {
        "loss": loss[0] if len(loss) == 1 else list(loss),
        "column_losses": dict(zip(counted.columns, columns, strict=True)),
    }


def _at_roots(hierarchies: Mapping[str, Hierarchy], levels: Mapping[str, int], sets: JudgedSets) -> bool:
    """Whether every quasi-identifier that is judged is at the root of its hierarchy."""
    if any(column not in hierarchies for column in sets.columns):
        return False
    return all(levels[name] and levels[name] == own.height for name, own in hierarchies.items())


def plan(engine: Any, table: Any, stage: GeneralizeStage, context: StageContext) -> StagePlan:
    """Choose (or take) the vector of levels and compute its cost.

    Raises
    ------
    NoSolutionError
        No vector of levels meets the guarantees within the budget, or the given one does not; shows what would.
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
        raise UsageError(f"{context.place}: {NO_GOAL}")
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
    """Levels, and blanks instead of suppressed records."""
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Generalize(GeneralizeStage):
    """Replace each column's values by their labels at one level of its hierarchy, the best vector of levels.

    With `search`, the vector of least loss under which suppressing all failing classes stays within the
    budget, proved optimal. With `levels`, that vector; records are then suppressed only when
    `suppress_at_most` is given, those of values that a hierarchy lacks (`unknown: suppress`) among them.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: every quasi-identifier that has a hierarchy.
    search : {"optimal", "minimal", "datafly", "bottom_up", "top_down", "genetic"}, optional
        Optimal when no `levels` are given. Minimal: valid vectors with no valid one below (k-minimal). The others
        are heuristics, for teaching and for comparison; their plans claim no optimum.
    levels : mapping of column to int, optional
        0 keeps the raw value.
    loss : LossSpec
    suppress_at_most : float, optional
        Share of the stage's input, in [0, 1]; a search's default is 0.
    criteria : tuple of str, optional
        Of `search: minimal`: criteria of preference among minimal vectors, the first decides.
    minimal : {"one", "all"}
        Of `search: minimal`: whether the plan lists them all; the preferred one is applied.
    mark : bool
        Whether a suppressed record stays as a row of the policy's mark: its quasi-identifiers become text, other
        text columns carry the mark too, and the rest of its cells are missing. So does a record whose value a
        hierarchy lacks (`unknown: suppress`). No later stage sees such rows.
    roots_only : bool
        Whether each column is either raw or at its root.
    approach : str, optional
        A cell of the matrix of approaches that this stage serves, as a short form: AG_TS (the default), AG_ and
        AG_AS (nothing is suppressed), AG_CS (cells are blanked instead of records), _AS (columns stay or go),
        _TS (values stay raw and failing classes go).
    budget : SearchBudget

    Examples
    --------
    >>> Generalize(levels={"age": 2}).is_search, Generalize(suppress_at_most=0.05).is_search
    (False, True)
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)

    def not_followed(self) -> str:
        return ""

    def population_after(
        self, engine: Primitives, table: Any, population: Any, plan: StagePlan, context: StageContext
    ) -> Any:
        return generalize_population(engine, table, population, self, plan, context)
