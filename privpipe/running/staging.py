"""Run the stages of a policy over a table, and once more with other sensitive values for attacks on searches."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.draws import Draws, RunKey, Stream
from privpipe.engines import Source
from privpipe.engines.base.contract import fingerprint
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.judging import JudgingRules
from privpipe.judging.release_memory import hashed_rows, places_of
from privpipe.policy.ledgers import named_ledger
from privpipe.roles import Roles
from privpipe.running.attached_source import with_columns_read
from privpipe.running.plan import DrawnIn, Plan, plan_key, released_columns
from privpipe.running.run_context import RunContext, judging_rules
from privpipe.running.stage_run import DrawRoot, StageRun, inputs_digest, stages_digest
from privpipe.transforms.sampling.safepub import process_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.blocks import FilePair
    from privpipe.judging.release_memory import NoiseStage
    from privpipe.policy import Policy

__all__ = ["Rerun", "Staged", "require_learnt", "run_stages"]


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
        The table with the columns that give persons, households and weights, where these are not released.
    draws : tuple of Draws
        One for each stage of the policy.
    source : str
        The keyed fingerprint of the original.
    read : Table, optional
        The released rows as they were read back, for figures next to the verdict, so that counting does not make them
        again.
    run : RunKey
        Gives the order of attacks and, with the plan, that of released rows.
    notes : tuple of str
        Additional notes for its verdict.
    source_notes : tuple of str
        Notes of the run itself on the source; only for private records.
    types : mapping of column to pyarrow.DataType
        Types of the source in which columns are written.
    noise : tuple of NoiseStage
        Stages that added noise, where the policy keeps a ledger that follows persons.
    empty : bool
        The source has no records: the table has the released columns, and nothing was learnt.
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
    read: Any = None
    notes: tuple[str, ...] = ()
    source_notes: tuple[str, ...] = ()
    noise: tuple[NoiseStage, ...] = ()
    empty: bool = False
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    @property
    def seen(self) -> Any:
        """The released columns for counts that need no record ids."""
        return self.table if self.read is None else self.read

    @property
    def order(self) -> Stream:
        """The keyed order in which released rows are written."""
        return self.run.rows(stages_digest(self.plan.stages))


def run_stages(
    context: RunContext,
    original: Any,
    *,
    source: str | None = None,
    records: int | None = None,
    plan: Plan | None = None,
    frozen: bool = False,
    salt: str | None = None,
    population: Any = None,
) -> Staged:
    """Plan (unless a plan is given) and apply every stage; to a raw `population` only the levels.

    Parameters
    ----------
    source : str, optional
        The keyed fingerprint of the original, where it is known already.
    records : int, optional
        Its number of records.
    frozen : bool
        Whether the plan given may be of another source: then its stages are carried over to this one.
    salt : str, optional
        Of the plan's commitment to the seed: the id of the run; outside a run, one is drawn.

    Raises
    ------
    NoSolutionError
        A search found nothing within the limits.
    """
    engine, policy, seed = context.engine, context.policy, context.seed
    records = engine.count(original) if records is None else records
    empty = not records and source != ""  # a frame that stays unexamined has neither
    if plan is not None and len(plan.stages) != len(policy.transform):
        raise UsageError(f"the plan has {len(plan.stages)} stages, the policy {len(policy.transform)}")
    source = fingerprint(engine, original, seed) if source is None else source
    run = RunKey.of(seed, policy.run_digest(), source)
    drawn = plan.drawn if plan is not None else _drawn_in(context, original, source, population)
    named = named_ledger(policy.entries)
    hierarchies = with_columns_read(engine, original, policy.hierarchies, policy.types)
    state = StageRun(
        context,
        table=original,
        roles=policy.roles,
        records=records,
        source=source,
        root=DrawRoot.of(context, drawn, plan),
        population=population,
        carrying=frozen and _is_of_other_source(plan, policy, source),
        hash_key=plan.hash_key if plan is not None and plan.hash_key else plan_key(seed),
        follows=named is not None and named.key is not None,
        hierarchies=hierarchies,
        empty=empty,
    )
    state.drop_identifiers()
    for at, stage in enumerate(policy.transform):
        context.progress(f"stage {at + 1} of {len(policy.transform)}: {stage.name()}")
        with _located(policy, at, planned=plan is not None):
            state.run(at, stage, None if plan is None else plan.stages[at])
    table, counted = state.released_columns()
    made = _plan_made(state, secrets.token_hex(16) if salt is None else salt, drawn)
    if plan is not None:
        made = replace(made, version=plan.version, frozen=True)
    return Staged(
        table=table,
        original=original,
        roles=state.roles,
        plan=made,
        rules=replace(
            judging_rules(policy, state.base),
            entered=state.entered,
            hierarchies=hierarchies,
            records=state.entering,
            empty=policy.empty if empty else "refuse",
            process=process_of(state.plans),
        ),
        suppressed_records=0 if empty else made.suppressed_records,
        population=state.population,
        counted=counted,
        draws=tuple(state.draws),
        source=source,
        noise=tuple(state.noise),
        empty=empty,
        run=run,
    )


def require_learnt(staged: Staged) -> None:
    """Refuse to hand on a plan that was learnt from nothing.

    Raises
    ------
    DataError
    """
    if staged.empty and not staged.plan.frozen:
        raise DataError("the source has no records: there is nothing to learn a plan from")


def _is_of_other_source(plan: Plan | None, policy: Policy, source: str) -> bool:
    """Whether a plan may have been made of another table; without a declared seed no fingerprint can show it."""
    return plan is not None and (policy.seed is None or plan.source != source)


@contextmanager
def _located(policy: Policy, at: int, *, planned: bool) -> Iterator[None]:
    """Put in front of an error where the policy has the stage that it ended, unless the message says so."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if not planned:
            raise
        # A plan is read from JSON, which may hold anything; the text of the error may quote it.
        raise UsageError(
            f"{policy.located_stage(at)}: the plan of this stage cannot be applied ({type(error).__name__}); it is "
            "damaged, a public edition, or of another version: take the private one, or make a new plan"
        ) from None
    except (DataError, NoSolutionError, UsageError) as error:
        if "transform[" not in str(error):
            error.args = (f"{policy.located_stage(at)}: {error}",)
        raise


def _drawn_in(context: RunContext, original: Any, source: str, population: Any) -> DrawnIn:
    inputs = inputs_digest(context, original, population)
    return DrawnIn(policy=context.policy.run_digest(), source=source, inputs=inputs)


def _plan_made(state: StageRun, salt: str, drawn: DrawnIn) -> Plan:
    return Plan(
        policy_digest=state.policy.digest(),
        drawn=drawn,
        columns=released_columns(state.policy) if state.context.releases else {},
        records=state.records,
        stages=tuple(state.plans),
        seed_commitment=state.context.seed.commitment(salt),
        seed_salt=salt,
        source=state.source,
        hash_key=b"" if state.policy.seed else state.hash_key,
        policy=state.policy,
    )


PLACE = "place of privpipe"


@dataclass(frozen=True)
class Rerun:
    """The result of a policy's stages for other values of a column; on the driver's data, for small tables.

    Parameters
    ----------
    context : RunContext
    original : Table
        With record ids.
    source : str
        The original's fingerprint: stages draw as they did for it, so that only values make a difference.
    """

    context: RunContext
    original: Any
    source: str

    def __call__(self, files: FilePair, column: str, values: Sequence[Any]) -> str:
        """A fingerprint of each record's released quasi-identifiers, suppressed ones included as such."""
        import pyarrow as pa

        engine, policy, seed = self.context.engine, self.context.policy, self.context.seed
        table, ids = self._rows()
        at = places_of(ids, files.ids)
        own = table[column].to_pylist()
        for place, value in zip(at.tolist(), values, strict=True):
            own[place] = value
        names = table.schema.names
        changed = table.set_column(names.index(column), column, pa.array(own, table.schema.field(column).type))
        changed = changed.append_column(PLACE, pa.array(range(changed.num_rows), pa.int64()))
        scanned = engine.scan(Source(data=changed, types=policy.source_types))
        numbered = engine.select(engine.with_record_ids(scanned, PLACE, seed), names)
        try:
            staged = run_stages(self.context, numbered, source=self.source)
        except NoSolutionError:
            return "no solution"
        found, words = hashed_rows(engine, staged.table, list(policy.roles.quasi_identifiers), seed)
        order = np.lexsort((found[:, 1], found[:, 0]))
        return hashlib.sha256(np.ascontiguousarray(np.hstack([found, words])[order]).tobytes()).hexdigest()

    def _rows(self) -> tuple[Any, Any]:
        """All columns of the original with its ids, in the order of the ids."""
        from privpipe.judging.release_memory import gathered_rows

        return gathered_rows(self.context.engine, self.original, list(self.original.schema.names))
