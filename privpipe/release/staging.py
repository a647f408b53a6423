"""Run the stages of a policy over a table: each learns from the output of the one before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from privpipe.assess import JudgingRules
from privpipe.assess.base_files import bases_from_files
from privpipe.assess.persons import person_histograms
from privpipe.blocks import Facts, FactsRequest, Histogram, prepared
from privpipe.blocks.suppressed import Blanked, NothingLeft, suppressed_alone, suppressed_records, without_suppressed
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.release.plan import Plan
from privpipe.release.population import population_beside
from privpipe.release.reading import scanned
from privpipe.roles import Roles
from privpipe.search import planner_of
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.generalize import Generalize
from privpipe.transforms.population_recoding import generalize_population
from privpipe.transforms.safepub import process_of

if TYPE_CHECKING:
    from privpipe.release.policy import Policy

__all__ = ["Staged", "attach", "run_stages"]

Progress = Callable[[str], None]
log = logging.getLogger("privpipe.release")


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A table after all stages.

    Parameters
    ----------
    table : Table
        Released columns with record ids.
    original : Table
        The source with record ids.
    roles : Roles
        Of the released columns.
    plan : Plan
    rules : JudgingRules
        With the base distributions the guarantees compare with.
    suppressed_records : int
        Records of the source that are not in the table.
    population : Table, optional
        The population generalized as the table is.
    counted : Table, optional
        The table with the columns that tell persons, households and weights, where these are not released.
    """

    table: Any
    original: Any
    roles: Roles
    plan: Plan
    rules: JudgingRules
    suppressed_records: int
    population: Any = None
    counted: Any = None


@dataclass
class _State:
    table: Any
    roles: Roles
    records: int
    population: Any = None
    base: dict[str, Histogram] = field(default_factory=dict)
    compared: dict[str, Histogram] = field(default_factory=dict)
    entering: int | None = None
    based: bool = False
    marked: bool = False
    aside: list[Any] = field(default_factory=list)
    suppressed: int = 0
    plans: list[StagePlan] = field(default_factory=list)


def attach(engine: Engine, source: Any, policy: Policy, seed: Seed) -> Any:
    """The source as a table of the engine, checked against the policy's columns, with record ids.

    Raises
    ------
    DataError
        A column that the policy does not declare, or declares and the data lacks; an empty table; a missing value
        where the policy refuses them.
    """
    table = scanned(engine, source)
    require_declared(table, policy)
    if engine.count(table) == 0:
        raise DataError("the source has no records: there is nothing to judge")
    _require_no_refused_null(engine, table, policy)
    return engine.with_record_ids(table, policy.record_id, seed)


def _require_no_refused_null(engine: Engine, table: Any, policy: Policy) -> None:
    """`nulls: refuse` speaks of the source: a stage may give a missing value a label that no judge can tell."""
    whole = policy.roles.quasi_identifiers if policy.nulls == "refuse" else ()
    refused = tuple(n for n, column in policy.columns.items() if n in whole or column.nulls == "refuse")
    nulls = engine.facts(table, FactsRequest(nulls=refused)).nulls if refused else {}
    for column, count in nulls.items():
        if count:
            raise DataError(f"column {column!r} has {count:,} missing values and the policy says `nulls: refuse`")


def require_declared(table: Any, policy: Policy) -> None:
    """Nothing is released by accident: every column has a role and every role has its column."""
    present, declared = list(table.schema.names), list(policy.columns)
    missing = [name for name in declared if name not in present]
    if missing:
        shown = ", ".join(f"{name!r}{did_you_mean(name, present)}" for name in missing)
        hint = "; is the delimiter right?" if len(present) == 1 and len(declared) > 1 else ""
        raise DataError(f"{len(missing)} declared column(s) are not in the data: {shown}{hint}")
    extra = [name for name in present if name not in declared]
    if extra:
        shown = ", ".join(f"{name!r}{did_you_mean(name, [])}" for name in extra)
        raise DataError(
            f"{len(extra)} column(s) of the data have no role in the policy: {shown}; "
            "give each a role under `columns:` (nothing is released by accident)"
        )


def run_stages(
    engine: Engine,
    original: Any,
    policy: Policy,
    seed: Seed,
    *,
    plan: Plan | None = None,
    population: Any = None,
    progress: Progress | None = None,
) -> Staged:
    """Plan (unless a plan is given) and apply every stage; to a raw `population` the levels alone.

    Raises
    ------
    NoSolutionError
        A search found nothing within the limits.
    """
    records = engine.count(original)
    if plan is not None and len(plan.stages) != len(policy.transform):
        raise UsageError(f"the plan has {len(plan.stages)} stages, the policy {len(policy.transform)}")
    state = _State(table=original, roles=policy.roles, records=records, population=population)
    _drop_identifiers(engine, policy, state)
    for at, stage in enumerate(policy.transform):
        if progress:
            progress(f"stage {at + 1} of {len(policy.transform)}: {stage.name()}")
        given = plan.stages[at] if plan else None
        _run_stage(engine, policy, state, at, stage, seed, given)
    table, counted = _released_columns(engine, policy, state)
    made = Plan(
        policy_digest=policy.digest(),
        records=records,
        stages=tuple(state.plans),
        seed_commitment=seed.commitment(),
        policy=policy,
    )
    return Staged(
        table=table,
        original=original,
        roles=state.roles,
        plan=made,
        rules=replace(judging_rules(policy, state.base), records=state.entering, process=process_of(state.plans)),
        suppressed_records=made.suppressed_records,
        population=state.population,
        counted=counted,
    )


def judging_rules(policy: Policy, base: dict[str, Histogram] | None = None) -> JudgingRules:
    """The policy's rules for reading values."""
    refused = [name for name, column in policy.columns.items() if column.nulls == "refuse"]
    return JudgingRules(
        nulls=policy.nulls,
        refuse_nulls=tuple(refused),
        wildcard=policy.wildcard,
        person=policy.person_id,
        mark=policy.suppression_mark,
        base=base or {},
        hierarchies=policy.hierarchies,
    )


def _run_stage(
    engine: Engine,
    policy: Policy,
    state: _State,
    at: int,
    stage: Transformer,
    seed: Seed,
    given: StagePlan | None,
) -> None:
    draws = Draws(seed, at, stage.name())
    if stage.suppresses and not state.based:
        _learn_base(engine, policy, state, stage.entering(engine, state.table, draws))
        state.based = True
    if state.marked or (stage.suppresses or stage.searches):
        _set_aside(engine, policy, state)
    context = _context(policy, state, at, _population(engine, policy, state, stage))
    if given is not None:
        made = given
    elif stage.searches:
        made = planner_of(stage.name())(engine, state.table, stage, context)
    else:
        made = stage.learn(engine, state.table, context)
    before = state.table
    if state.population is not None and isinstance(stage, Generalize):
        state.population = generalize_population(engine, before, state.population, stage, made, context)
        context = replace(context, population=state.population)
    state.table = stage.run(engine, before, made, draws, context)
    made = stage.recorded(engine, before, made, draws)
    if stage.suppresses:
        made = _with_suppressed(engine, before, state.table, made)
    state.marked = state.marked or bool(getattr(stage, "mark", False))
    state.roles = _roles_after(stage, state.roles)
    state.plans.append(made)
    log.info("stage %s (%s) done", at, stage.name())


def _population(engine: Engine, policy: Policy, state: _State, stage: Transformer) -> Any:
    """The population as the table that enters a stage is; one that is generalized already stands at the last levels."""
    finished = policy.population is not None and policy.population.generalized
    asking = any(guarantee.needs_population for guarantee in policy.guarantees)
    if not (finished and asking and "population" in stage.serves) or stage.searches:
        return state.population
    return population_beside(engine, policy, state.table)


def _with_suppressed(engine: Engine, before: Any, after: Any, made: StagePlan) -> StagePlan:
    gone = engine.count(before) - engine.count(after)
    return replace(made, detail={**made.detail, "suppressed_records": gone})


def _learn_base(engine: Engine, policy: Policy, state: _State, entering: Any) -> None:
    """S, and the number of records, over those that enter the first stage which suppresses."""
    entries = (*policy.guarantees, *policy.measures)
    columns = {column for entry in entries if entry.needs_base for column in entry.sensitive_columns()}
    if columns or any(entry.needs_records for entry in entries):
        facts = person_histograms(engine, entering, sorted(columns), policy.person_id)
        state.base.update(facts.histograms)
        state.entering = facts.records
    state.compared.update(bases_from_files(engine, state.table, policy.guarantees))


def _context(policy: Policy, state: _State, at: int, population: Any) -> StageContext:
    return StageContext(
        roles=state.roles,
        schema=state.table.schema,
        types=policy.types,
        hierarchies=policy.hierarchies,
        guarantees=policy.guarantees,
        base=prepared(
            Facts(
                records=state.records if state.entering is None else state.entering,
                histograms={**state.base, **state.compared},
                hierarchies=policy.hierarchies,
            ),
            policy.guarantees,
        ),
        nulls=policy.nulls,
        person=policy.person_id,
        population=population,
        mark=policy.suppression_mark,
        place=policy.place_of(at),
        released_identifiers=_pseudonyms(policy),
        held_columns=_held(policy),
        suppressed=state.suppressed,
    )


def _set_aside(engine: Engine, policy: Policy, state: _State) -> None:
    """Suppressed records pass by the stages: none turns a blank into a value, or spends one on others."""
    state.marked = False
    unreleased = {name for name in state.roles.identifiers if name not in _pseudonyms(policy)}
    released = tuple(name for name in state.table.schema.names if name not in unreleased)
    nothing = NothingLeft(released, policy.suppression_mark)
    found = suppressed_records(engine, state.table, nothing)
    if not found or found == engine.count(state.table):
        return  # of nothing but suppressed records the gate makes a refusal
    state.aside.append(suppressed_alone(engine, state.table, nothing))
    state.table = without_suppressed(engine, state.table, nothing)
    state.suppressed += found


def _with_suppressed_rows(engine: Engine, policy: Policy, state: _State) -> Any:
    """The table with the records that were set aside, in the columns it has now."""
    table = state.table
    for aside in state.aside:
        held = tuple(name for name in state.roles.identifiers if name in aside.schema.names)
        blank = Blanked(table.schema, policy.suppression_mark, held)
        table = engine.append(table, engine.map_rows(aside, blank, table.schema))
    return table


def _pseudonyms(policy: Policy) -> tuple[str, ...]:
    return tuple(
        column for stage in policy.transform if stage.name() == "pseudonymise" for column in stage.masked_columns()
    )


def _held(policy: Policy) -> tuple[str, ...]:
    """Columns that the judgement of records needs though they may not be released."""
    asked = (column for entry in (*policy.guarantees, *policy.measures) for column in entry.record_columns())
    unreleased = [column for column in asked if column in policy.roles.identifiers]
    return tuple(dict.fromkeys((*((policy.person_id,) if policy.person_id else ()), *unreleased)))


def _drop_identifiers(engine: Engine, policy: Policy, state: _State) -> None:
    """Identifiers go first, but for those to be pseudonymised and those the run itself needs."""
    kept = {*_pseudonyms(policy), *_held(policy)}
    gone = [name for name in state.roles.identifiers if name not in kept]
    if gone:
        left = [name for name in state.table.schema.names if name not in gone]
        state.table = engine.select(state.table, left)
        state.roles = replace(state.roles, identifiers=[n for n in state.roles.identifiers if n not in gone])


def _roles_after(stage: Transformer, roles: Roles) -> Roles:
    if stage.name() != "pseudonymise":
        return roles
    released = set(stage.masked_columns())
    return replace(
        roles,
        identifiers=[name for name in roles.identifiers if name not in released],
        insensitive=[*roles.insensitive, *(name for name in roles.identifiers if name in released)],
    )


def _released_columns(engine: Engine, policy: Policy, state: _State) -> tuple[Any, Any]:
    """The last look: no column with the role identifier leaves; and the table that persons, weights and households
    can still be told in, where the released columns do not tell them.
    """
    state.table = _with_suppressed_rows(engine, policy, state)
    kept = [name for name in state.table.schema.names if name not in state.roles.identifiers]
    state.roles = replace(state.roles, identifiers=())
    held = [column for column in _held(policy) if column not in kept]
    counted = engine.select(state.table, [*kept, *held]) if held else None
    return engine.select(state.table, kept), counted
