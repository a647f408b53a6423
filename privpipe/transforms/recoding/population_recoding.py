"""A population generalized as the release is: the same levels, nothing suppressed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.errors import DataError, HierarchyError, UnsupportedError
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.recoding.hierarchy_definition import earlier
from privpipe.transforms.recoding.labelling import labels_at, texts_of
from privpipe.transforms.recoding.stage import GeneralizeStage, generalized_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["generalize_population"]


def generalize_population(
    engine: Primitives, table: Any, population: Any, stage: GeneralizeStage, plan: StagePlan, context: StageContext
) -> Any:
    """The population at the levels of a plan.

    Parameters
    ----------
    table : Table
        What enters the stage: hierarchies that are made from values are made from its.
    population : Table
        Some quasi-identifiers of everybody, raw, in the types of `table`.

    Raises
    ------
    HierarchyError, DataError
        A value of the population that a hierarchy lacks.
    UnsupportedError
        A hierarchy that the population's values would change.
    """
    columns = generalized_columns(stage, context)
    recoded = [name for name in columns if name in plan.detail["recoded"] and name in population.schema.names]
    if not recoded:
        return population
    seen = engine.facts(table, FactsRequest(histograms=tuple(recoded))).histograms
    everybody = engine.facts(population, FactsRequest(histograms=tuple(recoded))).histograms
    codebooks = {}
    for column in recoded:
        level = int(plan.detail["levels"][column])
        known = _as_planned(column, seen[column], stage, plan, context)
        codebooks[column] = (
            everybody[column].values,
            _labels(column, level, seen[column], everybody[column].values, known),
        )
    return engine.recode(population, codebooks)


def _as_planned(
    column: str, seen: Histogram, stage: GeneralizeStage, plan: StagePlan, context: StageContext
) -> StageContext:
    """The context with the hierarchy that the plan knows: plans of earlier versions give other labels."""
    kind = context.types.get(column) or _kind(seen.values)
    texts, counts = texts_of(seen.values, context, column).to_pylist(), seen.counts.tolist()
    for specs in (context.hierarchies, *earlier(context.hierarchies)):
        known = replace(context, hierarchies=specs)
        if stage.defined(column, specs[column].build(texts, counts, kind), known) == plan.detail["hierarchies"][column]:
            return known
    return context


def _labels(column: str, level: int, seen: Histogram, values: pa.Array, context: StageContext) -> pa.Array:
    """Labels of the population's values, by the hierarchy that gives the sample's values the labels they have."""
    spec, kind = context.hierarchies[column], context.types.get(column) or _kind(seen.values)
    mine = texts_of(seen.values, context, column).to_pylist()
    theirs = texts_of(values, context, column).to_pylist()
    more = sorted(set(theirs) - set(mine), key=lambda text: (text is None, text or ""))
    own = spec.build(mine, seen.counts.tolist(), kind)
    try:
        both = spec.build([*mine, *more], [*seen.counts.tolist(), *(0 for _ in more)], kind)
        codes = both.encode(theirs)
    except HierarchyError as error:
        raise HierarchyError(f"population: {error}", kind=error.kind) from None
    if not labels_at(own, level, own.encode(mine)).equals(labels_at(both, level, both.encode(mine))):
        raise UnsupportedError(
            f"{context.place}: the hierarchy of {column!r} is made from the values at hand, and those of the "
            "population would change it; write it to a file first (`privpipe hierarchy`), or give a population that "
            "is `generalized: true`"
        )
    if (codes < 0).any():
        raise DataError(
            f"{context.place}: {int(np.sum(codes < 0)):,} values of {column!r} in the population are not in its "
            "hierarchy; complete it"
        )
    return labels_at(both, level, codes)


def _kind(values: pa.Array) -> str:
    from privpipe.roles import column_type_of

    return column_type_of(values.type)
