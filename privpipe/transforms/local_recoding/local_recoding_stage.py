"""Local recoding: several vectors of levels, each for the part of the table that the previous ones left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.marks import Columns
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import canonical_text
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext, StagePlan, checked_columns
from privpipe.transforms.local_recoding.rounds import GONE, Tuples
from privpipe.transforms.mondrian.cut_columns import CutColumn, by_value, require_one_node_a_label, value_codes
from privpipe.transforms.mondrian.cut_tree import CutTree
from privpipe.transforms.recoding.encoded_table import rows_by_person, sorted_values
from privpipe.transforms.recoding.generalize_stage import GeneralizeStage, generalized_columns
from privpipe.transforms.recoding.labelling import RecodingStage, earlier, texts_of
from privpipe.transforms.suppression.class_failures import Combinations
from privpipe.transforms.suppression.combinations import person_numbers
from privpipe.transforms.suppression.judged_sets import judged_sets
from privpipe.transforms.suppression.record_suppression import sensitive_codes, suppress_failing, text_ranks

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["KeyPlaces", "LocalRecodingStage", "Recoded", "as_generalize"]


@dataclass(frozen=True, kw_only=True, repr=False)
class LocalRecodingStage(RecodingStage):
    """What `LocalRecoding` does to rows once its plan is known."""

    columns_rule = "optional"
    searches = True
    draws_apart = (
        "chooses labels for single classes, and members of one value may be in several: generalize labels them alike"
    )
    suppresses = True
    serves = ("persons", "wildcard")
    preserves = "truth: every label covers the value it stands for"
    reveals = "that coarsely labelled records did not fit into an earlier round (minimality)"
    source = "Xu et al., KDD 2006 (local recoding); Iyengar, KDD 2002 (loss)"

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Doc("columns to generalize; default: the quasi-identifiers with a hierarchy")
    ] = None
    method: Annotated[
        Literal["sweep", "search", "rounds"],
        Doc("walk all vectors of levels, regroup their classes, or search for the best one repeatedly"),
    ] = "sweep"
    share: Annotated[
        float | None, Ge(0), Le(1), Doc("least share of the records that a vector of levels must keep")
    ] = None
    steps: Annotated[int, Ge(1), Doc("under search: steps for each combination of values")] = 5
    block: Annotated[int, Ge(2), Doc("under search: combinations of values that are regrouped together")] = 32_000
    gs_factor: Annotated[
        float, Ge(0), Le(1), Doc("under rounds: weight of generalization against suppression in the first one, 0 to 1")
    ] = 0.5
    rest: Annotated[
        Literal["suppress", "merge"],
        Doc("suppress the records left at the end, or merge their classes with those whose union loses least"),
    ] = "suppress"
    suppress_at_most: Annotated[float, Ge(0), Le(1), Doc("share of the records that may be suppressed in the end")] = (
        0.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "LocalRecoding"
        if self.columns is not None:
            object.__setattr__(self, "columns", checked_columns(owner, self.columns))
        if self.share is not None and not self.share and self.method == "rounds":
            raise UsageError("LocalRecoding: under method: rounds, share must be above 0")

    @property
    def least_share(self) -> float:
        """`share`, or the default of rounds."""
        return 0.05 if not self.share else self.share

    def parameters(self) -> dict[str, Any]:
        """As of every entry; `rest` only where it is merged, so that plans made without it fit as they did."""
        left_out = {"rest"} if self.rest == "suppress" else set()
        return {name: value for name, value in super().parameters().items() if name not in left_out}

    def recoded_at_all(self, context: StageContext) -> tuple[str, ...]:
        return generalized_columns(as_generalize(self), context)

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        columns = generalized_columns(as_generalize(self), context)
        counted = _Counted.of(engine, table, columns, context)
        for older in earlier(context.hierarchies):
            if not _strange(counted, columns, plan, context):
                break
            counted = _Counted.of(engine, table, columns, replace(context, hierarchies=older))
        for column in _strange(counted, columns, plan, context):
            raise DataError(f"{context.place}: the hierarchy of {column!r} is not the one the plan was made with")
        recode = Recoded.of(counted, self._levels(counted.tuples, plan), plan.detail["recoded"])
        recoded = engine.map_rows(table, recode, self.released_schema(table.schema, plan))
        if not context.counts_households:
            return recoded
        entering, limit = engine.count(table), self.suppress_at_most
        return suppress_failing(engine, recoded, context, limit, entering=entering, serves=self.serves, whole=table)

    def _levels(self, tuples: Tuples, plan: StagePlan) -> NDArray[np.int16]:
        """What the plan makes of each combination."""
        if "tree" in plan.detail:
            from privpipe.transforms.local_recoding.clusters import clustered

            levels = clustered(tuples, CutTree.unpacked(plan.detail["tree"]), int(plan.detail["steps"]))
        else:
            levels = tuples.after(
                [[int(made["levels"][column]) for column in tuples.columns] for made in plan.detail["rounds"]]
            )
        if "merging" in plan.detail:
            from privpipe.transforms.local_recoding.rounds import merged

            return merged(tuples, levels, int(plan.detail["merging"]["allowed"]))
        return levels

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(method="search", steps=1),
            cls(suppress_at_most=0.3),
            cls(rest="merge", share=0.2, suppress_at_most=0.3),
            cls(method="rounds", share=0.5, gs_factor=0.25, suppress_at_most=1.0),
        ]


def _strange(counted: _Counted, columns: tuple[str, ...], plan: StagePlan, context: StageContext) -> list[str]:
    """Columns whose hierarchy is not that of the plan."""
    planned = plan.detail["hierarchies"]
    pairs = zip(columns, counted.tuples.hierarchies, strict=True)
    return [column for column, hierarchy in pairs if context.keyed(hierarchy.digest()) != planned.get(column)]


def as_generalize(stage: LocalRecodingStage) -> GeneralizeStage:
    """The stage that one round is."""
    return GeneralizeStage(columns=stage.columns, suppress_at_most=1.0)


@dataclass(frozen=True)
class Recoded:
    """A function of one block: each record gets the labels of its combination, or goes.

    Parameters
    ----------
    columns : tuple of CutColumn
        Those that distinguish combinations, by their values.
    places : KeyPlaces
    kept : ndarray of bool, shape (t,)
    named : mapping of column to pyarrow.DictionaryArray
        Label of each combination, of the columns that are recoded.
    """

    columns: tuple[CutColumn, ...]
    places: KeyPlaces = field(repr=False)
    kept: Bools = field(repr=False)
    named: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, counted: _Counted, levels: NDArray[np.int16], recoded: list[str]) -> Self:
        """From the levels of the combinations that hierarchies know; the others are suppressed."""
        import pyarrow as pa

        known = counted.known
        kept = np.zeros(len(known), dtype=np.bool_)
        kept[known] = levels[:, 0] != GONE
        named = {}
        for at, column in enumerate(counted.tuples.columns):
            if column in recoded:
                numbers = np.zeros(len(known), dtype=np.int64)
                numbers[known], texts = counted.tuples.labels(at, levels)
                named[column] = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(texts, pa.string()))
        sizes = [column.size for column in counted.columns]
        return cls(counted.columns, KeyPlaces.of(counted.values, sizes), kept, named)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        codes = np.column_stack([value_codes(column, rows.column(column.name)) for column in self.columns])
        places = self.places(codes)
        kept = np.flatnonzero(self.kept[places])
        rows, at = rows.take(kept), pa.array(places[kept])
        for column, labels in self.named.items():
            rows = rows.replace(column, labels.take(at).cast(pa.string()))
        return rows


@dataclass(frozen=True)
class _Counted:
    """The combinations of a table: by their values, and those the hierarchies know as `Tuples`."""

    columns: tuple[CutColumn, ...]
    values: Ints = field(repr=False)
    known: Bools = field(repr=False)
    tuples: Tuples = field(repr=False)

    @classmethod
    def of(cls, engine: Primitives, table: Any, columns: tuple[str, ...], context: StageContext) -> Self:
        sets = judged_sets(context, serves=LocalRecodingStage.serves)
        fixed = tuple(key for key in sets.columns if key not in columns)
        person = [] if sets.person is None else [sets.person]
        distinct = engine.distinct(table, list(dict.fromkeys([*columns, *fixed, *sets.sensitive, *person])))
        records = distinct["__count"].to_numpy().astype(np.int64)
        by_values, hierarchies, codes, coded = [], [], [], []
        for name in (*columns, *fixed):
            seen, places = sorted_values(distinct[name])
            texts = texts_of(seen, context, name).to_pylist()
            column = by_value(name, seen, texts)
            by_values.append(column)
            own = value_codes(column, distinct[name])
            coded.append(own)
            if name in columns:
                kind = context.types.get(name) or column_type_of(context.schema.field(name).type)
                totals = np.bincount(places, weights=records, minlength=len(texts)).astype(np.int64).tolist()
                hierarchy = context.hierarchies[name].build(texts, totals, kind)
                require_one_node_a_label(hierarchy, context)
                hierarchies.append(hierarchy)
                codes.append(hierarchy.encode(texts).astype(np.int64)[own])
            else:
                # By rank of the text, as a planner codes them.
                codes.append(text_ranks(canonical_text(seen, None, column=name).to_pylist())[own])
        matrix = np.column_stack(codes).astype(np.int32)
        known: Bools = np.all(matrix >= 0, axis=1)
        sensitive = {name: sensitive_codes(distinct[name], name, context.base)[known] for name in sets.sensitive}
        left, rows, values = matrix[known], Combinations(records[known], sensitive), np.column_stack(coded)
        if sets.person is not None:
            kept, rows = rows_by_person(left, rows, person_numbers(distinct[sets.person], sets.person)[known])
            # One person represents all who have no other combination.
            standing = ~known
            standing[np.flatnonzero(known)[kept]] = True
            left, values, known = left[kept], values[standing], known[standing]
        left = np.ascontiguousarray(left)
        return cls(
            tuple(by_values),
            values,
            known,
            Tuples(columns, fixed, tuple(hierarchies), left, rows, sets, context.base),
        )


@dataclass(frozen=True)
class KeyPlaces:
    """The position of a row of codes among given rows; exact however many columns there are.

    Parameters
    ----------
    stages : tuple of (first column, last column, ndarray of int64)
        Keys of the combinations of the columns so far, ascending.
    sizes : tuple of int
    order : ndarray of int64
        A row of the given ones for each of their distinct rows, in the order of their keys.

    Examples
    --------
    >>> places = KeyPlaces.of(np.array([[1, 0], [0, 2], [1, 2]]), [2, 3])
    >>> places(np.array([[1, 2], [0, 2], [1, 0]])).tolist()
    [2, 1, 0]
    """

    stages: tuple[tuple[int, int, Ints], ...] = field(repr=False)
    sizes: tuple[int, ...]
    order: Ints = field(repr=False)

    @classmethod
    def of(cls, rows: Ints, sizes: Sequence[int]) -> Self:
        """From rows of codes below these sizes."""
        stages: list[tuple[int, int, Ints]] = []
        numbers, first, many = np.zeros(len(rows), dtype=np.int64), 0, 1
        order = np.zeros(min(1, len(rows)), dtype=np.int64)
        while first < len(sizes):
            last, space = first, many
            while last < len(sizes) and (last == first or space * max(sizes[last], 1) < 1 << 62):
                space *= max(sizes[last], 1)
                last += 1
            found, order, numbers = np.unique(
                _keys(numbers, rows, first, last, sizes), return_index=True, return_inverse=True
            )
            stages.append((first, last, found))
            first, many = last, len(found)
        return cls(tuple(stages), tuple(sizes), order.astype(np.int64))

    def __call__(self, rows: Ints) -> Ints:
        """Place of each row.

        Raises
        ------
        DataError
            A row that is not among them.
        """
        numbers = np.zeros(len(rows), dtype=np.int64)
        for first, last, found in self.stages:
            keys = _keys(numbers, rows, first, last, self.sizes)
            numbers = np.minimum(np.searchsorted(found, keys), len(found) - 1)
            missing = int((found[numbers] != keys).sum())
            if missing:
                raise DataError(f"{missing:,} records are not among the combinations that were counted")
        return self.order[numbers]


def _keys(numbers: Ints, rows: Ints, first: int, last: int, sizes: Sequence[int]) -> Ints:
    keys = numbers
    for at in range(first, last):
        keys = keys * max(sizes[at], 1) + rows[:, at]
    return keys
