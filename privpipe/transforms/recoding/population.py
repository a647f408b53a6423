"""The population of a recoding: its persons as integer codes, to count them at any vector of levels, and the
population generalized as the release is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.blocks.arrays import Codes, Ints
from privpipe.errors import DataError, HierarchyError, UnsupportedError
from privpipe.hierarchies import Hierarchy, canonical_text
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.recoding.generalize_stage import GeneralizeStage, generalized_columns
from privpipe.transforms.recoding.labelling import earlier, labels_at, texts_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Lookup",
    "PopulationRows",
    "SeenColumn",
    "encode_population",
    "generalize_population",
    "hierarchy_over_both",
]


Lookup = tuple[int, Ints, int]
"""A column's place, the label's code of each code, and how many labels there are."""


@dataclass(frozen=True)
class SeenColumn:
    """A column of the table at hand, as it was encoded.

    Parameters
    ----------
    place : int
        Its position among the table's codes.
    texts : tuple of str or None
        Its distinct values: those the hierarchy was built over, in that order; in the order of their codes where
        there is no hierarchy.
    counts : tuple of int
        Records of each.
    kind : str
        Type of the column.
    hierarchy : Hierarchy or None
        None: the column stays unchanged.
    """

    place: int
    texts: tuple[str | None, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)
    kind: str | None
    hierarchy: Hierarchy | None = None


@dataclass(frozen=True)
class PopulationRows:
    """The distinct combinations of a population over the compared quasi-identifiers.

    Parameters
    ----------
    columns : tuple of str
        Compared ones.
    codes : ndarray of int32, shape (p, as many columns as the table's codes)
        Values of the population, numbered after those of the table; 0 in columns that are not compared.
    counts : ndarray of int64, shape (p,)
        Records of each.
    lookups : mapping of place to list of Lookup
        As those of the table, one per level, for the codes of both.
    """

    columns: tuple[str, ...]
    codes: Codes = field(repr=False)
    counts: Ints = field(repr=False)
    lookups: Mapping[int, list[Lookup]] = field(repr=False)


def encode_population(
    engine: Any, columns: Sequence[str], seen: Mapping[str, SeenColumn], context: StageContext
) -> PopulationRows:
    """Count the distinct combinations of the context's population on the engine and encode them as a table is.

    Parameters
    ----------
    columns : sequence of str
        Compared quasi-identifiers.
    seen : mapping of column to SeenColumn
        Every encoded column of the table.

    Raises
    ------
    DataError, HierarchyError
        A value of the population that a hierarchy lacks.
    UnsupportedError
        A hierarchy that the population's values would change.
    """
    if not columns:
        counts = np.array([engine.count(context.population)], dtype=np.int64)
        return PopulationRows((), np.zeros((1, len(seen)), dtype=np.int32), counts, {})
    distinct = engine.distinct(context.population, list(columns))
    counts = distinct["__count"].to_numpy().astype(np.int64)
    codes = np.zeros((len(counts), len(seen)), dtype=np.int32)
    lookups: dict[int, list[Lookup]] = {}
    for column in columns:
        own = seen[column]
        values = distinct[column].combine_chunks().dictionary_encode(null_encoding="encode")
        texts = canonical_text(values.dictionary, own.kind, column=column).to_pylist()
        if own.hierarchy is None:
            lookups[own.place] = [_same_texts(own, texts)]
        else:
            lookups[own.place] = _codes_of_labels(own.hierarchy, own, column, texts, context)
        first = len(lookups[own.place][0][1]) - len(texts)
        codes[:, own.place] = first + values.indices.to_numpy(zero_copy_only=False)
    return PopulationRows(tuple(columns), codes, counts, lookups)


def _codes_of_labels(
    hierarchy: Hierarchy, own: SeenColumn, column: str, texts: list[str | None], context: StageContext
) -> list[Lookup]:
    """At each level the labels of the table's values, then those of the population's: equal texts are one label."""
    both, codes = hierarchy_over_both(hierarchy, own, column, texts, context)
    found = []
    for level in range(hierarchy.height + 1):
        mine, theirs = hierarchy.released(level), both.released(level)
        labels = dict(zip(mine, hierarchy.codes(level).tolist(), strict=True))
        added = np.array([labels.setdefault(theirs[code], len(labels)) for code in codes.tolist()], dtype=np.int64)
        found.append((own.place, np.concatenate([hierarchy.codes(level).astype(np.int64), added]), len(labels)))
    return found


def hierarchy_over_both(
    hierarchy: Hierarchy, own: SeenColumn, column: str, texts: list[str | None], context: StageContext
) -> tuple[Hierarchy, Codes]:
    """The hierarchy over the values of both, under which the table's must keep their labels; the population's codes.

    Raises
    ------
    DataError, HierarchyError
        A value of the population that the hierarchy lacks.
    UnsupportedError
        A hierarchy that the population's values would change.
    """
    more = sorted(set(texts) - set(own.texts), key=lambda text: (text is None, text or ""))
    try:
        both = context.hierarchies[column].build([*own.texts, *more], [*own.counts, *(0 for _ in more)], own.kind)
        codes = both.encode(texts)
    except HierarchyError as error:
        raise HierarchyError(f"population: {error}", kind=error.kind) from None
    before, after = hierarchy.encode(list(own.texts)), both.encode(list(own.texts))
    if both.height != hierarchy.height or any(
        _of(hierarchy, level, before) != _of(both, level, after) for level in range(both.height + 1)
    ):
        raise UnsupportedError(
            f"{context.place}: the hierarchy of {column!r} is made from the values at hand, and those of the "
            "population would change it; write it to a file first (`privpipe hierarchy`)"
        )
    if (codes < 0).any():
        raise DataError(
            f"{context.place}: {int(np.sum(codes < 0)):,} values of {column!r} in the population are not in its "
            "hierarchy; complete it"
        )
    return both, codes


def _of(hierarchy: Hierarchy, level: int, codes: Codes) -> list[str | None]:
    texts = hierarchy.released(level)
    return [None if code < 0 else texts[code] for code in codes.tolist()]


def _same_texts(own: SeenColumn, texts: list[str | None]) -> Lookup:
    codes: dict[str | None, int] = {text: at for at, text in enumerate(own.texts)}
    known = np.arange(len(codes), dtype=np.int64)
    added = np.array([codes.setdefault(text, len(codes)) for text in texts], dtype=np.int64)
    return own.place, np.concatenate([known, added]), len(codes)


def generalize_population(
    engine: Primitives, table: Any, population: Any, stage: GeneralizeStage, plan: StagePlan, context: StageContext
) -> Any:
    """The population at the levels of a plan.

    Parameters
    ----------
    table : Table
        What enters the stage: hierarchies that are made from values are made from its.
    population : Table
        Some quasi-identifiers of the whole population, raw, in the types of `table`.

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
