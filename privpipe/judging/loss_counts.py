"""Count the loss of every column of a release: the pairs of a sample on the driver, labels in the whole tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram
from privpipe.blocks.marks import Columns, Levels
from privpipe.blocks.row_reductions import bears_nothing
from privpipe.engines import Engine
from privpipe.engines.base.batches import in_order
from privpipe.hierarchies import canonical_text
from privpipe.judging.column_loss import (
    NOT_RELEASED,
    ColumnLoss,
    ColumnLossRule,
    LossTable,
    LostRelation,
    RelatedColumn,
    alarm_of,
    lost_relations,
    places_of,
)
from privpipe.judging.notes import stage_names
from privpipe.judging.paired_columns import PairedColumn, Seen
from privpipe.roles import Roles, column_type_of

if TYPE_CHECKING:
    from privpipe.hierarchies import HierarchySpec
    from privpipe.judging.paired_columns import PairedSample

__all__ = ["LARGEST_HISTOGRAM", "LossAsked", "labels_of", "loss_table"]


LARGEST_HISTOGRAM = 200_000
"""Distinct values of a column that are sent to the driver, at most."""
ABREAST, FEW = 2, 10_000
"""Columns that are looked at at once, where there are more records than few."""
BY_RECORD = ("drop_identifiers", "sample", "suppress_records")
"""Stages that keep or leave whole records and columns, and touch no cell."""


@dataclass(frozen=True, kw_only=True)
class LossAsked:
    """What the table is of.

    Parameters
    ----------
    roles : Roles
        Of the columns before.
    stages : sequence of mapping
        Of the plan.
    mark : str
        The suppression mark.
    hierarchies : mapping of column to HierarchySpec
    pseudonyms : tuple of str
        Columns whose values each represent one person: they have no loss.
    rule : ColumnLossRule
    withheld : bool
        Whether a model forbids counts of the source.
    """

    roles: Roles
    stages: Sequence[Mapping[str, Any]]
    mark: str
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    pseudonyms: tuple[str, ...] = ()
    rule: ColumnLossRule = field(default_factory=ColumnLossRule)
    withheld: bool = False


def loss_table(
    engine: Engine, released: Any, original: Any, asked: LossAsked, sample: PairedSample | None
) -> LossTable:
    """What each column of a release has lost; the same figures on every engine.

    Parameters
    ----------
    engine : Engine
    released, original : Table
        With record ids, where they can be aligned.
    asked : LossAsked
    sample : PairedSample or None
        Records of both with every common column; None where they cannot be aligned, or may not be compared.
    """
    names = list(released.schema.names)
    relations: tuple[LostRelation, ...] = ()
    if asked.withheld or sample is None:
        rows, records, whole = _of_labels(engine, released, original, asked), None, True
    else:
        seen = {} if sample.whole else _seen(engine, original, names, asked)
        related: dict[str, RelatedColumn] = {}
        rows, records, whole = _of_pairs(sample, asked, seen, related), len(sample.pairs[0]), sample.whole
        left = {each.column: bool(each.changed) for each in rows if (each.labels_after or 0) > 1}
        changed = {name: found for name, found in left.items() if name in related}
        relations = lost_relations(related, changed, asked.rule.relation_lost_at_most)
        if not whole:
            rows = _counted_whole(engine, released, original, rows, asked.mark)
    judged = [replace(row, alarm=alarm_of(row, asked.rule)) for row in rows]
    gone = [
        ColumnLoss(column=name, role=asked.roles.of(name), done=(NOT_RELEASED,))
        for name in original.schema.names
        if name not in names and name in asked.roles.columns
    ]
    return LossTable(
        columns=(*judged, *gone),
        records=records,
        whole=whole,
        withheld=asked.withheld,
        rule=asked.rule,
        relations=relations,
    )


def _row(name: str, asked: LossAsked, **figures: Any) -> ColumnLoss:
    role = asked.roles.of(name) if name in asked.roles.columns else "insensitive"
    return ColumnLoss(column=name, role=role, done=_done(name, asked), **figures)


def _of_pairs(
    sample: PairedSample,
    asked: LossAsked,
    seen: Mapping[str, Seen],
    related: dict[str, RelatedColumn],
) -> list[ColumnLoss]:
    """The rows; `related` receives each column that has a loss."""
    first, second = sample.pairs
    places = places_of(sample)

    def row(name: str) -> ColumnLoss:
        after = sample.coded("released", name, asked.mark)
        if name not in sample.original.schema.names:
            return _row(name, asked, labels_after=after.labels)
        before = sample.coded("original", name, asked.mark)
        column = PairedColumn.of(before, after, first, second)
        loss, by = (None, "")
        if name not in asked.pseudonyms:
            loss, by = column.loss(asked.hierarchies.get(name), seen.get(name))
            related[name] = RelatedColumn.of(before, after, places)
        figures = {
            "changed": column.changed,
            "blanked": column.blanked,
            "loss": loss,
            "measured_by": by,
            **column.moved,
        }
        return _row(name, asked, labels_before=before.labels, labels_after=after.labels, **figures)

    names = sample.released.schema.names
    return list(in_order(row, names, ABREAST) if len(first) > FEW else map(row, names))


def _of_labels(engine: Engine, released: Any, original: Any, asked: LossAsked) -> list[ColumnLoss]:
    """Without pairs of records: the labels of each table by itself, those of the source where they may be disclosed."""
    names = list(released.schema.names)
    after = labels_of(engine, released, names, asked.mark)
    both = [] if asked.withheld else [name for name in names if name in original.schema.names]
    before = labels_of(engine, original, both, asked.mark)
    return [_row(name, asked, labels_before=before.get(name), labels_after=after[name]) for name in names]


def _counted_whole(
    engine: Engine, released: Any, original: Any, rows: Sequence[ColumnLoss], mark: str
) -> list[ColumnLoss]:
    """The rows of a sample with the labels of the whole tables."""
    after = labels_of(engine, released, [row.column for row in rows], mark)
    before = labels_of(engine, original, [row.column for row in rows if row.labels_before is not None], mark)
    return [replace(row, labels_before=before.get(row.column), labels_after=after[row.column]) for row in rows]


def _seen(engine: Engine, original: Any, names: Sequence[str], asked: LossAsked) -> dict[str, Seen]:
    """Every value of the columns with a hierarchy, for which these are built."""
    columns = tuple(name for name in names if name in asked.hierarchies and name in original.schema.names)
    if not columns:
        return {}
    histograms = engine.facts(original, FactsRequest(histograms=columns)).histograms
    return {name: _texts(histograms[name], asked.mark) for name in columns}


def _texts(histogram: Histogram, mark: str) -> Seen:
    texts = canonical_text(histogram.values, column_type_of(histogram.values.type)).to_pylist()
    kept = [(text, int(count)) for text, count in zip(texts, histogram.counts, strict=True) if text != mark]
    return [text for text, _ in kept], [count for _, count in kept]


def labels_of(engine: Engine, table: Any, columns: Sequence[str], mark: str) -> dict[str, int]:
    """Distinct labels of columns, missing values and the mark not among them.

    Of few values by histograms in one pass, of more by classes where they are.
    """
    if not columns:
        return {}
    estimated = engine.estimated_distinct(table, columns)
    records = engine.count(table)
    few = [name for name in columns if min(estimated.get(name, records), records) <= LARGEST_HISTOGRAM]
    many = tuple(name for name in columns if name not in few)
    found = {}
    if few:
        histograms = engine.facts(table, FactsRequest(histograms=tuple(few))).histograms
        found = {name: _valued(histograms[name], mark) for name in few}
    nulls = engine.facts(table, FactsRequest(nulls=many)).nulls if many else {}
    for name in many:
        # A column without texts has no mark; without one, an engine may know the classes from the notes.
        text = column_type_of(table.schema.field(name).type) == "text"
        query = ClassQuery(keys=(name,), mark=mark if text else None)
        classes: _Classes = engine.reduce_classes(table, query, _LabelCount(), Facts()) or (0, 0)
        found[name] = classes[0] - classes[1] - (1 if nulls[name] else 0)
    return found


def _valued(histogram: Histogram, mark: str) -> int:
    blank = bears_nothing(histogram.values, mark) | np.asarray(histogram.values.is_null(nan_is_null=True))
    return int((~blank).sum())


_Classes = tuple[int, int]


class _LabelCount:
    """How many classes of one value there are, and how many of them have only the mark."""

    def measure(self, block: ClassBlock, facts: Facts) -> _Classes:
        return len(block), 0 if block.marked is None else int(block.marked.sum())

    def merge(self, left: _Classes, right: _Classes) -> _Classes:
        return left[0] + right[0], left[1] + right[1]


def _done(name: str, asked: LossAsked) -> tuple[str, ...]:
    """The stages that touched a column, in order."""
    return tuple(told for stage in asked.stages if (told := _touch(stage, name, asked.roles)))


def _touch(stage: Mapping[str, Any], column: str, roles: Roles) -> str:
    """What a stage did to a column, or nothing."""
    name = str(stage["name"])
    levels = stage.get("detail", {}).get("levels")
    if isinstance(levels, Mapping):
        return f"{name} (level {levels[column]})" if levels.get(column) else ""
    if name in BY_RECORD:
        return ""
    columns = stage_names(stage, Columns) or stage_names(stage, Levels)
    if not columns:
        columns = list(
            roles.columns if stage.get("parameters", {}).get("columns") == "all" else roles.quasi_identifiers
        )
    return name if column in columns else ""
