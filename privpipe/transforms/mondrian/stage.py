"""Mondrian: the table is cut along its columns, and each part has labels of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import FactsRequest, Histogram, Primitives
from privpipe.blocks.marks import Columns
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.transforms.base import Kind, StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.mondrian.cut_columns import CutColumn, Labels, cut_columns
from privpipe.transforms.mondrian.cut_tree import CutTree, Leaves
from privpipe.transforms.recoding.hierarchy_definition import with_earlier_labels
from privpipe.transforms.suppression.class_failures import judged_sets

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["MondrianStage", "tree_columns", "tree_names"]

Mode = Literal["strict", "relaxed"]
Score = Literal["width", "loss"]


@dataclass(frozen=True, kw_only=True, repr=False)
class MondrianStage(Transformer):
    """What `Mondrian` does to rows once its plan is known."""

    taxon: ClassVar[Kind] = "non-perturbative"
    columns_rule: ClassVar[Any] = "optional"
    searches: ClassVar[bool] = True
    suppresses: ClassVar[bool] = True  # nobody, yet it works for guarantees that compare with a base
    preserves: ClassVar[str] = "truth: every label covers the value it stands for; every record"
    reveals: ClassVar[str] = "that a finer cut did not meet the guarantees (minimality)"
    source: ClassVar[str] = "LeFevre, DeWitt, Ramakrishnan, ICDE 2006"

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Doc("columns to cut; default: the quasi-identifiers with a hierarchy")
    ] = None
    k: Annotated[int | None, Ge(1), Doc("least size of a part, where it is to be stricter than the guarantees")] = None
    mode: Annotated[Mode, Doc("strict (equal values stay together) or relaxed (embedded engine only)")] = "strict"
    score: Annotated[
        Score, Doc("width (the widest column, nearest its median) or loss (what lowers the loss most)")
    ] = "width"
    labels: Annotated[Labels, Doc("intervals by the cuts (cells) or by the values present (values)")] = "cells"

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "Mondrian"
        if self.columns is not None:
            object.__setattr__(self, "columns", checked_columns(owner, self.columns))
        if self.mode == "relaxed" and self.score == "loss":
            raise UsageError(f"{owner}: score loss weighs cuts between values, and mode relaxed cuts through them")

    def masked_columns(self) -> tuple[str, ...]:
        return ()

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        import pyarrow as pa

        for column in plan.detail["recoded"]:
            schema = schema.set(schema.get_field_index(column), pa.field(column, pa.string()))
        return schema

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        cut, fixed = tree_names(self, context)
        histograms = engine.facts(table, FactsRequest(histograms=(*cut, *fixed))).histograms
        columns, _ = tree_columns(histograms, self, context)
        planned = plan.detail["dictionaries"]
        if any(context.keyed(column.digest) != planned.get(column.name) for column in columns):
            earlier = replace(context, hierarchies=with_earlier_labels(context.hierarchies))
            columns, _ = tree_columns(histograms, self, earlier)
        for column in columns:
            if context.keyed(column.digest) != planned.get(column.name):
                raise DataError(
                    f"{context.place}: the values or the hierarchy of {column.name!r} are not those the plan was made "
                    "with; make a new plan for this table"
                )
        tree = CutTree.unpacked(plan.detail["tree"])
        leaves = Leaves.of(columns, tree, plan.detail["recoded"], self.labels)
        return engine.map_rows(table, leaves, self.released_schema(table.schema, plan))

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(k=3, score="loss"), cls(labels="values")]


def tree_names(stage: MondrianStage, context: StageContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns a tree is made of: those to be cut, and judged ones that stay as they are; in policy order.

    Raises
    ------
    UsageError
        No column to cut, or one that is not a quasi-identifier.
    """
    known = context.roles.quasi_identifiers
    held = [name for name in known if name in context.hierarchies]
    for column in stage.columns or ():
        if column not in known:
            raise UsageError(f"{context.place}: {column!r} is no quasi-identifier{did_you_mean(column, known)}")
    cut = [name for name in known if name in (stage.columns or held)]
    if not cut:
        raise UsageError(
            f"{context.place}: no quasi-identifier has a `hierarchy:`; name the `columns:` to cut by their values"
        )
    return tuple(cut), tuple(name for name in judged_sets(context).columns if name not in cut)


def tree_columns(
    histograms: Mapping[str, Histogram], stage: MondrianStage, context: StageContext
) -> tuple[tuple[CutColumn, ...], int]:
    """The dictionaries of `tree_names`, and how many of them are cut."""
    cut, fixed = tree_names(stage, context)
    found = cut_columns(histograms, cut, context)
    return found + cut_columns(histograms, fixed, context, hierarchies=False), len(cut)
