"""The stages of one run, one after the other.

Each learns from the output of the one before, and draws by its own key.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.blocks import Facts, Histogram, prepared
from privpipe.blocks.row_reductions import (
    Blanked,
    NothingLeft,
    suppressed_alone,
    suppressed_records,
    without_suppressed,
)
from privpipe.draws import Draws, RunKey, Seed
from privpipe.draws.stream import SCHEME, SHARED_SCHEME, key_id, read_key
from privpipe.engines import Engine
from privpipe.engines.base.contract import fingerprint
from privpipe.errors import EngineError, UsageError
from privpipe.judging.table_facts import bases_from_files, person_histograms
from privpipe.roles import Roles
from privpipe.running.plan import DrawnIn, Plan, canonical_json
from privpipe.running.release_memory import noise_stage
from privpipe.running.run_context import RunContext, judging_rules, population_beside
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.noise.add_noise import AddNoise
from privpipe.transforms.suppression.record_suppression import budget_of

if TYPE_CHECKING:
    from privpipe.hierarchies import HierarchySpec
    from privpipe.judging.release_memory import NoiseStage
    from privpipe.policy import Policy

__all__ = ["DrawRoot", "StageRun", "inputs_digest", "stages_digest"]


FILES = ("file", "path")


@dataclass(frozen=True)
class DrawRoot:
    """What the keys of all stages of one run hang on.

    Two policies over one source, or one policy over two sources, share no draw. Rows keep their draws over releases
    only under a plan that is given by name: it carries the run that it was learnt in.

    Parameters
    ----------
    seed : Seed
        The run key R; the seed itself where a stage runs without a policy.
    inputs : str
        Digest of inputs that shape the rows but are in neither the policy's text nor the source: see `inputs_digest`.
    scheme : str
        How K is derived from it.
    """

    seed: Seed = field(repr=False)
    inputs: str = field(default="", repr=False)
    scheme: str = SCHEME

    @classmethod
    def of(cls, context: RunContext, drawn: DrawnIn, plan: Plan | None) -> Self:
        """The root of a run.

        Parameters
        ----------
        drawn : DrawnIn
            The run itself, or the one that a given plan was learnt in.
        plan : Plan, optional
            That the run is given. A plan of version 1 keeps the draws that releases under it have.
        """
        if plan is not None and plan.version == 1:
            return cls(context.seed, scheme=SHARED_SCHEME)
        if not context.releases:
            return cls(context.seed)
        return cls(Seed(RunKey.of(context.seed, drawn.policy, drawn.source).key), drawn.inputs)

    def draws(self, at: int, stage: Transformer, made: StagePlan | None, source: str) -> Draws:
        """The draws of a stage once its plan is known.

        Parameters
        ----------
        at : int
            Position of the stage.
        made : StagePlan or None
            None before the stage is planned: for `Transformer.entering`, whose stages say that nothing learnt shapes
            their draws.
        source : str
            The keyed fingerprint of the source. Draws that are bound to the values they mask leave it out, so that
            under a given plan a value that did not change keeps its noise whatever else the source holds.
        """
        figures = {} if made is None else stage.shaping(made)
        bound = [stage.parameters(), figures, None if stage.draws_by_value() else source]
        text = canonical_json([*bound, self.inputs] if self.inputs else bound)
        return Draws(self.seed, at, stage.name(), hashlib.sha256(text.encode()).hexdigest(), self.scheme)


def stages_digest(stages: Sequence[StagePlan]) -> str:
    """SHA-256 over the plans of all stages."""
    text = canonical_json([[stage.name, stage.parameters, stage.detail] for stage in stages])
    return hashlib.sha256(text.encode()).hexdigest()


def inputs_digest(context: RunContext, original: Any, population: Any) -> str:
    """SHA-256 of inputs that shape the rows of a run but are in neither its policy's text nor its source.

    The files of hierarchies and base distributions, the population, and the keys of pseudonyms and date shifts: where
    one of them differs, so do rows, and the masked figures of earlier stages must not join them. Empty where no stage
    draws.
    """
    policy = context.policy
    if not context.releases or not any(stage.needs_draws for stage in policy.transform):
        return ""
    places = [stage.key_place() for stage in policy.transform]
    found = [
        [_content(policy, name) for name in _files(policy)],
        [key_id(read_key("transform", place)) for place in places if place is not None],
        _population(context, original, population),
    ]
    return hashlib.sha256(canonical_json(found).encode()).hexdigest()


def _files(policy: Policy) -> list[str]:
    """Names of the files that declare hierarchies and guarantees, in the order of the document."""
    return [name for section in ("columns", "guarantees") for name in _named(policy.document.get(section))]


def _named(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in FILES and isinstance(value, str):
                yield value
            else:
                yield from _named(value)
    elif isinstance(node, list):
        for value in node:
            yield from _named(value)


def _content(policy: Policy, name: str) -> str:
    """The digest of a file, or of the files of a folder; for anything else, such as an address, the name."""
    place = Path(policy.base_dir, name)
    found = hashlib.sha256()
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if path.is_file():
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest() if place.exists() else name


def _population(context: RunContext, original: Any, population: Any) -> str:
    if context.policy.population is None:
        return ""
    if population is None:
        population = population_beside(context.engine, context.policy, original)
    return "" if population is None else fingerprint(context.engine, population, context.seed)


log = logging.getLogger("privpipe.release")


@dataclass
class StageRun:
    """How far the stages of a run are.

    Parameters
    ----------
    context : RunContext
    table : Table
        As the next stage meets it.
    roles : Roles
        Of its columns.
    records : int
        Of the source.
    source : str
        The keyed fingerprint of the source.
    root : DrawRoot
        What the keys of its stages hang on.
    carrying : bool
        Whether given plans were made of another source.
    hash_key : bytes
        Keys the hashes in plans.
    follows : bool
        Whether a ledger wants to know of noise.
    empty : bool
        Whether the source has no records: then only its columns go through the stages.
    """

    context: RunContext
    table: Any
    roles: Roles
    records: int
    source: str
    root: DrawRoot
    population: Any = None
    carrying: bool = False
    hash_key: bytes = b""
    follows: bool = False
    empty: bool = False
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    base: dict[str, Histogram] = field(default_factory=dict, init=False)
    entered: dict[str | None, Facts] = field(default_factory=dict, init=False)
    compared: dict[str, Histogram] = field(default_factory=dict, init=False)
    entering: int | None = field(default=None, init=False)
    based: bool = field(default=False, init=False)
    marked: bool = field(default=False, init=False)
    drawn: bool = field(default=False, init=False)
    aside: list[Any] = field(default_factory=list, init=False)
    suppressed: int = field(default=0, init=False)
    plans: list[StagePlan] = field(default_factory=list, init=False)
    draws: list[Draws] = field(default_factory=list, init=False)
    noise: list[NoiseStage] = field(default_factory=list, init=False)

    @property
    def engine(self) -> Engine:
        """The engine of the run."""
        return self.context.engine

    @property
    def policy(self) -> Policy:
        """The policy of the run."""
        return self.context.policy

    def run(self, at: int, stage: Transformer, given: StagePlan | None) -> None:
        """Plan a stage, unless its plan is given, and apply it; an engine's error has the place of the stage."""
        try:
            if self.empty:
                self._run_over_nothing(at, stage, given)
            else:
                self._run(at, stage, given)
        except EngineError as error:
            if type(error) is not EngineError:
                raise
            raise EngineError(f"{self.policy.located_stage(at)}: {error}") from error

    def _run(self, at: int, stage: Transformer, given: StagePlan | None) -> None:
        from privpipe.transforms.recoding.generalize import Generalize

        if stage.suppresses and not self.based:
            early = self.root.draws(at, stage, None, self.source)
            self._learn_base(stage.entering(self.engine, self.table, early))
            self.based = True
        if self.marked or (stage.suppresses or stage.searches):
            self._remove_suppressed()
        context = self._context(at, self._population(stage))
        context = replace(context, seed_key=self.hash_key, made=[])
        if given is not None:
            made = stage.carried(self.engine, self.table, given, context) if self.carrying else given
        else:
            made = stage.learn(self.engine, self.table, context)
        made = replace(made, seed_key=context.seed_key)
        draws = self.root.draws(at, stage, made, self.source)
        before = self.table
        held = None if given is None else _Held.of(stage, self.engine, before, context)
        if held is not None:
            held.require_records(made)
        if self.population is not None:
            self.population = stage.population_after(self.engine, before, self.population, made, context)
            if isinstance(stage, Generalize):  # it suppresses once it has recoded
                context = replace(context, population=self.population)
        self.table = stage.run(self.engine, before, made, draws, context)
        made = stage.recorded(self.engine, before, made, draws)
        if stage.suppresses:
            made = self._with_suppressed(before, self.table, made)
            if held is not None:
                held.require_limit(made)
        self.marked = self.marked or (isinstance(stage, Generalize) and stage.mark)
        self.drawn = self.drawn or stage.draws_records(context.released(before.schema))
        self.roles = _roles_after(stage, self.roles)
        self.plans.append(replace(made, seed_key=b""))
        self.draws.append(draws)
        if self.follows and isinstance(stage, AddNoise):
            self.noise.append(noise_stage(stage, made, draws, before))
        log.info("stage %s (%s) done", at, stage.name())

    def _run_over_nothing(self, at: int, stage: Transformer, given: StagePlan | None) -> None:
        """Give a table without records the columns that the stage releases; nothing is learnt, drawn or suppressed."""
        made = stage.plan_of_nothing(self._plain_context(at, None)) if given is None else given
        schema = stage.released_schema(self.table.schema, made)
        self.table = self.engine.map_rows(self.table, Blanked(schema, self.policy.suppression_mark), schema)
        self.roles = _roles_after(stage, self.roles)
        self.plans.append(made)

    def _population(self, stage: Transformer) -> Any:
        """The population as the table that enters a stage is; a generalized one is already at the last levels."""
        finished = self.context.generalized_population
        asking = any(guarantee.needs_population for guarantee in self.policy.binding)
        if not (finished and asking and "population" in stage.serves) or stage.searches:
            return self.population
        return population_beside(self.engine, self.policy, self.table)

    def _with_suppressed(self, before: Any, after: Any, made: StagePlan) -> StagePlan:
        gone = self.engine.count(before) - self.engine.count(after)
        return replace(made, detail={**made.detail, "suppressed_records": gone})

    def _learn_base(self, entering: Any) -> None:
        """S, and the number of records, over those that enter the first stage which suppresses."""
        entries = self.policy.entries
        columns = {column for entry in entries if entry.needs_base for column in entry.sensitive_columns()}
        if columns or any(entry.needs_records for entry in entries):
            rules = judging_rules(self.policy)
            facts = person_histograms(self.engine, entering, sorted(columns), rules.person)
            self.base.update(facts.histograms)
            self.entering = facts.records
            for unit in {rules.unit(entry) for entry in entries} - {rules.person}:
                self.entered[unit] = person_histograms(self.engine, entering, sorted(columns), unit)
        self.compared.update(bases_from_files(self.engine, self.table, self.policy.binding, self.policy.versions))

    def _context(self, at: int, population: Any) -> StageContext:
        context = self._plain_context(at, population)
        entered = self.entered.get(context.counted_by)
        base = Facts(
            records=self.records if self.entering is None else self.entering,
            histograms={**self.base, **self.compared},
            hierarchies=self.hierarchies,
        )
        if entered is not None:
            base = replace(base, records=entered.records, histograms={**entered.histograms, **self.compared})
        return replace(context, base=prepared(base, self.policy.binding))

    def _plain_context(self, at: int, population: Any) -> StageContext:
        return StageContext(
            roles=self.roles,
            schema=self.table.schema,
            types=self.policy.types,
            hierarchies=self.hierarchies,
            guarantees=self.policy.binding,
            nulls=self.policy.nulls,
            person=None if self.drawn else self.policy.person_id,
            household=None if self.drawn else self.policy.household_id,
            population=population,
            mark=self.policy.suppression_mark,
            place=self.policy.located_stage(at),
            released_identifiers=self.policy.pseudonyms,
            held_columns=self._held(),
            suppressed=self.suppressed,
        )

    def _remove_suppressed(self) -> None:
        """Suppressed records pass by the stages: none turns a blank into a value, or spends one on others."""
        self.marked = False
        unreleased = {name for name in self.roles.unreleased if name not in self.policy.pseudonyms}
        released = tuple(name for name in self.table.schema.names if name not in unreleased)
        nothing = NothingLeft(released, self.policy.suppression_mark)
        found = suppressed_records(self.engine, self.table, nothing)
        if not found or found == self.engine.count(self.table):
            return  # where all records are suppressed, the gate refuses
        self.aside.append(suppressed_alone(self.engine, self.table, nothing))
        self.table = without_suppressed(self.engine, self.table, nothing)
        self.suppressed += found

    def _with_suppressed_rows(self) -> Any:
        """The table with the records that were set aside, in the columns it has now."""
        table = self.table
        for aside in self.aside:
            held = tuple(name for name in self.roles.identifiers if name in aside.schema.names)
            blank = Blanked(table.schema, self.policy.suppression_mark, held)
            table = self.engine.append(table, self.engine.map_rows(aside, blank, table.schema))
        return table

    def _held(self) -> tuple[str, ...]:
        """Columns that the judgement of records needs though they may not be released."""
        if not self.context.releases:
            return ()
        asked = (column for entry in self.policy.entries for column in entry.record_columns())
        unreleased = [column for column in asked if column in self.policy.roles.identifiers]
        keys = (name for name in (self.policy.person_id, self.policy.household_id) if name is not None)
        return tuple(dict.fromkeys((*keys, *self.context.carried, *unreleased)))

    def drop_identifiers(self) -> None:
        """Drop columns first, and identifiers except those to be pseudonymised and those the run itself needs.

        A stage over a frame leaves the identifiers that it is not about.
        """
        kept = {*self.policy.pseudonyms, *self._held()}
        identifiers = [name for name in self.roles.identifiers if name not in kept and self.context.releases]
        gone = (*identifiers, *self.roles.dropped)
        if gone:
            left = [name for name in self.table.schema.names if name not in gone]
            self.table = self.engine.select(self.table, left)
            staying = [name for name in self.roles.identifiers if name not in gone]
            self.roles = replace(self.roles, identifiers=staying, dropped=())

    def released_columns(self) -> tuple[Any, Any]:
        """The last look: no column with the role identifier leaves; and the table that persons, weights and households
        can still be distinguished, where the released columns do not distinguish them.
        """
        self.table = self._with_suppressed_rows()
        if not self.context.releases:
            return self.table, None
        kept = [name for name in self.table.schema.names if name not in self.roles.identifiers]
        self.roles = replace(self.roles, identifiers=())
        households = self.policy.household_id
        idle = households is not None and not any(entry.reads_households() for entry in self.policy.entries)
        held = [column for column in self._held() if column not in kept and not (idle and column == households)]
        if self.drawn:  # the records are of no person and of no household
            held = [column for column in held if column not in (self.policy.person_id, households)]
        counted = self.engine.select(self.table, [*kept, *held]) if held else None
        return self.engine.select(self.table, kept), counted


@dataclass(frozen=True)
class _Held:
    """The limits of a kept plan where a policy limits suppression: an edited plan that was sealed again sets none.

    Parameters
    ----------
    records : int
        That enter the stage.
    limit : float
        Share of them that may be suppressed.
    context : StageContext
    """

    records: int
    limit: float
    context: StageContext

    @classmethod
    def of(cls, stage: Transformer, engine: Engine, table: Any, context: StageContext) -> Self | None:
        if not stage.suppresses or not hasattr(stage, "suppress_at_most"):
            return None
        return cls(engine.count(table), stage.suppress_at_most or 0.0, context)

    def require_records(self, made: StagePlan) -> None:
        """Refuse a plan made for another number of records than enter: the limit is a share of them."""
        if made.detail.get("records", self.records) != self.records:
            raise UsageError(
                f"{self.context.place}: the plan is of another number of records than the table has: make a new plan"
            )

    def require_limit(self, made: StagePlan) -> None:
        """Refuse a plan under which more went than may."""
        if made.detail["suppressed_records"] > budget_of(self.limit, self.records, self.context):
            raise UsageError(
                f"{self.context.place}: the plan suppresses more records than the policy allows: make a new plan"
            )


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
