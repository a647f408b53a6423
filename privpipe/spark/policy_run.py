"""A policy's stages over a frame, and its guarantees over what they make, with nothing written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.base.frame_kinds import known_as_held
from privpipe.errors import UnsupportedError
from privpipe.judging import Assessment, assess
from privpipe.policy import Policy
from privpipe.policy.ledgers import named_ledger
from privpipe.running.attached_source import attach
from privpipe.running.finished_table import reads_pairs
from privpipe.running.frames import held_staged
from privpipe.running.judged_rows import stages_of
from privpipe.running.places import return_form
from privpipe.running.plan import Plan
from privpipe.running.run_context import OpenedEngine, RunContext, population_beside, read_as_source
from privpipe.running.staging import Staged, require_learnt, run_stages

__all__ = ["run_policy"]


def run_policy(policy: Policy, seed: Seed, frame: Any, plan: Plan | None = None) -> tuple[Any, Plan]:
    """The released frame, its rows held, and the plan that it follows.

    Parameters
    ----------
    plan : Plan, optional
        Of this policy under this seed. Over the frame that it was learnt from it makes rows that were judged then; the
        rows of another frame are judged here.

    Raises
    ------
    Refused
        A guarantee does not hold.
    DataError
        The plan concerns the very records of another frame.
    UnsupportedError
        The policy keeps a ledger, which remembers what was published.
    """
    if named_ledger(policy.entries) is not None:
        raise UnsupportedError("a policy with a ledger remembers what it publishes: run it with `privpipe.release`")
    with OpenedEngine(None, frame, policy) as engine:
        context = RunContext(engine, policy, seed)
        read = read_as_source(frame, policy)
        original = attach(context, read, planned=plan is not None)
        source = fingerprint(engine, original, seed)
        other = plan is not None and plan.source != source
        population = None if context.generalized_population else population_beside(engine, policy, original)
        staged = run_stages(context, original, source=source, plan=plan, frozen=other, population=population)
        require_learnt(staged)
        staged, held = held_staged(engine, staged)
        with held.unless_refused():
            if (plan is None or other) and not staged.empty:
                if context.generalized_population:
                    staged = replace(staged, population=population_beside(engine, policy, staged.table))
                _judged(engine, policy, staged).raise_if_failed()
        # In keyed order: that of the source is a linkage key.
        form = return_form(engine.frames.schema(read), staged, policy.transform)
        return known_as_held(engine.collect(staged.table, like=frame, form=form)), staged.plan


def _judged(engine: Engine, policy: Policy, staged: Staged) -> Assessment:
    columns = tuple(staged.table.schema.names)
    rules = replace(staged.rules, stages=stages_of(staged.plan), order=staged.run.attacks(), released=columns)
    return assess(
        engine,
        staged.table if staged.counted is None else staged.counted,
        guarantees=policy.guarantees,
        measures=policy.measures,
        roles=staged.roles,
        rules=replace(rules, gate=replace(rules.gate, columns=columns)),
        original=staged.original,
        released=staged.table if reads_pairs(policy) else None,
        population=staged.population,
    )
