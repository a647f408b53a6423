"""Labels of a table's columns: hierarchies over the values at hand, their definition without values as a plan holds
it, and the records under their labels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.blocks.arrays import Codes
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.suppression.class_keys import KeysDropped

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = [
    "Labelled",
    "Labelling",
    "RecodingStage",
    "built_over",
    "declared",
    "definition_digest",
    "earlier",
    "hierarchies_of",
    "is_recoded",
    "labels_at",
    "learnt_lengths",
    "texts_of",
    "type_of",
    "with_lengths",
]


NULL = "null"
"""What plans made before `null_label` write for missing values."""


def declared(spec: HierarchySpec, kind: str | None) -> Any:
    """The mapping a hierarchy was declared by; of one in a table, a digest of that table.

    Parameters
    ----------
    kind : str or None
        Type of the column.
    """
    from privpipe.hierarchies.spec import IN_TABLES

    if isinstance(spec.builder, IN_TABLES):
        return spec.build([], [], kind).digest()
    return spec.to_dict()


def definition_digest(spec: HierarchySpec, hierarchy: Hierarchy, kind: str | None) -> str:
    """SHA-256 of all that decides which label a value gets.

    Its definition alone, so that a plan serves other tables and its digest reveals nothing about the values; what
    labels also owe to the values is `learnt_lengths`. Values ranked by their frequency cannot be described so: there it
    is the hierarchy as it was built from them.
    """
    from privpipe.hierarchies import BUILDERS

    if hierarchy.data_dependent and not _by_longest(spec):
        return hierarchy.digest()
    options = {name: value for name, value in spec.to_dict().items() if name not in BUILDERS}
    # Intervals of plans made before labels had a choice read `[20, 25[`: their definition shows nothing about labels.
    said = ["labels by type"] if _labels_by_type(spec) else []
    said += ["nulls stay missing"] if spec.options.null_label is None else []
    text = json.dumps([declared(spec, kind), options, kind, *said], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def learnt_lengths(
    specs: Mapping[str, HierarchySpec], hierarchies: Mapping[str, Hierarchy]
) -> dict[str, dict[str, int]]:
    """What a plan states about the length that texts are redacted to, by column, where it is that of the longest value.

    Nothing where no hierarchy is of that kind.
    """
    found = {name: hierarchies[name].height for name in hierarchies if _by_longest(specs[name])}
    return {"lengths": found} if found else {}


def with_lengths(specs: Mapping[str, HierarchySpec], lengths: Mapping[str, int]) -> Mapping[str, HierarchySpec]:
    """The hierarchies with the lengths that a plan learnt: values of another table are redacted as those of the first.

    A longer value is outside of such a hierarchy, and goes by its rule for unknown ones.
    """
    fixed = {
        name: replace(specs[name], builder=replace(specs[name].builder, length=length))  # type: ignore[type-var]
        for name, length in lengths.items()
    }
    return {**specs, **fixed}


def earlier(specs: Mapping[str, HierarchySpec]) -> tuple[dict[str, HierarchySpec], ...]:
    """The hierarchies as plans of earlier versions knew them, the last version first.

    Before `null_label`, missing values were labelled `null`; before labels had a choice, intervals that declare none
    also read `[20, 25[`.
    """
    labelled = {
        name: replace(spec, options=replace(spec.options, null_label=NULL)) if spec.options.null_label is None else spec
        for name, spec in specs.items()
    }
    opened = {
        name: replace(spec, builder=replace(spec.builder, labels="open")) if _labels_by_type(spec) else spec  # type: ignore[type-var]
        for name, spec in labelled.items()
    }
    return labelled, opened


def _labels_by_type(spec: HierarchySpec) -> bool:
    from privpipe.hierarchies.intervals import Intervals

    return isinstance(spec.builder, Intervals) and spec.builder.labels is None


def _by_longest(spec: HierarchySpec) -> bool:
    from privpipe.hierarchies.redact import Redact

    return isinstance(spec.builder, Redact) and spec.builder.length is None


@dataclass(frozen=True)
class Labelling:
    """Which labels columns get.

    Parameters
    ----------
    hierarchies : mapping of column to Hierarchy
    values : mapping of column to pyarrow.Array
        Distinct values, null last where there are any.
    levels : mapping of column to int
    recoded : tuple of str
        Columns that are released as labels; the others stay raw.
    """

    hierarchies: Mapping[str, Hierarchy] = field(repr=False)
    values: Mapping[str, pa.Array] = field(repr=False)
    levels: Mapping[str, int]
    recoded: tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """Records on their way through the stage.

    Parameters
    ----------
    labels : Labelling
    before, known, table : Table
        All that entered, those whose values are known, and these under their labels.
    unknown : tuple of KeysDropped
        Reports the others, column by column.
    """

    labels: Labelling
    before: Any = field(repr=False)
    known: Any = field(repr=False)
    table: Any = field(repr=False)
    unknown: tuple[KeysDropped, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class RecodingStage(Transformer):
    """A stage that releases columns as labels; `recoded` in the detail of its plan shows which."""

    taxon = "non-perturbative"

    def masked_columns(self) -> tuple[str, ...]:
        return ()

    def recoded_at_all(self, context: StageContext) -> Iterable[str]:
        """Columns that are labels in the release of a table without records."""
        raise TypeError(f"{type(self).__name__} recodes nothing")

    def plan_of_nothing(self, context: StageContext) -> StagePlan:
        return replace(super().plan_of_nothing(context), detail={"recoded": list(self.recoded_at_all(context))})

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        import pyarrow as pa

        for column in plan.detail["recoded"]:
            schema = schema.set(schema.get_field_index(column), pa.field(column, pa.string()))
        return schema


def hierarchies_of(
    engine: Primitives, table: Any, columns: tuple[str, ...], context: StageContext
) -> tuple[dict[str, Hierarchy], dict[str, pa.Array]]:
    """Each column's hierarchy over the values at hand, and those values (null last where there are any)."""
    histograms = engine.facts(table, FactsRequest(histograms=columns)).histograms
    built = built_over({column: histograms[column] for column in columns}, context)
    return built, {column: histograms[column].values for column in columns}


def built_over(histograms: Mapping[str, Histogram], context: StageContext) -> dict[str, Hierarchy]:
    """Each column's hierarchy over the values of its histogram."""
    built = {}
    for column, found in histograms.items():
        texts = texts_of(found.values, context, column).to_pylist()
        built[column] = context.hierarchies[column].build(texts, found.counts.tolist(), type_of(context, column))
    return built


def is_recoded(hierarchy: Hierarchy, level: int) -> bool:
    """Whether a column is released as labels: above level 0, and at level 0 where unknown values become the root."""
    return level > 0 or hierarchy.unknown_code is not None


def type_of(context: StageContext, column: str) -> str:
    """The declared type of a column, else that of the source."""
    from privpipe.roles import column_type_of

    return context.types.get(column) or column_type_of(context.schema.field(column).type)


def texts_of(values: pa.Array, context: StageContext, column: str) -> Any:
    """Values as canonical text of the column's type, null where there is none."""
    from privpipe.hierarchies import canonical_text

    return canonical_text(values, type_of(context, column), column=column)


def labels_at(hierarchy: Hierarchy, level: int, codes: Codes) -> pa.Array:
    """Labels of values; a missing value has none where it stays missing."""
    import pyarrow as pa

    texts = np.array(hierarchy.released(level), dtype=object)
    return pa.array(texts[codes], pa.string())
