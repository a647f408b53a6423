"""Synthetic records: sequential trees, a Gaussian copula over mixed columns, or differentially private marginals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks import Primitives
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.numeric_columns import refuse_nulls, require_numeric
from privpipe.transforms.sampling.sample import proportional
from privpipe.transforms.strata import PersonCounts, SmallStrata, Strata, checked_by, require_present, units_of
from privpipe.transforms.synthesis.codebooks import is_bare
from privpipe.transforms.synthesis.copula_model import FEWEST, Folding, Scores, Scoring, is_category, learn_models
from privpipe.transforms.synthesis.drawn_records import CopulaModel, Drawn, Redrawn, SynthesisRule, TreeModel
from privpipe.transforms.synthesis.marginal_model import Domain, MarginalModel, learn_marginals
from privpipe.transforms.synthesis.stratum_counts import (
    MOST_DRAWN,
    combinations_of,
    planned_records,
    require_counts,
    with_known,
)
from privpipe.transforms.synthesis.tree_model import Growing, learn_trees, require_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["Synthesize", "check_method"]


CART_ALONE = ("given", "order", "min_leaf", "learn_on", "rules", "zeros")
COPULA_ALONE = ("scores", "levels")
MARGINALS_ALONE = ("epsilon", "delta", "unit", "most_records", "domains")
ALONE = (("cart", CART_ALONE), ("copula", COPULA_ALONE), ("marginals", MARGINALS_ALONE))


def check_method(stage: Any) -> None:
    """Refuse parameters of `Synthesize` that do not go with its method.

    Raises
    ------
    UsageError
    """
    for method, names in ALONE:
        used = [name for name in names if stage.method != method and _differs(stage, name)]
        if used:
            raise UsageError(f"Synthesize: {', '.join(used)} requires `method: {method}`")
    if stage.method == "marginals":
        _check_private(stage)


def _differs(stage: Any, name: str) -> bool:
    default = type(stage).__dataclass_fields__[name].default
    return bool(getattr(stage, name) != ({} if name in ("domains", "levels") else default))


def _check_private(stage: Any) -> None:
    if stage.epsilon is None or stage.delta is None:
        raise UsageError("Synthesize: method: marginals needs epsilon and delta")
    used = [*(["by"] if stage.by else []), *(["nulls"] if stage.nulls not in (None, "model") else [])]
    if used:
        raise UsageError(f"Synthesize: {', '.join(used)} does not go with `method: marginals`")
    if stage.unit == "record" and stage.most_records != 1:
        raise UsageError("Synthesize: most_records requires `unit: person`")


LEAST_RECORDS = 50
MODELS: Mapping[str, Any] = {"cart": TreeModel.of, "copula": CopulaModel, "marginals": MarginalModel.of}


@dataclass(frozen=True, kw_only=True, repr=False)
class Synthesize(Transformer):
    """Replace the table by records drawn from a model of it: sequential trees, a Gaussian copula, or private marginals.

    cart: a column is drawn given those before it, from the leaf of a tree that its record falls into. The tree splits
    by these columns and by scores that add up the evidence of all; within a leaf the draw leans by the evidence
    beyond it, and takes no value more than twice as often as its share. Categories and values that at least
    `min_count` records hold are released unchanged; rarer values form cells and are released
    as means less and plus deviations of at least five records, never as themselves. copula: marginals with the same
    cells, and one correlation for each pair of columns, whose categories are ordered. marginals: noisy counts of
    each column and of a tree of pairs, chosen and measured with (epsilon, delta)-differential privacy. The plan is the
    model, and confidential. Synthetic records are not safe by that name: judge linkage, closest records and membership
    all the same.

    Parameters
    ----------
    method : {"cart", "copula", "marginals"}
        cart keeps relations of any shape and needs ``privpipe[utility]``; copula keeps rank correlations; marginals
        promises differential privacy and keeps relations of the pairs it chose.
    epsilon, delta : float
        marginals: budget of the whole stage; its noise is drawn from the operating system's secret randomness, so
        each plan has its own noise, and two plans of one table spend twice.
    unit : {"record", "person"}
        marginals: who is protected; of a person at most `most_records` records count.
    most_records : int
    domains : mapping of column to Domain
        marginals: ``{age: {low: 0, high: 100, bins: 20}, sex: {levels: [f, m]}}``, known without the data.
    columns : tuple of str or "all"
        Default: all but identifiers. Where others are left, each record keeps its values of them and the columns
        are drawn again in addition to these.
    given : tuple of str
        cart: columns that stay and on which the drawn ones depend; they are independent of the others.
    order : {"entropy", "gain", "table"} or tuple of str
        cart: entropy draws columns of few and uneven values first, gain next the one that those before it explain
        best; columns that are named come first, the others by entropy.
    min_leaf : int
        cart: fewest records of a leaf, or persons where the policy distinguishes them.
    learn_on : int
        cart: most records that trees are grown on, drawn by the run's key; values are counted over all.
    rules : tuple of SynthesisRule
        cart: ``{when: {married: ["no"]}, then: {spouse_age: [null]}}``; columns of `when` are drawn first.
    zeros : {"found", "declared"}
        cart: found leaves out combinations of two categories that no record has though chance would give ten.
    scores : {"optimal", "frequency"}
        copula: in which order categories are scored: optimal takes the one whose scores correlate most with the other
        columns, frequency the most frequent first.
    levels : mapping of column to tuple of str
        copula: the order of a column's categories, where they have one; each that `min_count` records hold is named.
    records : int or "same"
        How many to draw, at most 500 million; more than there are, if all columns are drawn.
    max_categories : int
        Most categories of a column; less frequent ones are rare.
    smoothing : {"histogram"}
        Cells, with mean and deviation of each kept; the raw distribution function would publish real extremes and is
        not offered.
    bins : int
        Most cells of a histogram, or of rare values; a cell has five records or more.
    min_count : int
        A category or a number of fewer records is rare; under copula a number of fewer than five always. A number that
        is released instead of rare ones represents a group of at least this many, and of at least five; it is none of
        them, unless every number near is one, as in ages, days or a running number. Where the policy distinguishes
        persons, all of these count persons.
    rare : {"other", "drop"}
        Rare categories of text become ``other`` (dropped where even together they are rare), or go.
    nulls : {"keep", "refuse", "model"}
        model, the default: gaps depend on other columns. keep, of copula: missing with the column's share,
        independently.
    by : tuple of str
        Strata with a model each, of at least 50 records; their values are released in proportion.
    small_strata : {"refuse", "suppress", "merge"}

    Examples
    --------
    >>> Synthesize(records=1000, min_leaf=20)
    Synthesize(min_leaf=20, records=1000)
    """

    taxon = "synthetic"
    columns_rule = "optional"
    needs_draws = True
    preserves = "shares, means and deviations within sampling error; under cart relations too"
    reveals = "the distribution of each column, and what relations reveal about outlying groups"
    draws_apart = "draws records of no person, and so of no household"
    source = (
        "Reiter, J. Official Statistics 21(3), 2005; Nowok, Raab, Dibben, J. Statistical Software 74(11), "
        "2016; Nelsen, An Introduction to Copulas, Springer, 2006; Rubin, J. Official Statistics 9(2), 1993; "
        "McKenna, Miklau, Sheldon, J. Privacy and Confidentiality 11(3), 2021"
    )

    method: Annotated[
        Literal["cart", "copula", "marginals"], Doc("model: cart (sequential trees), copula, or marginals with epsilon")
    ] = "cart"
    columns: Annotated[
        tuple[str, ...] | Literal["all"] | None,
        Columns(),
        Doc("columns to draw; all but identifiers when left out; the others stay unchanged"),
    ] = None
    given: Annotated[
        tuple[str, ...], ColumnNames(), Doc("cart: columns that stay and on which the drawn ones depend")
    ] = ()
    order: Annotated[
        tuple[str, ...] | Literal["entropy", "gain", "table"],
        Doc("cart: in which order columns are drawn: entropy, gain, table, or the names of the first"),
    ] = "entropy"
    min_leaf: Annotated[int, Ge(1), Doc("cart: fewest records of a leaf")] = 15
    learn_on: Annotated[int, Ge(100), Doc("cart: most records that trees are grown on")] = 50_000
    rules: Annotated[
        tuple[SynthesisRule, ...], Doc("cart: values that follow from others: {when: {...}, then: {...}}")
    ] = ()
    zeros: Annotated[
        Literal["found", "declared"],
        Doc("cart: combinations that no record has are left out: found, or only declared ones"),
    ] = "found"
    scores: Annotated[Scores, Doc("copula: order of categories: optimal (by their relations) or frequency")] = "optimal"
    levels: Annotated[
        dict[str, tuple[str, ...]], Doc("copula: declared orders of categories: {education: [low, middle, high]}")
    ] = field(default_factory=dict)
    epsilon: Annotated[float | None, Gt(0), Doc("marginals: privacy loss of the stage, as an exponent")] = None
    delta: Annotated[float | None, Gt(0), Lt(1), Doc("marginals: chance that more is lost; below one over n")] = None
    unit: Annotated[Literal["record", "person"], Doc("marginals: who is protected, record or person")] = "record"
    most_records: Annotated[int, Ge(1), Doc("marginals: most records of a person that count")] = 1
    domains: Annotated[
        dict[str, Domain],
        Doc("marginals: values of each column, known without the data: levels, or low, high and bins"),
    ] = field(default_factory=dict)
    records: Annotated[
        Annotated[int, Ge(1), Le(MOST_DRAWN)] | Literal["same"],
        Doc("number of records to draw, if all columns are drawn, or same"),
    ] = "same"
    max_categories: Annotated[int, Ge(1), Doc("most categories of a text column")] = 200
    smoothing: Annotated[Literal["histogram"], Doc("how a number's distribution is modelled: histogram")] = "histogram"
    bins: Annotated[int, Ge(1), Le(100000), Doc("most cells of a number's histogram")] = 100
    min_count: Annotated[int, Ge(1), Doc("fewest records of a category or number that is released")] = 5
    rare: Annotated[Literal["other", "drop"], Doc("rare categories: other or drop")] = "other"
    nulls: Annotated[
        Literal["keep", "refuse", "model"] | None,
        Doc("model, the default, lets gaps depend; keep (copula) draws them independently; refuse makes them an error"),
    ] = None
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns whose combinations have a model each")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata of fewer than 50 records: refuse, suppress or merge")] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        named = None if self.columns in (None, "all") else checked_columns("Synthesize", self.columns)
        object.__setattr__(self, "columns", named)
        object.__setattr__(self, "by", checked_by("Synthesize", self.by, named or (), self.small_strata))
        rules = (SynthesisRule(**rule) if isinstance(rule, Mapping) else rule for rule in self.rules)
        try:
            object.__setattr__(self, "rules", tuple(rules))
        except (TypeError, AttributeError):
            raise UsageError("Synthesize: rules are mappings of `when` and `then` to columns with values") from None
        for name in ("given", "order"):
            if not isinstance(getattr(self, name), str) and getattr(self, name):
                object.__setattr__(self, name, checked_columns("Synthesize", getattr(self, name)))
        twice = [name for name, levels in self.levels.items() if len(set(levels)) < len(levels)]
        if twice:
            raise UsageError(f"Synthesize: levels: {', '.join(map(repr, twice))} has a level twice")
        object.__setattr__(self, "levels", {name: tuple(levels) for name, levels in self.levels.items()})
        both = sorted(set(self.given) & {*(named or ()), *self.by})
        if both or (self.given and not named):
            raise UsageError(
                "Synthesize: given names columns that stay: in addition to `columns`, and neither among "
                "them nor in `by`"
            )
        if self.method == "cart" and self.nulls == "keep":
            raise UsageError("Synthesize: nulls: keep draws gaps independently, which is of `method: copula`")
        check_method(self)
        if self.method == "marginals":
            object.__setattr__(self, "forbids_counts", True)
        if named and self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    def uncounted_persons(self) -> str:
        if self.method != "marginals" or self.unit == "person":
            return ""
        return "unit: record protects one record of a person; set unit: person, and most_records"

    def draws_records(self, released: Collection[str]) -> bool:
        return set(released) <= {*(self.columns or released), *self.by}

    def packages(self) -> dict[str, str]:
        return {"sklearn": "utility"} if self.method == "cart" else {}

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        columns = self._drawn(context)
        left = [n for n in context.schema.names if n not in (*columns, *self.by, *context.roles.unreleased)]
        if left and self.records != "same":
            named = ", ".join(map(repr, left))
            raise UsageError(
                f"{context.place}: records: {self.records:,} new records have no values of {named}; leave columns out "
                "to draw all of them, or leave records out"
            )
        if self.method == "marginals":
            return self._private(engine, table, columns, left, context)
        numbers = tuple(n for n in (*columns, *self.given) if n in context.schema.names)
        require_present((*columns, *self.given), context)
        require_numeric(tuple(n for n in numbers if not is_category(context.schema.field(n).type)), context)
        least = LEAST_RECORDS if self.by else 1
        # Strata are counted in records: a column with few values among them is modelled all the same.
        sized = Strata.learn(engine, table, self.by, (), context, least=least, small=self.small_strata)
        strata = with_known(engine, table, sized, columns)
        missing = {name: sum(strata.records) - sum(strata.known[name]) for name in columns}
        if self.nulls == "refuse":
            for column, count in missing.items():
                refuse_nulls(column, count, context)
        detail: dict[str, Any] = {
            "columns": columns,
            "given": self.given,
            "combinations": combinations_of(engine, table, strata, self.min_count, self._persons(context)),
            **self._models(engine, table, columns, strata, context),
            "nulls": missing,
            # Where columns are left, each record still belongs to a person and is drawn by its stratum.
            **({"strata": strata.to_dict()} if left else {}),
            "confidential": True,
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def _private(
        self, engine: Primitives, table: Any, columns: tuple[str, ...], left: Sequence[str], context: StageContext
    ) -> StagePlan:
        if left:
            raise UsageError(
                f"{context.place}: method: marginals draws all columns; {', '.join(map(repr, left))} would be released "
                "next to them without protection: leave `columns` out, or drop them"
            )
        require_present(columns, context)
        privacy = (float(self.epsilon or 0), float(self.delta or 0), self.unit, self.most_records)
        found = learn_marginals(engine, table, columns, self.domains, privacy, context)
        records = found["models"][0]["records"]
        combinations = [{"values": [], "stratum": 0, "records": records}]
        detail = {"columns": columns, "combinations": combinations, **found, "confidential": True}
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        """The accountant's figures, which follow only from the policy."""
        return {"privacy": dict(detail["privacy"])} if "privacy" in detail else {}

    def _models(
        self, engine: Primitives, table: Any, columns: tuple[str, ...], strata: Strata, context: StageContext
    ) -> dict[str, Any]:
        gaps = self.nulls in (None, "model")
        folding = Folding(self.bins, self.max_categories, self.min_count, self.rare, gaps, self._persons(context))
        if self.method == "copula":
            scoring = self._scoring(context)
            models = learn_models(engine, table, columns, strata, folding, scoring, context.place)
            books = [model["columns"] for model in models]
        else:
            models = self._trees(engine, table, columns, strata, folding, context)
            books = [model["codebooks"] for model in models]
        warnings = ["synthetic records are not safe by that name: judge linkage and membership as well"]
        warnings += [
            f"{name!r}: too few records have a value, so that no number represents a group of them; the column is "
            "released as missing"
            for name in columns
            if any(strata.known[name]) and all(is_bare(book[name]) for book in books)
        ]
        return {"models": models, "warnings": warnings}

    def _persons(self, context: StageContext) -> PersonCounts:
        """Twice as many as a released number must be of, for a number is released at two points."""
        return PersonCounts(units_of(context), 2 * max(self.min_count, FEWEST), context.seed_key)

    def _trees(
        self,
        engine: Primitives,
        table: Any,
        columns: tuple[str, ...],
        strata: Strata,
        folding: Folding,
        context: StageContext,
    ) -> list[dict[str, Any]]:
        from privpipe.kernels.synthesis.trees import require_trees

        require_trees(context.place)
        find = self.zeros == "found"
        growing = Growing(columns, self.given, self.order, self.min_leaf, self.learn_on, find, self.rules, folding)
        require_columns(growing, context)
        return learn_trees(engine, table, strata, growing, context)

    def _scoring(self, context: StageContext) -> Scoring:
        strange = [name for name in self.levels if name not in self._drawn(context)]
        strange += [
            name
            for name in self.levels
            if name in context.schema.names and not is_category(context.schema.field(name).type)
        ]
        if strange:
            raise UsageError(f"{context.place}: levels: {', '.join(map(repr, strange))} is not a category drawn")
        return Scoring(self.scores, self.levels)

    def plan_of_nothing(self, context: StageContext) -> StagePlan:
        drawn = self._drawn(context)
        staying = {*context.schema.names} - {*drawn, *self.by, *context.roles.unreleased}
        detail = {"columns": drawn, **({"strata": ()} if staying else {})}
        return replace(super().plan_of_nothing(context), detail=detail)

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        import pyarrow as pa

        if "strata" in plan.detail:
            return schema
        kept = {*self.by, *plan.detail["columns"]}
        return pa.schema([schema.field(name) for name in schema.names if name in kept])

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        made = MODELS[self.method]
        self._require_all_drawn(plan, context)
        if "strata" in plan.detail:
            strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
            return engine.map_rows(table, Redrawn(strata, made(plan.detail, table.schema, draws)), table.schema)
        sizes = [each["records"] for each in plan.detail["combinations"]]
        if self.records != "same" and not sum(sizes):
            raise DataError(f"{context.place}: there are no records to learn a model from")
        if self.records == "same":
            # Of marginals the number is a noisy one.
            here = None if self.method == "marginals" else engine.count(table)
            wanted = planned_records(plan.detail, here, self.small_strata == "suppress", context)
        else:
            wanted = self.records
        # Rare combinations are left out, and others replace their records.
        sizes = proportional(sizes, wanted)
        schema = self.released_schema(table.schema, plan)
        combinations, ends = plan.detail["combinations"], tuple(np.cumsum(sizes).tolist())
        drawn = Drawn(self.by, combinations, ends, made(plan.detail, schema, draws), schema)
        return engine.map_rows(engine.numbers(sum(sizes), draws.root), drawn, schema)

    def _require_all_drawn(self, plan: StagePlan, context: StageContext) -> None:
        """A column that a kept plan leaves out would be released unchanged, and one more would be made up."""
        drawn = self._drawn(context)
        staying = {*context.schema.names} - {*drawn, *self.by, *context.roles.unreleased}
        told = plan.detail
        if tuple(told["columns"]) != drawn or ("strata" in told) != bool(staying):
            raise UsageError(f"{context.place}: the plan draws other columns than the policy names: make a new plan")
        if tuple(told.get("given", ())) != self.given:
            raise UsageError(f"{context.place}: the plan is given other columns than the policy names: make a new plan")
        require_counts(told, context)

    def _drawn(self, context: StageContext) -> tuple[str, ...]:
        if isinstance(self.columns, tuple):
            return self.columns
        left = {*context.roles.unreleased, *self.by}
        return tuple(name for name in context.schema.names if name not in left)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(columns=("illness",), min_leaf=5, order="table"),
            cls(method="copula", records=30, bins=4, min_count=1, rare="drop"),
            cls(method="copula", columns=("illness",), nulls="model", scores="frequency"),
        ]
