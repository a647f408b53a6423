"""Microaggregation: groups of at least k similar records, each released with the aggregate of its group; in the fuzzy
kind with the values of one of the groups around it, drawn by nearness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Moments, Primitives
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UsageError
from privpipe.progress import within
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.microaggregation import parameters
from privpipe.transforms.microaggregation.group_learning import (
    AFTERWARDS,
    Kept,
    blocks_of_persons,
    blocks_that_meet,
    learn_parts,
    losses_of,
    moments_by_stratum,
    sensitive_values,
)
from privpipe.transforms.microaggregation.group_plan import ColumnKind, Encoding, GroupPlan
from privpipe.transforms.microaggregation.parameters import GroupingParameters, SensitiveRule
from privpipe.transforms.microaggregation.record_groups import (
    BlockKey,
    GroupingRules,
    Membership,
    NextKey,
    Pass,
    carried_schema,
)
from privpipe.transforms.numeric_columns import refuse_nulls, require_numeric
from privpipe.transforms.strata import SmallStrata, Strata, checked_by, require_present, units_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["FuzzyMicroaggregate", "Microaggregate", "SensitiveRule"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Microaggregate(GroupingParameters):
    """Replace the values of each group of k or more similar records by their mean or another aggregate.

    All members of a group become equal in its columns, so the release is k-anonymous on a list of columns that
    holds all quasi-identifiers. Over several lists, or with the methods for one column, it is so for each list
    alone: judge `k_anonymity` on the output.

    Parameters
    ----------
    columns : tuple of str, or tuple of tuples of str
        One list is one multivariate group; several lists are grouped each by itself.
    k : int or tuple of int
        Least size of a group, at least 2; or one a list of columns.
    method : {"mdav", "v_mdav", "univariate", "fixed"}
        mdav, v_mdav: groups in all columns of a list at once, of k or of k to 2k - 1 records before refinement.
        univariate: the best groups of one column; fixed: k consecutive values each. The latter two take every column
        by itself.
    refine : {"none", "descent", "search", "proof"}, optional
        descent: records change groups while the loss falls; over several blocks also across their borders. search:
        neighbourhoods of groups are rebuilt after that. proof: after that, blocks of up to 2,000 records with k up to 5
        choose among all groups that column generation finds, and the plan shows how far above the least possible loss
        they are. Default: descent, a tenth of a second for 10,000 records. search and proof take seconds to minutes and
        lose 2 to 12 % less, where records are in tight clusters up to 30 % less.
    iterations : int or "auto"
        search and proof only. auto: 200 a record for k up to 3; else 150 in blocks of up to 2,000 records, by four
        runs instead of two for k of 6 to 20, and 50 in larger ones.
    gamma : float
    block : int or "auto"
        About the most records of a block, at least 2k; auto: one block up to 20,000 records, else 4,000. A record's
        block is a function of its values.
    passes : int or "auto"
        Passes of descent over the borders of blocks, at most 2; auto: 1 for k up to 5, else 0.
    aggregate : {"mean", "median", "trimmed_mean", "weighted_mean", "mode", "medoid"}
        medoid: the values of the member nearest to the mean, a real record.
    trim : float
        trimmed_mean only, in [0, 0.5): share dropped at each end.
    weight : str, optional
    distance : {"euclidean", "gower"}
        gower: also for text and booleans, which release their mode; refined by descent, inside blocks, or not.
    order : mapping of column to tuple of str
        gower only: values of ordinal columns from least to greatest; they release their lower median.
    weights : mapping of column to float
        gower only: weight of a column in the distance, above 0. Default: 1.
    by : tuple of str
        Strata: records are grouped within each combination of these columns.
    small_strata : {"refuse", "suppress", "merge"}
    sensitive : SensitiveRule, optional
        Each group must have `l` distinct values of a column, or shares of them within `t` of the whole table's.
    keep_ties : bool
        univariate and fixed only: no cut between equal values, where k allows; a value of k records or more is a group.
    nulls : {"refuse", "keep", "own_group"}, optional
        refuse: an error. keep: they stay, are placed at the mean in distances (with gower: they match only each
        other), and take no part in aggregates; a record without any value is in no group. own_group: records are
        grouped within their pattern of nulls. Default: refuse for lists of several columns, keep for single ones.
    round : bool
        Whole numbers, half to even; an integer column then stays one.
    ties : {"keyed", "position"}
        position: ties go to the earlier row in the engine's order; for comparisons with other programs on one
        block of the embedded engine, never for a release.

    Notes
    -----
    Euclidean distances are over columns standardised by the mean and deviation of the stratum; a constant column takes
    no part.

    Where the policy distinguishes persons, a group holds k different ones (and k households, where a guarantee counts
    them): groups of k records are made and refined, then each of fewer than k persons takes in the nearest ones. Of
    500 persons with eight records each (two normal columns, k = 5) the loss is .335 % instead of .329 % where the
    records of a person lie apart, .47 instead of .35 where half of the variance is within persons, and 2.8 instead of
    .04 where they are equal; persons as units would lose 86, 44 and 2.2 %. Blocks hold k persons at least, nothing
    is proved, and aggregates that may release one person's value (median, trimmed_mean, mode, medoid; the distance
    gower) are refused.

    Examples
    --------
    >>> Microaggregate(columns=["income", "age"], k=5)
    Microaggregate(columns=('income', 'age'), k=5)
    >>> [group for group, _ in Microaggregate(columns=[["a", "b"], ["c"]], k=[3, 5]).groups()]
    [('a', 'b'), ('c',)]
    """

    taxon = "perturbative"
    needs_draws = True
    preserves = "sums and means of each column; groups of at least k equal records"
    reveals = "the means of small groups, whose members are around them"
    draws_apart = (
        "averages groups of records, and members of a household may be in several: aggregate a table of households"
    )
    source = (
        "Domingo-Ferrer, Torra, Data Mining and Knowledge Discovery 11, 2005 (MDAV, mixed types); Solanas, "
        "Martinez-Balleste, COMPSTAT 2006 (V-MDAV); Hansen, Mukherjee, IEEE TKDE 15(4), 2003 (univariate); "
        "Gower, Biometrics 27, 1971"
    )

    @property
    def links_releases(self) -> bool:
        return True  # draws only break ties; centroids follow from the values

    def request(self, context: StageContext) -> FactsRequest:
        masked = self.masked_columns()
        beside = [self.weight, self.sensitive and self.sensitive.column]
        require_present((*masked, *(name for name in beside if name)), context)
        kinds = self.kinds(context.schema)
        numbers = tuple(name for name in masked if kinds[name] == "number")
        require_numeric(numbers, context)
        if self.weight is not None:
            require_numeric((self.weight,), context)
            numbers = (*numbers, self.weight)
        return FactsRequest(moments=numbers, nulls=tuple(name for name in masked if name not in numbers))

    def kinds(self, schema: pa.Schema) -> dict[str, ColumnKind]:
        """How each column is taken: as a number, or with gower by declared order, or as a name."""

        def kind(name: str) -> ColumnKind:
            if name in (self.order or {}):
                return "ordinal"
            text = column_type_of(schema.field(name).type) in ("text", "boolean")
            return "nominal" if text and self.distance == "gower" else "number"

        return {name: kind(name) for name in self.masked_columns()}

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        facts = engine.facts(table, self.request(context))
        parameters.check_weights(self, facts, context)
        groups = self.groups()
        least = max(k for _, k in groups)
        strata = Strata(records=(facts.records,))
        if self.by:
            strata = Strata.learn(engine, table, self.by, (), context, least=least, small=self.small_strata)
        rule = self.sensitive
        bound = sensitive_values(engine, table, rule.column, rule.l or 0, rule.t, context) if rule else None
        if strata.suppressed:
            table = engine.map_rows(table, Kept(strata), table.schema)
        numbers = tuple(name for name, kind in self.kinds(context.schema).items() if kind == "number")
        moments = moments_by_stratum(engine, table, strata, numbers, facts)
        plans = []
        for columns, k in groups:
            group = replace(self._empty(columns, k, moments, facts, context), sensitive=bound)
            plans.append(self._with_parts(engine, table, group, strata, facts, context).to_dict())
        nulls = {name: _nulls(facts, name) for name in self.masked_columns()}
        detail: dict[str, Any] = {"strata": strata.to_dict(), "groups": plans, "nulls": nulls}
        detail["warnings"] = parameters.warnings_of(self, nulls, strata)
        return StagePlan(name=self.name(), parameters=self.stated_parameters(), detail=detail)

    def stated_parameters(self) -> dict[str, Any]:
        """Parameters as plain JSON."""
        stated = self.parameters()
        return stated | ({"sensitive": asdict(self.sensitive)} if self.sensitive else {})

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        return self._masked(schema, self.masked_columns())

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        return self.run_groups(engine, table, plan, draws, context)

    def run_groups(
        self,
        engine: Primitives,
        table: Any,
        plan: StagePlan,
        draws: Draws,
        context: StageContext,
        membership: tuple[int, float] | None = None,
    ) -> Any:
        """The table with each list of columns masked; `membership` is of a fuzzy release: neighbours, fuzziness."""
        planned = [(tuple(data["columns"]), data["k"]) for data in plan.detail["groups"]]
        if planned != [(tuple(columns), k) for columns, k in self.groups()]:
            raise UsageError(f"{context.place}: the plan groups by other columns or k than the policy: make a new plan")
        strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
        if strata.suppressed:
            table = engine.map_rows(table, Kept(strata), table.schema)
        for data in plan.detail["groups"]:
            group = GroupPlan.from_dict(data, plan.seed_key)
            self._require_scaled(engine, table, group, strata, context)
            # One stream per list: one more list does not change the ties of the others.
            stream = draws.of("/".join(group.columns))
            encoding = self._encoding(engine, table, group, context)
            drawn = membership and Membership(
                neighbours=membership[0], fuzziness=membership[1], stream=stream.child("membership")
            )
            schema = self._masked(table.schema, group.columns)
            between = carried_schema(table.schema)
            for number in range(group.passes):
                key = NextKey() if number else BlockKey(group, strata, encoding)
                made = Pass(
                    number=number,
                    group=group,
                    strata=strata,
                    encoding=encoding,
                    rules=self._rules(),
                    stream=stream,
                    units=units_of(context),
                    membership=drawn,
                )
                within("passes", number, group.passes)
                table = engine.map_groups(table, key, made, schema if number == group.passes - 1 else between)
        return table

    def _require_scaled(
        self, engine: Primitives, table: Any, group: GroupPlan, strata: Strata, context: StageContext
    ) -> None:
        """A number without a scale takes no part and is released unchanged: in this table, too, it must be constant."""
        kinds = self.kinds(table.schema)
        if not group.is_scaled({name: kinds[name] for name in group.columns}, len(strata)):
            raise UsageError(
                f"{context.place}: the plan holds scales of other columns than its groups: make a new plan"
            )
        still = tuple(dict.fromkeys(name for each in group.scale for name, spread in each.items() if not spread))
        if not still:
            return
        facts = engine.facts(table, FactsRequest(moments=still))
        for scale, moments in zip(group.scale, moments_by_stratum(engine, table, strata, still, facts), strict=True):
            for name in still:
                figures = moments[name]
                if not scale[name] and figures.records and figures.minimum < figures.maximum:
                    raise DataError(
                        f"{context.place}: {name!r} was constant in the table of the plan and is not in this, where "
                        "it would be released unchanged; make a new plan"
                    )

    def recorded(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws) -> StagePlan:
        return replace(plan, detail={**plan.detail, **losses_of(engine, table, plan, draws, self._rules())})

    def shaping(self, plan: StagePlan) -> Mapping[str, Any]:
        return {name: figure for name, figure in plan.detail.items() if name not in AFTERWARDS}

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income", "age"), k=3),
            cls(columns=(("income",), ("age",)), k=(2, 3), refine="none", round=True),
            cls(columns=("income",), k=2, method="univariate", aggregate="median"),
            cls(columns=("income", "age"), k=2, nulls="own_group", block=8),
            cls(columns=("age", "income"), k=2, method="v_mdav", refine="descent", aggregate="medoid", nulls="keep"),
        ]

    def _rules(self) -> GroupingRules:
        return GroupingRules(
            method=self.method,
            refine=self.refine != "none",
            iterations=None if self.iterations == "auto" else self.iterations,
            gamma=self.gamma,
            keep_ties=self.keep_ties,
            by_position=self.ties == "position",
            gower=self.distance == "gower",
            aggregate=self.aggregate,
            trim=self.trim,
            weight=self.weight,
            rounded=self.round,
        )

    def _masked(self, schema: pa.Schema, columns: tuple[str, ...]) -> pa.Schema:
        kinds, rules = self.kinds(schema), self._rules()
        for column in columns:
            if kinds[column] == "number":
                at = schema.get_field_index(column)
                schema = schema.set(at, schema.field(at).with_type(rules.type_of(schema.field(at))))
        return schema

    def _encoding(self, engine: Primitives, table: Any, group: GroupPlan, context: StageContext) -> Encoding:
        order = {name: tuple(texts) for name, texts in (self.order or {}).items()}
        encoding = Encoding(group.kinds, order, dict(self.weights or {}))
        named = tuple(name for name in group.columns if group.kinds[name] == "nominal" and name in context.hierarchies)
        if not named:
            return encoding
        from privpipe.transforms.recoding.labelling import hierarchies_of

        return replace(encoding, hierarchies=hierarchies_of(engine, table, named, context)[0])

    def _empty(
        self,
        columns: tuple[str, ...],
        k: int,
        moments: tuple[Mapping[str, Moments], ...],
        facts: Facts,
        context: StageContext,
    ) -> GroupPlan:
        """The plan of one list without its parts."""
        from privpipe.kernels.microaggregation.blocks import BLOCK, NEAR, NEAR_IN_LARGE, ONE_BLOCK

        rule = self.nulls or ("refuse" if len(columns) > 1 else "keep")
        for column in columns if rule == "refuse" else ():
            refuse_nulls(column, _nulls(facts, column), context)
        kinds = self.kinds(context.schema)
        numbers = [name for name in columns if kinds[name] == "number"]
        few = facts.records <= ONE_BLOCK
        block: int | None = self.block if isinstance(self.block, int) else None if few else BLOCK
        return GroupPlan(
            columns=columns,
            k=k,
            kinds={name: kinds[name] for name in columns},
            # A column without any value takes no part; its mean is not a number, which JSON has none for.
            centre=tuple({name: _mean(each[name]) for name in numbers} for each in moments),
            scale=self._spreads(numbers, moments, context.place),
            block=block,
            neighbours=NEAR if few else NEAR_IN_LARGE,
            search=self.refine in ("search", "proof"),
            prove=self._proves() and not units_of(context),
            by_pattern=rule == "own_group",
        )

    def _spreads(
        self, numbers: list[str], moments: tuple[Mapping[str, Moments], ...], place: str
    ) -> tuple[dict[str, float], ...]:
        gower = self.distance == "gower"
        return tuple(
            {name: parameters.spread_of(name, each[name], gower=gower, place=place) for name in numbers}
            for each in moments
        )

    def _proves(self) -> bool:
        """Whether groups are chosen among all that column generation finds."""
        return self.refine == "proof" and self.sensitive is None and self.ties == "keyed"

    def _with_parts(
        self, engine: Primitives, table: Any, group: GroupPlan, strata: Strata, facts: Facts, context: StageContext
    ) -> GroupPlan:
        from privpipe.kernels.microaggregation.blocks import BORDER_SHIFTS, border_passes
        from privpipe.kernels.microaggregation.kd_tree import BlockTree
        from privpipe.transforms.microaggregation.group_plan import Part

        encoding = self._encoding(engine, table, group, context)
        complete = not any(_nulls(facts, name) for name in group.columns)
        small = group.block is None or facts.records <= group.block
        if complete and small and not strata.by and facts.records >= group.k:
            group = replace(group, parts=(Part(0, (), facts.records, (BlockTree(),)),))
        else:
            points = self.distance == "euclidean" and self.method not in parameters.ONE_COLUMN
            passes = border_passes(group.k) if self.passes == "auto" else self.passes
            shifts = BORDER_SHIFTS[:passes] if points and self.refine != "none" else ()
            parts = learn_parts(engine, table, group, strata, encoding, shifts, context, shell=points)
            group = replace(group, parts=parts)
        group = blocks_that_meet(engine, table, group, strata, encoding, context)
        return blocks_of_persons(engine, table, group, strata, encoding, context)


def _mean(moments: Moments) -> float:
    return moments.mean if moments.records else 0.0


def _nulls(facts: Facts, column: str) -> int:
    figures = facts.moments.get(column)
    return figures.nulls if figures is not None else facts.nulls[column]


@dataclass(frozen=True, kw_only=True, repr=False)
class FuzzyMicroaggregate(Transformer):
    """Microaggregate, then release for each record the mean of one of the groups near it, drawn by membership.

    An attacker can no longer name the group of a value, so groups of several releases cannot be intersected. Each
    released combination has at least k holders within its block, yet groups are not k-anonymous by construction:
    judge `k_anonymity` on the output. Means are kept in expectation only.

    Parameters
    ----------
    columns : tuple of str
        Numbers, dates or timestamps, grouped as one list.
    k : int
        Least size of a group and least number of holders, at least 2.
    neighbours : int
        Nearest groups that a record may be given, in [2, 20].
    fuzziness : float
        In (1, 10]; membership in a group at distance d is d^(-2 / (fuzziness - 1)), scaled to sum 1.
    by, small_strata, nulls, round
        As in `Microaggregate`.

    Notes
    -----
    The recipe is ours: groups by `Microaggregate`, one keyed draw a record, and groups that fewer than k records drew
    are handed to the nearest one.

    Examples
    --------
    >>> FuzzyMicroaggregate(columns=["income", "age"], k=5)
    FuzzyMicroaggregate(columns=('income', 'age'), k=5)
    """

    taxon = "perturbative"
    needs_draws = True
    preserves = "means of each column in expectation; at least k holders of each released value"
    reveals = "the means of small groups near the record"
    draws_apart = (
        "averages groups of records, and members of a household may be in several: aggregate a table of households"
    )
    source = "Torra, Fuzzy microaggregation for the transparency principle, J. Applied Logic 23, 2017, for the idea"

    columns: Annotated[tuple[str, ...], Columns(), Doc("numeric columns to mask as one group of columns")]
    k: Annotated[int, Ge(2), Doc("least number of records in a group and of holders of a released combination")]
    neighbours: Annotated[int, Ge(2), Le(20), Doc("nearest groups that a record may be given, in [2, 20]")] = 4
    fuzziness: Annotated[float, Gt(1), Le(10), Doc("in (1, 10]; near 1 the nearest group is all but sure")] = 2.0
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns within whose combinations records are grouped")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata of fewer than k records: refuse, suppress or merge")] = "refuse"
    nulls: Annotated[Literal["refuse", "keep", "own_group"] | None, Doc("refuse, keep or own_group")] = None
    round: Annotated[bool, Doc("round to whole numbers")] = False

    @property
    def links_releases(self) -> bool:
        return True  # a record is given one of few centroids, which follow from the values

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "FuzzyMicroaggregate"
        object.__setattr__(self, "columns", checked_columns(owner, self.columns))
        object.__setattr__(self, "by", checked_by(owner, self.by, self.columns, self.small_strata))
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    def grouping(self) -> Microaggregate:
        """The microaggregation whose groups are drawn from."""
        return Microaggregate(
            columns=self.columns,
            k=self.k,
            by=self.by,
            small_strata=self.small_strata,
            nulls=self.nulls,
            round=self.round,
        )

    def request(self, context: StageContext) -> FactsRequest:
        return self.grouping().request(context)

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        made = self.grouping().learn(engine, table, context)
        warning = "released groups are drawn, so k_anonymity holds within a block at best; judge it on the output"
        return StagePlan(
            name=self.name(),
            parameters=self.parameters(),
            detail={**made.detail, "warnings": [*made.detail["warnings"], warning]},
        )

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        return self.grouping().released_schema(schema, plan)

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        grouped = replace(plan, name=self.grouping().name())
        fuzzy = (self.neighbours, self.fuzziness)
        return self.grouping().run_groups(engine, table, grouped, draws, context, fuzzy)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income", "age"), k=3, nulls="keep"),
            cls(columns=("age",), k=2, neighbours=2, fuzziness=1.5, round=True),
        ]
