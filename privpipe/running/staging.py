"""Run the stages of a policy over a table: each learns from the output of the one before."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Facts, Histogram, prepared
from privpipe.blocks.suppressed import Blanked, NothingLeft, suppressed_alone, suppressed_records, without_suppressed
from privpipe.draws import Draws, RunKey, Seed, Stream
from privpipe.engines import Engine
from privpipe.engines.base.fingerprint import fingerprint
from privpipe.errors import UsageError
from privpipe.judging import JudgingRules
from privpipe.judging.base_files import bases_from_files
from privpipe.judging.gate import Gate
from privpipe.judging.persons import person_histograms
from privpipe.policy.declared_ledger import named_ledger
from privpipe.roles import Roles
from privpipe.running.commitments import plan_key
from privpipe.running.noise_stages import noise_stage
from privpipe.running.plan import Plan
from privpipe.running.population import population_beside
from privpipe.running.stage_key import stage_draws, stages_digest
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.noise.add_noise import AddNoise
from privpipe.transforms.recoding.generalize import Generalize
from privpipe.transforms.recoding.population_recoding import generalize_population
from privpipe.transforms.sampling.safepub import process_of

if TYPE_CHECKING:
    from privpipe.judging.noise_memory import NoiseStage
    from privpipe.policy import Policy

__all__ = ["Staged", "run_stages"]

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
    draws : tuple of Draws
        Of each stage of the policy.
    source : str
        The keyed fingerprint of the original.
    run : RunKey
        Gives the order of attacks and, with the plan, that of released rows.
    notes : tuple of str
        What its verdict must say besides.
    source_notes : tuple of str
        What the run itself has to say of the source; for private records alone.
    noise : tuple of NoiseStage
        Stages that added noise, where the policy keeps a ledger that follows persons.
    """

    table: Any
    original: Any
    roles: Roles
    plan: Plan
    rules: JudgingRules
    suppressed_records: int
    draws: tuple[Draws, ...]
    source: str
    run: RunKey
    population: Any = None
    counted: Any = None
    notes: tuple[str, ...] = ()
    source_notes: tuple[str, ...] = ()
    noise: tuple[NoiseStage, ...] = ()

    @property
    def order(self) -> Stream:
        """The keyed order in which released rows are written."""
        return self.run.rows(stages_digest(self.plan.stages))


@dataclass
class _State:
    table: Any
    roles: Roles
    records: int
    source: str
    population: Any = None
    base: dict[str, Histogram] = field(default_factory=dict)
    compared: dict[str, Histogram] = field(default_factory=dict)
    entering: int | None = None
    based: bool = False
    marked: bool = False
    aside: list[Any] = field(default_factory=list)
    suppressed: int = 0
    carrying: bool = False
    hash_key: bytes = b""
    plans: list[StagePlan] = field(default_factory=list)
    draws: list[Draws] = field(default_factory=list)
    follows: bool = False
    noise: list[NoiseStage] = field(default_factory=list)


def run_stages(
    engine: Engine,
    original: Any,
    policy: Policy,
    seed: Seed,
    *,
    source: str | None = None,
    plan: Plan | None = None,
    frozen: bool = False,
    salt: str | None = None,
    population: Any = None,
    progress: Progress | None = None,
) -> Staged:
    """Plan (unless a plan is given) and apply every stage; to a raw `population` the levels alone.

    Parameters
    ----------
    source : str, optional
        The keyed fingerprint of the original, where it is known already.
    frozen : bool
        Whether the plan given may be of another source: then its stages are carried over to this one.
    salt : str, optional
        Of the plan's commitment to the seed: the id of the run; outside a run, one is drawn.

    Raises
    ------
    NoSolutionError
        A search found nothing within the limits.
    """
    records = engine.count(original)
    if plan is not None and len(plan.stages) != len(policy.transform):
        raise UsageError(f"the plan has {len(plan.stages)} stages, the policy {len(policy.transform)}")
    source = fingerprint(engine, original, seed) if source is None else source
    state = _State(table=original, roles=policy.roles, records=records, source=source, population=population)
    state.carrying = frozen and plan is not None and (policy.seed is None or plan.source != source)
    state.hash_key = plan.hash_key if plan is not None and plan.hash_key else plan_key(seed)
    named = named_ledger(policy)
    state.follows = named is not None and named.key is not None
    _drop_identifiers(engine, policy, state)
    for at, stage in enumerate(policy.transform):
        if progress:
            progress(f"stage {at + 1} of {len(policy.transform)}: {stage.name()}")
        given = plan.stages[at] if plan else None
        try:
            _run_stage(engine, policy, state, at, stage, seed, given)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if given is None:
                raise
            # A plan is read from JSON, which may hold anything; the text of the error may quote it.
            raise UsageError(
                f"{policy.place_of(at)}: the plan of this stage cannot be applied ({type(error).__name__}); it is "
                "damaged, a public edition, or of another version: take the private one, or make a new plan"
            ) from None
    table, counted = _released_columns(engine, policy, state)
    salt = secrets.token_hex(16) if salt is None else salt
    made = Plan(
        policy_digest=policy.digest(),
        records=records,
        stages=tuple(state.plans),
        seed_commitment=seed.commitment(salt),
        seed_salt=salt,
        source=source,
        hash_key=b"" if policy.seed else state.hash_key,
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
        draws=tuple(state.draws),
        source=source,
        noise=tuple(state.noise),
        run=RunKey.of(seed, policy.run_digest(), source),
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
        gate=Gate(undeclared=policy.undeclared, notes=True, pseudonyms=policy.pseudonyms),
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
    if stage.suppresses and not state.based:
        early = stage_draws(seed, at, stage, None, state.source)
        _learn_base(engine, policy, state, stage.entering(engine, state.table, early))
        state.based = True
    if state.marked or (stage.suppresses or stage.searches):
        _set_aside(engine, policy, state)
    context = _context(policy, state, at, _population(engine, policy, state, stage))
    context = replace(context, seed_key=state.hash_key)
    if given is not None:
        made = stage.carried(engine, state.table, given, context) if state.carrying else given
    else:
        made = stage.learn(engine, state.table, context)
    made = replace(made, seed_key=context.seed_key)
    draws = stage_draws(seed, at, stage, made, state.source)
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
    state.plans.append(replace(made, seed_key=b""))
    state.draws.append(draws)
    if state.follows and isinstance(stage, AddNoise):
        state.noise.append(noise_stage(stage, made, draws, before))
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
        released_identifiers=policy.pseudonyms,
        held_columns=_held(policy),
        suppressed=state.suppressed,
    )


def _set_aside(engine: Engine, policy: Policy, state: _State) -> None:
    """Suppressed records pass by the stages: none turns a blank into a value, or spends one on others."""
    state.marked = False
    unreleased = {name for name in state.roles.identifiers if name not in policy.pseudonyms}
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


def _held(policy: Policy) -> tuple[str, ...]:
    """Columns that the judgement of records needs though they may not be released."""
    asked = (column for entry in (*policy.guarantees, *policy.measures) for column in entry.record_columns())
    unreleased = [column for column in asked if column in policy.roles.identifiers]
    return tuple(dict.fromkeys((*((policy.person_id,) if policy.person_id else ()), *unreleased)))


def _drop_identifiers(engine: Engine, policy: Policy, state: _State) -> None:
    """Identifiers go first, but for those to be pseudonymised and those the run itself needs."""
    kept = {*policy.pseudonyms, *_held(policy)}
    gone = [name for name in state.roles.identifiers if name not in kept]
    if gone:
        left = [name for name in state.table.schema.names if name not in gone]
        state.table = engine.select(state.table, left)
        state.roles = replace(state.roles, identifiers=[n for n in state.roles.identifiers if n not in gone])


def _roles_after(stage: Transformer, roles: Roles) -> Roles:
    if stage.made_columns():
        return replace(roles, insensitive=[*roles.insensitive, *stage.made_columns()])
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
