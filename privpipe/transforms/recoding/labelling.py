"""Labels of a table's columns, from hierarchies over its values, and the losses of cells and classes under them.

A plan holds the definition of a hierarchy without values. Losses are those of the quality model of a stage, and of
cells with separate levels (Iyengar's loss and NCP).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.blocks.arrays import Codes, Floats, Ints
from privpipe.blocks.quality_spec import Aggregate, LossSpec, quality_parameters
from privpipe.kernels.cluster_labels import UNIT
from privpipe.kernels.quality.model import aggregated, normalised, own_loss
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.suppression.class_failures import KeysDropped

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = [
    "Aggregate",
    "Labelled",
    "Labelling",
    "LossSpec",
    "OwnUnitLoss",
    "RecodingStage",
    "aggregated",
    "built_over",
    "cell_loss",
    "column_loss",
    "declared",
    "definition_digest",
    "earlier",
    "hierarchies_of",
    "is_recoded",
    "labels_at",
    "learnt_lengths",
    "loss_units",
    "mean_penalty",
    "normalised",
    "own_loss",
    "quality_parameters",
    "texts_of",
    "type_of",
    "unit_losses",
    "weight_units",
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


def unit_losses(hierarchy: Hierarchy, level: int, loss: LossSpec) -> dict[str | None, float]:
    """u of a record that is kept, by its released text at a level; None is a missing value.

    Examples
    --------
    >>> from privpipe.hierarchies import Hierarchy
    >>> ages = Hierarchy.from_rows([["7", "child", "*"], ["8", "child", "*"], ["30", "adult", "*"]])
    >>> {label: round(u, 3) for label, u in unit_losses(ages, 1, LossSpec()).items()}
    {'child': 0.5, 'adult': 0.0}
    """
    losses = normalised(hierarchy.shares(level), hierarchy.domain_size, loss)
    return dict(zip(hierarchy.released(level), losses.tolist(), strict=True))


@dataclass(frozen=True)
class OwnUnitLoss:
    """Loss of single classes: Iyengar's loss over the records of one class, whatever the quality model.

    `units` maps each generalized column, in policy order, to the losses of its released texts.
    """

    units: Mapping[str, Mapping[str | None, float]] = field(repr=False)
    loss: LossSpec

    def __call__(self, classes: Any) -> Floats:
        from privpipe.hierarchies import canonical_text

        columns = [name for name in self.units if name in classes.schema.names]
        each = np.zeros((classes.num_rows, len(columns)))
        for at, name in enumerate(columns):
            each[:, at] = [self.units[name][text] for text in canonical_text(classes[name], None).to_pylist()]
        return own_loss(each, columns, self.loss)


def column_loss(counts: Ints, shares: Floats, domain: float, gone: int = 0) -> float:
    """u of one column, in [0, 1]: 0 where each cell is a single value, 1 where each represents the whole domain.

    Parameters
    ----------
    counts, shares : ndarray, shape (n,)
        Records, and the share of the domain that their label represents.
    domain : float
        D, the size of the domain.
    gone : int
        Suppressed records, whose share is 1.

    Examples
    --------
    >>> column_loss(np.array([2, 2]), np.array([0.25, 1.0]), 4.0)
    0.5
    """
    records = int(counts.sum()) + gone
    least = records / domain
    if records == least:
        return 0.0
    # Added one by one, in one order: a library's dot product may add otherwise elsewhere.
    total = float(np.cumsum(counts * shares)[-1]) if len(counts) else 0.0
    return max(0.0, (total + gone - least) / (records - least))


def cell_loss(columns: Sequence[float]) -> float:
    """The columns' losses as one, by the geometric mean.

    Examples
    --------
    >>> cell_loss([0.0, 1.0]).__round__(4)
    0.4142
    """
    return float(aggregated(np.array([columns], dtype=np.float64), "geometric_mean")[0, 0])


def mean_penalty(counts: Ints, penalties: Sequence[Floats], gone: int = 0) -> float:
    """GCP: the mean NCP of all cells, those of suppressed records being 1.

    Source: Ghinita et al., VLDB 2007.

    Examples
    --------
    >>> mean_penalty(np.array([3, 1]), [np.array([0.0, 1.0]), np.array([0.5, 0.5])])
    0.375
    """
    records = int(counts.sum()) + gone
    total = sum(float(np.cumsum(counts * column)[-1]) + gone for column in penalties)
    return total / (records * len(penalties))


def loss_units(hierarchy: Hierarchy, level: int) -> Ints:
    """What a record with each leaf loses at a level, in units: no rounding of a processor decides.

    Examples
    --------
    >>> from privpipe.hierarchies import Hierarchy
    >>> towns = Hierarchy.from_rows([["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]])
    >>> (loss_units(towns, 1) / UNIT).tolist()
    [0.5, 0.5, 0.0]
    """
    domain = hierarchy.domain_size
    lost = (hierarchy.shares(level) * domain - 1.0) / max(domain - 1.0, 1.0) * (domain > 1)
    return np.rint(lost * UNIT).astype(np.int64)


def weight_units(lost: int, records: int) -> int:
    """What a column's loss counts in that of the geometric mean, 1 / (1 + u), in units.

    Parameters
    ----------
    lost : int
        What all its records lose together, in units.

    Examples
    --------
    >>> weight_units(0, 5) == UNIT, weight_units(5 * UNIT, 5) == UNIT // 2
    (True, True)
    """
    return UNIT * UNIT * records // (UNIT * records + lost)
