"""Record suppression: whole classes that fail are removed, within one budget over the whole table; households are
removed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, ClassQuery, Facts, FactsRequest, Guarantee, Primitives
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.row_reductions import NothingLeft, suppressed_alone, without_suppressed
from privpipe.blocks.size_model import HouseholdRule
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.suppression.class_failures import KeysDropped, failing_rows, require_sample
from privpipe.transforms.suppression.combinations import count_combinations, sensitive_codes, text_ranks
from privpipe.transforms.suppression.judged_sets import JudgedSets, judged_sets

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = [
    "KeysDropped",
    "OwnLoss",
    "Passing",
    "SuppressRecords",
    "budget_of",
    "household_rules",
    "least_share",
    "require_within",
    "sensitive_codes",
    "suppress_failing",
    "text_ranks",
    "without_parts",
]


@dataclass(frozen=True)
class Fewer:
    """Which classes are of fewer households than must share a composition."""

    least: int

    def __call__(self, block: ClassBlock) -> Bools:
        return np.asarray(block.sizes < self.least, dtype=np.bool_)


def household_rules(context: StageContext) -> tuple[HouseholdRule, ...]:
    """The guarantees over compositions of households that a stage can work for: those with a least number, k."""
    return tuple(each for each in context.guarantees if isinstance(each, HouseholdRule) and each.least_alike() > 1)


def without_parts(
    engine: Primitives,
    entered: Any,
    table: Any,
    without_failing: Callable[[Any], Any],
    rules: tuple[HouseholdRule, ...],
    context: StageContext,
) -> Any:
    """What is left of a table without the classes and households that fail, and without partial households.

    Parameters
    ----------
    entered : Table
        All records of the stage, including suppressed ones: a household that lacks one of these is incomplete.
    table : Table
        Those that are not suppressed.
    without_failing : callable
        A table without its failing classes.
    rules : tuple of HouseholdRule
        What the compositions must meet.

    Raises
    ------
    UsageError
        Nothing distinguishes households.
    DataError
        A record without a household, where compositions are judged.
    """
    from privpipe.kernels.households import parts_of

    household = context.household
    if household is None or household not in table.schema.names:
        raise UsageError(
            f"{context.place}: whole households cannot go without a column that distinguishes them; name it as "
            "`household_id`, and keep it until this stage"
        )
    before = engine.distinct(entered, [household])
    left = table
    while True:
        left = without_failing(left)
        parts = parts_of(before, engine.distinct(left, [household]), household)
        if parts.num_rows:
            left = _without(engine, left, household, parts)
        size = engine.count(left)
        for rule in rules if size else ():
            left = _without_rare(engine, left, rule, context)
        if not size or (not parts.num_rows and engine.count(left) == size):
            return left


def _without(engine: Primitives, table: Any, household: str, gone: Any) -> Any:
    return engine.map_rows(table, KeysDropped.of((household,), gone.select([household])), table.schema)


def _without_rare(engine: Primitives, table: Any, rule: HouseholdRule, context: StageContext) -> Any:
    """The table without the households whose composition too few have."""
    import pyarrow.compute as pc

    from privpipe.kernels.households import COMPOSITION, Bucketed, Composed, composition_schema

    household = str(context.household)
    own = context.roles.quasi_identifiers if rule.quasi_identifiers is None else rule.quasi_identifiers
    needed = tuple(name for name in (household, context.person) if name is not None)
    for name, missing in engine.facts(table, FactsRequest(nulls=needed)).nulls.items():
        if missing:
            raise DataError(f"{context.place}: column {name!r} has {missing:,} missing values; fill it in")
    composed = Composed(tuple(own), household, context.person)
    homes = engine.map_groups(table, Bucketed(household), composed, composition_schema(table.schema.field(household)))
    least = rule.least_alike()
    rare = engine.keep_classes(homes, ClassQuery(keys=COMPOSITION, columns=()), Fewer(least))
    gone = engine.distinct(rare, [household])
    gone = gone.filter(pc.is_valid(gone[household]))
    return _without(engine, table, household, gone) if gone.num_rows else table


OwnLoss = Callable[[Any], Floats]
"""Own loss of classes, shape (n, r), from a pyarrow Table of their keys; ties of size go by it, column by column."""


@dataclass(frozen=True)
class Passing:
    """Which classes meet every one of some models."""

    models: tuple[ClassModel, ...]
    facts: Facts = field(repr=False)

    def __call__(self, block: ClassBlock) -> Bools:
        passing = np.ones(len(block), dtype=np.bool_)
        for model in self.models:
            passing &= model.passing(block, self.facts)
        return passing


def suppress_failing(
    engine: Primitives,
    table: Any,
    context: StageContext,
    limit: float,
    *,
    entering: int | None = None,
    own_loss: OwnLoss | None = None,
    serves: Collection[str] = ("persons",),
    whole: Any = None,
) -> Any:
    """Remove the classes that fail, in rounds until none does, then the records that sample-based models require.

    With `whole`, all records that entered the stage, households go as a whole: those that lack one of these lose all,
    and the rest is judged again, until nothing more is removed. The budget still counts records.

    Parameters
    ----------
    limit : float
        Budget as a share of the records that enter the stage, over the whole table.
    entering : int, optional
        That number, when some have been removed already; default: the records of `table`.
    own_loss : callable, optional
        Ties among classes of one size go by it, then by class key; without it by class key.
    whole : Table, optional
    serves : collection of str
        Ways of counting that the stage serves; see `Transformer.serves`.

    Raises
    ------
    UnsupportedError
        The policy requires another one.
    NoSolutionError
        More records would have to go than the budget allows; the message shows how many.
    """
    before = engine.count(table) if entering is None else entering
    sets = judged_sets(context, serves=serves)
    rules = () if whole is None else household_rules(context)
    if not sets.keys and not rules:
        return table
    # Records that a recoding left nothing of but marks are in no class that is judged.
    nothing, entered = NothingLeft(context.released(table.schema), context.mark), table
    table = without_suppressed(engine, table, nothing)

    def without_failing(left: Any) -> Any:
        return _once(engine, left, sets, context, own_loss)

    if whole is not None:
        kept = without_parts(engine, whole, table, without_failing, rules, context)
    else:
        kept = without_failing(table)
    if table is not entered:
        kept = engine.append(kept, suppressed_alone(engine, entered, nothing))
    require_within(before - engine.count(kept), limit, before, context)
    return kept


def _once(engine: Primitives, table: Any, sets: JudgedSets, context: StageContext, own_loss: OwnLoss | None) -> Any:
    """The table without the classes that fail."""
    if not sets.keys:
        return table
    kept = table
    if len(sets.keys) == 1 and not sets.compared and not sets.labels:
        # Failing classes go where they lie: removing them changes no other class.
        for keys, models in sets.class_models.items():
            kept = engine.keep_classes(kept, class_query(keys, models, context), Passing(models, context.base))
        done = not sets.size_models
    else:
        done = False
    if not done:
        kept = _without_failing(engine, kept, sets, context, own_loss)
    return kept


def require_within(gone: int, limit: float, records: int, context: StageContext) -> None:
    """Refuse more suppressed records than the budget allows, and a table of which no record is left.

    Raises
    ------
    NoSolutionError
    """
    if not records:
        raise NoSolutionError(f"{context.place}: no record is left to suppress anything of")
    budget, share = budget_of(limit, records, context), least_share(gone, records + context.suppressed)
    if gone > budget:
        raise NoSolutionError(
            f"{context.place}: the guarantees need {gone:,} of {records:,} records suppressed, the limit allows "
            f"{budget:,}; it would take suppress_at_most >= {share:g}, or more generalization "
            "before it"
        )
    if gone == records:
        raise NoSolutionError(f"{context.place}: every record would have to be suppressed")


def budget_of(limit: float, records: int, context: StageContext) -> int:
    """How many of the records of a stage may go: a share of all that entered it, those set aside among them."""
    return floor_share(limit, records + context.suppressed)


def least_share(gone: int, records: int) -> float:
    """The least share, to six digits, whose budget covers this number of the records.

    Examples
    --------
    >>> least_share(1, 3), least_share(3, 30)
    (0.333334, 0.1)
    """
    share = -(-1_000_000 * gone // records) / 1_000_000
    return share if floor_share(share, records) >= gone else share + 1e-6


def class_query(keys: Sequence[str], models: Sequence[Guarantee], context: StageContext) -> ClassQuery:
    """The count these models need."""
    columns = dict.fromkeys(column for model in models for column in model.sensitive_columns())
    coded = {column for model in models if model.needs_base for column in model.sensitive_columns()}
    return ClassQuery(
        keys=tuple(keys),
        columns=tuple(columns),
        dictionaries={column: context.base.histograms[column] for column in columns if column in coded},
        person=context.counted_by,
    )


def _without_failing(
    engine: Primitives, table: Any, sets: JudgedSets, context: StageContext, own_loss: OwnLoss | None
) -> Any:
    """Count once, decide on the driver as the search does, and drop the combinations that go."""
    counted = count_combinations(engine, table, sets, context)
    if counted is None:
        return table
    require_sample(sets, counted.rows, counted.classes)

    def ties(names: tuple[str, ...], at: Ints) -> list[NDArray[Any]]:
        own = [] if own_loss is None else list(own_loss(counted.keys.select(list(names)).take(at)).T)
        # Last the order of the keys, so that no two classes are equal.
        return [*own, *(counted.codes[name][at] for name in names), at]

    failures = failing_rows(sets, counted.rows, counted.classes, counted.facts, ties)
    if not failures.met:
        asked = ", ".join(repr(model) for model in context.guarantees)
        raise NoSolutionError(f"{context.place}: {asked} cannot be met by suppressing classes")
    if not failures.rows.any():
        return table
    if failures.rows.all():
        raise NoSolutionError(f"{context.place}: every record would have to be suppressed")
    gone = counted.keys.filter(failures.rows)
    return engine.map_rows(table, KeysDropped.of(gone.schema.names, gone), table.schema)


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressRecords(Transformer):
    """Remove every record whose class fails a guarantee, within a budget over the whole table.

    Class-based guarantees go first, in rounds where they are judged on several sets of quasi-identifiers;
    then sample-based ones remove further classes by ascending size, as few as suffice.

    Parameters
    ----------
    suppress_at_most : float
        Share of the stage's input that may go, in [0, 1], in records.
    whole : {"records", "households"}, optional
        households: where one member is removed, all are, and the rest is judged again until no more are; the
        households that fail `household_k_anonymity` go too. Default: households where the guarantees count them.

    Examples
    --------
    >>> SuppressRecords(suppress_at_most=0.05)
    SuppressRecords(suppress_at_most=0.05)
    """

    taxon = "non-perturbative"
    columns_rule = "none"
    suppresses = True
    serves = ("persons", "population", "wildcard", "labels")
    preserves = "the values of every record that stays"
    reveals = "that the records which went were in small or uneven classes"
    source = "Samarati, IEEE TKDE 13(6), 2001 (record suppression)"

    suppress_at_most: Annotated[float, Ge(0), Le(1), Doc("share of the records that may be removed")] = 0.0

    whole: Annotated[
        Literal["records", "households"] | None,
        Doc("unit of removal; left out: households where a guarantee is over them, else records"),
    ] = None

    def needs_keys(self) -> tuple[str, ...]:
        return ("household_id",) if self.whole == "households" else ()

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        return StagePlan(name=self.name(), parameters=self.parameters())

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        return self.learn(engine, table, context)  # nothing learnt shapes a value, and the checks are made again

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        whole = context.counts_households if self.whole is None else self.whole == "households"
        return suppress_failing(
            engine, table, context, self.suppress_at_most, serves=self.serves, whole=table if whole else None
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(suppress_at_most=0.0), cls(suppress_at_most=0.3), cls(suppress_at_most=1.0, whole="records")]
