"""Synthetic records from a Gaussian copula over mixed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import Kind, StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.categories import Labels, labelled, typed
from privpipe.transforms.numeric import refuse_nulls, require_numeric, whole_numbers
from privpipe.transforms.sampling.sample import proportional
from privpipe.transforms.strata import SmallStrata, Strata, checked_by, stratum_keys
from privpipe.transforms.synthesis.copula_model import PRESENT, Folding, is_category, learn_models

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["Synthesize"]

LEAST_RECORDS = 50
NUMBER = "number"


@dataclass(frozen=True, kw_only=True, repr=False)
class Synthesize(Transformer):
    """Replace the table by records drawn from a model of it: marginals, and correlations of normal scores.

    A number has a histogram of equal counts, linear within a cell; a category its share, rare ones folded into
    ``other``. A record is z from the key and its number, c = A z, u = Phi(c), and the marginals' values at u. The plan
    is the model, and confidential. Interactions and several modes of dependence are not kept; synthetic records are
    not safe by that name: judge linkage, closest records and membership all the same.

    Parameters
    ----------
    columns : tuple of str or "all"
        Default: all but identifiers. Where others are left, each record keeps its values of them and the columns
        are drawn anew beside these, whatever they are.
    records : int or "same"
        How many to draw; more than there are, if all columns are drawn.
    max_categories : int
        Most categories of a column; less frequent ones are rare.
    smoothing : {"histogram"}
        The raw distribution function would publish real extremes and is not offered.
    bins : int
        Most cells of a histogram; a cell has five records or more.
    min_count : int
        A category of fewer records is rare.
    rare : {"other", "drop"}
        Rare categories of text become ``other`` (dropped where even together they are rare), or go.
    nulls : {"keep", "refuse", "model"}
        keep: missing with the column's share, independently. model: gaps correlate with other columns.
    by : tuple of str
        Strata with a model each, of at least 50 records; their values are released in proportion.
    small_strata : {"refuse", "suppress", "merge"}

    Notes
    -----
    Source: Nelsen, An Introduction to Copulas, Springer, 2006; Rubin, J. Official Statistics 9(2), 1993.

    Examples
    --------
    >>> Synthesize(records=1000, bins=50)
    Synthesize(records=1000, bins=50)
    """

    taxon: ClassVar[Kind] = "synthetic"
    columns_rule: ClassVar[Any] = "optional"
    needs_draws: ClassVar[bool] = True
    preserves: ClassVar[str] = "shares and quantiles within sampling error; rank correlations of smooth pairs"
    reveals: ClassVar[str] = "the distribution of each column, and what correlations tell of outlying groups"
    draws_apart: ClassVar[str] = "draws records of nobody, who live in no household"
    source: ClassVar[str] = "Nelsen, An Introduction to Copulas, Springer, 2006"

    columns: Annotated[
        tuple[str, ...] | Literal["all"] | None,
        Columns(),
        Doc("columns to draw; all but identifiers when left out; the others stay as they are"),
    ] = None
    records: Annotated[
        Annotated[int, Ge(1)] | Literal["same"], Doc("number of records to draw, if all columns are drawn, or same")
    ] = "same"
    max_categories: Annotated[int, Ge(1), Doc("most categories of a text column")] = 200
    smoothing: Annotated[Literal["histogram"], Doc("how a number's distribution is modelled: histogram")] = "histogram"
    bins: Annotated[int, Ge(1), Le(100000), Doc("most cells of a number's histogram")] = 100
    min_count: Annotated[int, Ge(1), Doc("fewest records of a category that is released")] = 5
    rare: Annotated[Literal["other", "drop"], Doc("rare categories: other or drop")] = "other"
    nulls: Annotated[
        Literal["keep", "refuse", "model"],
        Doc("keep draws gaps independently; model lets them correlate; refuse makes them an error"),
    ] = "keep"
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns whose combinations have a model each")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata of fewer than 50 records: refuse, suppress or merge")] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        named = None if self.columns in (None, "all") else checked_columns("Synthesize", self.columns)
        object.__setattr__(self, "columns", named)
        object.__setattr__(self, "by", checked_by("Synthesize", self.by, named or (), self.small_strata))
        if named and self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        columns = self._drawn(context)
        left = [n for n in context.schema.names if n not in (*columns, *self.by, *context.roles.unreleased)]
        if left and self.records != "same":
            named = ", ".join(map(repr, left))
            raise UsageError(
                f"{context.place}: records: {self.records:,} new records have no values of {named}; leave columns out "
                "to draw all of them, or leave records out"
            )
        require_numeric(tuple(n for n in columns if not is_category(context.schema.field(n).type)), context)
        least = LEAST_RECORDS if self.by else 1
        # Strata are counted in records: a column with few values among them is modelled all the same.
        sized = Strata.learn(engine, table, self.by, (), context, least=least, small=self.small_strata)
        strata = _with_known(engine, table, sized, columns)
        missing = {name: sum(strata.records) - sum(strata.known[name]) for name in columns}
        if self.nulls == "refuse":
            for column, count in missing.items():
                refuse_nulls(column, count, context)
        folding = Folding(self.bins, self.max_categories, self.min_count, self.rare, self.nulls == "model")
        models = learn_models(engine, table, columns, strata, folding, context.place)
        detail: dict[str, Any] = {
            "columns": columns,
            "combinations": _combinations(engine, table, strata, self.min_count),
            "models": models,
            "nulls": missing,
            # Where columns are left, each record stays somebody's and is drawn by its stratum.
            **({"strata": strata.to_dict()} if left else {}),
            "confidential": True,
            "warnings": ["synthetic records are not safe by that name: judge linkage and membership as well"],
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        import pyarrow as pa

        if "strata" in plan.detail:
            return schema
        kept = {*self.by, *plan.detail["columns"]}
        return pa.schema([schema.field(name) for name in schema.names if name in kept])

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        if "strata" in plan.detail:
            strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
            return engine.map_rows(table, _Redrawn(strata, _Model(plan.detail, table.schema, draws)), table.schema)
        sizes = [each["records"] for each in plan.detail["combinations"]]
        if self.records != "same" and not sum(sizes):
            raise DataError(f"{context.place}: there are no records to learn a model from")
        # Rare combinations are left out, and others stand in for their records.
        wanted = sum(model["records"] for model in plan.detail["models"]) if self.records == "same" else self.records
        sizes = proportional(sizes, wanted)
        schema = self.released_schema(table.schema, plan)
        drawn = _Drawn(self.by, _Model(plan.detail, schema, draws), tuple(np.cumsum(sizes).tolist()))
        return engine.map_rows(engine.numbers(sum(sizes), draws.seed), drawn, schema)

    def _drawn(self, context: StageContext) -> tuple[str, ...]:
        if isinstance(self.columns, tuple):
            return self.columns
        left = {*context.roles.unreleased, *self.by}
        return tuple(name for name in context.schema.names if name not in left)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(records=30, bins=4, min_count=1, rare="drop"), cls(columns=("illness",), nulls="model")]


def _with_known(engine: Primitives, table: Any, strata: Strata, columns: Sequence[str]) -> Strata:
    """The strata with the number of values of each column."""
    from dataclasses import replace

    from privpipe.blocks import Facts, FactsRequest

    if not columns:
        return strata
    if not strata.by:
        nulls = engine.facts(table, FactsRequest(nulls=tuple(columns))).nulls
        return replace(strata, known={name: (strata.records[0] - nulls[name],) for name in columns})
    found = engine.reduce_rows(table, (*strata.by, *columns), _Known(strata, tuple(columns)), Facts())
    counts = np.zeros((len(columns), len(strata)), np.int64) if found is None else found
    return replace(strata, known={name: tuple(row) for name, row in zip(columns, counts.tolist(), strict=True)})


@dataclass(frozen=True)
class _Known:
    strata: Strata
    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Any) -> NDArray[np.int64]:
        import pyarrow.compute as pc

        numbers = self.strata.of(block)
        rows = []
        for name in self.columns:
            known = ~pc.is_null(block.column(name), nan_is_null=True).to_numpy(zero_copy_only=False)
            rows.append(np.bincount(numbers[known & (numbers >= 0)], minlength=len(self.strata)))
        return np.stack(rows)

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return left + right


def _combinations(engine: Primitives, table: Any, strata: Strata, min_count: int) -> list[dict[str, Any]]:
    """Values of the stratum columns, as text, with the stratum and the records to stand for; rare ones go."""
    if not strata.by:
        return [{"values": [], "stratum": 0, "records": strata.records[0]}]
    distinct = engine.distinct(table, strata.by).combine_chunks()
    if not len(distinct):
        return []
    batch = distinct.select(list(strata.by)).to_batches()[0]
    numbers = strata.of(RowBlock(batch)).tolist()
    texts = list(zip(*(labelled(batch.column(name)).to_pylist() for name in strata.by), strict=True))
    order = np.argsort(stratum_keys(batch, strata.key)).tolist()
    counts = distinct["__count"].to_pylist()
    return [
        {"values": list(texts[at]), "stratum": numbers[at], "records": counts[at]}
        for at in order
        if numbers[at] >= 0 and counts[at] >= min_count
    ]


@dataclass(frozen=True)
class _Model:
    """Draws the columns of records, each by its id and stratum."""

    detail: Mapping[str, Any] = field(repr=False)
    schema: Any
    draws: Draws = field(repr=False)

    def columns(self, ids: NDArray[np.int64], strata: NDArray[np.int64]) -> dict[str, Any]:
        import pyarrow as pa

        parts: dict[str, list[Any]] = {name: [] for name in self.detail["columns"]}
        orders = []
        for number in np.unique(strata).tolist():
            here = np.flatnonzero(strata == number)
            orders.append(here)
            for name, array in self._stratum(ids[here], self.detail["models"][number]).items():
                parts[name].append(array)
        if not orders:
            return {name: pa.array([], self.schema.field(name).type) for name in parts}
        back = pa.array(np.argsort(np.concatenate(orders)))
        return {name: pa.concat_arrays(arrays).take(back) for name, arrays in parts.items()}

    def _stratum(self, ids: NDArray[np.int64], model: Mapping[str, Any]) -> dict[str, Any]:
        from privpipe.kernels.synthesis.copula import uniforms_of

        normals = [self.draws.of(name).normal(ids, word=int(what != PRESENT)) for name, what in model["latent"]]
        uniforms = dict(zip(map(tuple, model["latent"]), uniforms_of(normals, model["factor"]), strict=True))
        found = {}
        for name, marginal in model["columns"].items():
            gaps = uniforms.get((name, "missing"))
            if gaps is None:
                gaps = self.draws.of(name).uniform(ids, word=2)
            found[name] = _values(
                uniforms[name, PRESENT], gaps < marginal["missing"], marginal, self.schema.field(name)
            )
        return found


@dataclass(frozen=True)
class _Drawn:
    """A function of record numbers: the records of the model."""

    by: tuple[str, ...]
    model: _Model
    ends: tuple[int, ...]

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        t = np.asarray(rows.column(NUMBER).to_numpy(zero_copy_only=False), np.int64)
        places = np.searchsorted(np.array(self.ends, np.int64), t, side="right")
        combinations, schema = self.model.detail["combinations"], self.model.schema
        strata = np.array([each["stratum"] for each in combinations], np.int64)[places]
        # A record is drawn by its number alone: the same for any partitioning.
        columns = self.model.columns(np.column_stack([t, np.zeros(len(t), np.int64)]), strata)
        for at, name in enumerate(self.by):
            words = pa.array([each["values"][at] for each in combinations], pa.string()).take(pa.array(places))
            columns[name] = typed(words, schema.field(name).type)
        batch = pa.record_batch([columns[name] for name in schema.names], schema=schema)
        return RowBlock(batch, rows.record_ids)


@dataclass(frozen=True)
class _Redrawn:
    """A function of records: some of their columns drawn anew, by the record's id."""

    strata: Strata
    model: _Model

    def __call__(self, rows: RowBlock) -> RowBlock:
        rows, numbers = self.strata.kept(rows)
        for name, column in self.model.columns(rows.record_ids, numbers).items():
            rows = rows.replace(name, column)
        return rows


def _values(u: NDArray[np.float64], missing: NDArray[np.bool_], marginal: Mapping[str, Any], column: Any) -> Any:
    """The marginal's values at u."""
    import pyarrow as pa

    from privpipe.kernels.synthesis.copula import inverse_histogram, inverse_shares

    if "labels" in marginal:
        labels = Labels(marginal["labels"])
        if not labels.texts:
            return pa.nulls(len(u), column.type)
        codes = np.where(missing, -1, inverse_shares(u, marginal["shares"]))
        return labels.words(codes).cast(column.type)
    if not marginal["edges"]:
        return pa.nulls(len(u), column.type)
    values = inverse_histogram(u, np.array(marginal["edges"]), np.array(marginal["shares"]))
    if pa.types.is_floating(column.type):
        return pa.array(values, pa.float64(), mask=missing).cast(column.type)
    return whole_numbers(np.where(missing, 0, np.rint(values)).astype(np.int64), missing, column.type)
