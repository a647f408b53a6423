"""Mondrian: the table is cut along its columns, and each part has its own labels, also over a population."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Histogram, Primitives, RowBlock
from privpipe.blocks.marks import Columns
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.transforms.base import StageContext, StagePlan, checked_columns
from privpipe.transforms.mondrian.cut_columns import CutColumn, Labels, cut_columns
from privpipe.transforms.mondrian.cut_passes import MOST_COMBINATIONS, combinations_exceed
from privpipe.transforms.mondrian.cut_tree import CutTree, Leaves
from privpipe.transforms.recoding.labelling import RecodingStage, earlier
from privpipe.transforms.suppression.judged_sets import judged_columns, judged_sets

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.blocks import Guarantee
    from privpipe.draws import Draws
    from privpipe.roles import Roles

__all__ = ["MondrianStage", "population_combinations", "population_histograms", "tree_columns", "tree_names"]


def population_combinations(engine: Any, names: Sequence[str], context: StageContext) -> pa.Table | None:
    """Distinct combinations of the context's population over the columns of a tree; None where there is none.

    Raises
    ------
    DataError
        A column that the population lacks or holds in another type.
    UnsupportedError
        More combinations than the driver holds.
    """
    if context.population is None:
        return None
    _require_columns(names, context)
    if combinations_exceed(engine, context.population, names, MOST_COMBINATIONS):
        raise UnsupportedError(
            f"{context.place}: the population has more than {MOST_COMBINATIONS:,} distinct combinations of the columns "
            "that are cut and judged; generalize some of them before it"
        )
    found: pa.Table = engine.distinct(context.population, list(names))
    return found


def population_histograms(engine: Any, names: Sequence[str], context: StageContext) -> Mapping[str, Histogram] | None:
    """Values of the context's population; None where there is none."""
    if context.population is None:
        return None
    _require_columns(names, context)
    found: Mapping[str, Histogram] = engine.facts(context.population, FactsRequest(histograms=tuple(names))).histograms
    return found


def _require_columns(names: Sequence[str], context: StageContext) -> None:
    schema = context.population.schema
    for name in names:
        if name not in schema.names:
            raise DataError(
                f"{context.place}: column {name!r} is not in the population{did_you_mean(name, schema.names)}; the "
                "place of its persons in a tree of cuts follows from every column that is cut or judged"
            )
        mine, theirs = context.schema.field(name).type, schema.field(name).type
        if mine != theirs:
            raise DataError(
                f"{context.place}: column {name!r} is {mine} in the table and {theirs} in the population; declare its "
                "type"
            )


Mode = Literal["strict", "relaxed"]
Score = Literal["width", "loss"]
CARRIED = ("approach", "columns", "fixed", "recoded", "tree", "dictionaries", "hierarchies", "data_dependent")
"""What a plan shows that holds for another table too."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MondrianStage(RecodingStage):
    """What `Mondrian` does to rows once its plan is known."""

    columns_rule = "optional"
    searches = True
    draws_apart = (
        "chooses labels for single classes, and members of one value may be in several: generalize labels them alike"
    )
    suppresses = True  # no record, yet it works for guarantees that compare with a base
    serves = ("persons", "population", "wildcard")
    preserves = "truth: every label covers the value it stands for; every record"
    reveals = "that a finer cut did not meet the guarantees (minimality)"
    source = "LeFevre, DeWitt, Ramakrishnan, ICDE 2006"

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Doc("columns to cut; default: the quasi-identifiers with a hierarchy")
    ] = None
    k: Annotated[int | None, Ge(1), Doc("least size of a part, where it is to be stricter than the guarantees")] = None
    mode: Annotated[
        Mode, Doc("strict (equal values stay together) or relaxed (records of one value may be divided)")
    ] = "strict"
    score: Annotated[
        Score, Doc("width (the widest column, nearest its median) or loss (the cut that lowers the loss most)")
    ] = "width"
    labels: Annotated[Labels, Doc("intervals by the cuts (cells) or by the values present (values)")] = "cells"
    lookahead: Annotated[
        int, Ge(0), Le(1), Doc("1: where no cut passes, also those whose failing sides have a cut that passes")
    ] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "Mondrian"
        if self.columns is not None:
            object.__setattr__(self, "columns", checked_columns(owner, self.columns))
        if self.mode == "relaxed" and self.score == "loss":
            raise UsageError(f"{owner}: score loss weighs cuts between values, and mode relaxed cuts through them")

    def parameters(self) -> dict[str, Any]:
        """As of every entry; `lookahead` only where it is 1, so that plans made without it fit as they did."""
        left_out = set() if self.lookahead else {"lookahead"}
        return {name: value for name, value in super().parameters().items() if name not in left_out}

    @property
    def shows_values(self) -> str:
        return "the ends of its intervals over columns without a hierarchy are values of the data"

    def recoded_at_all(self, context: StageContext) -> Iterable[str]:
        return self.columns or [name for name in context.roles.quasi_identifiers if name in context.hierarchies]

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        leaves = self._leaves(engine, table, plan, context)
        return engine.map_rows(table, leaves, self.released_schema(table.schema, plan))

    def not_followed(self) -> str:
        if self.mode == "strict":
            return ""
        return (
            "divides the records of one value in mode relaxed, so a person of the population has no place there; "
            "`mode: strict` gives everyone one"
        )

    def population_columns(
        self, roles: Roles, hierarchies: Collection[str], guarantees: Iterable[Guarantee]
    ) -> tuple[str, ...]:
        cut = _cut_names(self, roles.quasi_identifiers, hierarchies)
        return tuple(dict.fromkeys([*cut, *judged_columns(roles, guarantees)]))

    def population_after(
        self, engine: Primitives, table: Any, population: Any, plan: StagePlan, context: StageContext
    ) -> Any:
        leaves = self._leaves(engine, table, plan, context)
        self._require_covered(engine, population, leaves, plan, "records of the population", context)
        return engine.map_rows(population, leaves, self.released_schema(population.schema, plan))

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        leaves = self._leaves(engine, table, plan, context)
        if leaves.tree.is_relaxed:
            return super().carried(engine, table, plan, context)
        self._require_covered(engine, table, leaves, plan, "records", context)
        # The cuts have another cost on this table than on the first one.
        return replace(plan, detail={name: plan.detail[name] for name in CARRIED} | {"records": engine.count(table)})

    def _require_covered(
        self, engine: Primitives, table: Any, leaves: Leaves, plan: StagePlan, whose: str, context: StageContext
    ) -> None:
        """Refuse a label that is not true of a person: the one counted by it could not be the one meant."""
        names = [column.name for column in leaves.columns]
        outside = engine.reduce_rows(table, names, _Outside(leaves, plan.detail["recoded"]), Facts()) or {}
        for column, records in outside.items():
            if records:
                raise DataError(
                    f"{context.place}: {records:,} {whose} have a value of {column!r} that the label of their part "
                    "does not cover; make a new plan for this table"
                )

    def _leaves(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> Leaves:
        """The function of the rows, where the codes of the plan mean the same in this table."""
        cut, fixed = tree_names(self, context)
        histograms = engine.facts(table, FactsRequest(histograms=(*cut, *fixed))).histograms
        beside = population_histograms(engine, (*cut, *fixed), context)
        columns, _ = tree_columns(histograms, self, context, beside)
        planned = plan.detail["dictionaries"]
        for older in earlier(context.hierarchies):
            if all(context.keyed(column.digest) == planned.get(column.name) for column in columns):
                break
            columns, _ = tree_columns(histograms, self, replace(context, hierarchies=older), beside)
        for column in columns:
            if context.keyed(column.digest) != planned.get(column.name):
                raise DataError(
                    f"{context.place}: the values or the hierarchy of {column.name!r} are not those the plan was made "
                    "with, and a plan holds codes, never values; make a new plan for this table, or give the column "
                    "a hierarchy that lists its whole domain (a file, a tree or rows)"
                )
        tree, recoded = CutTree.unpacked(plan.detail["tree"]), plan.detail["recoded"]
        if not tree.fits([column.size for column in columns]) or not set(recoded) <= set(cut):
            raise UsageError(f"{context.place}: the plan holds parts of other columns than are cut: make a new plan")
        return Leaves.of(columns, tree, recoded, self.labels)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(k=3, score="loss"), cls(labels="values"), cls(lookahead=1)]


@dataclass(frozen=True)
class _Outside:
    """Records by column whose value is outside the label of their leaf."""

    leaves: Leaves
    recoded: Sequence[str]

    def measure(self, block: RowBlock, facts: Facts) -> dict[str, int]:
        codes = self.leaves.codes(block)
        here, tree = self.leaves.numbers_of(codes, block), self.leaves.tree
        found = {}
        for at, column in enumerate(self.leaves.columns):
            if column.name in self.recoded:
                low, high = tree.lows[here, at], tree.highs[here, at]
                found[column.name] = int(((codes[:, at] < low) | (codes[:, at] > high)).sum())
        return found

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def tree_names(stage: MondrianStage, context: StageContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns a tree is made of: those to be cut, and judged ones that stay unchanged; in policy order.

    Raises
    ------
    UsageError
        No column to cut, or one that is not a quasi-identifier.
    """
    known = context.roles.quasi_identifiers
    for column in stage.columns or ():
        if column not in known:
            raise UsageError(f"{context.place}: {column!r} is not a quasi-identifier{did_you_mean(column, known)}")
    cut = _cut_names(stage, known, context.hierarchies)
    if not cut:
        raise UsageError(
            f"{context.place}: no quasi-identifier has a `hierarchy:`; name the `columns:` to cut by their values, in "
            f"Python Mondrian(columns={list(known)!r})"
        )
    return cut, tuple(name for name in judged_sets(context, serves=stage.serves).columns if name not in cut)


def tree_columns(
    histograms: Mapping[str, Histogram],
    stage: MondrianStage,
    context: StageContext,
    beside: Mapping[str, Histogram] | None = None,
) -> tuple[tuple[CutColumn, ...], int]:
    """The dictionaries of `tree_names`, and how many of them are cut.

    Parameters
    ----------
    histograms : mapping of column to Histogram
        Of the table.
    beside : mapping of column to Histogram, optional
        Of the population that is cut as the table is.
    """
    cut, fixed = tree_names(stage, context)
    found = cut_columns(histograms, cut, context, beside=beside)
    return found + cut_columns(histograms, fixed, context, hierarchies=False, beside=beside), len(cut)


def _cut_names(stage: MondrianStage, known: Sequence[str], held: Collection[str]) -> tuple[str, ...]:
    """The columns to be cut, in policy order: those named, else all that have a hierarchy."""
    return tuple(name for name in known if name in (held if stage.columns is None else stage.columns))
