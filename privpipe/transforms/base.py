"""The shape of a transformer: what it requests, what it plans, how it runs on any engine."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from privpipe.blocks import ClassModel, Entry, Facts, FactsRequest, Guarantee, Primitives, RowBlock, SizeModel
from privpipe.blocks.marks import Columns
from privpipe.blocks.public_edition import public_parameters
from privpipe.blocks.way import Over
from privpipe.errors import DataError, UsageError
from privpipe.roles import NullRule, Roles, not_text
from privpipe.transforms.face import StageFace
from privpipe.transforms.shared_draws import SameWithin, Together, together_of, varying

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws
    from privpipe.hierarchies import HierarchySpec

__all__ = [
    "NO_GOAL",
    "Kind",
    "RowTransformer",
    "StageContext",
    "StagePlan",
    "Transformer",
    "checked_columns",
    "keyed_digest",
    "varies_within",
]

Kind = Literal["perturbative", "non-perturbative", "synthetic", "identifiers"]


@dataclass(frozen=True, kw_only=True)
class StageContext:
    """The parts of the policy that a stage may use.

    Parameters
    ----------
    roles : Roles
        Of the columns that enter the stage.
    schema : pyarrow.Schema
        Visible columns that enter the stage.
    types : mapping of column to declared type
    hierarchies : mapping of column to HierarchySpec
    guarantees : tuple of Guarantee
        What the release must meet in the end; those a search works for.
    base : Facts
        Base distributions of the sensitive columns, filled in by the runner before a stage that suppresses.
    person : str, optional
        Column that identifies persons, where they are counted instead of records.
    household : str, optional
        Column that identifies households.
    population : Table, optional
        The population some guarantees compare with, its quasi-identifiers as in the table of the stage.
    nulls, mark : the policy's rule for missing quasi-identifiers, and its suppression mark.
    place : str
        Only for errors, as ``release.yaml:14: transform[1].generalize``: it may name a folder, and is in no document.
    released_identifiers : tuple of str
        Identifier columns that a `pseudonymise` stage of the policy releases.
    held_columns : tuple of str
        Identifier columns the run itself still needs (record_id, person_id, ...).
    seed_key : bytes
        What keys the hashes that a plan holds; empty where there is no run.
    suppressed : int
        Suppressed records set aside before the stage: they count as its input in a budget, and are in no class.
    made : list
        What learning the stage already made of the table that enters it; see `keep_made`.
    """

    roles: Roles
    schema: pa.Schema
    types: Mapping[str, str] = field(default_factory=dict)
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    guarantees: tuple[Guarantee, ...] = ()
    base: Facts = field(default_factory=Facts)
    nulls: NullRule = "own_value"
    person: str | None = None
    household: str | None = None
    population: Any = field(default=None, repr=False)
    mark: str = "*"
    place: str = ""
    released_identifiers: tuple[str, ...] = ()
    held_columns: tuple[str, ...] = ()
    seed_key: bytes = field(default=b"", repr=False)
    suppressed: int = 0
    made: list[tuple[Any, Any]] | None = field(default=None, repr=False, compare=False)

    def keep_made(self, table: Any, made: Any) -> None:
        """Keep the result of a stage that learns by running, if the caller runs it next."""
        if self.made is not None:
            self.made[:] = [(table, made)]

    def made_of(self, table: Any) -> Any:
        """What was kept for exactly this table, once; None if nothing was."""
        if not self.made or self.made[0][0] is not table:
            return None
        return self.made.pop()[1]

    def unit(self, over: Over | None) -> str | None:
        """The column that distinguishes the counted units; None: records are counted."""
        return {None: self.person, "persons": self.person, "households": self.household}.get(over)

    @property
    def counted_by(self) -> str | None:
        """That column for the guarantees a stage works for, which count alike (`unserved`: where they do not)."""
        over = [each.counts_over() for each in self.guarantees if isinstance(each, ClassModel | SizeModel)]
        return self.unit(over[0] if over else None)

    @property
    def counts_households(self) -> bool:
        """Whether a guarantee counts households, which are then removed whole."""
        return self.household is not None and any(each.counts_over() == "households" for each in self.guarantees)

    def keyed(self, digest: str) -> str:
        """A digest of source content that a plan may hold: without the seed no one can try values against it."""
        return keyed_digest(self.seed_key, digest)

    @property
    def unreleased(self) -> tuple[str, ...]:
        """Dropped columns, and identifiers that no stage releases as pseudonyms."""
        return tuple(name for name in self.roles.unreleased if name not in self.released_identifiers)

    def released(self, schema: pa.Schema) -> tuple[str, ...]:
        """Columns of a table of the stage that are to be released."""
        return tuple(name for name in schema.names if name not in self.unreleased)


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """What a stage decided; `detail` is plain JSON and holds no data value.

    Parameters
    ----------
    name : str
        The transformer's catalogue name.
    parameters : mapping
        As given in the policy, defaults included.
    detail : mapping
        The stage's own plan: levels, cut trees, windows, deviations. Private: `public` shows what others may see.
    seed_key : bytes
        What keys the hashes in `detail`, while a run applies the plan; never part of its JSON.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    seed_key: bytes = field(default=b"", repr=False, compare=False)

    def public(self) -> StagePlan:
        """The plan without what only the source determines: its transformer decides which detail stays."""
        from privpipe.transforms import CATALOGUE

        if self.name not in CATALOGUE:  # a plan of a third party's stage
            return StagePlan(name=self.name, parameters=public_parameters(None, self.parameters))
        stage: Any = CATALOGUE[self.name]
        parameters = public_parameters(stage, self.parameters)
        return StagePlan(name=self.name, parameters=parameters, detail=stage.public_detail(self.detail))


@dataclass(frozen=True, kw_only=True, repr=False)
class Transformer(StageFace, Entry):
    """Something that changes a table.

    `taxon` is the kind of method, for catalogue and report. `columns_rule` states how a policy names the columns:
    ``required``; ``optional`` (left out: the stage's own default); ``none`` (the stage takes no columns).
    `serves` lists the ways of counting that a stage that suppresses or searches has in addition to records in classes
    of its own table: ``persons``, ``population``, ``wildcard`` (classes in which a null is a separate value, for what
    holds so holds when it matches anything) and ``labels`` (what the labels of a class lose).
    """

    over_frame: ClassVar[str] = ".apply(frame)"
    taxon: ClassVar[Kind] = "perturbative"
    columns_rule: ClassVar[Literal["required", "optional", "none"]] = "required"
    searches: ClassVar[bool] = False
    recodes_other_rows: ClassVar[bool] = False
    """Whether its plan is a function of values that recodes rows it was not learnt from, unjudged."""
    suppresses: ClassVar[bool] = False
    serves: ClassVar[tuple[str, ...]] = ()
    needs_draws: ClassVar[bool] = False
    preserves: ClassVar[str] = ""
    reveals: ClassVar[str] = ""
    draws_apart: ClassVar[str] = "draws nothing for a single record"
    """Why a stage without the parameter `same_within` has none."""

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> dict[str, str]:
        found = super().problems(parameters)
        if "same_within" in parameters and "same_within" not in cls.descriptions():
            return {**found, "same_within": f"is not served by {cls.name()}: it {cls.draws_apart}"}
        return found

    @property
    def links_releases(self) -> bool:
        """Whether a record that did not change has the same result in every release, so that two can be joined by it.

        True for functions of values, or of values and a lasting key; draws serve one release each.
        """
        return not self.needs_draws

    def key_place(self) -> Mapping[str, str] | None:
        """Where the key is kept under which it gives a person the same result in every release; None: it has none."""
        return None

    def noise_ratio(self) -> float | None:
        """Variance of the noise that the stage adds over that of the column; None if there is no such ratio."""
        return None

    @property
    def keeps_places(self) -> bool:
        """Whether each record comes back in its place, and none is left out."""
        return False

    @property
    def permutes(self) -> bool:
        """Whether it only exchanges values of a column between records, so that each is still one of the source's."""
        return False

    @property
    def shows_values(self) -> str:
        """Which of its results is the value of a single record, as a sentence for the verdict; empty if none is."""
        return ""

    @property
    def needs_ids(self) -> bool:
        """Whether it distinguishes records, to learn or to run."""
        return self.needs_draws or self.searches

    def request(self, context: StageContext) -> FactsRequest:
        """Facts the plan needs; a column that is missing or of the wrong type is a DataError."""
        return FactsRequest()

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        """Decide everything that depends on the data as a whole."""
        return StagePlan(name=self.name(), parameters=self.parameters())

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        """Ask the engine for the facts and plan; overridden by stages that must read the table again."""
        request = self.request(context)
        return self.plan(engine.facts(table, request) if request else Facts(), context)

    def plan_of_nothing(self, context: StageContext) -> StagePlan:
        """What `released_schema` needs to know about a table without records, from which nothing can be learnt."""
        return StagePlan(name=self.name(), parameters=self.parameters())

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        """Schema after the stage."""
        return schema

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        """The table after the stage."""
        raise TypeError(f"{type(self).__name__} does not run")

    def entering(self, engine: Primitives, table: Any, draws: Draws) -> Any:
        """The records that enter a stage that suppresses; base distributions are computed over them."""
        return table

    def recorded(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws) -> StagePlan:
        """The plan with what is known only after it ran over the table."""
        return plan

    def not_followed(self) -> str:
        """Why a raw population cannot be recoded as the table is, where the stage recodes quasi-identifiers."""
        return "changes quasi-identifiers in a way that a population cannot follow"

    def population_columns(
        self, roles: Roles, hierarchies: Collection[str], guarantees: Iterable[Guarantee]
    ) -> tuple[str, ...]:
        """Columns of a population that the stage needs to recode it, in addition to those that are compared."""
        return ()

    def population_after(
        self, engine: Primitives, table: Any, population: Any, plan: StagePlan, context: StageContext
    ) -> Any:
        """A raw population recoded as `run` recodes the table that enters the stage, with no record suppressed."""
        return population

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        """A frozen plan applied to a table other than the one it was learnt from.

        Raises
        ------
        DataError
            It refers to the records it was learnt from, as most plans do; or its columns lack what the stage requires.
        """
        raise DataError(
            f"{context.place}: a plan of {self.name()} refers to the records it was learnt from, and the source is "
            "another (or the seed is); make a new plan, or freeze only stages whose plan is a function of values"
        )

    def stated_parameters(self) -> dict[str, Any]:
        """The parameters as a plan states them: plain JSON, all defaults written out."""
        return self.parameters()

    def draws_by_value(self) -> bool:
        """Whether every draw is bound to the value it masks, and not to the source as a whole."""
        return False

    def drawn_columns(self) -> tuple[str, ...]:
        """Columns the stage draws for; the empty name: for its records."""
        return (self.masked_columns() or ("",)) if self.needs_draws else ()

    def shaping(self, plan: StagePlan) -> Mapping[str, Any]:
        """The learnt figures that shape the output, to which the draws are bound: two plans that differ in one share
        no draw.

        All except what is known only after the stage ran. A stage whose draws are bound to values leaves out what
        does not shape a value; one that draws in `entering`, before there is a plan, gives none.
        """
        return {name: figure for name, figure in plan.detail.items() if name != "suppressed_records"}

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        """The public part of a plan's detail: functions of the policy and of released cells, nothing else.

        The safe answer, and that of a stage which declares nothing, is nothing.
        """
        return {}

    def masked_columns(self) -> tuple[str, ...]:
        """Columns whose values the stage perturbs (for warnings, alignment and the report)."""
        return self.named_columns()

    def named_columns(self) -> tuple[str, ...]:
        """Columns that the policy gives the stage by name."""
        return self.columns_marked(Columns)

    def needs_keys(self) -> tuple[str, ...]:
        """Keys of the policy that the stage, with its parameters, needs: ``household_id``."""
        return ()

    def made_columns(self) -> tuple[str, ...]:
        """Columns that the stage adds; they have no declared role and are insensitive."""
        return ()

    def uncounted_persons(self) -> str:
        """Why a threshold of the stage, with its parameters, cannot count persons, and what to do; or nothing."""
        return ""

    def draws_records(self, released: Collection[str]) -> bool:
        """Whether it replaces all rows by new ones, which belong to no person, where these columns are released."""
        return False


@dataclass(frozen=True, kw_only=True, repr=False)
class RowTransformer(Transformer):
    """A transformer that is a function of one record, its draws and the plan."""

    @property
    def keeps_places(self) -> bool:
        return True

    def draws_within(self) -> SameWithin | None:
        """Whose rows draw together; None: each record draws for itself."""
        return None

    def needs_keys(self) -> tuple[str, ...]:
        within = self.draws_within()
        return () if within is None else (within,)

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        plan = super().learn(engine, table, context)
        return replace(plan, detail={**plan.detail, **varies_within(self, engine, table, context)})

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        """One block; a function of each record alone."""
        raise TypeError(f"{type(self).__name__} applies to no rows")

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        schema = self.released_schema(table.schema, plan)
        return engine.map_rows(table, _Applied(self, plan, draws, together_of(self.draws_within(), context)), schema)


@dataclass(frozen=True)
class _Applied:
    """A stage bound to its plan and draws: a picklable function of one block."""

    stage: RowTransformer
    plan: StagePlan
    draws: Draws = field(repr=False)
    together: Together | None = None

    def __call__(self, rows: RowBlock) -> RowBlock:
        if self.together is None:
            return self.stage.apply_block(rows, self.plan, self.draws)
        return self.together.returned(self.stage.apply_block(self.together.lent(rows), self.plan, self.draws))


def varies_within(
    stage: RowTransformer, engine: Primitives, table: Any, context: StageContext
) -> dict[str, dict[str, int]]:
    """In how many households a column that is drawn for differs, for the plan of a stage that draws for them."""
    within = stage.draws_within()
    return {} if within is None else {"varies": varying(engine, table, within, stage.masked_columns(), context)}


def keyed_digest(key: bytes, digest: str) -> str:
    """A digest under a key of the run; without a key the digest itself.

    Examples
    --------
    >>> keyed_digest(b"", "9f86d0"), keyed_digest(b"k" * 16, "9f86d0")[:8]
    ('9f86d0', '20f992bd')
    """
    return hmac.new(key, digest.encode(), hashlib.sha256).hexdigest() if key and digest else digest


NO_GOAL = "a search needs a guarantee over classes to work for (in Python guarantees=[KAnonymity(k=5)])"
"""What a stage that searches reports where nothing has to hold."""


def checked_columns(owner: str, columns: object) -> tuple[str, ...]:
    """Names of columns as a tuple.

    Raises
    ------
    UsageError
        No list of names, an empty one, or one that names a column twice.

    Examples
    --------
    >>> checked_columns("AddNoise", ["income", "age"])
    ('income', 'age')
    """
    if not isinstance(columns, list | tuple) or not columns:
        raise UsageError(f"{owner}: columns must be a list of at least one column name")
    if why := not_text(columns):
        raise UsageError(f"{owner}: columns: {why}")
    if len(set(columns)) != len(columns):
        raise UsageError(f"{owner}: columns names a column twice")
    return tuple(columns)
