"""Levels that the policy gives: nothing is searched, so each column is counted by itself and classes where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.blocks.quality_spec import DEFAULT_AGGREGATES
from privpipe.errors import NoSolutionError, PrivpipeError, UsageError
from privpipe.kernels.quality import quality_model
from privpipe.kernels.quality.table import TableOfColumns
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.recoding.hierarchy_definition import learnt_lengths
from privpipe.transforms.recoding.labelling import Labelled, Labelling, built_over, is_recoded, texts_of
from privpipe.transforms.recoding.stage import GeneralizeStage, generalized_columns
from privpipe.transforms.suppression.class_failures import JudgedSets, judged_sets

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy

__all__ = ["given_levels", "levels_detail", "needs_combinations", "plan_given"]

Ints = NDArray[np.int64]


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


def levels_detail(
    stage: GeneralizeStage, hierarchies: Mapping[str, Hierarchy], levels: Mapping[str, int], context: StageContext
) -> dict[str, Any]:
    """What a plan says of its levels and the hierarchies they are of."""
    return {
        "levels": dict(levels),
        "recoded": [name for name, own in hierarchies.items() if is_recoded(own, levels[name]) or stage.mark],
        "level_names": {name: own.level_names[levels[name]] for name, own in hierarchies.items()},
        "hierarchies": {name: stage.defined(name, own, context) for name, own in hierarchies.items()},
        **learnt_lengths(context.hierarchies, hierarchies),
        "builders": {name: context.hierarchies[name].recorded() for name in hierarchies},
        "data_dependent": [name for name, own in hierarchies.items() if own.data_dependent],
    }


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
